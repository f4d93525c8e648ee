"""The operator of runs that a program watches: keeps each question, by id, until a client answers it."""

import asyncio
from collections.abc import Awaitable, Callable

from adderclaw.agent.session.session import TurnResult
from adderclaw.agent.tool_call.approvals import (
    MAX_REPLIES,
    AlreadyAnswered,
    AnswerRejected,
    displayed_request,
    questions_json,
    refuse_unaskable,
)
from adderclaw.core.errors import AdderClawError, UsageError, outcome_of
from adderclaw.core.questions import Answer, ApprovalRequest, QuestionRequest, Replies, approval_with_registries
from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json

type Request = ApprovalRequest | QuestionRequest

REMEMBERED = 1_000
"""Number of answered questions that are remembered, to report a second answer."""


class Waiting(NamedTuple):
    request: Request
    given: "asyncio.Future[Answer]"


class Asking:
    """The questions of one run or conversation. The first answer counts; the caller sets the time limit."""

    def __init__(self, tell: Callable[[Request], None], over: Callable[[], None] = lambda: None) -> None:
        """`tell` is called with each new question, `over` when one is no longer open."""
        self._tell, self._over = tell, over
        self._waiting: dict[str, Waiting] = {}
        self._answered: dict[str, None] = {}

    @property
    def open(self) -> dict[str, Request]:
        """The open questions, the oldest first."""
        return {id: waiting.request for id, waiting in self._waiting.items()}

    async def approve(self, request: ApprovalRequest) -> Answer:
        if (refused := refuse_unaskable(request)) is not None:
            return refused
        if request.stays:  # it may be answered much later, so do not wait in memory
            self._tell(request)
            return Answer(approved=False, by="no_operator")
        answer = await self._asked(request)
        if not (answer.approved and answer.remember == "registries"):
            return answer
        return approval_with_registries(request)._replace(who=answer.who)

    async def ask(self, request: QuestionRequest) -> Answer:
        return await self._asked(request)

    async def _asked(self, request: Request) -> Answer:
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[request.id] = Waiting(request, answer)
        self._tell(request)
        try:
            return await answer
        finally:
            del self._waiting[request.id]
            self._answered[request.id] = None
            while len(self._answered) > REMEMBERED:
                del self._answered[next(iter(self._answered))]
            self._over()

    def answer(self, id: str, answer: Answer, plan: str = "") -> bool:
        """Answer the question with this id; False if it was never asked here.

        With `plan`, only if it is about the call with that hash.
        """
        waiting = self._waiting.get(id)
        if waiting is None and id not in self._answered:
            return False
        if waiting is None or waiting.given.done():
            raise AlreadyAnswered(f"{id} is answered already")
        if isinstance(waiting.request, ApprovalRequest):
            if plan and plan != waiting.request.plan_hash:
                raise AnswerRejected(f"{id} is about another call (plan {waiting.request.plan_hash})")
            if answer.replies is not None:
                raise UsageError(f"{id} asks for a yes or a no")
        elif answer.approved:
            answer = answer._replace(replies=_fitting(id, waiting.request, answer.replies))
        waiting.given.set_result(answer)
        return True


def _fitting(id: str, request: QuestionRequest, replies: Replies | None) -> Replies:
    """The replies by their questions, which a client knows as they were shown; to nothing else, and within bounds."""
    if replies is None:
        raise UsageError(f"{id} asks for replies to its questions")
    known = {
        shape: asked_question.question
        for asked_question in request.questions
        for shape in (asked_question.question, visible(asked_question.question))
    }
    if unknown := set(replies) - set(known):
        raise UsageError(f"{id} does not ask {min(unknown)[:200]!r}")
    if sum(map(len, replies.values())) > MAX_REPLIES:
        raise UsageError(f"{id}: the replies have more than {MAX_REPLIES:,} characters")
    return {known[question]: reply for question, reply in replies.items()}


def as_json(request: Request) -> Json:
    """A question for a program: what a person is shown of it is whole and escaped."""
    if isinstance(request, QuestionRequest):
        return {"id": request.id, "kind": "question", "questions": questions_json(request.questions)}
    seen = displayed_request(request)
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


# ------------------------------------------------------------------ cancelling


class Cancelling:
    """Work that can be cancelled with a reason, also before it begins."""

    def __init__(self) -> None:
        self._task: asyncio.Future[TurnResult] | None = None
        self.why = ""
        """Why it was cancelled; empty if it was not."""

    def cancel(self, why: str) -> None:
        """Cancel the work, for this reason; also before it begins."""
        self.why = self.why or why
        if self._task is not None:
            self._task.cancel()

    async def done(self, work: Awaitable[TurnResult]) -> TurnResult:
        task = self._task = asyncio.ensure_future(work)
        if self.why:
            task.cancel()
        try:
            result = await task
            return result._replace(reason=self.why) if self.why and result.outcome == "stopped" else result
        except asyncio.CancelledError:
            if not self.why:  # the waiting task was cancelled, so end the work too
                task.cancel()
                await asyncio.wait({task})
                self.why = "the client is gone"
            return TurnResult("stopped", "", self.why)
        except AdderClawError as error:
            return TurnResult(outcome_of(error), "", str(error))
