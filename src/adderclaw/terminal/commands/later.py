"""`adderclaw later`: changes that commands made to files other programs run, until the operator has reviewed them."""

import os
import shlex
from collections import Counter
from typing import Annotated, Literal

import typer

from adderclaw.agent.legacy.later_report import answered
from adderclaw.config import home, load
from adderclaw.core import home_names
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.redaction import Secrets
from adderclaw.core.types import Json
from adderclaw.storage import Store, later_files
from adderclaw.terminal.commands.common import ConfigFile, OutputFormat, group
from adderclaw.terminal.output import print_json

app = group("List changes by commands to files that other programs run; accept them, or set them aside.")

clean = Secrets().clean
Workspace = Annotated[
    str | None, typer.Option("--workspace", metavar="DIR", help="The project folder; default: this one.")
]
Paths = Annotated[
    list[str] | None, typer.Argument(metavar="[PATH]…", help="Only these paths, as `list` shows them; default: all.")
]


@app.command("list")
def list_changes(workspace: Workspace = None, config: ConfigFile = None, output_format: OutputFormat = "text") -> None:
    """List changes that have not been acknowledged yet.

    Example: adderclaw later list
    """
    store, root = _open_store(workspace, config, read_only=True)
    rows = later_files.unanswered(store, root)
    if output_format == "json":
        print_json([clean({**row._asdict(), "path": _relative_path(row, root)}) for row in rows])
        return
    for row in rows:
        print(clean(f"{row.found_at}Z  {row.change:<7}  {_relative_path(row, root)}  ({row.session_id})"))
    if not rows:
        print("no unacknowledged changes")
        for other, count in Counter(row.workspace for row in later_files.unanswered(store)).items():
            print(clean(f"in {other}: {count}; `adderclaw later list --workspace {shlex.quote(other)}` shows them"))


@app.command()
def accept(
    paths: Paths = None, workspace: Workspace = None, config: ConfigFile = None, output_format: OutputFormat = "text"
) -> None:
    """Acknowledge changes: the files stay as they are, and the changes are no longer reported.

    Example: adderclaw later accept
    """
    _answer(paths, workspace, config, "kept", as_json=output_format == "json")


@app.command("set-aside")
def set_aside(
    paths: Paths = None, workspace: Workspace = None, config: ConfigFile = None, output_format: OutputFormat = "text"
) -> None:
    """Move new or changed files out of the workspace, to a folder of AdderClaw.

    Example: adderclaw later set-aside
    """
    _answer(paths, workspace, config, "set_aside", as_json=output_format == "json")


def _answer(
    paths: list[str] | None,
    workspace: str | None,
    config: str | None,
    word: Literal["kept", "set_aside"],
    *,
    as_json: bool,
) -> None:
    store, root = _open_store(workspace, config, read_only=False)
    rows = later_files.unanswered(store, root)
    by_path = {_relative_path(row, root): row for row in rows}
    chosen_paths = list(by_path) if not paths else [path.removeprefix(f"{root}/").removeprefix("./") for path in paths]
    if unknown := [path for path in chosen_paths if path not in by_path]:
        raise UsageError(f"{unknown[0]}: this path has no pending change; `adderclaw later list` shows them")
    chosen: list[Json] = [{"id": by_path[path].id, "path": path} for path in chosen_paths]
    done = answered(store, root, home(), chosen, word)
    if not chosen and not as_json:
        print("no changes are pending here")
    if as_json:
        print_json([clean({"path": change["path"], "answer": word}) for change in done])
    else:
        verb = "accepted" if word == "kept" else f"moved to {os.path.join(home(), home_names.SET_ASIDE)}"
        for row in done:
            print(clean(f"{row['path']}: {verb}"))
    if len(done) < len(chosen):
        left = next(row["path"] for row in chosen if row not in done)
        raise AdderClawError(f"{clean(left)} could not be moved. Check it yourself, then run `adderclaw later accept`.")


def _open_store(workspace: str | None, config: str | None, *, read_only: bool) -> tuple[Store, str]:
    loaded = load(config_file=config, workspace=workspace)
    store, here = Store.open(loaded.config.memory.path, read_only=read_only), os.path.realpath(os.getcwd())
    if workspace is None and later_files.unanswered(store, here):
        return store, here  # `run` works in the folder it was started in
    return store, os.path.realpath(loaded.workspace)


def _relative_path(row: later_files.Row, root: str) -> str:
    return row.path.removeprefix(f"{root}/")
