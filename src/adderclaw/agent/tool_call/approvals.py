"""Stores each question as a row, so that the operator here or another process may answer; the first answer counts."""

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from adderclaw.core.decode import thaw
from adderclaw.core.errors import AdderClawError, AnswerPending, DeniedError, Stopped, UsageError
from adderclaw.core.events import Body
from adderclaw.core.json_text import canonical, digest
from adderclaw.core.questions import (
    Answer,
    ApprovalRequest,
    Operator,
    Question,
    QuestionRequest,
    Replies,
    answer_with,
)
from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import lookalikes, visible
from adderclaw.core.tool_traits import EXIT_PLAN
from adderclaw.core.types import Clock, Ids, Json
from adderclaw.storage import Store, approvals

POLL = 0.25
"""Seconds between checks of the row while waiting for an answer."""

MAX_SHOWN = 200_000
"""Maximum length of a request. A longer one is denied, because a request must be shown completely to be approved."""
MAX_REPLIES = 64_000
"""Maximum length of all replies together."""
QUESTION_REASON = "somebody is asked something"
"""The reason in the row of a question with options."""


class DisplayedRequest(NamedTuple):
    """A request as the operator sees it, whole, with control and misleading characters spelled out."""

    tool: str
    reason: str
    text: str
    lookalikes: list[str]
    """Words that mix alphabets, with the foreign letters spelled out."""
    risk: str = ""
    is_step: bool = False
    """Whether it is a workflow step that waits for a person, not a tool call."""

    @property
    def head(self) -> str:
        """The tool and the reason, in one line."""
        return f"{self.tool} asks: {self.reason}" if self.is_step else f"{self.tool} ({self.risk} risk: {self.reason})"

    @property
    def marks(self) -> list[str]:
        return [f"letters of several alphabets in one word: {word}" for word in self.lookalikes]


def displayed_request(asked: ApprovalRequest | approvals.Approval) -> DisplayedRequest:
    def line(text: str) -> str:
        return visible(text, keep_newlines=False, directions=False)

    why = asked.why if isinstance(asked, ApprovalRequest) else asked.reason
    text = visible(asked.shown, directions=False)
    return DisplayedRequest(
        line(asked.tool), line(why), text, lookalikes(asked.shown), asked.risk, asked.kind == "step"
    )


def too_long_to_show(asked: ApprovalRequest | approvals.Approval) -> str:
    """Why the request is too long to show; empty if it can be shown whole."""
    count = len(asked.shown)
    most = f"({count:,} characters; at most {MAX_SHOWN:,})"
    return f"it is too long to be shown whole {most}: do it in smaller parts" if count > MAX_SHOWN else ""


def refuse_unaskable(request: ApprovalRequest) -> Answer | None:
    """The denial of a request that is too long to show; None if the operator can be asked."""
    why = too_long_to_show(request)
    return Answer(approved=False, by="no_operator", comment=why) if why else None


def refuse_from_agent(request: ApprovalRequest, database: str = "") -> Answer | None:
    """The denial of a plan or step in a process that an agent's tool started; None if the operator may be asked."""
    if request.kind == "call" and request.tool != EXIT_PLAN:
        return None
    from adderclaw.sandbox.operator_only import require_operator

    try:
        require_operator(f"Approving a {'plan' if request.kind == 'call' else 'step'}", database)
    except DeniedError as error:
        return Answer(approved=False, by="no_operator", comment=str(error))
    return None


