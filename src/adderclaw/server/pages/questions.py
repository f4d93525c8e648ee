"""The page of questions: cards with the plan or the change and a form, or with the answer."""

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
from adderclaw.server.client_scope import visible_folders
from adderclaw.server.endpoint import ApiRequest
from adderclaw.server.pages.page import MOST_QUESTIONS, Entry, page, pending_questions
from adderclaw.storage import approvals, transcript
from adderclaw.storage.approvals import Approval
from adderclaw.storage.queries import conversations as transcript_queries

if TYPE_CHECKING:
    from markupsafe import Markup

OUTCOMES = {
    "yes": ("good", "Answered: yes"),
    "no": ("bad", "Answered: no"),
    "expired": ("warn", "Nobody answered in time"),
}


class Card(NamedTuple):
    id: str
    row: Approval
    shown: DisplayedRequest
    """The texts of the row, escaped for display."""
    questions: list[Question]
    state: str
    may_answer: bool
    action: str
    """The path to which the answer is sent."""
    conversation_id: str = ""
    title: str = ""
    folder: str = ""
    change: Change | None = None
    touches: str = ""
    remember: tuple[tuple[str, str], ...] = ()
    """What a yes can also allow from now on."""

    @property
    def is_open(self) -> bool:
        return self.state in ("pending", "left")

    @property
    def outcome(self) -> tuple[str, str]:
        return OUTCOMES.get(self.state, ("", self.state))


class Output(NamedTuple):
    waiting: list[Card]
    answered: list[Card]


async def _read(request: ApiRequest) -> Output:
    return Output(waiting_cards(request), _answered_cards(request))


def waiting_cards(request: ApiRequest, conversation: str | None = None, *, with_place: bool = True) -> list[Card]:
    """Open questions, oldest first: of one conversation, or of all that the client sees."""
    rows = pending_questions(request, conversation)
    cards = (card(request, row, with_place=with_place) for row in rows)
    return [candidate for candidate in cards if conversation in (None, candidate.conversation_id)]


def _answered_cards(request: ApiRequest) -> list[Card]:
    rows = approvals.listing(
        request.state.store, everything=True, limit=MOST_QUESTIONS, workspaces=visible_folders(request)
    )
    cards = [card(request, row) for row in rows]
    return [candidate for candidate in cards if not candidate.is_open]


def find_answered(request: ApiRequest, id: str) -> Card | None:
    """The card of an answered question."""
    return next((candidate for candidate in _answered_cards(request) if candidate.id == id), None)


def find_card(request: ApiRequest, id: str) -> Card | None:
    row = approvals.get(request.state.store, id)
    return card(request, row, with_place=False) if row is not None else None


def card(request: ApiRequest, row: Approval, *, with_place: bool = True) -> Card:
    """A question of this server, with its conversation."""
    store = request.state.store
    id = transcript_queries.of_session(store, row.session_id)
    here = request.state.conversations.get(id)
    question = here.questions.get(row.id) if here is not None else None
    shown_card = _card(request, row, row.state(time.time()), f"/questions/{row.id}/answer", question)._replace(
        conversation_id=id
    )
    if not with_place:
        return shown_card
    folder = transcript.workspace_of(store, id) if id else ""
    return shown_card._replace(title=clean(conversations.title(store, id)) or id, folder=clean(folder))


def fleet_card(request: ApiRequest, row: Approval, action: str) -> Card:
    """A question of a run on another machine."""
    return _card(request, row, "pending", action, None)


def _card(request: ApiRequest, row: Approval, state: str, action: str, question: Request | None) -> Card:
    asked = question if isinstance(question, ApprovalRequest) else None
    change = Change(_path(asked), parsed(asked.preview)) if asked is not None and asked.preview else None
    return Card(
        card_id(row.id),
        row,
        displayed_request(row),
        questions_of(row),
        state,
        request.client.has("approve"),
        action,
        change=change,
        touches="\n".join(asked.touches) if asked is not None else "",
        remember=_remember(asked) if asked is not None else (),
    )


def _path(request: ApprovalRequest) -> str:
    path = request.input.get("file_path") or request.input.get("notebook_path") or request.input.get("path") or ""
    return str(path)


def _remember(request: ApprovalRequest) -> tuple[tuple[str, str], ...]:
    rules, registries = ", ".join(request.grants), ", ".join(request.registries)
    granted = (("session", f"In this session: {rules}"), ("project", f"In this project: {rules}")) if rules else ()
    reached = (("registries", f"With {registries} for this session"),) if registries else ()
    return (("", "This once"), *granted, *reached) if granted or reached else ()


def card_id(id: str) -> str:
    return element_id(id, "q")


def render_card(shown_card: Card) -> "Markup":
    return macro("parts", "question", shown_card)


ENTRY = Entry(13, "/ui/questions", "Questions", "q")
ENDPOINTS = (page(ENTRY.path, _read, "questions.html", "Questions that wait for a person, and their answers."),)
