"""`adderclaw run save`, `run check`, `run cases`: finished runs as regression cases of a project."""

import sys
from typing import Annotated

import typer

from adderclaw import workspace as files
from adderclaw.channels.cli.common import ConfigFile, OutputFormat, WorkspaceDir, group, said
from adderclaw.channels.cli.plain import print_json
from adderclaw.config import load
from adderclaw.config.paths import followed
from adderclaw.credentials.redaction import Secrets
from adderclaw.errors import Refused, UsageError
from adderclaw.replay import cases, comparing
from adderclaw.replay.comparing import Changed, Comparison
from adderclaw.store import Store, runs, tape
from adderclaw.store.runs import Run
from adderclaw.types import Json

app = group("Finished runs as regression cases of a project.")

clean = Secrets().clean
MOST_SHOWN = 20
LOOKED_AT = 200
"""Runs of a workspace among which the last finished one is looked for."""


@app.command()
def save(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the case is called.")],
    run_id: Annotated[
        str | None, typer.Option("--run", metavar="RUN_ID", help="Which run; default: the last that ended here.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a case of that name.")] = False,
    config: ConfigFile = None,
    workspace: WorkspaceDir = None,
    output_format: OutputFormat = "text",
) -> None:
    """Keep a finished run as a case of the project: one file, which can be committed.

    Example: adderclaw run save first-case
    """
    loaded = load(config_file=config, workspace=workspace, here=True)
    root = followed(loaded.workspace)
    place = cases.place_of(root, name)
    if files.exists(place) and not force:
        raise UsageError(f"there is a case {name!r} already ({place.way}): take another name, or --force replaces it")
    store = Store.open(loaded.config.memory.path, read_only=True)
    run = _wanted(store, run_id, [loaded.workspace, root])
    data = cases.made_of(store, run)
    found = comparing.check(cases.parsed(data), None)
    if not found.same:
        first = found.differences[0]
        said = f"{first.where}: recorded {_value(first.before)}, played {_value(first.after)}"
        raise UsageError(f"run {run.run_id} does not come out as it was recorded, and is no case: {clean(said)}")
    try:
        files.make_folders(place.parent)
        files.write(place, data)
    except (OSError, Refused) as error:
        raise UsageError(f"{place.text} cannot be written: {error}") from error
    if output_format == "json":
        made: Json = {"case": name, "path": place.text, "run_id": run.run_id, "bytes": len(data)}
        print_json(clean({**made, "sessions": found.sessions, "tool_calls": found.calls}))
        return
    print(clean(f"saved {run.run_id} ({found.calls} calls) as {place.way}: `adderclaw run check {name}` compares"))


@app.command()
def check(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Which case.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every case of the project.")] = False,
    config: ConfigFile = None,
    workspace: WorkspaceDir = None,
    output_format: OutputFormat = "text",
) -> None:
    """Play a case under the present configuration and policy, and name what comes out differently.

    Nothing is executed, and no model is asked. Exit code 1 for a difference, 2 for a case that cannot be played.

    Example: adderclaw run check --all
    """
    if (name is None) != every:
        raise UsageError("name a case, or say --all; `adderclaw run cases` lists them")
    loaded = load(config_file=config, workspace=workspace, here=True)
    root = followed(loaded.workspace)
    wanted = [name] if name is not None else cases.names(root)
    if not wanted:
        raise UsageError(f"{root} has no case in {cases.FOLDER}: `adderclaw run save NAME` makes one")
    code = 0
    for one in wanted:
        try:
            found = comparing.check(cases.read(cases.place_of(root, one)), loaded)
        except UsageError as error:
            if not every:
                raise
            code = _bad(one, error, output_format)
            continue
        code = max(code, 0 if found.same else 1)
        _show(one, found, output_format)
    raise typer.Exit(code)


@app.command("cases")
def list_cases(workspace: WorkspaceDir = None, config: ConfigFile = None, output_format: OutputFormat = "text") -> None:
    """List the cases of the project.

    Example: adderclaw run cases
    """
    found = cases.names(followed(load(config_file=config, workspace=workspace, here=True).workspace))
    said(found, "\n".join(found) or "no cases yet", output_format)


def _wanted(store: Store, run_id: str | None, places: list[str]) -> Run:
    if run_id is not None:
        run = runs.get(store, run_id)
        if run is None:
            raise UsageError(f"there is no run {run_id!r} in {store.path}: see `adderclaw runs list`")
        return run
    ended = (run for run in runs.listing(store, LOOKED_AT, places) if run.outcome is not None)
    found = next((run for run in ended if tape.sessions(store, run.run_id)), None)
    if found is None:
        raise UsageError("no run with a tape has ended in this workspace: name one by --run, see `adderclaw runs list`")
    return found


def _bad(name: str, error: UsageError, output_format: str) -> int:
    if output_format == "json":
        print_json(clean({"case": name, "same": None, "error": str(error)}))
    else:
        print(clean(f"unusable: {name}: {error}"), file=sys.stderr)
    return error.exit_code


def _show(name: str, found: Comparison, output_format: str) -> None:
    if output_format == "json":
        print_json(clean({"case": name, **found.as_json()}))
        return
    counts = f"{found.calls} calls, {found.sessions} sessions of {found.run_id}"
    if found.same:
        print(clean(f"same: {name}: {counts}"))
    else:
        print(clean(f"differs: {name}: {len(found.differences)} differences ({counts})"))
    for one in found.differences[:MOST_SHOWN]:
        print(clean(f"  {_line(one)}"))
    if len(found.differences) > MOST_SHOWN:
        print(f"  … and {len(found.differences) - MOST_SHOWN} more: --output-format json lists all of them")
    for note in found.notes[:MOST_SHOWN]:
        print(clean(f"note: {note}"))


def _line(one: Changed) -> str:
    by = f" by {one.by}" if one.by else ""
    why = f": {one.reason}" if one.reason else ""
    return f"{one.where}: {_value(one.before)} → {_value(one.after)}{by}{why}"


def _value(value: object) -> str:
    import json

    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}…"
