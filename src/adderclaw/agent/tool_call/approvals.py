"""A question that is also a row: the operator here and another process may both answer, and the first one counts."""

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from adderclaw.core.errors import AdderClawError, AnswerPending, DeniedError, Stopped, UsageError
from adderclaw.core.events import Body
from adderclaw.core.json_text import canonical, digest
from adderclaw.core.questions import (
    Answer,
    ApprovalRequest,
    Kind,
    Operator,
    Option,
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
"""Seconds between looks at the row while the operator thinks."""

MOST_SHOWN = 200_000
"""Characters of a request. A longer one is not asked about: nothing is approved that was not shown whole."""
MOST_REPLIED = 64_000
"""Characters of what is answered to questions."""
ASKED = "somebody is asked something"
"""Why a question with options is there."""


class Shown(NamedTuple):
    """A request as every operator sees it, whole: what could steer a terminal or deceive a reader is written out."""

    tool: str
    reason: str
    text: str
    lookalikes: list[str]
    """Words with letters of several alphabets, those letters written out."""
    risk: str = ""
    is_step: bool = False
    """No tool call: a step of a workflow that waits for a person."""

    @property
    def head(self) -> str:
        """What asks, and why, in one line."""
        return f"{self.tool} asks: {self.reason}" if self.is_step else f"{self.tool} ({self.risk} risk: {self.reason})"

    @property
    def marks(self) -> list[str]:
        return [f"letters of several alphabets in one word: {word}" for word in self.lookalikes]


def shown(asked: ApprovalRequest | approvals.Approval) -> Shown:
    def line(text: str) -> str:
        return visible(text, keep_newlines=False, directions=False)

    why = asked.why if isinstance(asked, ApprovalRequest) else asked.reason
    text = visible(asked.shown, directions=False)
    return Shown(line(asked.tool), line(why), text, lookalikes(asked.shown), asked.risk, asked.kind == "step")


def too_long(asked: ApprovalRequest | approvals.Approval) -> str:
    """Why nobody is asked about it; empty for a request that can be shown whole."""
    count = len(asked.shown)
    most = f"({count:,} characters; at most {MOST_SHOWN:,})"
    return f"it is too long to be shown whole {most}: do it in smaller parts" if count > MOST_SHOWN else ""


def unaskable(request: ApprovalRequest) -> Answer | None:
    """The no to a request that no operator is to be asked about."""
    why = too_long(request)
    return Answer(approved=False, by="no_operator", comment=why) if why else None


def by_agent(request: ApprovalRequest, database: str = "") -> Answer | None:
    """What a plan or a step is answered in a process that a tool of an agent started, whoever types there."""
    if request.kind == "call" and request.tool != EXIT_PLAN:
        return None
    from adderclaw.sandbox.operator_only import require_operator

    try:
        require_operator(f"Approving a {'plan' if request.kind == 'call' else 'step'}", database)
    except DeniedError as error:
        return Answer(approved=False, by="no_operator", comment=str(error))
    return None


class PersistentApprovals:
    """Writes the row, asks the operator, and takes whichever answer comes first; expiry and the stop deny."""

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
        """`spent` says whether a receipt names a question: its answer was used, whatever its row has of that."""
        self._operator, self._store, self._session_id = operator, store, session_id
        self._clock, self._ids, self._scrub, self._stopped = clock, ids, scrub, stopped
        self._seconds, self._key, self._tell = seconds, key, tell
        self._channel, self._agent, self._spent = channel, "", spent
        self._asked: dict[str, approvals.Approval] = {}
        """What each open question was when it was written down."""

    def of_session(self, session_id: str, agent: str) -> "PersistentApprovals":
        """The same for a child session, whose questions are rows of its own."""
        view = object.__new__(PersistentApprovals)
        view.__dict__.update(self.__dict__)
        view._session_id, view._agent = session_id, agent
        return view

    async def approve(self, request: ApprovalRequest) -> Answer:
        stays = request.stays and not too_long(request)
        row = self._write(
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
        return await self._settled(row, request.reason, lambda: self._by_operator(asked), stays=stays)

    async def _by_operator(self, request: ApprovalRequest) -> Answer:
        # a replay has what was answered then, whoever starts it
        refused = await asyncio.to_thread(by_agent, request, self._store.path) if self._channel else None
        return refused or await self._operator.approve(request)

    async def ask(self, request: QuestionRequest) -> Answer:
        """Questions with options are a row of the same kind; what is answered to them is in it."""
        questions = canonical(questions_json(request.questions, self._scrub))
        row = self._write(
            self._ids("question"),
            tool=request.asker,
            tool_use_id=request.tool_use_id,
            risk="low",
            reason=ASKED,
            shown=self._scrub(text_of(request.questions)),
            plan_hash=digest(questions),
            questions=questions,
            seconds=self._seconds,
        )
        return await self._settled(row, ASKED, lambda: self._operator.ask(replace(request, id=row.id)))

    async def _settled(
        self, row: approvals.Approval, reason: str, ask: Callable[[], Awaitable[Answer]], *, stays: bool = False
    ) -> Answer:
        """Raises StaysOpen where a question stays, and nobody has answered it."""
        self._asked[row.id] = row
        self._requested(row, reason)
        try:
            given = self._said(row) if row.answer is not None else await self._answer(row, ask, stays=stays)
        finally:
            del self._asked[row.id]
        if stays and given.by == "no_operator":
            raise AnswerPending(row.id, given.comment)
        if self._channel:  # a replay has what was recorded
            given = given._replace(approval_id=row.id)
        self._answered(row, given)
        return given

    async def _answer(self, row: approvals.Approval, ask: Callable[[], Awaitable[Answer]], *, stays: bool) -> Answer:
        if stays and row.is_late(self._clock.now()):
            return self._expired(row, stays=stays)
        asking = asyncio.ensure_future(ask())
        try:
            return await self._first(row.id, asking, stays=stays)
        except OSError as error:  # the terminal or the line to the operator is gone: silence is no consent
            lost = Answer(approved=False, by="no_operator", comment=f"the operator cannot be reached: {error}")
            return lost if stays else self._claim(row.id, lost)
        except BaseException:
            if stays:
                raise
            given = self._claim(row.id, Answer(approved=False, by="interrupted"))
            self._answered(row, given)
            raise
        finally:
            if not asking.done():
                asking.cancel()
                with suppress(asyncio.CancelledError):
                    await asking

    def _write(
        self,
        id: str,
        *,
        tool: str,
        tool_use_id: str,
        risk: str,
        reason: str,
        shown: str,
        plan_hash: str,
        terminal: bool = False,
        questions: str = "",
        stays: bool = False,
        seconds: float | None = None,
        kind: Kind = "call",
    ) -> approvals.Approval:
        """The row: a new one, or that of the same call, which a process that has ended left."""
        with self._store.write() as cursor:
            return approvals.ask(
                cursor,
                id=id,
                session_id=self._session_id,
                tool_use_id=tool_use_id,
                tool=tool,
                risk=risk,
                reason=reason,
                shown=shown,
                plan_hash=plan_hash,
                now=self._clock.now(),
                seconds=seconds,
                channel=self._channel,
                agent=self._agent,
                ours=self._asked,
                terminal=terminal,
                questions=questions,
                stays=stays,
                kind=kind,
            )

    async def _first(self, id: str, asking: "asyncio.Future[Answer]", *, stays: bool) -> Answer:
        while True:
            await asyncio.wait({asking}, timeout=POLL)
            if asking.done():
                given = asking.result()
                return given if stays and given.by == "no_operator" else self._claim(id, given)
            row = approvals.get(self._store, id)
            if row is None or row.answer is not None:
                return self._said(row)
            if self._stopped() and stays:
                raise Stopped("the emergency stop was set; `adderclaw estop --clear` removes it")
            if self._stopped():
                return self._claim(id, Answer(approved=False, by="estop", comment="the emergency stop is set"))
            if row.state(self._clock.now()) == "expired":
                return self._expired(row, stays=stays)

    def _expired(self, row: approvals.Approval, *, stays: bool) -> Answer:
        late = f"no answer until {row.expires_at}"
        if self._seconds and not stays:
            late = f"no answer within {self._seconds:g} s"
        return self._claim(row.id, Answer(approved=False, by="timeout", comment=late))

    def _claim(self, id: str, given: Answer) -> Answer:
        """The answer given here, if it is the first; else the one that was."""
        word: approvals.Word = "yes" if given.approved else "no"
        comment, now = self._scrub(given.comment), self._clock.now()
        if given.by == "operator" and self._channel:
            given = given._replace(who=given.who or person(self._channel))
        replies = ""
        if given.replies and self._asked[id].is_resumable:  # what a server asked for is between it and the person
            clean = {self._scrub(question): self._scrub(reply) for question, reply in given.replies.items()}
            replies = canonical(clean)
        with self._store.write() as cursor:
            first = approvals.answer(
                cursor, id, word, by=given.by, comment=comment, now=now, who=given.who, used=True, replies=replies
            )
        if first:
            return given
        row = approvals.get(self._store, id)
        if row is not None and row.answer is None:  # a yes that came too late
            return self._claim(id, Answer(approved=False, by="timeout", comment="the answer came too late"))
        return self._said(row)

    def _said(self, row: approvals.Approval | None) -> Answer:
        """What the row says; one that somebody removed says no, and so does a yes that nobody signed."""
        if row is None:
            return Answer(approved=False, by="no_operator", comment="the question was removed from the database")
        with self._store.write() as cursor:
            unused = approvals.use(cursor, row.id, self._clock.now())
        asked = self._asked.get(row.id)
        if row.answer == "yes" and (not unused or self._spent(row.id)):
            return Answer(approved=False, by="no_operator", comment="the yes in the database was used already")
        if row.answer == "yes" and not row.is_signed(self._key()):
            forged = "the yes in the database is not signed with your key: somebody else wrote it"
            return Answer(approved=False, by="no_operator", comment=forged)
        if row.answer == "yes" and (asked is None or row.asked != asked.asked):
            changed = "the question was changed in the database after it was asked: the yes is to something else"
            return Answer(approved=False, by="no_operator", comment=changed)
        by, who = row.answered_by or "no_operator", row.answered_who or ""
        replies = row.given if row.answer == "yes" else None
        return Answer(row.answer == "yes", by, row.comment or "", who=who, replies=replies)

    # ------------------------------------------------------------------ told

    def _requested(self, row: approvals.Approval, reason: str) -> None:
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

    def _answered(self, row: approvals.Approval, given: Answer) -> None:
        if given.by == "timeout":
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
                "approved": given.approved,
                "by": given.by,
                "comment": given.comment,
            }
        )


