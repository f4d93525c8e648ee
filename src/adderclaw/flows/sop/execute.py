"""Runs a SOP: its steps in file order; what each came to is stored as it ends, with what it did."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from adderclaw.agent.loop import lifecycle, resume
from adderclaw.agent.loop.loop import keep_message, run_planned_call
from adderclaw.agent.run.driver import RunEnds
from adderclaw.agent.session.limits import LoopDetector
from adderclaw.agent.session.session import Session, TurnResult
from adderclaw.core.child import ChildRequest
from adderclaw.core.errors import AdderClawError, AnswerPending, LimitError, Stopped, outcome_of
from adderclaw.core.json_text import digest
from adderclaw.core.questions import Answer, ApprovalRequest
from adderclaw.core.types import EndedBy, Json, Message, Outcome, TextBlock, ToolCall
from adderclaw.flows.sop import prompts
from adderclaw.flows.sop.conditions import why_skipped
from adderclaw.flows.sop.inputs import Value
from adderclaw.flows.sop.results import Attempt, StepResult, Stored, ending
from adderclaw.flows.sop.sop import Sop, Step
from adderclaw.storage import subagents

STOPPED = "the emergency stop is set; `adderclaw estop --clear` removes it"
TIMEOUT = "timeout"
"""How an agent's work ends, beside the outcomes: its step has a time limit."""