class PersistentApprovals:
    """Writes the row, asks the operator, and takes the first answer. Expiry and the emergency stop deny."""

    def __init__(
        self,
        operator: Operator,
        store: Store,
        session_id: str,
        *,
        clock: Clock,
        ids: Ids,
        scrub: Callable[[str], str],
        stopped: Callable[[], bool],
        seconds: float | None,
        key: Callable[[], bytes],
        tell: Callable[[Body], None],
        channel: str = "",
        spent: Callable[[str], bool] = lambda _id: False,
    ) -> None:
        """`spent`: whether a receipt names a question, so that its answer was already used regardless of its row."""
        self._operator, self._store, self._session_id = operator, store, session_id
        self._clock, self._ids, self._scrub, self._stopped = clock, ids, scrub, stopped
        self._seconds, self._key, self._tell = seconds, key, tell
        self._channel, self._agent, self._spent = channel, "", spent
        self._asked: dict[str, approvals.Approval] = {}
        """Id → the open question as it was stored."""

    def of_session(self, session_id: str, agent: str) -> "PersistentApprovals":
        """A view for a child session, which stores its questions under its own id."""
        view = object.__new__(PersistentApprovals)
        view.__dict__.update(self.__dict__)
        view._session_id, view._agent = session_id, agent
        return view

    async def approve(self, request: ApprovalRequest) -> Answer:
        stays = request.stays and not too_long_to_show(request)
        row = self._write_row(
            self._ids("approval"),
            tool=request.tool,
            tool_use_id=request.tool_use_id,
            risk=request.risk,
            reason=self._scrub(request.why),
            shown=self._scrub(request.shown),
            plan_hash=request.plan_hash,
            terminal=request.at_terminal,
            stays=stays,
            seconds=request.seconds if stays else self._seconds,
            kind=request.kind,
        )
        asked = replace(request, id=row.id)
        return await self._settle(row, request.reason, lambda: self._by_operator(asked), stays=stays)

    async def _by_operator(self, request: ApprovalRequest) -> Answer:
        # a replay has no channel and uses the recorded answer
        refused = await asyncio.to_thread(refuse_from_agent, request, self._store.path) if self._channel else None
        return refused or await self._operator.approve(request)

    async def ask(self, request: QuestionRequest) -> Answer:
        """Ask questions with options. The question and its replies are stored in a row."""
        questions = canonical(questions_json(request.questions, self._scrub))
        row = self._write_row(
            self._ids("question"),
            tool=request.asker,
            tool_use_id=request.tool_use_id,
            risk="low",
            reason=QUESTION_REASON,
            shown=self._scrub(questions_text(request.questions)),
            plan_hash=digest(questions),
            questions=questions,
            seconds=self._seconds,
        )
        return await self._settle(row, QUESTION_REASON, lambda: self._operator.ask(replace(request, id=row.id)))

    async def _settle(
        self, row: approvals.Approval, reason: str, ask: Callable[[], Awaitable[Answer]], *, stays: bool = False
    ) -> Answer:
        """Wait for the answer; raises AnswerPending if the question stays open and nobody has answered it."""
        self._asked[row.id] = row
        self._publish_request(row, reason)
        try:
            answer = self._stored_answer(row) if row.answer is not None else await self._answer(row, ask, stays=stays)
        finally:
            del self._asked[row.id]
        if stays and answer.by == "no_operator":
            raise AnswerPending(row.id, answer.comment)
        if self._channel:  # not in a replay
            answer = answer._replace(approval_id=row.id)
        self._publish_answer(row, answer)
        return answer

    async def _answer(self, row: approvals.Approval, ask: Callable[[], Awaitable[Answer]], *, stays: bool) -> Answer:
        if stays and row.is_late(self._clock.now()):
            return self._expire(row, stays=stays)
        asking = asyncio.ensure_future(ask())
        try:
            return await self._first_answer(row.id, asking, stays=stays)
        except OSError as error:  # the terminal or the connection to the operator is gone
            lost = Answer(approved=False, by="no_operator", comment=f"the operator cannot be reached: {error}")
            return lost if stays else self._claim(row.id, lost)
        except BaseException:
            if stays:
                raise
            answer = self._claim(row.id, Answer(approved=False, by="interrupted"))
            self._publish_answer(row, answer)
            raise
        finally:
            if not asking.done():
                asking.cancel()
                with suppress(asyncio.CancelledError):
                    await asking

    def _write_row(self, id: str, **question: Any) -> approvals.Approval:
        """Write the row, or take over the row of the same call that an ended process left."""
        with self._store.write() as cursor:
            return approvals.ask(
                cursor,
                id=id,
                session_id=self._session_id,
                now=self._clock.now(),
                channel=self._channel,
                agent=self._agent,
                ours=self._asked,
                **question,
            )

    async def _first_answer(self, id: str, asking: "asyncio.Future[Answer]", *, stays: bool) -> Answer:
        while True:
            await asyncio.wait({asking}, timeout=POLL)
            if asking.done():
                answer = asking.result()
                return answer if stays and answer.by == "no_operator" else self._claim(id, answer)
            row = approvals.get(self._store, id)
            if row is None or row.answer is not None:
                return self._stored_answer(row)
            if self._stopped() and stays:
                raise Stopped("the emergency stop was set; `adderclaw estop --clear` removes it")
            if self._stopped():
                return self._claim(id, Answer(approved=False, by="estop", comment="the emergency stop is set"))
            if row.state(self._clock.now()) == "expired":
                return self._expire(row, stays=stays)

    def _expire(self, row: approvals.Approval, *, stays: bool) -> Answer:
        late = f"no answer until {row.expires_at}"
        if self._seconds and not stays:
            late = f"no answer within {self._seconds:g} s"
        return self._claim(row.id, Answer(approved=False, by="timeout", comment=late))

    def _claim(self, id: str, answer: Answer) -> Answer:
        """Store this answer if it is the first one; else return the stored answer."""
        word: approvals.Answer = "yes" if answer.approved else "no"
        comment, now = self._scrub(answer.comment), self._clock.now()
        if answer.by == "operator" and self._channel:
            answer = answer._replace(who=answer.who or person_answering(self._channel))
        replies = ""
        if answer.replies and self._asked[id].is_resumable:  # the replies to an MCP server are not stored
            clean = {self._scrub(question): self._scrub(reply) for question, reply in answer.replies.items()}
            replies = canonical(clean)
        with self._store.write() as cursor:
            first = approvals.answer(
                cursor, id, word, by=answer.by, comment=comment, now=now, who=answer.who, used=True, replies=replies
            )
        if first:
            return answer
        row = approvals.get(self._store, id)
        if row is not None and row.answer is None:  # the question expired before this approval
            return self._claim(id, Answer(approved=False, by="timeout", comment="the answer came too late"))
        return self._stored_answer(row)

    def _stored_answer(self, row: approvals.Approval | None) -> Answer:
        """The stored answer. A removed row, or a yes without a valid signature, counts as no."""
        if row is None:
            return Answer(approved=False, by="no_operator", comment="the question was removed from the database")
        with self._store.write() as cursor:
            unused = approvals.mark_used(cursor, row.id, self._clock.now())
        asked = self._asked.get(row.id)
        if row.answer == "yes" and (not unused or self._spent(row.id)):
            return Answer(approved=False, by="no_operator", comment="the yes in the database was used already")
        if row.answer == "yes" and not row.is_signed(self._key()):
            forged = "the yes in the database is not signed with your key: somebody else wrote it"
            return Answer(approved=False, by="no_operator", comment=forged)
        if row.answer == "yes" and (asked is None or row.signed_fields != asked.signed_fields):
            changed = "the question was changed in the database after it was asked: the yes is to something else"
            return Answer(approved=False, by="no_operator", comment=changed)
        by, who = row.answered_by or "no_operator", row.answered_who or ""
        replies = row.reply_values if row.answer == "yes" else None
        return Answer(row.answer == "yes", by, row.comment or "", who=who, replies=replies)

    # ------------------------------------------------------------------ events

    def _publish_request(self, row: approvals.Approval, reason: str) -> None:
        self._tell(
            {
                "event_type": "approval_requested",
                "approval_id": row.id,
                "tool": row.tool,
                "tool_use_id": row.tool_use_id,
                "risk": row.risk,  # pyright: ignore[reportArgumentType]
                "reason": reason,
                "plan_hash": row.plan_hash,
                "expires_at": None if self._seconds is None else self._clock.now() + self._seconds,
            }
        )

    def _publish_answer(self, row: approvals.Approval, answer: Answer) -> None:
        if answer.by == "timeout":
            self._tell(
                {
                    "event_type": "approval_expired",
                    "approval_id": row.id,
                    "tool": row.tool,
                    "tool_use_id": row.tool_use_id,
                    "seconds": self._seconds or 0.0,
                }
            )
        self._tell(
            {
                "event_type": "approval_answered",
                "approval_id": row.id,
                "tool": row.tool,
                "tool_use_id": row.tool_use_id,
                "approved": answer.approved,
                "by": answer.by,
                "comment": answer.comment,
            }
        )


