"""Runs the calls of one reply: judges them one by one, runs those that only read in parallel, records all in order."""

import asyncio
from collections.abc import Awaitable, Sequence

from adderclaw.agent.session.session import Session
from adderclaw.agent.tool_call import call as lifecycle
from adderclaw.agent.tool_call.call import ApprovedCall, TimedResult
from adderclaw.agent.tool_call.permission_check import PreparedCall
from adderclaw.agent.tool_call.result import CallRecord, FinishedCall
from adderclaw.core.types import ToolCall

NOT_RUN_WHILE_WAITING = "Not run: the turn was interrupted before this call began"


class Batch:
    """Takes the calls of a reply in order. `records` has one entry for each call that was added."""

    def __init__(self, session: Session) -> None:
        self._session, self._max_parallel = session, session.config.runtime.parallel_calls
        self._waiting: list[ApprovedCall] = []
        self.records: list[CallRecord] = []

    @property
    def finished(self) -> list[FinishedCall]:
        """The calls that are recorded."""
        return [record.finished for record in self.records if record.finished is not None]

    async def add(self, call: ToolCall, refusal: str | None) -> None:
        """Judge a call. One that only reads is queued to run in parallel; any other runs after the queue."""
        session, waiting = self._session, self._waiting
        # capturing self would create a reference cycle that keeps the results alive
        record = CallRecord(record_earlier=lambda: _record_waiting_as_not_run(session, waiting))
        self.records.append(record)
        gated_call = await lifecycle.judge(session, call, record, refusal)
        if not _may_overlap(gated_call.prepared_call):
            if await self._run_before(*gated_call):
                gated_call = lifecycle.rejudge(session, gated_call)
            await lifecycle.execute(session, await lifecycle.request_approval(session, gated_call))
            return
        approved_call = await lifecycle.request_approval(session, gated_call)
        if approved_call.message or not _may_overlap(approved_call.prepared_call):
            if await self._run_before(approved_call.prepared_call, approved_call.record):
                approved_call = lifecycle.recheck_approval(session, approved_call)
            await lifecycle.execute(session, approved_call)
            return
        lifecycle.count_call(session, approved_call)
        self._waiting.append(approved_call)
        if len(self._waiting) >= self._max_parallel:
            await self.run()

    async def run(self) -> None:
        """Run the queued calls in parallel; each is recorded as soon as all before it are."""
        session, group = self._session, list(self._waiting)
        self._waiting.clear()
        if not group:
            return
        if session.environment.stopped():
            await self._deny_all(group)
            return
        lifecycle.commit_intent(session, group)
        if len(group) == 1:
            await lifecycle.finish_call(session, group[0], lambda: lifecycle.run_prepared(session, group[0]))
        else:
            await self._run_together(group)

    async def _run_together(self, group: Sequence[ApprovedCall]) -> None:
        session = self._session
        running = [_start_call(session, approved_call) for approved_call in group]
        remaining = list(zip(group, running, strict=True))
        try:
            for approved_call, ran in tuple(remaining):
                await session.tape.wait_for_call(session, ran)
                del remaining[0]
                await lifecycle.finish_call(session, approved_call, lambda ran=ran: ran)
        except asyncio.CancelledError:
            for approved_call, ran in remaining:
                await lifecycle.record_interrupted(session, approved_call, ran)
            raise
        finally:
            # Cancel the calls that still run, and wait until they have ended.
            tasks = [call for call in running if isinstance(call, asyncio.Future) and not call.done()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _deny_all(self, group: Sequence[ApprovedCall]) -> None:
        """Deny the queued calls, because the emergency stop was set."""
        session, remaining = self._session, list(group)
        session.budget.tool_calls -= len(group)
        try:
            for approved_call in group:
                del remaining[0]
                await lifecycle.execute(session, lifecycle.deny_stopped(session, approved_call))
        except asyncio.CancelledError:
            for approved_call in remaining:
                lifecycle.record_not_run(
                    session, approved_call.prepared_call, approved_call.record, NOT_RUN_WHILE_WAITING
                )
            raise

    async def _run_before(self, prepared_call: PreparedCall, record: CallRecord) -> bool:
        """Run the queue before a call that must run alone; False if the queue was empty."""
        if not self._waiting:
            return False
        try:
            await self.run()
        except asyncio.CancelledError:
            lifecycle.record_not_run(self._session, prepared_call, record, NOT_RUN_WHILE_WAITING)
            raise
        return True


def _record_waiting_as_not_run(session: Session, waiting: list[ApprovedCall]) -> None:
    """Record the queued calls as not run, after an interruption."""
    group = list(waiting)
    waiting.clear()
    session.budget.tool_calls -= len(group)
    for call in group:
        lifecycle.record_not_run(session, call.prepared_call, call.record, NOT_RUN_WHILE_WAITING)


def _may_overlap(prepared_call: PreparedCall) -> bool:
    """Whether a call may run in parallel: it is not denied, and it only reads."""
    prepared = prepared_call.prepared
    if prepared is None or not prepared.overlaps or prepared_call.error is not None:
        return False
    from adderclaw.policy.legacy.looking import reach

    return prepared_call.decision.verdict != "deny" and reach(prepared.touch) == "nothing"


def _start_call(session: Session, approved_call: ApprovedCall) -> Awaitable[TimedResult]:
    return session.tape.start_call(lambda: lifecycle.run_prepared(session, approved_call))