def person(channel: str) -> str:
    """Who answers here: the user that this process belongs to, and on which channel."""
    import pwd

    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"uid {os.getuid()}"
    return f"{name} ({channel})" if channel else name


BY_ROW = "operator (approvals answer)"
"""Who answered a question that another process asked."""


class NotCounted(AdderClawError):
    """An answer that does not count, and why."""


class AlreadyAnswered(NotCounted):
    """Another answer was first."""


def answer_row(
    store: Store,
    key: Callable[[], bytes],
    asked: approvals.Approval,
    answer: Answer,
    plan: str = "",
    *,
    at_terminal: bool = False,
) -> approvals.Approval:
    """Answer a question that any process asked, also one that has ended: the process that resumes its call finds it.

    With `plan`, only if the question is about the call with that hash. `at_terminal`: a person typed it there.
    """
    now, word = time.time(), "yes" if answer.approved else "no"
    if plan and plan != asked.plan_hash:
        raise NotCounted(f"{asked.id}: it is about another call (plan {asked.plan_hash}), so it was not answered")
    if word == "yes" and (why := _barred(asked, now, at_terminal=at_terminal)):
        raise NotCounted(f"{asked.id}: {why}")
    replies = canonical(fitting(asked, answer.replies)) if asked.questions and word == "yes" else ""
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
        raise NotCounted(f"{asked.id}: too late, it expired at {asked.expires_at} and counts as no")
    by = after.answered_who or after.answered_by
    raise AlreadyAnswered(f"{asked.id}: {by} answered {after.answer} at {after.answered_at}: that counts")


