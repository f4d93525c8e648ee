"""`adderclaw fleet list`, `show`, `logs`, `watch` …: what the fleet is doing, and how runs ended."""

import os
import time
from typing import Annotated, Any

import typer

from adderclaw.config import home
from adderclaw.core.errors import UsageError
from adderclaw.core.redaction import Secrets, visible
from adderclaw.core.types import Json
from adderclaw.fleet import queries
from adderclaw.fleet.report import page
from adderclaw.fleet.state import AttemptFolder
from adderclaw.terminal.commands.common import OutputFormat, print_result
from adderclaw.terminal.commands.fleet_common import DatabaseUrl, app, full_run_id, open_fleet
from adderclaw.terminal.output import print_json

clean = Secrets().clean

Outcome = Annotated[str | None, typer.Option("--outcome", help="Only runs with this outcome.")]


@app.command("list")
def list_runs(
    state: Annotated[
        str | None, typer.Option("--state", help="held, queued, running, waiting or ended; default: all.")
    ] = None,
    outcome: Outcome = None,
    batch: Annotated[str | None, typer.Option("--batch", help="Only runs of this matrix.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=100_000, help="At most N.")] = 20,
    database: DatabaseUrl = None,
    output_format: OutputFormat = "text",
) -> None:
    """List runs of the fleet, the most recent first.

    Example: adderclaw fleet list --state running
    """
    rows = queries.runs(open_fleet(database).database, state=state, outcome=outcome, batch=batch, limit=limit)
    if output_format == "json":
        print_json(clean(rows))
        return
    for run in rows:
        how = run["outcome"] or ("asks" if run["asks"] else run["state"])
        print(clean(f"{run['run_id']}  {how:<11}  {run['units']:>3} units  {run['submitter']:<12}  {run['what'][:60]}"))
        if run["state"] == "held" and run["reason"]:
            print(clean(f"  {run['reason']}"))
    if not rows:
        print("no runs")


@app.command()
def show(
    run_id: Annotated[
        str | None, typer.Argument(metavar="[RUN_ID]", help="A run; default: the queue, workers and stops.")
    ] = None,
    database: DatabaseUrl = None,
    output_format: OutputFormat = "text",
) -> None:
    """Show one run with its units and unknown results; without an id, the fleet itself.

    Example: adderclaw fleet show
    """
    fleet = open_fleet(database)
    if run_id is None:
        overview = queries.overview(fleet.database)
    else:
        overview = queries.run(fleet.database, full_run_id(fleet.database, run_id), fleet.key_here())
    if output_format == "json":
        print_json(clean(overview))
        return
    _print_table(clean(overview))


@app.command()
def logs(
    run_id: Annotated[str, typer.Argument(metavar="RUN_ID", help="Its id or a prefix of it.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow until the run has ended.")] = False,
    database: DatabaseUrl = None,
    output_format: OutputFormat = "text",
) -> None:
    """Print the events of a run from every worker it was on.

    Example: adderclaw fleet logs 20260512-140000-1f2e3d4c5b6a
    """
    fleet = open_fleet(database)
    run, last = full_run_id(fleet.database, run_id), 0
    while True:
        ended = queries.has_ended(fleet.database, run)
        for number, event in queries.events(fleet.database, run, last):
            last = number
            if output_format == "json":
                print_json(clean(event))
            else:
                print(visible(_event(clean(event))), flush=True)
        if ended or not follow:
            return
        time.sleep(0.5)


@app.command()
def watch(
    seconds: Annotated[float, typer.Option("--every", min=0.2, help="Seconds between two lines.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print one line and exit.")] = False,
    database: DatabaseUrl = None,
) -> None:
    """Print a line every few seconds: runs queued, running, waiting and ended, and the cost. Ctrl-C ends it.

    Example: adderclaw fleet watch --once
    """
    fleet = open_fleet(database)
    while True:
        now = queries.overview(fleet.database)
        states = "  ".join(f"{name} {count}" for name, count in now["runs"].items())
        print(f"{time.strftime('%H:%M:%S')}  workers {len(now['workers'])}  {states}  ${now['cost']:.4f}", flush=True)
        if once:
            return
        time.sleep(seconds)


def _event(event: Json) -> str:
    rest = " ".join(str(value) for name, value in event.items() if name not in ("event_type", "timestamp", "time"))
    return f"{event.get('timestamp') or event.get('time') or ''} {event.get('event_type', '')} {rest}"[:1000].strip()


def _print_table(table: Any, indent: str = "") -> None:
    """Prints a record as text: names and values, lists with a row for each item."""
    for name, value in table.items():
        if isinstance(value, dict):
            print(f"{indent}{name}:")
            _print_table(value, f"{indent}  ")
        elif isinstance(value, list):
            print(f"{indent}{name}:" + ("" if value else " none"))
            for row in value:  # pyright: ignore[reportUnknownVariableType]
                shown = "  ".join(f"{key} {cell}" for key, cell in row.items()) if isinstance(row, dict) else row  # pyright: ignore[reportUnknownVariableType]
                print(visible(f"{indent}  - {shown}"))
        elif value is not None and value != "":
            print(visible(f"{indent}{name}: {value}"))


@app.command()
def fetch(
    run_id: Annotated[str, typer.Argument(metavar="RUN_ID", help="Its id or a prefix of it.")],
    folder: Annotated[str, typer.Argument(metavar="DIR", help="A new folder for its workspace and its home.")],
    database: DatabaseUrl = None,
    output_format: OutputFormat = "text",
) -> None:
    """Fetch the last state of a run: its files, and a home with its store and receipts.

    Example: adderclaw fleet fetch 20260512-140000-1f2e3d4c5b6a ./result
    """
    fleet = open_fleet(database)
    run = full_run_id(fleet.database, run_id)
    row = queries.saved_state(fleet.database, run)
    if row.pruned is not None:
        raise UsageError(f"run {run}: its state was pruned on {row.pruned:%Y-%m-%d}; only its signatures are left")
    if row.saved is None:
        raise UsageError(f"run {run} has not saved a state yet")
    path = os.path.abspath(os.path.expanduser(folder))
    if os.path.lexists(path):
        raise UsageError(f"{folder} already exists: name a new folder")
    copy = AttemptFolder(path)
    copy.fill(fleet.objects(), row._asdict(), fleet.key(), home())
    print_result(
        {"workspace": copy.workspace, "home": copy.home},
        f"the files are in {copy.workspace}; inspect the store and receipts with ADDERCLAW_HOME={copy.home}",
        output_format,
    )


@app.command()
def report(
    batch: Annotated[str, typer.Argument(metavar="BATCH", help="The batch printed by `fleet submit --matrix`.")],
    html: Annotated[str | None, typer.Option("--html", metavar="FILE", help="Write a page.")] = None,
    database: DatabaseUrl = None,
    output_format: OutputFormat = "text",
) -> None:
    """Summarize the runs of a matrix: outcomes, cost, and a row for each; as an HTML page with --html.

    Example: adderclaw fleet report batch-1f2e3d4c5b6a --html report.html
    """
    figures = clean(queries.report(open_fleet(database).database, batch))
    if html is not None:
        try:
            with open(os.path.expanduser(html), "w", encoding="utf-8") as file:
                file.write(page(figures))
        except OSError as error:
            raise UsageError(f"{html} cannot be written: {error.strerror}") from error
    if output_format == "json":
        print_json(figures)
        return
    for row in figures["rows"]:
        print(visible(f"{row['run_id']}  {row['outcome'] or row['state']:<11}  {row['what'][:60]}"))
    counts = ", ".join(f"{count} {how}" for how, count in figures["outcomes"].items())
    print(f"{figures['runs']} runs: {counts}; ${figures['cost']:.6f}")