def person_answering(channel: str) -> str:
    """The name of the person who answers here: the user of this process, and the channel."""
    import pwd

    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"uid {os.getuid()}"
    return f"{name} ({channel})" if channel else name


BY_ROW = "operator (approvals answer)"
"""`answered_by` of an answer that another process gave."""


class AnswerRejected(AdderClawError):
    """The answer does not count, for the reason in the message."""


class AlreadyAnswered(AnswerRejected):
    """The question was answered before."""


def answer_row(
    store: Store,
    key: Callable[[], bytes],
    asked: approvals.Approval,
    answer: Answer,
    plan: str = "",
    *,
    at_terminal: bool = False,
) -> approvals.Approval:
    """Answer a question of any process. If that has ended, the process that resumes the call uses the answer.

    With `plan`, only if the question is about the call with that hash. `at_terminal`: a person typed it in a terminal.
    """
    now, word = time.time(), "yes" if answer.approved else "no"
    if plan and plan != asked.plan_hash:
        raise AnswerRejected(f"{asked.id}: it is about another call (plan {asked.plan_hash}), so it was not answered")
    if word == "yes" and (why := _reason_not_to_approve(asked, now, at_terminal=at_terminal)):
        raise AnswerRejected(f"{asked.id}: {why}")
    replies = canonical(matching_replies(asked, answer.replies)) if asked.questions and word == "yes" else ""
    mac = approvals.sign(key(), asked, answer.by, answer.who, replies) if word == "yes" else None
    with store.write() as cursor:
        first = approvals.answer(
            cursor,
            asked.id,
            word,
            by=answer.by,
            comment=answer.comment,
            now=now,
            mac=mac,
            who=answer.who,
            replies=replies,
        )
    after = approvals.get(store, asked.id)
    if first and after is not None:
        return after
    if after is None or after.answer is None:
        raise AnswerRejected(f"{asked.id}: too late, it expired at {asked.expires_at} and counts as no")
    by = after.answered_who or after.answered_by
    raise AlreadyAnswered(f"{asked.id}: {by} answered {after.answer} at {after.answered_at}: that counts")


