"""The questions that wait for a person: as cards with the plan or the change and a form, or with their answer."""

import time
from typing import TYPE_CHECKING

from adderclaw.agent.conversation.asking import Request
from adderclaw.agent.queries import clean, conversations
from adderclaw.agent.tool_call.approvals import DisplayedRequest, displayed_request, questions_of
from adderclaw.agent.view.calls import parsed
from adderclaw.agent.view.items import Change
from adderclaw.agent.view.markup import element_id, macro
from adderclaw.core.questions import ApprovalRequest, Question
from adderclaw.core.record import NamedTuple
from adderclaw.server.client_scope import places
from adderclaw.server.endpoint import Called
from adderclaw.server.pages.page import Entry, page
from adderclaw.storage import approvals, transcript
from adderclaw.storage.approvals import Approval
from adderclaw.storage.queries import conversations as transcript_queries

if TYPE_CHECKING:
    from markupsafe import Markup

MOST = 50
OUTCOMES = {
    "yes": ("good", "Answered: yes"),
    "no": ("bad", "Answered: no"),
    "expired": ("warn", "Nobody answered in time"),
}


class Card(NamedTuple):
    id: str
    row: Approval
    shown: DisplayedRequest
    """The texts of the row, escaped for a person who decides."""
    questions: list[Question]
    state: str
    may_answer: bool
    action: str
    """Where the answer is sent."""
    conversation_id: str = ""
    title: str = ""
    folder: str = ""
    change: Change | None = None
    touches: str = ""
    remember: tuple[tuple[str, str], ...] = ()
    """What a yes could also allow from now on."""

    @property
    def is_open(self) -> bool:
        return self.state in ("pending", "left")

    @property
    def outcome(self) -> tuple[str, str]:
        return OUTCOMES.get(self.state, ("", self.state))


class Output(NamedTuple):
    waiting: list[Card]
    answered: list[Card]


async def _read(called: Called) -> Output:
    return Output(waiting(called), _answered(called))


def waiting(called: Called, conversation: str | None = None, *, with_place: bool = True) -> list[Card]:
    """Those that wait, the oldest first: of one conversation, or of all that the client sees."""
    store = called.house.store
    rows = approvals.listing(store, everything=False, limit=MOST, workspaces=places(called), conversation=conversation)
    cards = (card(called, row, with_place=with_place) for row in rows if row.state(time.time()) == "pending")
    return [one for one in cards if conversation in (None, one.conversation_id)]


def _answered(called: Called) -> list[Card]:
    rows = approvals.listing(called.house.store, everything=True, limit=MOST, workspaces=places(called))
    cards = [card(called, row) for row in rows]
    return [one for one in cards if not one.is_open]


def ended(called: Called, id: str) -> Card | None:
    """The card of a question that is not open any more."""
    return next((one for one in _answered(called) if one.id == id), None)


def find(called: Called, id: str) -> Card | None:
    row = approvals.get(called.house.store, id)
    return card(called, row, with_place=False) if row is not None else None


def card(called: Called, row: Approval, *, with_place: bool = True) -> Card:
    """A question of this server, with its conversation."""
    store = called.house.store
    id = transcript_queries.of_session(store, row.session_id)
    here = called.house.conversations.get(id)
    request = here.questions.get(row.id) if here is not None else None
    one = _card(called, row, row.state(time.time()), f"/questions/{row.id}/answer", request)._replace(
        conversation_id=id
    )
    if not with_place:
        return one
    folder = transcript.workspace_of(store, id) if id else ""
    return one._replace(title=clean(conversations.title(store, id)) or id, folder=clean(folder))


def elsewhere(called: Called, row: Approval, action: str) -> Card:
    """A question of a run on another machine."""
    return _card(called, row, "pending", action, None)


def _card(called: Called, row: Approval, state: str, action: str, request: Request | None) -> Card:
    asked = request if isinstance(request, ApprovalRequest) else None
    change = Change(_path(asked), parsed(asked.preview)) if asked is not None and asked.preview else None
    return Card(
        card_id(row.id),
        row,
        displayed_request(row),
        questions_of(row),
        state,
        called.client.has("approve"),
        action,
        change=change,
        touches="\n".join(asked.touches) if asked is not None else "",
        remember=_remember(asked) if asked is not None else (),
    )


def _path(request: ApprovalRequest) -> str:
    given = request.input.get("file_path") or request.input.get("notebook_path") or request.input.get("path") or ""
    return str(given)


def _remember(request: ApprovalRequest) -> tuple[tuple[str, str], ...]:
    rules, registries = ", ".join(request.grants), ", ".join(request.registries)
    granted = (("session", f"In this session: {rules}"), ("project", f"In this project: {rules}")) if rules else ()
    reached = (("registries", f"With {registries} for this session"),) if registries else ()
    return (("", "This once"), *granted, *reached) if granted or reached else ()


def card_id(id: str) -> str:
    return element_id(id, "q")


def drawn(one: Card) -> "Markup":
    return macro("parts", "question", one)


ENTRY = Entry(13, "/ui/questions", "Questions", "q")
ENDPOINTS = (page(ENTRY.path, _read, "questions.html", "Questions that wait for a person, and their answers."),)
