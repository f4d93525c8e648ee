"""Runs a workflow: steps in file order, goals in sequence, personas in parallel; each result is kept at once."""

import asyncio
import os
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from adderclaw.agent.run.driver import RunEnds
from adderclaw.agent.session.session import Session, TurnResult
from adderclaw.core.child import ChildReport, ChildRequest, Spawn
from adderclaw.core.errors import AdderClawError, LimitError, outcome_of
from adderclaw.core.events import EventRecord
from adderclaw.core.json_text import digest
from adderclaw.core.questions import ApprovalRequest
from adderclaw.core.tool_traits import tools_in_set
from adderclaw.core.types import EndedBy, Outcome
from adderclaw.flows.agentfile import prompts
from adderclaw.flows.agentfile.signal import Loop, Report, Result, Verdict
from adderclaw.flows.agentfile.workflow import Goal, Step, Workflow
from adderclaw.storage import subagents, transcript, workflows
from adderclaw.storage.subagents import Subagent
from adderclaw.storage.workflows import Begun, Finished

VERDICT = "(review)"
"""Stands for the reviewer among the agents; no AGENT can be called so."""
CORRECTIONS = 2
"""How often a reviewer may send a goal back."""
SYNTHESIS = "(synthesis)"
"""Stands for whoever reconciles several views."""


class _Round(NamedTuple):
    """Where a loop stands."""

    number: int
    told: str
    """What a session is told of it."""
    signal: Loop


def fingerprint(workflow: Workflow) -> str:
    """Of the workflow with the texts of all its files."""
    return digest(repr(replace(workflow, file="")))


def begun_with(run_id: str, workflow: Workflow, inputs: Mapping[str, str], said: Mapping[str, str]) -> Begun:
    """What is needed to resume the run of a workflow; `said` are its options."""
    file = os.path.abspath(workflow.file)
    return Begun(run_id, file, workflow.name, fingerprint(workflow), dict(inputs), dict(said))


