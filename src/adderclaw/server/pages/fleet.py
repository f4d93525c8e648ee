"""The page of the fleet: queue, workers, throughput, failures by reason, cost, last runs."""

from urllib.parse import quote

from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json
from adderclaw.server.endpoint import ApiRequest
from adderclaw.server.home_fleet import read_fleet
from adderclaw.server.pages import questions
from adderclaw.server.pages.page import Entry, in_thread, page
from adderclaw.server.pages.questions import Card


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


def _card(request: ApiRequest, question: Json) -> Card:
    from adderclaw.fleet.asking import row_of

    action = f"/fleet/questions/{quote(question['run_id'], safe='')}/{quote(question['id'], safe='')}/answer"
    return questions.fleet_card(request, row_of(question, question["asked"]), action)


ENTRY = Entry(21, "/ui/fleet", "Fleet", "f", whole_machine=True)
ENDPOINTS = (page(ENTRY.path, _read, "fleet.html", "The fleet.", reach=None),)
