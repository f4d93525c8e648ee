"""`adderclaw runs`: lists and shows runs, and prunes their recordings."""

import re
import sys
from typing import Annotated

import typer

from adderclaw.agent.replay.trace_file import Trace, checked, places_of
from adderclaw.config import home, load
from adderclaw.core.errors import UsageError
from adderclaw.core.redaction import Secrets
from adderclaw.core.types import Json
from adderclaw.storage import Store, model_calls, runs, transcript
from adderclaw.storage.runs import Run
from adderclaw.terminal.commands.common import ConfigFile, OutputFormat, group, print_result
from adderclaw.terminal.output import print_json

app = group("List runs and how they ended; remove data of old runs.")

clean = Secrets().clean


@app.command("list")
def list_runs(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="At most N.")] = 20,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """List runs, the most recent first.

    Example: adderclaw runs list
    """
    loaded = load(config_file=config)
    store = Store.open(loaded.config.memory.path, read_only=True)
    places = places_of(loaded, home())
    rows = [(run, checked(store, run, places)) for run in runs.listing(store, limit)]
    if output_format == "json":
        print_json([clean(_as_json(run, trace)) for run, trace in rows])
        return
    for run, trace in rows:
        _warn_broken_traces(trace)
        print(clean(f"{run.run_id}  {run.started_at}Z  {run.kind:<6}  {run.status:<11}  {run.conversation_id}"))
    if not rows:
        print("no runs yet")


@app.command()
def show(
    run_id: Annotated[str, typer.Argument(metavar="RUN_ID", help="Its id or a prefix of it.")],
    report: Annotated[
        str | None,
        typer.Option("--report", metavar="FILE", help="Write an HTML report of what it checked of a specification."),
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
    usage = ", ".join(f"{name} {count}" for name, count in run.usage.items() if name != "estimated")
    usage += " (estimated)" if run.usage.get("estimated") else ""
    _warn_broken_traces(trace)
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


@app.command()
def prune(
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="TIME", help="Runs that ended longer ago than this: 12h, 30d, 8w."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed; remove nothing.")] = False,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Remove recordings, logs and model answers of completed runs, or everything beyond the limits of [retention].

    --older-than removes data of runs that ended longer ago than that. Without it, the limits of [retention] apply, also
    to conversations. Runs that can be resumed stay. So do outcomes, costs and receipts.

    Example: adderclaw runs prune --older-than 30d --dry-run
    """
    from adderclaw.agent.run import retention
    from adderclaw.storage.retention import KINDS, OF_RUNS, Limit

    now = load(config_file=config).config
    kind_limits: dict[str, Limit] = retention.limits(now.retention)
    if older_than is not None:
        kind_limits = {kind: Limit(_days(older_than), 0) for kind in OF_RUNS}
    elif not kind_limits:
        raise UsageError("[retention] sets no limit: give --older-than, such as 30d, or set limits there")
    store = Store.open(now.memory.path, read_only=True)  # fails if there is no database
    if not dry_run:
        store.close()
        store = Store.open(now.memory.path, in_files=now.memory.backend == "file")
    gone = retention.prune(store, kind_limits, dry_run=dry_run)
    store.close()
    by_kind = {kind: [removed for removed in gone if removed.kind == kind] for kind in KINDS}
    counts = {kind: {"count": len(of), "bytes": sum(removed.bytes for removed in of)} for kind, of in by_kind.items()}
    parts = [
        f"{len(of)} {NAMES[kind]} ({sum(removed.bytes for removed in of):,} bytes)"
        for kind, of in by_kind.items()
        if of
    ]
    word = "would be removed" if dry_run else "removed"
    text = f"{word}: {', '.join(parts) or 'nothing'}"
    print_result({"dry_run": dry_run, **counts}, clean(text), output_format)


NAMES = {
    "model_bodies": "runs' model answers",
    "logs": "runs' logs",
    "runs": "runs' recordings",
    "conversations": "conversations",
}


def _days(text: str) -> float:
    units = {"h": 1 / 24, "d": 1, "w": 7}
    if (match := re.fullmatch(r"([0-9]{1,5})([hdw])", text)) is None or not int(match[1]):
        raise UsageError(f"--older-than {text!r} is not a time: write 12h, 30d or 8w")
    return int(match[1]) * units[match[2]]


def _as_json(run: Run, trace: Trace) -> Json:
    return {**run._asdict(), "trace": trace.as_json()}


def _warn_broken_traces(trace: Trace) -> None:
    for text in trace.warnings:
        print(clean(f"adderclaw: {text}"), file=sys.stderr)


def _write_page(store: Store, run: Run, trace: Trace, path: str) -> None:
    from adderclaw.agent.view.rows import Rows
    from adderclaw.flows.spec import report as pages

    root = transcript.workspace_of(store, run.conversation_id)
    if trace.place is None:
        raise UsageError(f"run {run.run_id} has no folder, so no files of it are stored")
    html = pages.report(store, Rows(store, clean, root), run.run_id, trace.place.parent, f"{run.outcome}: {run.answer}")
    print(clean(f"adderclaw: the report is in {pages.write(html, path, root)}"), file=sys.stderr)