class WorkflowExecution:
    """One run of a workflow on a session that every goal's session is a child of."""

    def __init__(
        self,
        session: Session,
        workflow: Workflow,
        inputs: Mapping[str, str],
        spawn: Spawn,
        *,
        run_id: str,
        rounds: int | None = None,
    ) -> None:
        self.session, self.workflow, self.spawn, self.run_id = session, workflow, spawn, run_id
        self.values = dict(inputs)
        self._inputs = frozenset(inputs)
        self._tried = frozenset[str]()
        """Places of goals of which an earlier process kept a result, whatever it was."""
        self._step: Step | None = None
        """The step that runs."""
        """Inputs, results and outputs by name: what `$name` stands for."""
        self._made: set[str] = set()
        """The names whose values a model made."""
        self.state: dict[str, str] = {}
        """The latest result of each goal, in the order in which they ran."""
        self.kept: dict[tuple[str, str], Finished] = {}
        self.rounds = rounds
        """Rounds that a LOOP may go in place of what WITHIN says."""
        self.unconverged: list[str] = []
        self.answer = ""
        self._goal_of: dict[str, str] = {}
        """Session → the goal that it works on."""

    async def run(self) -> TurnResult:
        """All steps; whatever ends the workflow, its outcome is one of the closed set."""
        self._begin()
        self.session.bus.add_sink("workflow", self._calls)
        try:
            for number, step in enumerate(self.workflow.steps):
                self._step = step
                if step.kind == "RUN":
                    for place, name in enumerate(step.goals):
                        await self._goal(self.workflow.goal(name), f"{number}.0.{place}", None)
                else:
                    await self._loop(step, number)
        except RunEnds as end:
            return TurnResult(end.outcome, self.answer, end.reason, ended_by=end.by)
        except AdderClawError as error:
            by: EndedBy = error.by if isinstance(error, LimitError) else ""
            return TurnResult(self._outcome_of(error), self.answer, str(error), ended_by=by)
        if self.unconverged:
            return TurnResult("limit", self.answer, "; ".join(self.unconverged), ended_by="rounds")
        return TurnResult("completed", self.answer)

    def _outcome_of(self, error: AdderClawError) -> Outcome:
        """Of what kept a session from beginning."""
        return "stopped" if self.session.scene.stopped() else outcome_of(error)

    def _begin(self) -> None:
        """Results of an earlier try at this run count; nothing that is finished is done again."""
        before = workflows.finished(self.session.store, self.run_id)
        self._tried = frozenset(place for place, agent in before if not agent and place.count(".") == 2)
        self.kept = _finished(before)

    # -------------------------------------------------------------- loops

    async def _loop(self, step: Step, number: int) -> None:
        """Rounds until a goal says that nothing is left, none does anything, or nothing changes."""
        before: dict[str, str] | None = None
        rounds = _rounds(step, self.values) if self.rounds is None else self.rounds
        for name in step.goals:  # a text may name what only a later goal of the round gives
            goal = self.workflow.goal(name)
            for variable in (goal.name, *goal.outputs):
                self.values.setdefault(variable, "(nothing yet)")
        for turn in range(1, rounds + 1):
            how, results = await self._round(step, number, turn, rounds)
            now = {name: result.summary for name, result in results.items()}
            how = how or ("implicit" if not any(one.tool_calls for one in results.values()) else "")
            how = how or ("unchanged" if now == before else "")
            if how:
                self._told_loop(step, turn, how)
                _need_reached(results, last_only=how == "explicit")
                return
            before = now
        self._told_loop(step, rounds, "")
        self.unconverged.append(f"LOOP {step.name} did not converge within {rounds} rounds")

    async def _round(self, step: Step, number: int, turn: int, most: int) -> tuple[str, dict[str, Result]]:
        results: dict[str, Result] = {}
        signal = Loop(prompts.until(step, self._values(self._mark())), alone=len(step.goals) == 1)
        loop = _Round(turn, prompts.round_of(step, turn, most), signal)
        for place, name in enumerate(step.goals):
            result = await self._goal(self.workflow.goal(name), f"{number}.{turn}.{place}", loop)
            results[name] = result
            if result.converged:
                return "explicit", results
        return "", results

    def _told_loop(self, step: Step, rounds: int, how: str) -> None:
        self.session.bus.publish(
            {
                "event_type": "loop_finished",
                "workflow": self.workflow.name,
                "loop": step.name,
                "rounds": rounds,
                "converged": how,
            }
        )

    # -------------------------------------------------------------- one goal

    async def _goal(self, goal: Goal, place: str, loop: _Round | None) -> Result:
        result = self._known(place, "")
        if result is None:
            self._forget_after(place)
            self._told_start(goal, loop)
            result = await self._reviewed(goal, place, loop)
            self._keep(Finished(place, "", goal.name, self.session.session_id, result.as_json()))
            self._told_end(goal, result)
            await self.session.finished(f"goal {goal.name} {place}")
        self.answer = result.summary
        self.state[goal.name] = result.summary
        made = {goal.name: result.summary, **result.outputs}
        given = {name: value for name, value in made.items() if name not in self._inputs}  # `$name` is the input
        self.values.update(given)
        self._made |= given.keys()
        if loop is None:
            _need_reached({goal.name: result})
        return result

    def _known(self, place: str, agent: str) -> Result | None:
        """What an earlier try at this run kept."""
        kept = self.kept.get((place, agent))
        return Result.of(kept.result) if kept is not None else None

    async def _reviewed(self, goal: Goal, place: str, loop: _Round | None) -> Result:
        """The goal's result after whoever is to look at it did."""
        who = self.workflow.reviewer_of(goal, self._step)
        comment = again = ""
        for attempt in range(CORRECTIONS + 1):
            at = f"{place}.{attempt}"
            result = self._known(at, "") or await self._worked(goal, at, loop, again)
            if who == "nobody" or not result.achieved:
                return result
            self._keep(Finished(at, "", goal.name, self.session.session_id, result.as_json()))
            if who == "operator":
                await self._operator(goal, result)
                return result
            verdict = await self._verdict(goal, at, result)
            if verdict.approved:
                return result
            comment = verdict.comment
            again = prompts.sent_back(self._mark(), comment)
        said = f"it was sent back {CORRECTIONS + 1} times by its review: {comment}"
        return Result(achieved=False, summary=said, outputs={})

    async def _worked(self, goal: Goal, at: str, loop: _Round | None, again: str) -> Result:
        """One try at a goal: by one session, or by one for each persona and then one that reconciles them."""
        if len(goal.agents) < 2:
            agent = goal.agents[0] if goal.agents else ""
            return (await self._one(goal, at, agent, loop, again, needed=loop is None))[0]
        view = replace(goal, outputs=())  # values are owed by whoever reconciles
        async with _Together() as together:
            tasks = {name: together.begin(self._view(view, at, name, again)) for name in goal.agents}
        results = {name: task.result() for name, task in tasks.items()}
        views = {name: _view(result) for name, result in results.items()}
        report = Report(goal.outputs, loop.signal if loop else None, needed=loop is None)
        mark = self._mark()
        text = prompts.synthesis(self.workflow, goal, self._values(mark), views, mark)
        order = ChildRequest(prompt=text, agent_type="synthesis", description=goal.name, tools=())
        made = await self._child(goal, f"{at} {SYNTHESIS}", order, report)
        result = _result_of(goal, report, made)
        return result._replace(tool_calls=sum(one.tool_calls for one in results.values()))

    async def _view(self, goal: Goal, at: str, agent: str, again: str) -> Result:
        """What one of several personas makes of a goal. One that finished before a crash does not work again."""
        if (known := self._known(at, agent)) is not None:
            return known
        result, session_id = await self._one(goal, at, agent, None, again, needed=False)
        self._keep(Finished(at, agent, goal.name, session_id, result.as_json()))
        return result

    async def _one(
        self, goal: Goal, at: str, agent: str, loop: _Round | None, again: str, *, needed: bool
    ) -> tuple[Result, str]:
        """One session's work on a goal, and which session it was."""
        persona = self.workflow.agent(agent) if agent else None
        owed = self.workflow.owed(goal, agent)
        report = Report(owed.outputs, loop.signal if loop else None, needed=needed)
        mark = self._mark()
        values = self._values(mark)
        order = ChildRequest(
            prompt=prompts.goal(
                self.workflow, owed, values, self.state, mark, loop=loop.told if loop else "", again=again
            ),
            agent_type=agent or "goal",
            description=goal.name,
            persona=prompts.filled(persona.prompt, values) if persona else "",
            model=self._model(persona.requires) if persona and persona.requires else None,
        )
        made = await self._child(goal, f"{at} {agent}", order, report)
        return _as_found(_result_of(owed, report, made), goal.outputs), made.session_id

    async def _child(self, goal: Goal, place: str, order: ChildRequest, report: Report | Verdict) -> ChildReport:
        """A child session with the tool that ends it; its own ending without a result is the workflow's.

        One that an earlier process left there goes on; if it had signalled already, that counts.
        """
        order = replace(order, extra=(report.tool(),), until=report.missing, waits=True, tool_use_id=place)
        left = subagents.of_call(self.session.store, self.session.session_id, place)
        if left is not None and left.outcome == "completed" and not self._is_tried(place):
            return self._taken(left, report)
        if left is not None and left.outcome not in ("completed", "denied"):
            if (made := self._signalled(left, report)) is not None:
                return made
            had = subagents.rounds(self.session.store, left.session_id) if left.outcome is None else 0
            order = replace(order, again=left.session_id, rounds=had)
        made = await self.spawn(order)
        if made.outcome != "completed":
            raise RunEnds(made.outcome, f"goal {goal.name}: {made.reason or made.outcome}", made.ended_by)
        return made

    def _is_tried(self, place: str) -> bool:
        """Whether a result of the goal at this place was kept: then it was not reached, and is tried again."""
        return ".".join(place.split(" ")[0].split(".")[:3]) in self._tried

    def _taken(self, left: Subagent, report: Report | Verdict) -> ChildReport:
        """The result of a session that had ended when the process was killed, just before it was kept."""
        if (given := transcript.accepted(self.session.store, left.session_id, report.name)) is not None:
            report.take(given)
        tokens, calls = subagents.used(self.session.store, left.session_id)
        return ChildReport(left.session_id, "completed", left.answer, tokens=tokens, tool_calls=calls)

    def _signalled(self, left: Subagent, report: Report | Verdict) -> ChildReport | None:
        """What a session said of its goal before it was interrupted: nothing is left for it to do."""
        store = self.session.store
        given = transcript.accepted(store, left.session_id, report.name)
        if given is None:
            return None
        report.take(given)
        with store.write() as cursor:
            subagents.finish(cursor, left.session_id, "stopped", "", subagents.INTERRUPTED)
        tokens, calls = subagents.used(store, left.session_id)
        return ChildReport(left.session_id, "completed", "", tokens=tokens, tool_calls=calls)

    def _mark(self) -> str:
        """Of a new frame: drawn after what it frames was written, and by the session's ids, as a replay draws them."""
        return self.session.ids("frame").rpartition("-")[2]

    def _values(self, mark: str) -> dict[str, str]:
        return prompts.values_in(mark, self.values, self._made)

    def _model(self, capability: str) -> str:
        """The provider of a capability; that there is one was checked before anything ran."""
        return self.session.config.capabilities[capability]

    # -------------------------------------------------------------- looking at a result

    async def _verdict(self, goal: Goal, at: str, result: Result) -> Verdict:
        """What the review of a draft said, once."""
        kept = self.kept.get((at, VERDICT))
        if kept is not None:
            return Verdict.of(kept.result)
        verdict = await self._review(goal, at, result)
        self._keep(Finished(at, VERDICT, goal.name, self.session.session_id, verdict.as_json()))
        return verdict

    async def _review(self, goal: Goal, at: str, result: Result) -> Verdict:
        verdict, mark = Verdict(), self._mark()
        order = ChildRequest(
            prompt=prompts.review(self.workflow, goal, self._values(mark), _view(result), mark),
            agent_type="reviewer",
            description=goal.name,
            tools=tools_in_set("reviewer"),
            mode="plan",
        )
        await self._child(goal, f"{at} {VERDICT}", order, verdict)
        if verdict.approved is None:
            raise RunEnds("error", f"goal {goal.name}: the review ended without a verdict")
        return verdict

    async def _operator(self, goal: Goal, result: Result) -> None:
        """The operator's word, here or from another process; without it the run waits to be resumed."""
        request = ApprovalRequest(
            tool=f"goal {goal.name}",
            risk="medium",
            reason=f"{self.workflow.name}: SUPERVISED HUMAN",
            shown=_view(result),
            tool_use_id=self.session.ids("goal"),
            plan_hash=digest([self.workflow.name, goal.name, result.as_json()]),
            kind="step",
        )
        answer = await self.session.operator.approve(request)
        if answer.approved:
            return
        if answer.by in ("no_operator", "timeout"):
            raise RunEnds(
                "needs_input", f"goal {goal.name} waits for the operator: `adderclaw run --resume {self.run_id}`"
            )
        raise RunEnds(
            "denied", f"goal {goal.name} was turned down by {answer.by}: {answer.comment or 'no reason given'}"
        )

    # -------------------------------------------------------------- kept and told

    def _calls(self, record: EventRecord) -> None:
        """Whoever watches the workflow hears of its tool calls by the goal that they belong to."""
        if record.event_type == "subagent_started":
            self._goal_of[record.session_id] = record.payload["description"]
        elif record.event_type == "tool_requested" and record.session_id in self._goal_of:
            tool, use = record.payload["tool"], record.payload["tool_use_id"]
            goal = self._goal_of[record.session_id]
            body = {"workflow": self.workflow.name, "goal": goal, "tool": tool, "tool_use_id": use}
            self.session.bus.publish({"event_type": "tool_call", **body})  # pyright: ignore[reportArgumentType]

    def _keep(self, done: Finished) -> None:
        with self.session.store.write() as cursor:
            workflows.store_result(cursor, self.run_id, done)
        self.kept[done.place, done.agent] = done

    def _forget_after(self, place: str) -> None:
        """A LOOP that goes on with more rounds: what later steps made of its earlier end is made again."""
        step = int(place.split(".")[0])
        later = [key for key in self.kept if int(key[0].split(".")[0]) > step]
        if not later:
            return
        with self.session.store.write() as cursor:
            workflows.forget(cursor, self.run_id, later)
        for key in later:
            del self.kept[key]

    def _told_start(self, goal: Goal, loop: _Round | None) -> None:
        where = {"iteration": loop.number} if loop else {}
        agents = {"agent": ", ".join(goal.agents)} if goal.agents else {}
        self.session.bus.publish(
            {"event_type": "goal_started", "workflow": self.workflow.name, "goal": goal.name, **where, **agents}  # pyright: ignore[reportArgumentType]
        )

    def _told_end(self, goal: Goal, result: Result) -> None:
        outcome = "achieved" if result.achieved else "not_achieved"
        self.session.bus.publish(
            {"event_type": "goal_complete", "workflow": self.workflow.name, "goal": goal.name, "outcome": outcome}
        )


