"""The fleet that this home belongs to, if any: opened, and read for pages and metrics."""

import os
from typing import TYPE_CHECKING, Any

from adderclaw.config import home
from adderclaw.core import home_names
from adderclaw.core.errors import AdderClawError
from adderclaw.core.redaction import Secrets
from adderclaw.core.types import Json

if TYPE_CHECKING:
    from adderclaw.fleet.where import Fleet

LIMIT = 50
"""The most runs that are read."""


def open_fleet() -> "Fleet":
    """The fleet of this home."""
    try:
        from adderclaw.fleet import where
    except ModuleNotFoundError as error:
        from adderclaw.config.installation import missing_extra

        raise AdderClawError(missing_extra("fleet", error.name)) from error
    return where.read(home(), patience=1.0)


def read_fleet() -> tuple[Json, list[Json], list[Json]] | None:
    """The fleet of this home, its last runs and their questions; None if it belongs to no fleet."""
    if not os.path.exists(os.path.join(home(), home_names.FLEET)) and "ADDERCLAW_FLEET_DATABASE" not in os.environ:
        return None
    fleet = open_fleet()
    from adderclaw.fleet import asking, queries

    try:
        overview, runs = queries.overview(fleet.database), queries.runs(fleet.database, limit=LIMIT)
        asked = asking.waiting(fleet.database, fleet.key_here())
    finally:
        fleet.database.close()
    shown: list[Any] = Secrets().clean([overview, runs, asked])  # a submitter may write anything
    return shown[0], shown[1], shown[2]
