"""`adderclaw replay`: show a run again, prove it, or judge its calls under another policy."""

import json
import os
import select
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Annotated, cast

import typer

from adderclaw.agent.replay.trace_file import Trace, checked, places_of, read
from adderclaw.config import Loaded, home, load
from adderclaw.core import home_names
from adderclaw.core.errors import UsageError
from adderclaw.core.events import EventRecord
from adderclaw.core.redaction import Secrets
from adderclaw.core.types import Json
from adderclaw.storage import Store, model_calls, runs
from adderclaw.storage.queries.runs import calls
from adderclaw.storage.runs import Run
from adderclaw.terminal.commands.common import ConfigFile, OutputFormat, WorkspaceDir
from adderclaw.terminal.output import print_json

app = typer.Typer(add_completion=False, rich_markup_mode=None)

clean = Secrets().clean

LONGEST_PAUSE = 3600.0


@app.command()
def replay(
    run_id: Annotated[str, typer.Argument(metavar="RUN_ID", help="Its id or a prefix of it.")],
    event_stream: Annotated[
        bool, typer.Option("--event-stream", help="Show its stored events again, with their timing.")
    ] = False,
    speed: Annotated[
        float, typer.Option("--speed", min=0.0, help="With --event-stream: how many times as fast; 0: without pauses.")
    ] = 1.0,
    verify: Annotated[
        bool, typer.Option("--verify", help="Replay loop and gate on the recorded replies and results, and compare.")
    ] = False,
    policy: Annotated[
        str | None,
        typer.Option("--policy", metavar="FILE", help="Which verdicts this policy.toml or config file would change."),
    ] = None,
    config: ConfigFile = None,
    workspace: WorkspaceDir = None,
    output_format: OutputFormat = "text",
) -> None:
    """Show a recorded run: a summary, its events, whether it can be proved, or its calls under another policy.

    Nothing is executed again. Exit code 1 when --verify finds a difference, or --policy changes a verdict.

    Example: adderclaw replay 20260512-140000-1f2e3d4c --verify
    """
    if event_stream + verify + (policy is not None) > 1:
        raise UsageError("--event-stream, --verify and --policy cannot be combined: use only one")
    if speed != speed:  # nan, which is in every range
        raise UsageError("--speed nan: expected a number of at least 0")
    if speed != 1.0 and not event_stream:
        raise UsageError("--speed needs --event-stream")
    if not run_id or "/" in run_id or "\0" in run_id or run_id in (".", ".."):
        raise UsageError(f"{run_id!r} is not a run id: see `adderclaw runs list`")
    loaded = load(config_file=config, workspace=workspace)
    as_json = output_format == "json"
    store = Store.open(loaded.config.memory.path, read_only=True)
    run = runs.get(store, run_id)
    if run is None:
        raise UsageError(f"there is no run {run_id!r} in {store.path}: see `adderclaw runs list`")
    trace = checked(store, run, places_of(loaded, home()))
    if event_stream:
        play(trace, run.run_id, speed, as_json=as_json)
        return
    if verify:
        raise typer.Exit(_verify(loaded, store, run, trace, as_json=as_json))
    for text in trace.warnings:
        print(clean(f"adderclaw: {text}"), file=sys.stderr)
    if policy is not None:
        raise typer.Exit(_policy(store, run, policy, as_json=as_json))
    _summary(store, run, trace, as_json=as_json)


# ------------------------------------------------------------------ proving


def _verify(loaded: Loaded, store: Store, run: Run, trace: Trace, *, as_json: bool) -> int:
    from adderclaw.agent.replay.proving import prove
    from adderclaw.flows.replayed import REPLAYED

    key = os.path.join(home(), home_names.RECEIPT_KEY)
    proof = prove(store, run, loaded.config.receipts.path, key, recorded_events(trace), trace, REPLAYED)
    if as_json:
        print_json(clean(proof.as_json()))
        return 0 if proof.verified else 1
    counts = f"{proof.steps} model calls, {proof.calls} tool calls, {proof.sessions} sessions"
    if proof.verified:
        print(f"verified: {run.run_id}: {counts} replayed, nothing differs")
    else:
        print(f"differs: {run.run_id}: {len(proof.differences)} differences ({counts})")
    for difference in proof.differences[:20]:
        note = f" ({difference.note})" if difference.note else ""
        values = f"recorded {_value(difference.recorded)}, replayed {_value(difference.replayed)}"
        print(clean(f"  {difference.where}: {values}{note}"))
    if len(proof.differences) > 20:
        print(f"  … and {len(proof.differences) - 20} more: --output-format json lists all of them")
    for note in proof.notes:
        print(clean(f"note: {note}"))
    return 0 if proof.verified else 1


