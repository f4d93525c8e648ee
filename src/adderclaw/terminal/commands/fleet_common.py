"""What the commands of `adderclaw fleet` share: which fleet, who asks, which run."""

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
except ModuleNotFoundError as missing:  # an installation without the extra
    from adderclaw.config.installation import lacking

    raise UsageError(str(lacking("fleet", missing.name))) from missing

app = group("Run work on many machines, coordinated by PostgreSQL: submit, work, stop, verify.")

DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        help="Another PostgreSQL than fleet.toml names; ADDERCLAW_FLEET_DATABASE does the same.",
    ),
]
RunId = Annotated[str, typer.Argument(metavar="RUN_ID", help="Its id or a prefix of it.")]


def open_fleet(database: str | None, *, patience: float = 5.0) -> Fleet:
    return where.read(home(), database, patience=patience)


def submitter_name() -> str:
    """Who submits and stops, unless another name is given."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def full_run_id(database: Database, prefix: str) -> str:
    """A run's id by its beginning."""
    from adderclaw.fleet import queries

    rows = queries.starting_with(database, prefix)
    if not prefix or not rows:
        raise UsageError(f"there is no run {prefix!r}; `adderclaw fleet list` lists them")
    if len(rows) > 1 and rows[0] != prefix:
        raise UsageError(f"{prefix!r} begins more than one id: write more of it")
    return rows[0]
