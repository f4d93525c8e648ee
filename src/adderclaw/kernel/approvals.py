"""A question that is also a row: the operator here and another process may both answer, and the first one counts."""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from adderclaw.credentials.redaction import lookalikes, visible
from adderclaw.errors import AdderClawError
from adderclaw.events import Body
from adderclaw.record import NamedTuple
from adderclaw.store import Store, approvals
from adderclaw.types import Answer, ApprovalRequest, Clock, Ids, Operator, Question, Replies

POLL = 0.25
"""Seconds between looks at the row while the operator thinks."""

MOST_SHOWN = 200_000
"""Characters of a request. A longer one is not asked about: nothing is approved that was not shown whole."""


class Shown(NamedTuple):
    """A request as every operator sees it, whole: what could steer a terminal or deceive a reader is written out."""

    tool: str
    reason: str
    text: str
    lookalikes: list[str]
    """Words with letters of several alphabets, those letters written out."""

    @property
    def marks(self) -> list[str]:
        return [f"letters of several alphabets in one word: {word}" for word in self.lookalikes]


def shown(asked: ApprovalRequest | approvals.Approval) -> Shown:
    def line(text: str) -> str:
        return visible(text, keep_newlines=False)

    why = asked.why if isinstance(asked, ApprovalRequest) else asked.reason
    return Shown(line(asked.tool), line(why), visible(asked.shown), lookalikes(asked.shown))


def too_long(asked: ApprovalRequest | approvals.Approval) -> str:
    """Why nobody is asked about it; empty for a request that can be shown whole."""
    count = len(asked.shown)
    most = f"({count:,} characters; at most {MOST_SHOWN:,})"
    return f"it is too long to be shown whole {most}: do it in smaller parts" if count > MOST_SHOWN else ""


def unaskable(request: ApprovalRequest) -> Answer | None:
    """The no to a request that no operator is to be asked about."""
    why = too_long(request)
    return Answer(approved=False, by="no_operator", comment=why) if why else None