class SopExecution:
    """One run of a SOP on a session: its tool calls are that session's, its agents are children of it."""

    def __init__(
        self,
        session: Session,
        sop: Sop,
        values: Mapping[str, Value],
        *,
        given: Mapping[str, str],
        said: Mapping[str, str],
    ) -> None:
        """`given` and `said`, the inputs and options that it was begun with, are for whoever resumes it."""
        self.session, self.sop = session, sop
        self._given, self._said = dict(given), dict(said)
        self.values: dict[str, Value] = session.secrets.scrub_all(dict(values))
        self.results: dict[str, StepResult] = {}
        self._stored: Stored | None = None

    async def run(self) -> TurnResult:
        """All steps; whatever ends it, its outcome is one of the closed set."""
        session, sop = self.session, self.sop
        begun: Json = {"sop": sop.text, "file": sop.file, "inputs": self._given, "said": self._said}
        session.tape.drives(session, "sop", begun)
        try:
            await self._begin()
            for step in sop.steps:
                known = self.stored.result(step) is not None
                await self._step(step)
                if not known:
                    await self.session.finished(f"step {step.id}")
        except RunEnds as end:
            return self._ended(end.outcome, end.reason, end.by)
        except AnswerPending as error:
            at = next(step.id for step in sop.steps if step.id not in self.results)
            why = f": {error.comment}" if error.comment else ""
            fix = f"`adderclaw sop approve {session.bus.run_id}` says yes and goes on"
            return self._ended("needs_input", f"the step {at} waits for an answer ({error.approval_id}){why}; {fix}")
        except AdderClawError as error:
            if isinstance(error, Stopped):
                session.bus.publish({"event_type": "estop_triggered", "reason": str(error)})
            return self._ended(outcome_of(error), str(error), error.by if isinstance(error, LimitError) else "")
        return self._ended("completed", "")

    @property
    def stored(self) -> Stored:
        assert self._stored is not None
        return self._stored

    async def _begin(self) -> None:
        session = self.session
        self._require_no_stop()
        self._stored = Stored(session)
        if self._stored.resumed:
            await lifecycle.begin(session)
            return
        text = prompts.opening(self.sop, self.values)
        if (refused := await lifecycle.submitted(session, text)) is not None:
            raise RunEnds("denied", f"a hook refused the SOP: {refused}", "hook")
        given: dict[str, str] = session.secrets.scrub_all(self._given)
        message = Message("user", (TextBlock(session.secrets.scrub(text)),))
        with session.store.write() as cursor:
            self._stored.begin(cursor, self.sop, given, self._said)
            keep_message(session, cursor, message)
        session.state.history.append(message)

    def _require_no_stop(self) -> None:
        if self.session.scene.stopped():
            raise Stopped(STOPPED)

    # -------------------------------------------------------------- one step

    async def _step(self, step: Step) -> None:
        known = self.stored.result(step)
        if known is not None and step.kind == "approval" and not known.succeeded and known.status != "skipped":
            raise RunEnds("denied", f"the step {step.id}: {known.error}")
        if known is not None and not known.aborts:
            self.results[step.id] = known
            return
        self._require_no_stop()
        if why := why_skipped(step, self.results, self.values):
            self._finish(step, StepResult("skipped", error=why))
            return
        self._tell(step, "sop_step_started")
        match step.kind:
            case "tool":
                result = await self._tool(step)
            case "agent":
                result = await self._agent(step)
            case "approval":
                result = await self._approval(step)
        if result.aborts:
            self._abort(step, result)

    def _abort(self, step: Step, result: StepResult) -> None:
        outcome: Outcome = "denied" if result.status == "denied" else "error"
        said = result.error.strip().splitlines()
        raise RunEnds(outcome, f"the step {step.id} {result.status}" + (f": {said[0][:500]}" if said else ""))

    def _finish(self, step: Step, result: StepResult, said: Sequence[Message] = ()) -> StepResult:
        """Store what a step came to, with what is said of it, in one transaction; then tell."""
        result = ending(step, result)
        with self.session.store.write() as cursor:
            for message in said:
                keep_message(self.session, cursor, message)
            self.stored.write(cursor, step.id, "", result.as_json())
        for message in said:
            self.session.state.history.append(message)
        return self._came_to(step, result)

    def _came_to(self, step: Step, result: StepResult) -> StepResult:
        self.results[step.id] = result
        self._tell(step, "sop_step_finished", {"status": result.status, "reason": result.error[:500]})
        return result

    def _tell(self, step: Step, event: str, more: Json | None = None) -> None:
        body: Any = {"event_type": event, "sop": self.sop.name, "step": step.id, "kind": step.kind, **(more or {})}
        self.session.bus.publish(body)

    # -------------------------------------------------------------- tools

    async def _tool(self, step: Step) -> StepResult:
        """Its call, tried again as often as the step says. What may have run already is not run again unasked."""
        left = self.stored.last(step)
        unbegun = {call.id: call for call in self.session.state.unfinished}
        waiting = left.call_id if left is not None and left.result is None and left.call_id in unbegun else ""
        self.session.state.unfinished = ()
        if left is not None and not waiting and (unknown := await self._unknown(step, left)) is not None:
            return unknown
        missing = self._unresolved(step)
        if missing:
            return self._finish(step, StepResult("failed", error=missing))
        for retry in range(step.retries + 1):
            last = retry == step.retries
            result = await self._called(step, self._arguments(step), waiting, last=last)
            waiting = ""
            if last or result.status != "failed":
                return self._came_to(step, ending(step, result))
            self._tell(step, "sop_step_retried", {"retry": retry + 1, "reason": result.error[:500]})
        raise AssertionError("unreachable")

    async def _unknown(self, step: Step, left: Attempt) -> StepResult | None:
        """A call of an earlier process that may have run: who goes on is asked, or the step counts as unknown.

        None where the step is to be carried out.
        """
        if left.result is not None and left.result.status != "unknown":
            return None
        if left.result is None and self.stored.never_ran(left):
            return None
        if left.result is None:
            self.stored.unknown(step, left, resume.UNKNOWN)
        unknown = StepResult("unknown", error=resume.UNKNOWN)
        if step.on_failure == "continue":
            return self._finish(step, unknown)
        answer = await self._asked(step, prompts.repeat(step, resume.UNKNOWN), "it was interrupted", None, left.call_id)
        return None if answer.approved else self._finish(step, unknown)

    async def _called(self, step: Step, args: Json, waiting: str, *, last: bool) -> StepResult:
        """One call by the gate, with its receipt. `waiting` is the id of one that never began, and is made again."""
        session, state = self.session, self.session.state
        number = self.stored.attempts(step) + (0 if waiting else 1)
        call = ToolCall(waiting or session.ids("call"), step.tool, args)
        keep = self.stored.begins(step, number, call, last=last)
        runtime = session.config.runtime
        state.loops = LoopDetector(runtime.loop_warn_at, runtime.loop_stop_at)  # no model goes in circles here
        state.stays = True
        try:
            done = await run_planned_call(session, call, keep, again=bool(waiting), seconds=step.timeout)
        finally:
            state.stays = False
        self._require_no_stop()
        attempt = self.stored.last(step)
        assert attempt is not None
        assert attempt.result is not None
        if done.stop is not None:
            raise RunEnds("denied", f"a hook ended the run: {done.stop}".removesuffix(": "), "hook")
        return attempt.result

    def _unresolved(self, step: Step) -> str:
        """Why an argument has no value."""
        for one in step.references:
            if one.is_input:
                continue
            result = self.results[one.source]
            if not result.succeeded:
                return f"{one.argument}_from: the step {one.source} was {result.status}, and has no output"
            if result.cut:
                return f"{one.argument}_from: the output of the step {one.source} is too long: only a part is stored"
        return ""

    def _arguments(self, step: Step) -> Json:
        given = dict(step.args or {})
        for one in step.references:
            given[one.argument] = self.values[one.source] if one.is_input else self.results[one.source].output
        return given

    # -------------------------------------------------------------- agents

    async def _agent(self, step: Step) -> StepResult:
        """A child session's turn; its answer is the output."""
        session = self.session
        mark = session.ids("frame").rpartition("-")[2]
        prompt = prompts.agent(self.sop, step, self.values, self._before(step), mark)
        order = ChildRequest(
            prompt=prompt,
            agent_type="sop",
            description=step.id,
            tools=step.tools,
            model=step.model or None,
            waits_for_slot=True,
            tool_use_id=f"step {step.id}",
        )
        retry = 0
        while True:
            given = {"step": step.id, "retry": retry, "prompt": digest(prompt)}
            found = await session.ask("agent", given, self._worked(order, step.timeout))
            result = self._of_agent(step, found)
            if result.status != "failed" or retry == step.retries:
                break
            retry += 1
            self._tell(step, "sop_step_retried", {"retry": retry, "reason": result.error[:500]})
        asked = Message("user", (TextBlock(step.prompt),))
        said = (asked, Message("assistant", (TextBlock(result.output),))) if result.output else ()
        return self._finish(step, result, said)

    def _of_agent(self, step: Step, found: Json) -> StepResult:
        outcome, answer, reason = found["outcome"], found["answer"], found["reason"]
        match outcome:
            case "completed":
                return StepResult("succeeded", answer)
            case "limit" | "stopped" | "needs_input":
                raise RunEnds(outcome, f"the step {step.id}: {reason or outcome}", found["by"])
            case "denied":
                return StepResult("denied", error=reason or answer)
            case _:
                return StepResult("failed", error=reason or answer or str(outcome))

    async def _worked(self, order: ChildRequest, seconds: float | None) -> Json:
        """How the agent's session ended. One that an earlier process left goes on, or had ended already."""
        session = self.session
        left = subagents.of_call(session.store, session.session_id, order.tool_use_id)
        if left is not None and left.outcome == "completed":
            return {"outcome": "completed", "answer": left.answer, "reason": "", "by": ""}
        if left is not None and left.outcome != "denied":
            had = subagents.rounds(session.store, left.session_id) if left.outcome is None else 0
            order = replace(order, again=left.session_id, rounds=had)
        try:
            async with asyncio.timeout(seconds):
                made = await session.host.spawn(order)
        except TimeoutError:
            return {"outcome": TIMEOUT, "answer": "", "reason": f"not done within {seconds:g} s", "by": ""}
        except AdderClawError as error:
            by = error.by if isinstance(error, LimitError) else ""
            outcome = "stopped" if session.scene.stopped() else outcome_of(error)
            return {"outcome": outcome, "answer": "", "reason": str(error), "by": by}
        return {"outcome": made.outcome, "answer": made.answer, "reason": made.reason, "by": made.ended_by}

    def _before(self, step: Step) -> list[tuple[Step, StepResult]]:
        """The steps whose outputs somebody is shown."""
        done = [(one, self.results[one.id]) for one in self.sop.steps if one.id in self.results]
        if step.uses is not None:
            return [(one, result) for one, result in done if one.id in step.uses]
        return [(one, result) for one, result in done if one.kind != "approval" and result.status != "skipped"]

    # -------------------------------------------------------------- approvals

    async def _approval(self, step: Step) -> StepResult:
        place = self.sop.steps.index(step)
        following = self.sop.steps[place + 1] if place + 1 < len(self.sop.steps) else None
        shown = prompts.approver(self.sop, step, self.values, self._before(step), following)
        answer = await self._asked(step, shown, step.prompt, step.expires)
        who = answer.who or answer.by
        if answer.approved:
            return self._finish(step, StepResult("succeeded", f"approved by {who}" + _comment(answer)))
        result = self._finish(step, StepResult("denied", error=f"denied by {who}" + _comment(answer)))
        raise RunEnds("denied", f"the step {step.id}: {result.error}")

    async def _asked(self, step: Step, shown: str, reason: str, seconds: float | None, about: str = "") -> Answer:
        """Ask, here or wherever somebody answers; StaysOpen where nobody has. The answer holds for what came so far."""
        session = self.session
        so_far = {id: result.as_json() for id, result in self.results.items()}
        request = ApprovalRequest(
            tool=f"SOP {self.sop.name}, step {step.id}",
            risk="medium",
            reason=reason,
            shown=shown,
            tool_use_id=f"step {step.id}",
            plan_hash=digest([self.sop.fingerprint, step.id, about, session.secrets.scrub_all(so_far)]),
            stays=True,
            seconds=seconds,
            kind="step",
        )
        session.store.flush()
        session.bus.deliver()
        return await session.tape.answered(session, session.operator.approve(request))

    # -------------------------------------------------------------- the end

    def _ended(self, outcome: Outcome, reason: str, by: EndedBy = "") -> TurnResult:
        self.session.state.unfinished = ()
        outputs = [self.results[step.id].output for step in self.sop.steps if step.id in self.results]
        spoke = [step.kind != "approval" for step in self.sop.steps if step.id in self.results]
        answer = next((text for text, own in zip(reversed(outputs), reversed(spoke), strict=True) if text and own), "")
        return TurnResult(outcome, answer, reason, self._details(), ended_by=by)

    def _details(self) -> Json:
        steps = [
            {
                "id": step.id,
                "kind": step.kind,
                **(self._shown(step.id) if step.id in self.results else {"status": "pending"}),
            }
            for step in self.sop.steps
        ]
        return {"sop": self.sop.name, "results": steps}

    def _shown(self, id: str) -> Json:
        made = self.results[id].as_json()
        return {name: value for name, value in made.items() if name != "aborts"}


def _comment(answer: Answer) -> str:
    return f": {answer.comment}" if answer.comment else ""
