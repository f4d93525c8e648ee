"""`adderclaw runs`: what ran, and how it ended."""

import sys
from typing import Annotated

import typer

from adderclaw.channels.cli.common import ConfigFile, OutputFormat, group
from adderclaw.channels.cli.plain import print_json
from adderclaw.channels.cli.replay_stream import places_of
from adderclaw.config import home, load
from adderclaw.credentials.redaction import Secrets
from adderclaw.errors import UsageError
from adderclaw.replay.trace_file import Trace, checked
from adderclaw.store import Store, model_calls, runs, transcript
from adderclaw.store.runs import Run
from adderclaw.types import Json

app = group("List runs and how they ended.")

clean = Secrets().clean


@app.command("list")
def list_runs(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="At most so many.")] = 20,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """List runs, the most recent first.

    Example: adderclaw runs list
    """
    loaded = load(config_file=config)
    store = Store.open(loaded.config.memory.path, read_only=True)
    places = places_of(loaded, home())
    found = [(run, checked(store, run, places)) for run in runs.listing(store, limit)]
    if output_format == "json":
        print_json([clean(_as_json(run, trace)) for run, trace in found])
        return
    for run, trace in found:
        _warn(trace)
        print(clean(f"{run.run_id}  {run.started_at}Z  {run.kind:<6}  {run.status:<11}  {run.conversation_id}"))
    if not found:
        print("no runs yet")


@app.command()
def show(
    run_id: Annotated[str, typer.Argument(metavar="RUN_ID", help="Its id, or the beginning of it.")],
    report: Annotated[
        str | None, typer.Option("--report", metavar="FILE", help="Write what it checked of a specification: HTML.")
    ] = None,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Show one run: outcome, usage, answer, and the model calls of its session.

    Example: adderclaw runs show 20260512-140000-1f2e3d4c
    """
    loaded = load(config_file=config)
    store = Store.open(loaded.config.memory.path, read_only=True)
    run = runs.get(store, run_id)
    if run is None:
        raise UsageError(f"there is no run {run_id!r} in {store.path}: see `adderclaw runs list`")
    trace = checked(store, run, places_of(loaded, home()))
    if report is not None:
        _write_page(store, run, trace, report)
    asked = model_calls.of_session(store, run.session_id)
    if output_format == "json":
        print_json(clean({**_as_json(run, trace), "model_calls": [call._asdict() for call in asked]}))
        return
    usage = ", ".join(f"{name} {count}" for name, count in run.usage.items())
    _warn(trace)
    shown = f"{trace.place.text} ({trace.state})" if trace.place is not None else ""
    for name, value in (_as_json(run, trace) | {"usage": usage, "trace": shown}).items():
        if value not in (None, ""):
            print(clean(f"{name:<16} {value}"))
    for call in asked:
        error = f"  {call.error}" if call.error else ""
        print(
            clean(
                f"step {call.step:<3} {call.provider}/{call.model}  {call.status}  {call.attempts} attempt(s)"
                f"  {call.latency_ms:.0f} ms  request {call.request_hash[:12]}{error}"
            )
        )


def _as_json(run: Run, trace: Trace) -> Json:
    return {**run._asdict(), "trace": trace.as_json()}


def _warn(trace: Trace) -> None:
    for text in trace.warnings:
        print(clean(f"adderclaw: {text}"), file=sys.stderr)


def _write_page(store: Store, run: Run, trace: Trace, path: str) -> None:
    from adderclaw.drivers.spec import report as pages
    from adderclaw.view.rows import Rows

    root = transcript.workspace_of(store, run.conversation_id)
    if trace.place is None:
        raise UsageError(f"nothing is kept beside run {run.run_id}: there is no folder of it")
    made = pages.report(store, Rows(store, clean, root), run.run_id, trace.place.parent, f"{run.outcome}: {run.answer}")
    print(clean(f"adderclaw: the report is in {pages.write(made, path, root)}"), file=sys.stderr)
