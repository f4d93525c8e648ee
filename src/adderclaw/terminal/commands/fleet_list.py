"""`adderclaw fleet list`, `show`, `logs`, `watch` …: what the fleet does, and how runs ended."""

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
from adderclaw.terminal.commands.common import OutputFormat, said
from adderclaw.terminal.commands.fleet_common import DatabaseUrl, app, opened, whole_id
from adderclaw.terminal.commands.plain import print_json

clean = Secrets().clean

Outcome = Annotated[str | None, typer.Option("--outcome", help="Only runs that ended so.")]


@app.command("list")
def list_runs(
    state: Annotated[
        str | None, typer.Option("--state", help="held, queued, running, waiting or ended; default: all.")
    ] = None,
    outcome: Outcome = None,
    batch: Annotated[str | None, typer.Option("--batch", help="Only runs of this matrix.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=100_000, help="At most so many.")] = 20,
    database: DatabaseUrl = None,
    output_format: OutputFormat = "text",
) -> None:
    """List runs of the fleet, the most recent first.

    Example: adderclaw fleet list --state running
    """
    found = queries.runs(opened(database).database, state=state, outcome=outcome, batch=batch, limit=limit)
    if output_format == "json":
        print_json(clean(found))
        return
    for run in found:
        how = run["outcome"] or ("asks" if run["asks"] else run["state"])
        print(clean(f"{run['run_id']}  {how:<11}  {run['units']:>3} units  {run['submitter']:<12}  {run['what'][:60]}"))
        if run["state"] == "held" and run["reason"]:
            print(clean(f"  {run['reason']}"))
    if not found:
        print("no runs")


@app.command()
def show(
    run_id: Annotated[
        str | None, typer.Argument(metavar="[RUN_ID]", help="A run; without one: queue, workers, stops.")
    ] = None,
    database: DatabaseUrl = None,
    output_format: OutputFormat = "text",
) -> None:
    """Show one run with its units and what is unknown of it; without an id the fleet itself.

    Example: adderclaw fleet show
    """
    fleet = opened(database)
    if run_id is None:
        made = queries.overview(fleet.database)
    else:
        made = queries.run(fleet.database, whole_id(fleet.database, run_id), fleet.key_here())
    if output_format == "json":
        print_json(clean(made))
        return
    _print(clean(made))


@app.command()
def logs(
    run_id: Annotated[str, typer.Argument(metavar="RUN_ID", help="Its id, or the beginning of it.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until it has ended.")] = False,
    database: DatabaseUrl = None,
    output_format: OutputFormat = "text",
) -> None:
    """Print the events of a run, from whichever worker it was on.

    Example: adderclaw fleet logs 20260512-140000-1f2e3d4c5b6a
    """
    fleet = opened(database)
    run, last = whole_id(fleet.database, run_id), 0
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
    seconds: Annotated[float, typer.Option("--every", min=0.2, help="Seconds between two looks.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="One line, and end.")] = False,
    database: DatabaseUrl = None,
) -> None:
    """One line every few seconds: what is queued, runs, waits, has ended, and what it cost. Ctrl-C ends it.

    Example: adderclaw fleet watch --once
    """
    fleet = opened(database)
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


def _print(made: Any, indent: str = "") -> None:
    """A record for a person: names and values, lists with a row each."""
    for name, value in made.items():
        if isinstance(value, dict):
            print(f"{indent}{name}:")
            _print(value, f"{indent}  ")
        elif isinstance(value, list):
            print(f"{indent}{name}:" + ("" if value else " none"))
            for one in value:  # pyright: ignore[reportUnknownVariableType]
                shown = "  ".join(f"{key} {said}" for key, said in one.items()) if isinstance(one, dict) else one  # pyright: ignore[reportUnknownVariableType]
                print(visible(f"{indent}  - {shown}"))
        elif value is not None and value != "":
            print(visible(f"{indent}{name}: {value}"))


@app.command()
def fetch(
    run_id: Annotated[str, typer.Argument(metavar="RUN_ID", help="Its id, or the beginning of it.")],
    folder: Annotated[str, typer.Argument(metavar="DIR", help="A new folder for its workspace and its home.")],
    database: DatabaseUrl = None,
    output_format: OutputFormat = "text",
) -> None:
    """Bring a run's last state here: its files, and a home with its store and receipts.

    Example: adderclaw fleet fetch 20260512-140000-1f2e3d4c5b6a ./result
    """
    fleet = opened(database)
    run = whole_id(fleet.database, run_id)
    row = queries.saved_state(fleet.database, run)
    if row.pruned is not None:
        raise UsageError(f"run {run}: its state was pruned {row.pruned:%Y-%m-%d}; what was signed of it is left")
    if row.saved is None:
        raise UsageError(f"run {run} has put nothing away yet")
    place = os.path.abspath(os.path.expanduser(folder))
    if os.path.lexists(place):
        raise UsageError(f"{folder} is there already: name a new folder")
    made = AttemptFolder(place)
    made.fill(fleet.objects(), row._asdict(), fleet.key(), home())
    said(
        {"workspace": made.workspace, "home": made.home},
        f"{made.workspace} has the files; ADDERCLAW_HOME={made.home} looks at its store and receipts",
        output_format,
    )


@app.command()
def report(
    batch: Annotated[str, typer.Argument(metavar="BATCH", help="As `fleet submit --matrix` prints it.")],
    html: Annotated[str | None, typer.Option("--html", metavar="FILE", help="Write a page.")] = None,
    database: DatabaseUrl = None,
    output_format: OutputFormat = "text",
) -> None:
    """Sum up the runs of a matrix: outcomes, cost, and a row for each; as a page with --html.

    Example: adderclaw fleet report batch-1f2e3d4c5b6a --html report.html
    """
    made = clean(queries.report(opened(database).database, batch))
    if html is not None:
        try:
            with open(os.path.expanduser(html), "w", encoding="utf-8") as file:
                file.write(page(made))
        except OSError as error:
            raise UsageError(f"{html} cannot be written: {error.strerror}") from error
    if output_format == "json":
        print_json(made)
        return
    for row in made["rows"]:
        print(visible(f"{row['run_id']}  {row['outcome'] or row['state']:<11}  {row['what'][:60]}"))
    counts = ", ".join(f"{count} {how}" for how, count in made["outcomes"].items())
    print(f"{made['runs']} runs: {counts}; ${made['cost']:.6f}")
