"""`adderclaw fleet submit`: queues runs for the workers of the fleet."""

import csv
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from adderclaw.config import home, load
from adderclaw.core.decode import decode
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json
from adderclaw.fleet import requests, submit
from adderclaw.fleet.places import resolve_ref_to_commit
from adderclaw.fleet.submit import Order, Submitted
from adderclaw.fleet.tracing import Tracing
from adderclaw.fleet.tracing import given as given_trace
from adderclaw.fleet.where import Fleet
from adderclaw.terminal.commands.common import OutputFormat
from adderclaw.terminal.commands.fleet_common import DatabaseUrl, app, full_run_id, open_fleet, submitter_name
from adderclaw.terminal.output import print_json

ROW = ("task", "message", "agentfile", "spec", "sop", "repo", "workspace", "project", "label", "priority", "dedupe")
"""Columns of a matrix; any other is an input of the Agentfile."""
MOST_BYTES = 64 * 1024 * 1024

type Source = tuple[str | None, str | None]
"""A repository, or a folder."""


@app.command("submit")
def submit_runs(
    task: Annotated[str | None, typer.Option("--task", help="Run this task.")] = None,
    message: Annotated[str | None, typer.Option("--message", "-m", help="Run one turn with this message.")] = None,
    agentfile: Annotated[
        str | None, typer.Option("--agentfile", metavar="PATH", help="An Agentfile, as a path in the workspace.")
    ] = None,
    spec: Annotated[
        str | None, typer.Option("--spec", metavar="PATH", help="A specification, as a path in the workspace.")
    ] = None,
    sop: Annotated[str | None, typer.Option("--sop", metavar="NAME", help="Run a SOP of the workspace.")] = None,
    repo: Annotated[
        str | None, typer.Option("--repo", metavar="URL@REF", help="Work in a clone of this repository.")
    ] = None,
    workspace: Annotated[
        str | None, typer.Option("--workspace", metavar="DIR", help="Work in a copy of this folder.")
    ] = None,
    input_items: Annotated[
        list[str] | None, typer.Option("--input", metavar="NAME=VALUE", help="An input of the Agentfile; repeatable.")
    ] = None,
    matrix: Annotated[
        str | None,
        typer.Option(
            "--matrix", metavar="FILE", help="Submit one run for each row of a CSV or JSONL file; - is stdin."
        ),
    ] = None,
    profile: Annotated[str | None, typer.Option("--profile", help="What may happen without asking.")] = None,
    provider: Annotated[str | None, typer.Option("--provider", help="An entry of the workers' configuration.")] = None,
    model: Annotated[str | None, typer.Option("--model", help="Another model of that provider.")] = None,
    label: Annotated[str, typer.Option("--label", help="Only workers with this label take the run.")] = "",
    project: Annotated[str, typer.Option("--project", help="The project whose budget it uses.")] = "",
    submitter: Annotated[
        str | None, typer.Option("--submitter", help="The submitter whose share it uses; default: you.")
    ] = None,
    priority: Annotated[int, typer.Option("--priority", min=0, max=9, help="0 runs first, 9 last.")] = 5,
    max_cost: Annotated[float | None, typer.Option("--max-cost", min=0, help="US dollars for each run.")] = None,
    deadline: Annotated[
        float | None,
        typer.Option("--deadline", min=0, metavar="SECONDS", help="Seconds from now until it ends with `limit`."),
    ] = None,
    dedupe: Annotated[
        str | None, typer.Option("--dedupe", metavar="KEY", help="Do not queue a second run with the same key.")
    ] = None,
    after: Annotated[
        list[str] | None, typer.Option("--after", metavar="RUN_ID", help="Start when this run has completed.")
    ] = None,
    database: DatabaseUrl = None,
    output_format: OutputFormat = "text",
) -> None:
    """Submit a run, or one for each row of a matrix. Prints their ids.

    Example: adderclaw fleet submit --task "Say what is in README.md" --workspace .
    """
    fleet = open_fleet(database)
    base: Json = {"profile": profile, "provider": provider, "model": model}
    what = {"task": task, "message": message, "agentfile": agentfile, "spec": spec, "sop": sop}
    inputs = _inputs(input_items or [])
    common: Json = {
        "submitter": submitter or submitter_name(),
        "project": project,
        "label": label,
        "priority": priority,
        "max_cost": max_cost,
        "deadline": deadline,
        "after": tuple(full_run_id(fleet.database, source) for source in after or ()),
    }
    if matrix is not None and dedupe is not None:
        raise UsageError("--dedupe is for a single run: in a matrix use the column `dedupe`")
    rows: list[tuple[Json, str]] = _rows(matrix) if matrix is not None else [({}, "")]

    def make(row: Json) -> tuple[Order, Source]:
        return _order(row, {**base, **what}, inputs, {**common, "dedupe": dedupe}, (repo, workspace))

    orders, sources = _check_options(rows, make, is_matrix=matrix is not None)
    batch = submit.new_batch() if matrix is not None else ""
    tracing = Tracing(load().config)
    span = tracing.begin("fleet submit", given_trace(), {"adderclaw.fleet.runs": len(orders)})
    signer = requests.identity(home(), common["submitter"])
    requests.require_enrolled(fleet.database, signer)
    places, local = _sources(sources, fleet, common["submitter"]), fleet.where.local_repos
    done = submit.submit(fleet.database, orders, places, signer, batch, span.parent, local=local)
    span.end()
    tracing.close()
    _report(done, batch, output_format)


