"""Shared by the commands of `adderclaw fleet`: the fleet, the submitter, and finding a run."""

import getpass
import os
from typing import Annotated

import typer

from adderclaw.config import home
from adderclaw.core.errors import UsageError
from adderclaw.terminal.commands.common import group

try:
    from adderclaw.fleet import where
    from adderclaw.fleet.database import Database
    from adderclaw.fleet.where import Fleet
except ModuleNotFoundError as missing:  # the extra is not installed
    from adderclaw.config.installation import missing_extra

    raise UsageError(missing_extra("fleet", missing.name)) from missing

app = group("Run work on many machines, coordinated by PostgreSQL: submit, work, stop, verify.")

DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        help="Use another PostgreSQL than fleet.toml; like ADDERCLAW_FLEET_DATABASE.",
    ),
]
RunId = Annotated[str, typer.Argument(metavar="RUN_ID", help="Its id or a prefix of it.")]


def open_fleet(database: str | None, *, patience: float = 5.0) -> Fleet:
    return where.read(home(), database, patience=patience)


def submitter_name() -> str:
    """The name under which runs are submitted and stopped by default."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def full_run_id(database: Database, prefix: str) -> str:
    """The full id of the run with this prefix."""
    from adderclaw.fleet import queries

    rows = queries.starting_with(database, prefix)
    if not prefix or not rows:
        raise UsageError(f"there is no run {prefix!r}; list runs with `adderclaw fleet list`")
    if len(rows) > 1 and rows[0] != prefix:
        raise UsageError(f"several runs match {prefix!r}; use a longer prefix")
    return rows[0]
