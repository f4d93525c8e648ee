"""The page of the fleet: queue, workers, throughput, failures by reason, cost, last runs."""

import os
from typing import Any
from urllib.parse import quote

from adderclaw.config import home
from adderclaw.core import home_names
from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import Secrets
from adderclaw.core.types import Json
from adderclaw.server.endpoint import ApiRequest
from adderclaw.server.fleet import open_fleet
from adderclaw.server.pages import questions
from adderclaw.server.pages.page import Entry, in_thread, page
from adderclaw.server.pages.questions import Card

LIMIT = 50


class Output(NamedTuple):
    now: Json
    runs: list[Json]
    questions: list[tuple[Json, Card]]


async def _read(request: ApiRequest) -> Output | None:
    fleet = await in_thread(read_fleet)
    if fleet is None:
        return None
    overview, runs, asked = fleet
    return Output(overview, runs, [(question, _card(request, question)) for question in asked])


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


def _card(request: ApiRequest, question: Json) -> Card:
    from adderclaw.fleet.asking import row_of

    action = f"/fleet/questions/{quote(question['run_id'], safe='')}/{quote(question['id'], safe='')}/answer"
    return questions.fleet_card(request, row_of(question, question["asked"]), action)


ENTRY = Entry(21, "/ui/fleet", "Fleet", "f", whole_machine=True)
ENDPOINTS = (page(ENTRY.path, _read, "fleet.html", "The fleet.", reach=None),)
