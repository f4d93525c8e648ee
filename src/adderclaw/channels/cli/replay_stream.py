"""The stored events of a run, read with care and shown with the pauses that they had."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

from adderclaw import workspace
from adderclaw.channels.cli.interrupts import heard_in_pauses
from adderclaw.config import Loaded
from adderclaw.config.paths import followed
from adderclaw.credentials.redaction import Secrets
from adderclaw.errors import Refused, UsageError
from adderclaw.events import EventRecord
from adderclaw.types import Json
from adderclaw.workspace import Place

LONGEST = 4 * 1024 * 1024
"""Bytes of one line; a longer one is no event."""
PAUSE = 3600.0
"""The longest pause that is kept."""
NAME = "events.jsonl"

clean = Secrets().clean


class Line(NamedTuple):
    """One line of the file: an event, or why it is none."""

    number: int
    event: Json
    wrong: str = ""


def folder_of(loaded: Loaded, home: str, run_id: str) -> Place:
    """The file of a run, by its id or the beginning of it: of `run` in the workspace, of `agent` at home."""
    if not run_id or "/" in run_id or "\0" in run_id or run_id in (".", ".."):
        raise UsageError(f"{run_id!r} is no run id: see `adderclaw runs list`")
    places = places_of(loaded, home)
    for place in places:
        if workspace.is_named((path := place / run_id / NAME).text):
            return path
    found = sorted({name for place in places for name in _names(place) if name.startswith(run_id)})
    if len(found) > 1:
        raise UsageError(f"{run_id!r} begins several runs ({', '.join(found[:4])}): give more of the one")
    for place in places if found else ():
        if workspace.is_named((path := place / found[0] / NAME).text):
            return path
    looked = " and ".join(place.text for place in places)
    raise UsageError(f"there are no events of a run {run_id!r} in {looked}: see `adderclaw runs list`")


def places_of(loaded: Loaded, home: str) -> list[Place]:
    """What lies in the workspace is reached through no link: a repository may bring one."""
    here = workspace.configured(loaded.config.logging.jsonl_dir, followed(loaded.workspace))
    return [here, workspace.anywhere(followed(os.path.join(home, "runs")))]


def _names(place: Place) -> list[str]:
    try:
        return [entry.place.name for entry in workspace.entries(place)]
    except (OSError, Refused):
        return []


def lines_of(loaded: Loaded, home: str, run_id: str) -> list[Json] | None:
    """All events of a run; None where there is no file. A line that is no event stands as an empty one."""
    for place in places_of(loaded, home):
        path = place / run_id / NAME
        if workspace.is_named(path.text):
            found = list(read(path))
            session = next((line.event.get("session_id") for line in found if not line.wrong), "")
            broken = {"event_type": "turn_started", "session_id": session}
            return [{**broken, "payload": {"broken": line.wrong}} if line.wrong else line.event for line in found]
    return None


def read(place: Place) -> Iterator[Line]:
    """Line by line, never more of one than an event may have."""
    try:
        descriptor = workspace.open_file(place)
    except (OSError, Refused) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{place.text} cannot be read: {why}") from error
    with os.fdopen(descriptor, "rb") as file:
        number = 0
        while text := file.readline(LONGEST + 1):
            number += 1
            if len(text) > LONGEST:
                while not text.endswith(b"\n") and (text := file.readline(LONGEST)):
                    pass
                yield Line(number, {}, f"it is longer than {LONGEST:,} bytes")
            elif not text.endswith(b"\n"):
                yield Line(number, {}, "it is torn: the file ends within it")
            else:
                yield _parsed(number, text)


def _parsed(number: int, text: bytes) -> Line:
    try:
        event: Any = json.loads(text.decode())
    except (ValueError, RecursionError):
        return Line(number, {}, "it is not JSON")
    if not isinstance(event, dict) or not isinstance(cast(Json, event).get("event_type"), str):
        return Line(number, {}, "it is not an event")
    return Line(number, cast(Json, event))


# ------------------------------------------------------------------ showing


def show(path: Place, speed: float, *, as_json: bool) -> None:
    """Every event in its order. What is no event is said on stderr, and ends with exit code 1 when all was shown."""
    tell = _json if as_json else _console() if sys.stdout.isatty() else _plain
    broken = shown = 0
    before: float | None = None
    with heard_in_pauses() as pause:
        for line in read(path):
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
    from adderclaw.sinks.log import text_line

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

    from adderclaw.sinks.log import level_of

    console = Console(highlight=False, soft_wrap=True)

    def tell(event: Json) -> None:
        kind = str(event["event_type"])
        console.print(Text(_text(event), style=OF_TYPE.get(kind, COLOURS[level_of(kind)])))

    return tell
