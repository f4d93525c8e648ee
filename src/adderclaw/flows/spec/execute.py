"""Runs a SPEC.md in a session; its coding sessions are children of it."""

import asyncio

from adderclaw.agent.session.session import Session, TurnResult
from adderclaw.core.errors import AdderClawError, LimitError, UsageError
from adderclaw.core.host import ChildRequest, Spawn
from adderclaw.core.types import Json, Outcome
from adderclaw.flows.spec import status, tools
from adderclaw.flows.spec.checks import UNVERIFIED_CLAIMS, Checker, RunEnd
from adderclaw.flows.spec.prompts import Names
from adderclaw.flows.spec.sessions import SessionEnd, SessionOrder, WorkResult, run_sessions
from adderclaw.flows.spec.status import Status
from adderclaw.storage import transcript
from adderclaw.storage.sdlc import checks

NAMES = Names(tools.DECLARE, tools.UPDATE)
CANNOT_VERIFY = (
    "verifying a scenario needs a separate session in bubblewrap: `adderclaw doctor` says why that is not used here"
)
DECLARE_REMINDER = f"No scenario is declared yet. Call {NAMES.declare} with all scenarios of the specification now."


class SpecExecution:
    def __init__(
        self, session: Session, spec: str, spawn: Spawn, most: int | None, *, must_check: bool = False
    ) -> None:
        """`spec` is the specification's path in the workspace; `most` limits the number of coding sessions;
        `must_check`: fail if no isolated session can verify, whatever `spec.verify` says."""
        self.session, self.spec, self.spawn, self.most = session, spec, spawn, most
        self._sessions = 0
        self._checker = _checker(session, spawn, "required" if must_check else session.config.spec.verify)

    async def run(self) -> TurnResult:
        try:
            work = await run_sessions(
                self._root,
                self.spec,
                self._ask,
                NAMES,
                most=self.most,
                watcher=self,
                checker=self._checker,
                pause=self._finish_session,
            )
        except AdderClawError as error:  # the status file became unreadable
            return TurnResult("error", "", str(error))
        except asyncio.CancelledError:  # an interrupted run also reports its progress
            work = WorkResult("stopped", "interrupted", self._sessions, status.read(self._root))
        counts: Json = {"sessions": work.sessions, "scenarios_passed": work.passed, "scenarios_total": work.total}
        counts["checks"] = [check._asdict() for check in checks.of_run(self.session.store, self.session.bus.run_id)]
        answer = work.answer
        if self._checker is not None and work.status is not None and work.outcome != "completed":
            outdated = self._checker.outdated(work.status)
            counts["scenarios_outdated"] = len(outdated)
            if outdated:
                answer += f"\n{len(outdated)} of those that have passed were not verified after the last change"
        return TurnResult(work.outcome, answer, work.reason, details=counts, ended_by=work.by)

    async def verify(self, *, everything: bool) -> TurnResult:
        """Verifies scenarios again that passed before the project last changed, without coding sessions."""
        root, session, checker = self._root, self.session, self._checker
        before = status.read(root)
        if checker is None or before is None:
            raise UsageError(CANNOT_VERIFY)
        held = {row.id for row in before.wanted if row.passed}
        try:
            ended = (await checker.verify_again(before, everything=everything)).ended
        except AdderClawError as error:
            return TurnResult("error", "", str(error))
        except asyncio.CancelledError:
            ended = RunEnd("stopped", "interrupted")
        now = status.read(root) or before
        lost = [row.id for row in now.wanted if row.id in held and not row.passed]
        checked = checks.of_run(session.store, session.bus.run_id)
        answer = f"{len(held) - len(lost)} of {len(held)} passed scenarios still pass"
        if ended is not None:
            answer = (
                f"{len(checked)} of {len(held)} passed scenarios were tried, and {len(lost)} of them no longer pass"
            )
        answer += f"; {now.passed} of {now.total} scenarios have passed"
        details: Json = {"verified": len(checked), "scenarios_passed": now.passed, "scenarios_total": now.total}
        details["checks"] = [row._asdict() for row in checked]
        if ended is not None:
            return TurnResult(ended.outcome, answer, ended.reason, details=details, ended_by=ended.by)
        reason = f"no longer passed: {', '.join(lost)}; `adderclaw run` works on that" if lost else ""
        return TurnResult("error" if lost else "completed", answer, reason, details=details)

    @property
    def _root(self) -> str:
        return self.session.environment.context.workspace.root

    def _outcome_of(self, error: AdderClawError) -> Outcome:
        """Returns the outcome for an error that prevented a session from starting."""
        if self.session.environment.stopped():
            return "stopped"
        return "limit" if isinstance(error, LimitError) else "error"

    async def _finish_session(self) -> None:
        await self.session.unit_finished(f"session {self._sessions}")

    async def _ask(self, order: SessionOrder) -> SessionEnd:
        def missing() -> str | None:
            return DECLARE_REMINDER if order.first and status.read(self._root) is None else None

        child = ChildRequest(
            prompt=order.prompt,
            agent_type="coding",
            description=f"session {order.number}",
            extra_tools=tools.tools(self._root, self._checker),
            before_end=missing,
            waits_for_slot=True,
        )
        try:
            self.session.budget.before_tool_call()  # a session without one would only talk
            report = await self.spawn(child)
        except AdderClawError as error:
            return SessionEnd(self._outcome_of(error), str(error), by=error.by if isinstance(error, LimitError) else "")
        ran = transcript.command_outcomes(self.session.store, report.session_id)
        return SessionEnd(report.outcome, report.reason, report.tool_calls, ran, report.ended_by)

    # -------------------------------------------------------------- events

    def began(self, order: SessionOrder, now: Status | None) -> None:
        self._sessions = order.number
        self.session.bus.publish(
            {
                "event_type": "coding_session_started",
                "number": order.number,
                "prompt": "initializer" if order.first else "coding",
                "passed": now.passed if now else 0,
                "total": now.total if now else 0,
            }
        )

    def ended(self, order: SessionOrder, ended: SessionEnd, now: Status | None) -> None:
        self.session.bus.publish(
            {
                "event_type": "coding_session_finished",
                "number": order.number,
                "outcome": ended.outcome,
                "reason": ended.reason,
                "passed": now.passed if now else 0,
                "total": now.total if now else 0,
            }
        )


def _checker(session: Session, spawn: Spawn, mode: str) -> Checker | None:
    """Returns the checker of claims; warns, or refuses if it is required, when it cannot be isolated."""
    if mode != "off" and session.environment.confinement == "bubblewrap":
        return Checker(session, spawn)
    if mode == "required":
        raise UsageError(CANNOT_VERIFY)
    if mode == "auto":
        session.bus.publish({"event_type": "warning", "message": UNVERIFIED_CLAIMS})
    return None
