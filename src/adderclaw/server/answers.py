"""Questions as clients see and answer them: those of all processes by their rows, those of this one at once."""

import asyncio
from typing import Annotated, Any, Literal

from adderclaw.agent import queries
from adderclaw.agent.conversation import questions
from adderclaw.agent.conversation.watched import Watched
from adderclaw.agent.tool_call.approvals import person_answering
from adderclaw.core.decode import Between
from adderclaw.core.errors import UsageError
from adderclaw.core.questions import Answer
from adderclaw.core.record import record
from adderclaw.core.types import Json
from adderclaw.server import client_scope
from adderclaw.server.endpoint import Called, Endpoint
from adderclaw.server.refusal import missing
from adderclaw.storage import approvals, transcript


@record
class Given:
    """A yes or a no; or replies, where it asks questions."""

    approved: bool
    comment: str = ""
    remember: Literal["", "session", "project", "registries"] = ""
    """What a yes also allows from now on."""
    plan: str = ""
    """Only if it is about the call with this hash."""
    replies: dict[str, str] | None = None
    """Question → the label that was chosen, or own words."""


@record
class Settled:
    id: str
    approved: bool
    by: str


@record
class Listed:
    all: bool = False
    """Those that were answered, too."""
    limit: Annotated[int, Between(1, 1_000)] = 100


@record
class Listing:
    questions: list[dict[str, Any]]


def who(called: Called) -> str:
    """How rows and receipts name who answers."""
    return person_answering(channel(called))


def channel(called: Called) -> str:
    return f"{called.client.via}: {called.client.name}"


def settle(called: Called, one: Watched, id: str, *, granted: bool) -> Settled | None:
    """Answer what a conversation or run of this process asks; None where it asks nothing of this id."""
    given: Given = called.given
    answer = Answer(given.approved, "operator", given.comment, given.remember, who(called), replies=given.replies)
    if not one.answer(id, answer, called.client.id, granted=granted, plan=given.plan):
        return None
    return Settled(id, given.approved, who(called))


async def listing(called: Called) -> Listing:
    given: Listed = called.given
    wanted = client_scope.places(called)
    found = approvals.listing(called.house.store, everything=given.all, limit=given.limit, workspaces=wanted)
    return Listing([_as_json(called, row) for row in found])


def _as_json(called: Called, row: approvals.Approval) -> Json:
    """What is to be answered is whole, as everywhere: a yes is to exactly that. The rest is cleaned."""
    conversation = transcript.conversation_of(called.house.store, row.session_id) or ""
    made = questions.as_json(row)
    is_open = made["state"] in ("pending", "left")
    whole = {name: made[name] for name in ("shown", "questions")} if is_open else {}
    return {**queries.clean({**made, "conversation_id": conversation}), **whole}


async def answered(called: Called) -> Settled:
    """By a client that is granted `approve`: whatever process asked."""
    house, id, given = called.house, called.path["id"], called.given
    if approvals.get(house.store, id) is None:
        raise missing("question", id)
    for one in (*house.conversations.all(), *house.runs.all()):
        if id in one.questions and (settled := settle(called, one, id, granted=True)) is not None:
            return settled
    if given.remember:
        raise UsageError("remember is for questions of conversations and runs in this server")
    counts = await asyncio.to_thread(
        questions.answered,
        house.store_path,
        id,
        channel(called),
        approved=given.approved,
        replies=given.replies,
        comment=given.comment,
        plan=given.plan,
    )
    return Settled(id, counts.answer == "yes", counts.answered_who or "")


ENDPOINTS = (
    Endpoint(
        "GET",
        "/questions",
        "read",
        listing,
        "Questions that wait for an answer, whatever process asked them.",
        takes=Listed,
        gives=Listing,
        reach="filtered",
    ),
    Endpoint(
        "POST",
        "/questions/{id}/answer",
        "approve",
        answered,
        "Answer a question, whoever opened what asks it; the first answer counts.",
        takes=Given,
        gives=Settled,
        reach="question",
    ),
)