def _check_options(
    rows: list[tuple[Json, str]], make: Callable[[Json], tuple[Order, Source]], *, is_matrix: bool
) -> tuple[list[Order], list[Source]]:
    """Checks every row and reports all problems before any run is submitted."""
    orders, sources = list[Order](), list[Source]()
    problems: list[str] = []
    for row, line in rows:
        try:
            order, source = make(row)
            submit.check(order, source[1])
        except AdderClawError as error:
            problems.append(f"{line}{error}")
            continue
        orders.append(order)
        sources.append(source)
    if problems:
        more = f"\n… and {len(problems) - 20} more" if len(problems) > 20 else ""
        raise UsageError("nothing was submitted:\n" + "\n".join(problems[:20]) + more if is_matrix else problems[0])
    return orders, sources


def _report(done: list[Submitted], batch: str, output_format: str) -> None:
    if output_format == "json":
        print_json({"batch": batch, "runs": [{"run_id": run.id, "new": run.new} for run in done]})
        return
    for run in done:
        print(run.id if run.new else f"{run.id} (already queued)")
    if batch:
        print(f"adderclaw: {len(done)} runs; summarize them with `adderclaw fleet report {batch}`", file=sys.stderr)


def _sources(sources: list[Source], fleet: Fleet, submitter: str) -> list[Json]:
    """Stores each folder once and resolves each repository once."""
    rows_by_source: dict[Source, Json] = {}
    boxes, local = fleet.boxes(submitter), fleet.where.local_repos
    for source in sources:
        if source not in rows_by_source:
            repo, workspace = source
            rows_by_source[source] = (
                resolve_ref_to_commit(repo, local=local) if repo else submit.archive_folder(boxes, workspace or "")
            )
    return [rows_by_source[source] for source in sources]


def _order(
    row: Mapping[str, Any],
    what: Json,
    inputs: dict[str, str],
    common: Json,
    source: Source,
) -> tuple[Order, Source]:
    known = {name: row[name] for name in ROW if row.get(name) not in (None, "")}
    own = {name: str(value) for name, value in row.items() if name not in ROW and value is not None}
    order = {**what, **{name: known[name] for name in ROW[:5] if name in known}}
    if all_inputs := {**inputs, **own}:
        order["inputs"] = all_inputs
    repo, workspace = known.get("repo", source[0]), known.get("workspace", source[1])
    if "workspace" in known and "repo" not in known:
        repo = None
    if bool(repo) == bool(workspace):
        raise UsageError("use only one of --repo and --workspace for the files it works on")
    settings = {name: known[name] for name in ("project", "label", "dedupe") if name in known}
    if "priority" in known:
        try:
            settings["priority"] = int(known["priority"])
        except ValueError as error:
            raise UsageError(f"priority {known['priority']!r}: must be a number from 0 to 9") from error
    chosen = {name: value for name, value in {**common, **settings}.items() if value is not None}
    order = {name: value for name, value in order.items() if value is not None}
    return decode(Order, {**chosen, "wanted": order}), (repo, workspace)


def _rows(path: str) -> list[tuple[Json, str]]:
    """Reads the rows of a matrix, each with its place for error messages."""
    try:
        if path == "-":
            text = sys.stdin.read(MOST_BYTES + 1)
        else:
            with open(os.path.expanduser(path), encoding="utf-8-sig", newline="") as file:
                text = file.read(MOST_BYTES + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--matrix {path}: cannot be read: {error}") from error
    if len(text) > MOST_BYTES:
        raise UsageError(f"--matrix {path}: more than {MOST_BYTES // 1024**2} MiB; submit it in parts")
    if text.lstrip().startswith("{"):
        return [
            (_json_row(line, f"{path}:{number}: "), f"{path}:{number}: ")
            for number, line in enumerate(text.splitlines(), 1)
            if line.strip()
        ]
    reader = csv.DictReader(text.splitlines())
    rows: list[tuple[Json, str]] = []
    for row in reader:
        where = f"{path}:{reader.line_num}: "
        if None in row:
            raise UsageError(f"{where}this row has more values than the first line has names")
        rows.append((dict(row), where))
    if not rows:
        raise UsageError(f"--matrix {path}: no rows. The first line has the names, each further line is a run")
    return rows


def _json_row(line: str, where: str) -> Json:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise UsageError(f"{where}not valid JSON: {error}") from error
    if not isinstance(row, dict):
        raise UsageError(f"{where}expected a JSON object with a name for each value")
    return row  # pyright: ignore[reportUnknownVariableType]


def _inputs(items: list[str]) -> dict[str, str]:
    inputs: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise UsageError(f"--input {visible(item[:100])!r}: expected NAME=VALUE")
        inputs[name] = value
    return inputs