def _barred(asked: approvals.Approval, now: float, *, at_terminal: bool) -> str:
    """Why nobody may answer yes here; empty where somebody may."""
    if why := too_long(asked):
        return f"nobody may say yes to it: {why}"
    if asked.terminal and not at_terminal:
        return "only a person at a terminal may answer yes: run `adderclaw approvals answer` there, with nothing piped"
    if asked.state(now) == "left" and not asked.is_resumable:
        return "the process that asked has ended, and nothing asks again"
    return ""


def questions_json(questions: Sequence[Question], shown: Callable[[str], str] = visible) -> list[Json]:
    """The questions for a program; each text as `shown` has it."""
    return [
        {
            "question": shown(one.question),
            "header": shown(one.header),
            "options": [{"label": shown(by.label), "description": shown(by.description)} for by in one.options],
            "multi": one.multi,
        }
        for one in questions
    ]


def questions_of(asked: approvals.Approval) -> list[Question]:
    """The questions of a row; none where a yes is asked for."""
    rows: list[Json] = json.loads(asked.questions) if asked.questions else []
    return [
        Question(
            row["question"],
            row["header"],
            tuple(Option(option["label"], option["description"]) for option in row["options"]),
            row["multi"],
        )
        for row in rows
    ]


def text_of(questions: Sequence[Question]) -> str:
    """The questions with their options, as a person reads them in a list."""
    lines: list[str] = []
    for one in questions:
        lines.append(one.question + (" (several may be chosen)" if one.multi else ""))
        for number, option in enumerate(one.options, 1):
            lines.append(f"  {number}. {option.label}" + (f": {option.description}" if option.description else ""))
    return "\n".join(lines)


def fitting(asked: approvals.Approval, replies: Replies | None) -> Replies:
    """One reply to each question, and none to another."""
    wanted, given = [one.question for one in questions_of(asked)], replies or {}
    if set(given) != set(wanted) or not all(reply.strip() for reply in given.values()):
        raise UsageError(f"{asked.id}: give one reply to each of its {len(wanted)} questions, and to nothing else")
    if sum(map(len, given.values())) > MOST_REPLIED:
        raise UsageError(f"{asked.id}: the replies have more than {MOST_REPLIED:,} characters")
    return {question: given[question] for question in wanted}


class Nobody:
    """No operator is here. Where the operator set a time to answer in, another process may; else it is no at once."""

    def __init__(self, *, waits: bool) -> None:
        self._waits = waits

    async def approve(self, request: ApprovalRequest) -> Answer:
        if self._waits and not request.stays:
            await asyncio.Event().wait()
        said = "" if request.stays else "nobody is here to ask"
        return Answer(approved=False, by="no_operator", comment=said)

    async def ask(self, request: QuestionRequest) -> Answer:  # noqa: ARG002
        if self._waits:
            await asyncio.Event().wait()
        return answer_with(None)
