"""Runs a SPEC.md on a session that every coding session is a child of."""

import asyncio

from adderclaw.agent.session.session import Session, TurnResult
from adderclaw.core.child import ChildRequest, Spawn
from adderclaw.core.errors import AdderClawError, LimitError, UsageError
from adderclaw.core.types import Json, Outcome
from adderclaw.flows.spec import status, tools
from adderclaw.flows.spec.checks import UNCHECKED, Checker, Cut
from adderclaw.flows.spec.prompts import Names
from adderclaw.flows.spec.sessions import Came, Ended, Order, work
from adderclaw.flows.spec.status import Status
from adderclaw.storage import transcript
from adderclaw.storage.sdlc import checks

NAMES = Names(tools.DECLARE, tools.UPDATE)
NOT_REQUIRED = (
    "verifying a scenario needs a separate session in bubblewrap: `adderclaw doctor` says why that is not used here"
)
UNDECLARED = f"No scenario is declared yet. Call {NAMES.declare} with all scenarios of the specification now."


class SpecExecution:
    def __init__(
        self, session: Session, spec: str, spawn: Spawn, most: int | None, *, must_check: bool = False
    ) -> None:
        """`spec` is the specification's path in the workspace; `most` bounds the coding sessions; `must_check`: there
        is nothing to do without a session apart, whatever `spec.verify` says."""
        self.session, self.spec, self.spawn, self.most = session, spec, spawn, most
        self._sessions = 0
        self._checker = _checker(session, spawn, "required" if must_check else session.config.spec.verify)

    async def run(self) -> TurnResult:
        try:
            came = await work(
                self._root,
                self.spec,
                self._ask,
                NAMES,
                most=self.most,
                watcher=self,
                checker=self._checker,
                pause=self._finished,
            )
        except AdderClawError as error:  # the list itself became unreadable
            return TurnResult("error", "", str(error))
        except asyncio.CancelledError:  # whoever ended it is told what was reached, as at every other end
            came = Came("stopped", "interrupted", self._sessions, status.read(self._root))
        counts: Json = {"sessions": came.sessions, "scenarios_passed": came.passed, "scenarios_total": came.total}
        counts["checks"] = [one.as_json() for one in checks.of_run(self.session.store, self.session.bus.run_id)]
        answer = came.answer
        if self._checker is not None and came.status is not None and came.outcome != "completed":
            outdated = self._checker.outdated(came.status)
            counts["scenarios_outdated"] = len(outdated)
            if outdated:
                answer += f"\n{len(outdated)} of those that have passed were not verified after the last change"
        return TurnResult(came.outcome, answer, came.reason, details=counts, ended_by=came.by)

    async def verify(self, *, everything: bool) -> TurnResult:
        """Verify again what passed before the project last changed; no coding session follows."""
        root, session, checker = self._root, self.session, self._checker
        before = status.read(root)
        if checker is None or before is None:
            raise UsageError(NOT_REQUIRED)
        held = {one.id for one in before.wanted if one.passed}
        try:
            ended = (await checker.verify_again(before, everything=everything)).ended
        except AdderClawError as error:
            return TurnResult("error", "", str(error))
        except asyncio.CancelledError:
            ended = Cut("stopped", "interrupted")
        now = status.read(root) or before
        lost = [one.id for one in now.wanted if one.id in held and not one.passed]
        found = checks.of_run(session.store, session.bus.run_id)
        answer = f"{len(held) - len(lost)} of {len(held)} passed scenarios still pass"
        if ended is not None:
            answer = f"{len(found)} of {len(held)} passed scenarios were tried, and {len(lost)} of them no longer pass"
        answer += f"; {now.passed} of {now.total} scenarios have passed"
        details: Json = {"verified": len(found), "scenarios_passed": now.passed, "scenarios_total": now.total}
        details["checks"] = [one.as_json() for one in found]
        if ended is not None:
            return TurnResult(ended.outcome, answer, ended.reason, details=details, ended_by=ended.by)
        reason = f"no longer passed: {', '.join(lost)}; `adderclaw run` works on that" if lost else ""
        return TurnResult("error" if lost else "completed", answer, reason, details=details)

    @property
    def _root(self) -> str:
        return self.session.scene.context.workspace.root

    def _outcome_of(self, error: AdderClawError) -> Outcome:
        """Of what kept a session from beginning."""
        if self.session.scene.stopped():
            return "stopped"
        return "limit" if isinstance(error, LimitError) else "error"

    async def _finished(self) -> None:
        await self.session.finished(f"session {self._sessions}")

    async def _ask(self, order: Order) -> Ended:
        def missing() -> str | None:
            return UNDECLARED if order.first and status.read(self._root) is None else None

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
            made = await self.spawn(child)
        except AdderClawError as error:
            return Ended(self._outcome_of(error), str(error), by=error.by if isinstance(error, LimitError) else "")
        ran = transcript.commands(self.session.store, made.session_id)
        return Ended(made.outcome, made.reason, made.tool_calls, ran, made.ended_by)

    # -------------------------------------------------------------- told

    def began(self, order: Order, now: Status | None) -> None:
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

    def ended(self, order: Order, ended: Ended, now: Status | None) -> None:
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


def _checker(session: Session, spawn: Spawn, wanted: str) -> Checker | None:
    """Who tries what sessions say that passes; nobody where that cannot be held, which is said."""
    if wanted != "off" and session.scene.confinement == "bubblewrap":
        return Checker(session, spawn)
    if wanted == "required":
        raise UsageError(NOT_REQUIRED)
    if wanted == "auto":
        session.bus.publish({"event_type": "warning", "message": UNCHECKED})
    return None
