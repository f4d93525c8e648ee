"""Runs a workflow: steps in file order, goals in sequence, personas in parallel. Stores each result at once."""

import asyncio
import os
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from adderclaw.agent.run.driver import RunEnds
from adderclaw.agent.session.session import Session, TurnResult
from adderclaw.core.errors import AdderClawError, LimitError, outcome_of
from adderclaw.core.events import EventRecord
from adderclaw.core.host import ChildReport, ChildRequest, Spawn
from adderclaw.core.json_text import digest, to_json
from adderclaw.core.questions import ApprovalRequest
from adderclaw.core.tool_traits import tools_in_set
from adderclaw.core.types import EndedBy, Outcome
from adderclaw.flows.agentfile import prompts
from adderclaw.flows.agentfile.signal import GoalReport, LoopSignal, Result, ReviewVerdict
from adderclaw.flows.agentfile.workflow import Goal, Step, Workflow
from adderclaw.storage import subagents, transcript, workflows
from adderclaw.storage.subagents import Subagent
from adderclaw.storage.workflows import GoalResult, WorkflowStart

REVIEW_AGENT = "(review)"
"""The agent name of the reviewer; no AGENT can have it."""
MAX_CORRECTIONS = 2
"""How often a reviewer may send a result back."""
SYNTHESIS_AGENT = "(synthesis)"
"""The agent name of the session that reconciles several views."""


class _Round(NamedTuple):
    """The current round of a loop."""

    number: int
    description: str
    """The sentence about it in a session's prompt."""
    signal: LoopSignal


def fingerprint(workflow: Workflow) -> str:
    """Returns a hash of the workflow with the texts of all its files."""
    return digest(repr(replace(workflow, file="")))


def begin_record(
    run_id: str, workflow: Workflow, inputs: Mapping[str, str], options: Mapping[str, str]
) -> WorkflowStart:
    """Returns the record that is needed to resume the run of a workflow."""
    file = os.path.abspath(workflow.file)
    return WorkflowStart(run_id, file, workflow.name, fingerprint(workflow), dict(inputs), dict(options))