class _Together:
    """Sessions side by side: all are waited for; the first that fails ends the others and is the one that counts."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[Result]] = []

    async def __aenter__(self) -> "_Together":
        return self

    def begin(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        task = asyncio.ensure_future(self._in_turn(work))
        self._tasks.append(task)
        return task

    async def _in_turn(self, work: Coroutine[Any, Any, Result]) -> Result:
        try:
            return await work
        finally:
            work.close()  # of one that never began; a finished one does not mind

    async def __aexit__(self, *_: object) -> None:
        try:
            done, _left = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)
        for task in done:
            task.result()


def _finished(kept: dict[tuple[str, str], Finished]) -> dict[tuple[str, str], Finished]:
    """Without what belongs to a goal of a RUN that was not reached: that one is to be tried again."""
    goals = [done for done in kept.values() if not done.agent and done.place.count(".") == 2]
    failed = {done.place for done in goals if done.place.split(".")[1] == "0" and not done.result["achieved"]}
    return {key: done for key, done in kept.items() if ".".join(done.place.split(".")[:3]) not in failed}


def _need_reached(results: Mapping[str, Result], *, last_only: bool = False) -> None:
    """Whoever said that a goal cannot be reached is believed, however its loop ended."""
    for name, result in list(results.items())[-1 if last_only else 0 :]:
        if not result.achieved:
            raise RunEnds("error", f"goal {name} was not reached: {result.summary}")


def _rounds(step: Step, values: Mapping[str, str]) -> int:
    from adderclaw.flows.agentfile.check import unfit_limit

    if isinstance(step.limit, int):
        return step.limit
    text = values[(step.limit or "")[1:]]
    if reason := unfit_limit(text):
        raise RunEnds("error", f"LOOP {step.name}: {step.limit}: {reason}")
    return int(text)


def _view(result: Result) -> str:
    said = result.summary if result.achieved else f"(not reached) {result.summary}"
    return _rows(said, result.outputs, leave_out={})


def _as_found(result: Result, variables: tuple[str, ...]) -> Result:
    """What a persona owes beside the goal's own values is part of what it found."""
    own = {name: value for name, value in result.outputs.items() if name in variables}
    return result._replace(summary=_rows(result.summary, result.outputs, leave_out=own), outputs=own)


def _rows(summary: str, values: Mapping[str, str], leave_out: Mapping[str, str]) -> str:
    return "\n".join([summary, *(f"{name}: {value}" for name, value in values.items() if name not in leave_out)])


def _result_of(goal: Goal, report: Report, made: ChildReport) -> Result:
    """The signalled result; without one the answer counts, unless a signal is needed or values are owed."""
    if report.result is not None:
        return report.result._replace(tool_calls=max(made.tool_calls - 1, 0))
    if not report.needed:
        return Result(achieved=True, summary=made.answer, outputs={}, tool_calls=made.tool_calls)
    owed = f"no value was given for {', '.join(goal.outputs)}" if goal.outputs else "GoalResult was never called"
    return Result(achieved=False, summary=f"{owed}: {made.answer}", outputs={}, tool_calls=made.tool_calls)
