"""The calls of one reply: judged one by one; those that only read run at the same time, and are recorded in order."""

import asyncio
from collections.abc import Awaitable, Sequence

from adderclaw.agent.session.session import Session
from adderclaw.agent.tool_call import call as lifecycle
from adderclaw.agent.tool_call.call import ApprovedCall, Ran
from adderclaw.agent.tool_call.hooks import CallRecord
from adderclaw.agent.tool_call.permission_check import PreparedCall
from adderclaw.agent.tool_call.result import Done
from adderclaw.core.types import ToolCall

WAITED = "Not run: the turn was interrupted before this call began"


class Batch:
    """Takes the calls of a reply in their order. `lives` has what became of each that was taken, from the first on."""

    def __init__(self, session: Session) -> None:
        self._session, self._most = session, session.config.runtime.parallel_calls
        self._waiting: list[ApprovedCall] = []
        self.lives: list[CallRecord] = []

    @property
    def done(self) -> list[Done]:
        """The calls that are recorded."""
        return [life.done for life in self.lives if life.done is not None]

    async def add(self, call: ToolCall, refusal: str | None) -> None:
        """Judge a call. One that only reads waits for others like it; any other waits for all before it, and runs."""
        session, waiting = self._session, self._waiting
        life = CallRecord(
            earlier=lambda: _abandon(session, waiting)
        )  # not by way of us: a cycle, with the results in it
        self.lives.append(life)
        judged = await lifecycle.judge(session, call, life, refusal)
        if not _overlaps(judged.considered):
            if await self._run_before(*judged):
                judged = lifecycle.judged_again(session, judged)
            await lifecycle.execute(session, await lifecycle.rule(session, judged))
            return
        ruling = await lifecycle.rule(session, judged)
        if ruling.message or not _overlaps(ruling.considered):
            if await self._run_before(ruling.considered, ruling.life):
                ruling = lifecycle.ruled_again(session, ruling)
            await lifecycle.execute(session, ruling)
            return
        lifecycle.admit(session, ruling)
        self._waiting.append(ruling)
        if len(self._waiting) >= self._most:
            await self.run()

    async def run(self) -> None:
        """Run the calls that wait, all at the same time; each is recorded as soon as all before it are."""
        session, group = self._session, list(self._waiting)
        self._waiting.clear()
        if not group:
            return
        if session.scene.stopped():
            await self._stop(group)
            return
        lifecycle.begin(session, group)
        if len(group) == 1:
            await lifecycle.finish(session, group[0], lambda: lifecycle.run(session, group[0]))
        else:
            await self._together(group)

    async def _together(self, group: Sequence[ApprovedCall]) -> None:
        session = self._session
        running = [_started(session, ruling) for ruling in group]
        left = list(zip(group, running, strict=True))
        try:
            for ruling, ran in tuple(left):
                await session.tape.settled(session, ran)
                del left[0]
                await lifecycle.finish(session, ruling, lambda ran=ran: ran)
        except asyncio.CancelledError:
            for ruling, ran in left:
                await lifecycle.record_interrupted(session, ruling, ran)
            raise
        finally:
            await _ended(running)

    async def _stop(self, group: Sequence[ApprovedCall]) -> None:
        """The emergency stop was set while they waited: none of them runs."""
        session, left = self._session, list(group)
        session.budget.tool_calls -= len(group)
        try:
            for ruling in group:
                del left[0]
                await lifecycle.execute(session, lifecycle.stopped(session, ruling))
        except asyncio.CancelledError:
            for ruling in left:
                lifecycle.not_run(session, ruling.considered, ruling.life, WAITED)
            raise

    async def _run_before(self, considered: PreparedCall, life: CallRecord) -> bool:
        """Run what waits before a call that has to be alone; whether anything did."""
        if not self._waiting:
            return False
        try:
            await self.run()
        except asyncio.CancelledError:
            lifecycle.not_run(self._session, considered, life, WAITED)
            raise
        return True


def _abandon(session: Session, waiting: list[ApprovedCall]) -> None:
    """Record the calls that wait as not run: an interruption came before they began."""
    group = list(waiting)
    waiting.clear()
    session.budget.tool_calls -= len(group)
    for one in group:
        lifecycle.not_run(session, one.considered, one.life, WAITED)


def _overlaps(considered: PreparedCall) -> bool:
    """Whether a call may run beside others: nothing denies it so far, and by what was prepared it only reads."""
    prepared = considered.prepared
    if prepared is None or not prepared.overlaps or considered.error is not None:
        return False
    from adderclaw.policy.legacy.looking import reach

    return considered.decision.verdict != "deny" and reach(prepared.touch) == "nothing"


def _started(session: Session, ruling: ApprovedCall) -> Awaitable[Ran]:
    return session.tape.started(lambda: lifecycle.run(session, ruling))


async def _ended(running: Sequence[Awaitable[Ran]]) -> None:
    """Cancel what still runs, and wait until it has ended: nothing of it goes on."""
    tasks = [one for one in running if isinstance(one, asyncio.Future) and not one.done()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
