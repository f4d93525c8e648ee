"""Lists and answers questions: those of all processes by their rows, those of this process directly."""

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
from adderclaw.server.endpoint import ApiRequest, Endpoint
from adderclaw.server.refusal import not_found
from adderclaw.storage import approvals, transcript


@record
class AnswerBody:
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
class SettledQuestion:
    id: str
    approved: bool
    by: str


@record
class QuestionsQuery:
    all: bool = False
    """Those that were answered, too."""
    limit: Annotated[int, Between(1, 1_000)] = 100


@record
class QuestionList:
    questions: list[dict[str, Any]]


def answering_person(request: ApiRequest) -> str:
    """The name of the answering client in rows and receipts."""
    return person_answering(channel_name(request))


def channel_name(request: ApiRequest) -> str:
    return f"{request.client.via}: {request.client.name}"


def answer_watched(request: ApiRequest, watched: Watched, id: str, *, granted: bool) -> SettledQuestion | None:
    """Answers a question of a conversation or run of this process; None if it has no question with this id."""
    body: AnswerBody = request.body
    answer = Answer(
        body.approved, "operator", body.comment, body.remember, answering_person(request), replies=body.replies
    )
    if not watched.answer(id, answer, request.client.id, granted=granted, plan=body.plan):
        return None
    return SettledQuestion(id, body.approved, answering_person(request))


async def list_questions(request: ApiRequest) -> QuestionList:
    query: QuestionsQuery = request.body
    folders = client_scope.visible_folders(request)
    rows = approvals.listing(request.state.store, everything=query.all, limit=query.limit, workspaces=folders)
    return QuestionList([_as_json(request, row) for row in rows])


def _as_json(request: ApiRequest, row: approvals.Approval) -> Json:
    """An open question is shown unredacted, because a yes applies to exactly that text. The rest is redacted."""
    conversation = transcript.conversation_of(request.state.store, row.session_id) or ""
    entry = questions.as_json(row)
    is_open = entry["state"] in ("pending", "left")
    whole = {name: entry[name] for name in ("shown", "questions")} if is_open else {}
    return {**queries.clean({**entry, "conversation_id": conversation}), **whole}


async def answer_question(request: ApiRequest) -> SettledQuestion:
    """Answers a question of any process, for a client with the scope `approve`."""
    state, id, answer = request.state, request.path["id"], request.body
    if approvals.get(state.store, id) is None:
        raise not_found("question", id)
    for watched in (*state.conversations.all(), *state.runs.all()):
        if id in watched.questions and (settled := answer_watched(request, watched, id, granted=True)) is not None:
            return settled
    if answer.remember:
        raise UsageError("remember is for questions of conversations and runs in this server")
    stored = await asyncio.to_thread(
        questions.answered,
        state.store_path,
        id,
        channel_name(request),
        approved=answer.approved,
        replies=answer.replies,
        comment=answer.comment,
        plan=answer.plan,
    )
    return SettledQuestion(id, stored.answer == "yes", stored.answered_who or "")


ENDPOINTS = (
    Endpoint(
        "GET",
        "/questions",
        "read",
        list_questions,
        "Questions that wait for an answer, from all processes.",
        takes=QuestionsQuery,
        gives=QuestionList,
        reach="filtered",
    ),
    Endpoint(
        "POST",
        "/questions/{id}/answer",
        "approve",
        answer_question,
        "Answer a question of any conversation or run; the first answer counts.",
        takes=AnswerBody,
        gives=SettledQuestion,
        reach="question",
    ),
)
