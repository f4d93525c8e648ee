"""The stored events of a run, read with care and shown with the pauses that they had."""

import json
import os
import select
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import cast

from adderclaw.agent.replay.trace_file import Trace, checked, places_of, read
from adderclaw.config import Loaded
from adderclaw.core.errors import UsageError
from adderclaw.core.events import EventRecord
from adderclaw.core.redaction import Secrets
from adderclaw.core.types import Json
from adderclaw.storage import Store
from adderclaw.storage.runs import Run

PAUSE = 3600.0
"""The longest pause that is kept."""

clean = Secrets().clean


def trace_of(store: Store, run: Run, loaded: Loaded, home: str) -> Trace:
    """The trace of a run, held against the store."""
    return checked(store, run, places_of(loaded, home))


def lines_of(trace: Trace) -> list[Json] | None:
    """All events of a run; None where there is no file. A line that is no event stands as an empty one."""
    if trace.place is None or trace.state == "missing":
        return None
    lines = [line for line in read(trace.place) if line.number not in trace.left_out or trace.state == "differs"]
    session = next((line.event.get("session_id") for line in lines if not line.wrong), "")
    broken = {"event_type": "turn_started", "session_id": session}
    return [{**broken, "payload": {"broken": line.wrong}} if line.wrong else line.event for line in lines]


# ------------------------------------------------------------------ showing


def play(trace: Trace, run_id: str, speed: float, *, as_json: bool) -> None:
    """Every event in its order. What is not as the run wrote it is named first, on stderr, and not shown: then the exit
    code is 1."""
    path = trace.place
    if path is None or trace.state == "missing":
        raise UsageError(f"the events of run {run_id} are not there{f': {path.text}' if path else ''}")
    for text in (*trace.warnings, *(f"{path.text}: {note}" for note in trace.notes)):
        print(clean(f"adderclaw: {text}"), file=sys.stderr)
    tell = _json if as_json else _console() if sys.stdout.isatty() else _plain
    broken, shown = len(trace.differences), 0
    before: float | None = None
    with interrupt_in_pauses() as pause:
        for line in read(path):
            if line.number in trace.left_out:
                continue
            if line.wrong:
                broken += 1
                print(f"adderclaw: {path.text}, line {line.number}: {line.wrong}; it is left out", file=sys.stderr)
                continue
            at = _seconds(line.event.get("timestamp"))
            if before is not None and at is not None and speed:
                sys.stdout.flush()
                pause(min(max(0.0, at - before) / speed, PAUSE))
            before = at if at is not None else before
            tell(line.event)
            shown += 1
        sys.stdout.flush()
    if not shown and not broken:
        raise UsageError(f"{path.text} is empty: the run wrote no event")
    if broken:
        raise SystemExit(1)


def _seconds(stamp: object) -> float | None:
    from datetime import datetime

    if not isinstance(stamp, str):
        return None
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except (ValueError, OverflowError):
        return None


def _json(event: Json) -> None:
    print(json.dumps(clean(event), ensure_ascii=False, separators=(",", ":")))


def _plain(event: Json) -> None:
    print(_text(event))


def _text(event: Json) -> str:
    from adderclaw.storage.telemetry.log import text_line

    payload = event.get("payload")
    body: Json = clean(cast(Json, payload)) if isinstance(payload, dict) else {}
    at = _seconds(event.get("timestamp")) or 0.0
    kind = str(clean(event["event_type"]))
    return text_line(EventRecord("", "", "", at, kind, body, "summary", "", ""))


COLOURS = {"debug": "dim", "info": "", "warning": "yellow", "error": "red"}
OF_TYPE = {"tool_denied": "red", "tool_failed": "red", "tool_completed": "green", "run_finished": "bold green"}


def _console() -> Callable[[Json], None]:
    from rich.console import Console
    from rich.text import Text

    from adderclaw.storage.telemetry.log import level_of

    console = Console(highlight=False, soft_wrap=True)

    def tell(event: Json) -> None:
        kind = str(event["event_type"])
        console.print(Text(_text(event), style=OF_TYPE.get(kind, COLOURS[level_of(kind)])))

    return tell


@contextmanager
def interrupt_in_pauses() -> Generator[Callable[[float], None]]:
    """A `sleep` that SIGINT ends even if it arrived just before, or if its exception was lost in a destructor."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def pause(seconds: float) -> None:
        ready, _, _ = select.select([reader], [], [], seconds)
        if ready and signal.SIGINT in os.read(reader, 4096):
            raise KeyboardInterrupt

    try:
        yield pause
        pause(0)
    finally:
        signal.set_wakeup_fd(before)
        os.close(reader)
        os.close(writer)