def recorded_events(trace: Trace) -> list[Json] | None:
    """All events of a run; None without a file. An invalid line is replaced by an empty event."""
    if trace.place is None or trace.state == "missing":
        return None
    lines = [line for line in read(trace.place) if line.number not in trace.left_out or trace.state == "differs"]
    session = next((line.event.get("session_id") for line in lines if not line.wrong), "")
    broken = {"event_type": "turn_started", "session_id": session}
    return [{**broken, "payload": {"broken": line.wrong}} if line.wrong else line.event for line in lines]


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _policy(store: Store, run: Run, file: str, *, as_json: bool) -> int:
    from adderclaw.agent.replay.rejudging import rejudge

    judged = rejudge(store, run, file)
    changed = [verdict for verdict in judged if verdict.changes]
    if as_json:
        body: Json = {"run_id": run.run_id, "policy": file, "calls": len(judged), "changed": len(changed)}
        print_json(clean({**body, "verdicts": [verdict.as_json() for verdict in judged]}))
        return 1 if changed else 0
    print(clean(f"{run.run_id} under {file}: {len(changed)} of {len(judged)} verdicts change"))
    for verdict in changed:
        change = f"{verdict.before} → {verdict.after} by {verdict.after_by}"
        print(clean(f"  {verdict.tool_use_id} {verdict.tool}: {change}: {verdict.reason}"))
    return 1 if changed else 0


# ------------------------------------------------------------------ events


def play(trace: Trace, run_id: str, speed: float, *, as_json: bool) -> None:
    """Prints the events in order. Reports changed and invalid lines on stderr, and then exits with 1."""
    path = trace.place
    if path is None or trace.state == "missing":
        raise UsageError(f"the events of run {run_id} are missing{f': {path.text}' if path else ''}")
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
                print(f"adderclaw: {path.text}, line {line.number}: {line.wrong}; skipped", file=sys.stderr)
                continue
            at = _seconds(line.event.get("timestamp"))
            if before is not None and at is not None and speed:
                sys.stdout.flush()
                pause(min(max(0.0, at - before) / speed, LONGEST_PAUSE))
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


# ------------------------------------------------------------------ summary


def _summary(store: Store, run: Run, trace: Trace, *, as_json: bool) -> None:
    asked = [call for call in model_calls.of_session(store, run.session_id) if call.run_id == run.run_id]
    used = [_call(*row) for row in calls(store, run.session_id)]
    if as_json:
        models = [call._asdict() for call in asked]
        shown = {**run._asdict(), "status": run.status, "model_calls": models, "tool_calls": used}
        print_json(clean({**shown, "trace": trace.as_json()}))
        return
    print(clean(f"run {run.run_id}  {run.kind}  {run.status}  {run.started_at}Z"))
    for call in asked:
        tokens = sum(count for name, count in call.usage.items() if name != "estimated")
        error = f"  {call.error}" if call.error else ""
        figures = f"{call.provider}/{call.model}  {call.status}  {tokens} tokens  {call.latency_ms:.0f} ms"
        print(clean(f"  step {call.step:<3} {figures}  request {call.request_hash[:12]}{error}"))
    for call_row in used:
        outcome = f"{call_row['status']} by {call_row['by']}"
        print(clean(f"  call {call_row['tool_use_id']}  {call_row['tool']}  {outcome}  {call_row['receipt_id']}"))
    for name, value in (("reason", run.reason), ("answer", run.answer)):
        if value:
            print(clean(f"  {name}: {value}"))
    sys.stdout.flush()


def _call(sequence: int, used: str, name: str, by: str | None, line: str | None) -> Json:
    receipt: Json = json.loads(line) if line else {}
    decided = receipt.get("decision", {}).get("by") or by or "?"
    row = {"sequence": sequence, "tool_use_id": used, "tool": name, "by": decided}
    return {**row, "status": receipt.get("status", "no receipt"), "receipt_id": receipt.get("id", "")}