def _reason_not_to_approve(asked: approvals.Approval, now: float, *, at_terminal: bool) -> str:
    """Why the question cannot be approved here; empty if it can."""
    if why := too_long_to_show(asked):
        return f"this request cannot be approved: {why}"
    if asked.terminal and not at_terminal:
        return "only a person at a terminal may answer yes: run `adderclaw approvals answer` there, with nothing piped"
    if asked.state(now) == "left" and not asked.is_resumable:
        return "the process that asked has ended, and nothing asks again"
    return ""


def questions_json(questions: Sequence[Question], shown: Callable[[str], str] = visible) -> list[Json]:
    """The questions as JSON; `shown` converts each text."""
    return [
        {
            "question": shown(question.question),
            "header": shown(question.header),
            "options": [{"label": shown(by.label), "description": shown(by.description)} for by in question.options],
            "multi": question.multi,
        }
        for question in questions
    ]


def questions_of(asked: approvals.Approval) -> list[Question]:
    """The questions of a row; empty if it asks for a yes or no."""
    rows: list[Json] = json.loads(asked.questions) if asked.questions else []
    return [thaw(Question, row) for row in rows]


def questions_text(questions: Sequence[Question]) -> str:
    """The questions with their options, as text for a person."""
    lines: list[str] = []
    for question in questions:
        lines.append(question.question + (" (several may be chosen)" if question.multi else ""))
        for number, option in enumerate(question.options, 1):
            lines.append(f"  {number}. {option.label}" + (f": {option.description}" if option.description else ""))
    return "\n".join(lines)


def matching_replies(asked: approvals.Approval, replies: Replies | None) -> Replies:
    """The replies in the order of the questions; raises UsageError unless each question has exactly one."""
    expected, by_question = [asked_question.question for asked_question in questions_of(asked)], replies or {}
    if set(by_question) != set(expected) or not all(reply.strip() for reply in by_question.values()):
        raise UsageError(f"{asked.id}: give one reply to each of its {len(expected)} questions, and to nothing else")
    if sum(map(len, by_question.values())) > MAX_REPLIES:
        raise UsageError(f"{asked.id}: the replies have more than {MAX_REPLIES:,} characters")
    return {question: by_question[question] for question in expected}


class NoOperator:
    """The operator of a process without one: denies at once, or waits for another process to answer if `waits`."""

    def __init__(self, *, waits: bool) -> None:
        self._waits = waits

    async def approve(self, request: ApprovalRequest) -> Answer:
        if self._waits and not request.stays:
            await asyncio.Event().wait()
        comment = "" if request.stays else "nobody is here to ask"
        return Answer(approved=False, by="no_operator", comment=comment)

    async def ask(self, request: QuestionRequest) -> Answer:  # noqa: ARG002
        if self._waits:
            await asyncio.Event().wait()
        return answer_with(None)