class WorkflowExecution:
    """One run of a workflow in a session; the sessions of its goals are children of it."""

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
        """The values of `$name`: inputs, results and outputs."""
        self._inputs = frozenset(inputs)
        self._finished_goals = frozenset[str]()
        """The paths of goals whose result, reached or not, an earlier process stored."""
        self._step: Step | None = None
        """The current step."""
        self._model_values: set[str] = set()
        """The names of values that a model wrote."""
        self.state: dict[str, str] = {}
        """The latest result of each goal, in the order in which they ran."""
        self.stored: dict[tuple[str, str], GoalResult] = {}
        self.rounds = rounds
        """How many rounds a LOOP may run, overriding WITHIN."""
        self.unconverged: list[str] = []
        self.answer = ""
        self._goal_of: dict[str, str] = {}
        """Session → the goal that it works on."""

    async def run(self) -> TurnResult:
        """Runs all steps; always returns an outcome of the closed set."""
        self._begin()
        self.session.bus.add_sink("workflow", self._on_event)
        try:
            for number, step in enumerate(self.workflow.steps):
                self._step = step
                if step.kind == "RUN":
                    for index, name in enumerate(step.goals):
                        await self._run_goal(self.workflow.goal(name), f"{number}.0.{index}", None)
                else:
                    await self._run_loop(step, number)
        except RunEnds as end:
            return TurnResult(end.outcome, self.answer, end.reason, ended_by=end.by)
        except AdderClawError as error:
            by: EndedBy = error.by if isinstance(error, LimitError) else ""
            return TurnResult(self._outcome_of(error), self.answer, str(error), ended_by=by)
        if self.unconverged:
            return TurnResult("limit", self.answer, "; ".join(self.unconverged), ended_by="rounds")
        return TurnResult("completed", self.answer)

    def _outcome_of(self, error: AdderClawError) -> Outcome:
        """Returns the outcome for an error that prevented a session from starting."""
        return "stopped" if self.session.environment.stopped() else outcome_of(error)

    def _begin(self) -> None:
        """Loads the results of earlier attempts at this run, so that nothing finished is repeated."""
        before = workflows.goal_results(self.session.store, self.run_id)
        self._finished_goals = frozenset(path for path, agent in before if not agent and path.count(".") == 2)
        # Drops the results of goals of a RUN that were not reached, so that they are tried again.
        goals = [done for done in before.values() if not done.agent and done.place.count(".") == 2]
        failed = {done.place for done in goals if done.place.split(".")[1] == "0" and not done.result["achieved"]}
        self.stored = {key: done for key, done in before.items() if ".".join(done.place.split(".")[:3]) not in failed}

    # -------------------------------------------------------------- loops

    async def _run_loop(self, step: Step, number: int) -> None:
        """Runs rounds until a goal reports convergence, no goal calls a tool, or the results do not change."""
        before: dict[str, str] | None = None
        rounds = _max_rounds(step, self.values) if self.rounds is None else self.rounds
        for name in step.goals:  # a prompt may use a variable that a later goal of the round sets
            goal = self.workflow.goal(name)
            for variable in (goal.name, *goal.outputs):
                self.values.setdefault(variable, "(nothing yet)")
        for turn in range(1, rounds + 1):
            how, results = await self._run_round(step, number, turn, rounds)
            now = {name: result.summary for name, result in results.items()}
            how = how or ("implicit" if sum(result.tool_calls for result in results.values()) == 0 else "")
            how = how or ("unchanged" if now == before else "")
            if how:
                self._tell_loop_finished(step, turn, how)
                _require_achieved(results, last_only=how == "explicit")
                return
            before = now
        self._tell_loop_finished(step, rounds, "")
        self.unconverged.append(f"LOOP {step.name} did not converge within {rounds} rounds")

    async def _run_round(self, step: Step, number: int, turn: int, most: int) -> tuple[str, dict[str, Result]]:
        results: dict[str, Result] = {}
        signal = LoopSignal(
            prompts.loop_end_condition(step, self._framed_values(self._new_mark())), alone=len(step.goals) == 1
        )
        loop = _Round(turn, prompts.describe_round(step, turn, most), signal)
        for index, name in enumerate(step.goals):
            result = await self._run_goal(self.workflow.goal(name), f"{number}.{turn}.{index}", loop)
            results[name] = result
            if result.converged:
                return "explicit", results
        return "", results

    def _tell_loop_finished(self, step: Step, rounds: int, how: str) -> None:
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

    async def _run_goal(self, goal: Goal, path: str, loop: _Round | None) -> Result:
        result = self._stored_result(path, "")
        if result is None:
            self._forget_after(path)
            self._tell_started(goal, loop)
            result = await self._reach_and_review(goal, path, loop)
            self._save(GoalResult(path, "", goal.name, self.session.session_id, to_json(result)))
            self._tell_complete(goal, result)
            await self.session.unit_finished(f"goal {goal.name} {path}")
        self.answer = result.summary
        self.state[goal.name] = result.summary
        values = {goal.name: result.summary, **result.outputs}
        variables = {name: value for name, value in values.items() if name not in self._inputs}  # `$name` is the input
        self.values.update(variables)
        self._model_values |= variables.keys()
        if loop is None:
            _require_achieved({goal.name: result})
        return result

    def _stored_result(self, path: str, agent: str) -> Result | None:
        """Returns the result that an earlier attempt at this run stored."""
        stored = self.stored.get((path, agent))
        return Result(**stored.result) if stored is not None else None

    async def _reach_and_review(self, goal: Goal, path: str, loop: _Round | None) -> Result:
        """Works on a goal until its reviewer approves the result, or has sent it back too often."""
        who = self.workflow.reviewer_of(goal, self._step)
        comment = again = ""
        for attempt in range(MAX_CORRECTIONS + 1):
            at = f"{path}.{attempt}"
            result = self._stored_result(at, "") or await self._attempt(goal, at, loop, again)
            if who == "nobody" or not result.achieved:
                return result
            self._save(GoalResult(at, "", goal.name, self.session.session_id, to_json(result)))
            if who == "operator":
                await self._ask_operator(goal, result)
                return result
            verdict = await self._stored_or_new_verdict(goal, at, result)
            if verdict.approved:
                return result
            comment = verdict.comment
            again = prompts.review_comment(self._new_mark(), comment)
        summary = f"its review sent it back {MAX_CORRECTIONS + 1} times: {comment}"
        return Result(achieved=False, summary=summary, outputs={})

    async def _attempt(self, goal: Goal, at: str, loop: _Round | None, again: str) -> Result:
        """Makes one attempt at a goal: one session, or one per persona and one that reconciles their results."""
        if len(goal.agents) < 2:
            agent = goal.agents[0] if goal.agents else ""
            return (await self._run_session(goal, at, agent, loop, again, needed=loop is None))[0]
        view = replace(goal, outputs=())  # the synthesis owes the outputs
        async with _ParallelSessions() as together:
            tasks = {name: together.begin(self._persona_view(view, at, name, again)) for name in goal.agents}
        results = {name: task.result() for name, task in tasks.items()}
        views = {name: _format_result(result) for name, result in results.items()}
        report = GoalReport(goal.outputs, loop.signal if loop else None, needed=loop is None)
        mark = self._new_mark()
        text = prompts.synthesis(self.workflow, goal, self._framed_values(mark), views, mark)
        order = ChildRequest(prompt=text, agent_type="synthesis", description=goal.name, tools=())
        child_report = await self._run_child(goal, f"{at} {SYNTHESIS_AGENT}", order, report)
        result = _result_of(goal, report, child_report)
        return result._replace(tool_calls=sum(view_result.tool_calls for view_result in results.values()))

    async def _persona_view(self, goal: Goal, at: str, agent: str, again: str) -> Result:
        """Returns the view of one of several personas; a view that was stored before a crash is not repeated."""
        if (known := self._stored_result(at, agent)) is not None:
            return known
        result, session_id = await self._run_session(goal, at, agent, None, again, needed=False)
        self._save(GoalResult(at, agent, goal.name, session_id, to_json(result)))
        return result

    async def _run_session(
        self, goal: Goal, at: str, agent: str, loop: _Round | None, again: str, *, needed: bool
    ) -> tuple[Result, str]:
        """Runs one session on a goal; returns its result and its id."""
        persona = self.workflow.agent(agent) if agent else None
        owed = self.workflow.goal_for_session(goal, agent)
        report = GoalReport(owed.outputs, loop.signal if loop else None, needed=needed)
        mark = self._new_mark()
        values = self._framed_values(mark)
        order = ChildRequest(
            prompt=prompts.goal(
                self.workflow, owed, values, self.state, mark, loop=loop.description if loop else "", again=again
            ),
            agent_type=agent or "goal",
            description=goal.name,
            persona=prompts.fill(persona.prompt, values) if persona else "",
            model=self._provider_for(persona.requires) if persona and persona.requires else None,
        )
        child_report = await self._run_child(goal, f"{at} {agent}", order, report)
        return _merge_persona_outputs(_result_of(owed, report, child_report), goal.outputs), child_report.session_id

    async def _run_child(
        self, goal: Goal, path: str, order: ChildRequest, report: GoalReport | ReviewVerdict
    ) -> ChildReport:
        """Runs a child session with the tool that ends it; if the session fails, so does the workflow.

        A session that an earlier process left unfinished is continued; a result that it had reported is used.
        """
        order = replace(
            order, extra_tools=(report.tool(),), before_end=report.missing, waits_for_slot=True, tool_use_id=path
        )
        left = subagents.of_call(self.session.store, self.session.session_id, path)
        if left is not None and left.outcome == "completed" and not self._is_failed(path):
            return self._finished_child(left, report)
        if left is not None and left.outcome not in ("completed", "denied"):
            if (report_ := self._signalled_child(left, report)) is not None:
                return report_
            had = subagents.tool_call_rounds(self.session.store, left.session_id) if left.outcome is None else 0
            order = replace(order, resumed_session_id=left.session_id, rounds_used=had)
        report_ = await self.spawn(order)
        if report_.outcome != "completed":
            raise RunEnds(report_.outcome, f"goal {goal.name}: {report_.reason or report_.outcome}", report_.ended_by)
        return report_

    def _is_failed(self, path: str) -> bool:
        """Whether a result of the goal was stored but dropped, because it was not reached and must be repeated."""
        return ".".join(path.split(" ")[0].split(".")[:3]) in self._finished_goals

    def _finished_child(self, left: Subagent, report: GoalReport | ReviewVerdict) -> ChildReport:
        """Returns the result of a session that ended just before the process was killed, and was not stored."""
        if (arguments := transcript.first_accepted_input(self.session.store, left.session_id, report.name)) is not None:
            report.accept(arguments)
        tokens, calls = subagents.token_and_call_counts(self.session.store, left.session_id)
        return ChildReport(left.session_id, "completed", left.answer, tokens=tokens, tool_calls=calls)

    def _signalled_child(self, left: Subagent, report: GoalReport | ReviewVerdict) -> ChildReport | None:
        """Returns the result that a session reported before it was interrupted; None if it reported none."""
        store = self.session.store
        arguments = transcript.first_accepted_input(store, left.session_id, report.name)
        if arguments is None:
            return None
        report.accept(arguments)
        with store.write() as cursor:
            subagents.finish(cursor, left.session_id, "stopped", "", subagents.INTERRUPTED)
        tokens, calls = subagents.token_and_call_counts(store, left.session_id)
        return ChildReport(left.session_id, "completed", "", tokens=tokens, tool_calls=calls)

    def _new_mark(self) -> str:
        """Draws the mark of a new frame after its content was written, by the session's ids, so that replays agree."""
        return self.session.ids("frame").rpartition("-")[2]

    def _framed_values(self, mark: str) -> dict[str, str]:
        return prompts.frame_values(mark, self.values, self._model_values)

    def _provider_for(self, capability: str) -> str:
        """Returns the provider of a capability; the driver has checked that there is one."""
        return self.session.config.capabilities[capability]

    # -------------------------------------------------------------- review

    async def _stored_or_new_verdict(self, goal: Goal, at: str, result: Result) -> ReviewVerdict:
        """Returns the verdict on a draft, which is stored so that it is reviewed only once."""
        stored = self.stored.get((at, REVIEW_AGENT))
        if stored is not None:
            return ReviewVerdict.of(stored.result)
        verdict = await self._review(goal, at, result)
        self._save(GoalResult(at, REVIEW_AGENT, goal.name, self.session.session_id, verdict.as_json()))
        return verdict

    async def _review(self, goal: Goal, at: str, result: Result) -> ReviewVerdict:
        verdict, mark = ReviewVerdict(), self._new_mark()
        order = ChildRequest(
            prompt=prompts.review(self.workflow, goal, self._framed_values(mark), _format_result(result), mark),
            agent_type="reviewer",
            description=goal.name,
            tools=tools_in_set("reviewer"),
            mode="plan",
        )
        await self._run_child(goal, f"{at} {REVIEW_AGENT}", order, verdict)
        if verdict.approved is None:
            raise RunEnds("error", f"goal {goal.name}: the review ended without a verdict")
        return verdict

    async def _ask_operator(self, goal: Goal, result: Result) -> None:
        """Asks the operator to approve a result; without an answer the run ends and waits to be resumed."""
        request = ApprovalRequest(
            tool=f"goal {goal.name}",
            risk="medium",
            reason=f"{self.workflow.name}: SUPERVISED HUMAN",
            shown=_format_result(result),
            tool_use_id=self.session.ids("goal"),
            plan_hash=digest([self.workflow.name, goal.name, to_json(result)]),
            kind="step",
        )
        answer = await self.session.operator.approve(request)
        if answer.approved:
            return
        if answer.by in ("no_operator", "timeout"):
            raise RunEnds(
                "needs_input",
                f"goal {goal.name} waits for the operator; answer it with `adderclaw run --resume {self.run_id}`",
            )
        raise RunEnds("denied", f"goal {goal.name} was rejected by {answer.by}: {answer.comment or 'no reason given'}")

    # -------------------------------------------------------------- storage and events

    def _on_event(self, record: EventRecord) -> None:
        """Republishes the tool calls of child sessions with the name of their goal."""
        if record.event_type == "subagent_started":
            self._goal_of[record.session_id] = record.payload["description"]
        elif record.event_type == "tool_requested" and record.session_id in self._goal_of:
            tool, use = record.payload["tool"], record.payload["tool_use_id"]
            goal = self._goal_of[record.session_id]
            body = {"workflow": self.workflow.name, "goal": goal, "tool": tool, "tool_use_id": use}
            self.session.bus.publish({"event_type": "tool_call", **body})  # pyright: ignore[reportArgumentType]

    def _save(self, done: GoalResult) -> None:
        with self.session.store.write() as cursor:
            workflows.store_result(cursor, self.run_id, done)
        self.stored[done.place, done.agent] = done

    def _forget_after(self, path: str) -> None:
        """Deletes stored results of later steps, since a LOOP that runs more rounds makes them outdated."""
        step = int(path.split(".")[0])
        later = [key for key in self.stored if int(key[0].split(".")[0]) > step]
        if not later:
            return
        with self.session.store.write() as cursor:
            workflows.delete_results(cursor, self.run_id, later)
        for key in later:
            del self.stored[key]

    def _tell_started(self, goal: Goal, loop: _Round | None) -> None:
        where = {"iteration": loop.number} if loop else {}
        agents = {"agent": ", ".join(goal.agents)} if goal.agents else {}
        self.session.bus.publish(
            {"event_type": "goal_started", "workflow": self.workflow.name, "goal": goal.name, **where, **agents}  # pyright: ignore[reportArgumentType]
        )

    def _tell_complete(self, goal: Goal, result: Result) -> None:
        outcome = "achieved" if result.achieved else "not_achieved"
        self.session.bus.publish(
            {"event_type": "goal_complete", "workflow": self.workflow.name, "goal": goal.name, "outcome": outcome}
        )


