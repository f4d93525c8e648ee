"""What a client is asked, by id, until somebody answers: the operator of every run that a program watches."""

import asyncio
from collections.abc import Callable

from adderclaw.agent.tool_call.approvals import (
    MOST_REPLIED,
    AlreadyAnswered,
    NotCounted,
    questions_json,
    shown,
    unaskable,
)
from adderclaw.core.errors import UsageError
from adderclaw.core.questions import Answer, ApprovalRequest, QuestionRequest, Replies, approval_with_registries
from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json

type Request = ApprovalRequest | QuestionRequest

REMEMBERED = 1_000
"""Ids of questions that were answered: who answers one of them again learns that."""


class Waiting(NamedTuple):
    request: Request
    given: "asyncio.Future[Answer]"


class Asking:
    """The questions of one run or conversation. The first answer counts; who asks sets the time limit."""

    def __init__(self, tell: Callable[[Request], None], over: Callable[[], None] = lambda: None) -> None:
        """`tell` is called with each question when it is asked, `over` when one waits no more."""
        self._tell, self._over = tell, over
        self._waiting: dict[str, Waiting] = {}
        self._answered: dict[str, None] = {}

    @property
    def open(self) -> dict[str, Request]:
        """Those that wait, the oldest first."""
        return {id: one.request for id, one in self._waiting.items()}

    async def approve(self, request: ApprovalRequest) -> Answer:
        if (refused := unaskable(request)) is not None:
            return refused
        if request.stays:  # nothing waits in memory for what may be answered next week
            self._tell(request)
            return Answer(approved=False, by="no_operator")
        given = await self._asked(request)
        if not (given.approved and given.remember == "registries"):
            return given
        return approval_with_registries(request)._replace(who=given.who)

    async def ask(self, request: QuestionRequest) -> Answer:
        return await self._asked(request)

    async def _asked(self, request: Request) -> Answer:
        given: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[request.id] = Waiting(request, given)
        self._tell(request)
        try:
            return await given
        finally:
            del self._waiting[request.id]
            self._answered[request.id] = None
            while len(self._answered) > REMEMBERED:
                del self._answered[next(iter(self._answered))]
            self._over()

    def answer(self, id: str, given: Answer, plan: str = "") -> bool:
        """Answer what waits under this id; False where nothing of this id was ever asked here.

        With `plan`, only if it is about the call with that hash.
        """
        one = self._waiting.get(id)
        if one is None and id not in self._answered:
            return False
        if one is None or one.given.done():
            raise AlreadyAnswered(f"{id} is answered already")
        if isinstance(one.request, ApprovalRequest):
            if plan and plan != one.request.plan_hash:
                raise NotCounted(f"{id} is about another call (plan {one.request.plan_hash})")
            if given.replies is not None:
                raise UsageError(f"{id} asks for a yes or a no")
        elif given.approved:
            given = given._replace(replies=_fitting(id, one.request, given.replies))
        one.given.set_result(given)
        return True


def _fitting(id: str, request: QuestionRequest, replies: Replies | None) -> Replies:
    """The replies by their questions, which a client knows as they were shown; to nothing else, and within bounds."""
    if replies is None:
        raise UsageError(f"{id} asks for replies to its questions")
    known = {shape: one.question for one in request.questions for shape in (one.question, visible(one.question))}
    if unknown := set(replies) - set(known):
        raise UsageError(f"{id} does not ask {min(unknown)[:200]!r}")
    if sum(map(len, replies.values())) > MOST_REPLIED:
        raise UsageError(f"{id}: the replies have more than {MOST_REPLIED:,} characters")
    return {known[question]: reply for question, reply in replies.items()}


def as_json(request: Request) -> Json:
    """A question for a program: what a person is shown of it is whole and escaped."""
    if isinstance(request, QuestionRequest):
        return {"id": request.id, "kind": "question", "questions": questions_json(request.questions)}
    seen = shown(request)
    return {
        "id": request.id,
        "kind": "approval",
        "tool": seen.tool,
        "tool_use_id": request.tool_use_id,
        "risk": request.risk,
        "reason": seen.reason,
        "shown": seen.text,
        "preview": visible(request.preview, directions=False),
        "touches": [visible(line, keep_newlines=False, directions=False) for line in request.touches],
        "lookalikes": seen.lookalikes,
        "plan_hash": request.plan_hash,
        "grants": list(request.grants),
        "registries": list(request.registries),
    }
