"""`adderclaw runs`: what ran, and how it ended."""

from typing import Annotated

import typer

from adderclaw.channels.cli.common import ConfigFile, OutputFormat, group
from adderclaw.channels.cli.plain import print_json
from adderclaw.config import load
from adderclaw.credentials.redaction import Secrets
from adderclaw.errors import UsageError
from adderclaw.store import Store, model_calls, runs
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
    store = Store.open(load(config_file=config).config.memory.path, read_only=True)
    found = runs.listing(store, limit)
    if output_format == "json":
        print_json([clean(_as_json(run)) for run in found])
        return
    for run in found:
        print(clean(f"{run.run_id}  {run.started_at}Z  {run.kind:<6}  {run.status:<11}  {run.conversation_id}"))
    if not found:
        print("no runs yet")


@app.command()
def show(
    run_id: Annotated[str, typer.Argument(metavar="RUN_ID", help="Its id, or the beginning of it.")],
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Show one run: outcome, usage, answer, and the model calls of its session.

    Example: adderclaw runs show 20260512-140000-1f2e3d4c
    """
    store = Store.open(load(config_file=config).config.memory.path, read_only=True)
    run = runs.get(store, run_id)
    if run is None:
        raise UsageError(f"there is no run {run_id!r} in {store.path}: see `adderclaw runs list`")
    asked = model_calls.of_session(store, run.session_id)
    if output_format == "json":
        print_json(clean({**_as_json(run), "model_calls": [call._asdict() for call in asked]}))
        return
    usage = ", ".join(f"{name} {count}" for name, count in run.usage.items())
    for name, value in (_as_json(run) | {"usage": usage}).items():
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


def _as_json(run: Run) -> Json:
    return run._asdict()