class _ParallelSessions:
    """Runs sessions in parallel and waits for all; the first failure cancels the others and is raised."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[Result]] = []

    async def __aenter__(self) -> "_ParallelSessions":
        return self

    def begin(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        task = asyncio.ensure_future(self._run_and_close(work))
        self._tasks.append(task)
        return task

    async def _run_and_close(self, work: Coroutine[Any, Any, Result]) -> Result:
        try:
            return await work
        finally:
            work.close()  # avoids a warning if it never started; harmless if it finished

    async def __aexit__(self, *_: object) -> None:
        try:
            done, _left = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)
        for task in done:
            task.result()


def _require_achieved(results: Mapping[str, Result], *, last_only: bool = False) -> None:
    """Ends the run if a goal was reported as not reachable, however its loop ended."""
    for name, result in list(results.items())[-1 if last_only else 0 :]:
        if not result.achieved:
            raise RunEnds("error", f"goal {name} was not reached: {result.summary}")


def _max_rounds(step: Step, values: Mapping[str, str]) -> int:
    from adderclaw.flows.agentfile.check import limit_problem

    if isinstance(step.limit, int):
        return step.limit
    text = values[(step.limit or "")[1:]]
    if reason := limit_problem(text):
        raise RunEnds("error", f"LOOP {step.name}: {step.limit}: {reason}")
    return int(text)


def _format_result(result: Result) -> str:
    summary = result.summary if result.achieved else f"(not reached) {result.summary}"
    return _format_rows(summary, result.outputs, leave_out={})


def _merge_persona_outputs(result: Result, variables: tuple[str, ...]) -> Result:
    """Adds a persona's own outputs to its summary, since only the goal's outputs are variables."""
    own = {name: value for name, value in result.outputs.items() if name in variables}
    return result._replace(summary=_format_rows(result.summary, result.outputs, leave_out=own), outputs=own)


def _format_rows(summary: str, values: Mapping[str, str], leave_out: Mapping[str, str]) -> str:
    return "\n".join([summary, *(f"{name}: {value}" for name, value in values.items() if name not in leave_out)])


def _result_of(goal: Goal, report: GoalReport, child_report: ChildReport) -> Result:
    """Returns the reported result, or else the final answer, unless a report is needed or outputs are owed."""
    if report.result is not None:
        return report.result._replace(tool_calls=max(child_report.tool_calls - 1, 0))
    if not report.needed:
        return Result(achieved=True, summary=child_report.answer, outputs={}, tool_calls=child_report.tool_calls)
    owed = f"no value was reported for {', '.join(goal.outputs)}" if goal.outputs else "GoalResult was never called"
    return Result(
        achieved=False, summary=f"{owed}: {child_report.answer}", outputs={}, tool_calls=child_report.tool_calls
    )