class Durable:
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

    def of_session(self, session_id: str, agent: str) -> "Durable":
        """The same for a child session, whose questions are rows of its own."""
        view = object.__new__(Durable)
        view.__dict__.update(self.__dict__)
        view._session_id, view._agent = session_id, agent
        return view

    async def approve(self, request: ApprovalRequest) -> Answer:
        row = self._write(replace(request, id=self._ids("approval")))
        request = replace(request, id=row.id)
        self._asked[row.id] = row
        self._requested(request)
        try:
            given = self._said(row) if row.answer is not None else await self._answer(request)
        finally:
            del self._asked[row.id]
        if self._channel:  # a replay has what was recorded
            given = given._replace(approval_id=row.id)
        self._answered(request, given)
        return given

    async def _answer(self, request: ApprovalRequest) -> Answer:
        asking = asyncio.ensure_future(self._operator.approve(request))
        try:
            return await self._first(request.id, asking)
        except OSError as error:  # the terminal or the line to the operator is gone: silence is no consent
            lost = f"the operator cannot be reached: {error}"
            return self._claim(request.id, Answer(approved=False, by="no_operator", comment=lost))
        except BaseException:
            given = self._claim(request.id, Answer(approved=False, by="interrupted"))
            self._answered(request, given)
            raise
        finally:
            if not asking.done():
                asking.cancel()
                with suppress(asyncio.CancelledError):
                    await asking

    async def ask(self, questions: Sequence[Question]) -> Replies | None:
        """A question with options has no yes and no that another process could give: only who is here answers."""
        return await self._operator.ask(questions)

    def _write(self, request: ApprovalRequest) -> approvals.Approval:
        """The row: a new one, or that of the same call, which a process that has ended left."""
        reason, shown = self._scrub(request.why), self._scrub(request.shown)
        with self._store.write() as cursor:
            return approvals.ask(
                cursor,
                id=request.id,
                session_id=self._session_id,
                tool_use_id=request.tool_use_id,
                tool=request.tool,
                risk=request.risk,
                reason=reason,
                shown=shown,
                plan_hash=request.plan_hash,
                now=self._clock.now(),
                seconds=self._seconds,
                channel=self._channel,
                agent=self._agent,
                ours=self._asked,
            )

    async def _first(self, id: str, asking: "asyncio.Future[Answer]") -> Answer:
        while True:
            await asyncio.wait({asking}, timeout=POLL)
            if asking.done():
                return self._claim(id, asking.result())
            row = approvals.get(self._store, id)
            if row is None or row.answer is not None:
                return self._said(row)
            if self._stopped():
                return self._claim(id, Answer(approved=False, by="estop", comment="the emergency stop is set"))
            if row.state(self._clock.now()) == "expired":
                late = f"no answer within {self._seconds:g} s" if self._seconds else f"no answer until {row.expires_at}"
                return self._claim(id, Answer(approved=False, by="timeout", comment=late))

    def _claim(self, id: str, given: Answer) -> Answer:
        """The answer given here, if it is the first; else the one that was."""
        word: approvals.Word = "yes" if given.approved else "no"
        comment, now = self._scrub(given.comment), self._clock.now()
        if given.by == "operator" and self._channel:
            given = given._replace(who=person(self._channel))
        with self._store.write() as cursor:
            first = approvals.answer(cursor, id, word, by=given.by, comment=comment, now=now, who=given.who, used=True)
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
        return Answer(row.answer == "yes", by, row.comment or "", who=who)

    # ------------------------------------------------------------------ told

    def _requested(self, request: ApprovalRequest) -> None:
        self._tell(
            {
                "event_type": "approval_requested",
                "approval_id": request.id,
                "tool": request.tool,
                "tool_use_id": request.tool_use_id,
                "risk": request.risk,
                "reason": request.reason,
                "plan_hash": request.plan_hash,
                "expires_at": None if self._seconds is None else self._clock.now() + self._seconds,
            }
        )

    def _answered(self, request: ApprovalRequest, given: Answer) -> None:
        if given.by == "timeout":
            self._tell(
                {
                    "event_type": "approval_expired",
                    "approval_id": request.id,
                    "tool": request.tool,
                    "tool_use_id": request.tool_use_id,
                    "seconds": self._seconds or 0.0,
                }
            )
        self._tell(
            {
                "event_type": "approval_answered",
                "approval_id": request.id,
                "tool": request.tool,
                "tool_use_id": request.tool_use_id,
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


def answer_row(
    store: Store, key: Callable[[], bytes], asked: approvals.Approval, answer: Answer, plan: str = ""
) -> approvals.Approval:
    """Answer a question that any process asked, also one that has ended: whoever resumes its call finds the answer.

    With `plan`, only if the question is about the call with that hash.
    """
    now, word = time.time(), "yes" if answer.approved else "no"
    if plan and plan != asked.plan_hash:
        raise AdderClawError(f"{asked.id}: it is about another call (plan {asked.plan_hash}), so it was not answered")
    if word == "yes" and (why := too_long(asked)):
        raise AdderClawError(f"{asked.id}: nobody may say yes to it: {why}")
    mac = approvals.sign(key(), asked, answer.by, answer.who) if word == "yes" else None
    with store.write() as cursor:
        first = approvals.answer(
            cursor, asked.id, word, by=answer.by, comment=answer.comment, now=now, mac=mac, who=answer.who
        )
    after = approvals.get(store, asked.id)
    if first and after is not None:
        return after
    if after is None or after.answer is None:
        raise AdderClawError(f"{asked.id}: too late, it expired at {asked.expires_at} and counts as no")
    by = after.answered_who or after.answered_by
    raise AdderClawError(f"{asked.id}: {by} answered {after.answer} at {after.answered_at}: that counts")


class Nobody:
    """No operator is here. Where the operator set a time to answer in, another process may; else it is no at once."""

    def __init__(self, *, waits: bool) -> None:
        self._waits = waits

    async def approve(self, request: ApprovalRequest) -> Answer:  # noqa: ARG002
        if self._waits:
            await asyncio.Event().wait()
        return Answer(approved=False, by="no_operator", comment="nobody is here to ask")

    async def ask(self, questions: Sequence[Question]) -> Replies | None:  # noqa: ARG002
        return None
