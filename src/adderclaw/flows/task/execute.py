"""Runs a task: loads, routes and discloses skills, asks the model for a decision at a time and carries it out."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Literal

from adderclaw.agent.loop import lifecycle
from adderclaw.agent.loop.loop import run_planned_call
from adderclaw.agent.run.driver import RunEnds
from adderclaw.agent.session.prompt import Prompt
from adderclaw.agent.session.session import Session, TurnResult
from adderclaw.agent.tool_call.result import FinishedCall, SaveOutcome
from adderclaw.core.decode import decode
from adderclaw.core.errors import LimitError, PathRefused
from adderclaw.core.events import Body, EventRecord
from adderclaw.core.history import History
from adderclaw.core.json_text import canonical, digest, to_json
from adderclaw.core.types import EndedBy, Json, Outcome, ToolCall
from adderclaw.flows.task import decision as decisions
from adderclaw.flows.task import prompts, steps, unknown_names
from adderclaw.flows.task.contracts import (
    ActionStep,
    CallSkill,
    Finish,
    LlmRequestMeta,
    ModelDecision,
    StepExecutionResult,
)
from adderclaw.flows.task.decision import DecisionCall
from adderclaw.flows.task.machine import Machine, remedy
from adderclaw.flows.task.model_request import DecisionRequester
from adderclaw.flows.task.prompts import Composed, Parts
from adderclaw.flows.task.task_skills import MAX_LISTED, SkillRequest, TaskSkills
from adderclaw.flows.task.transitions import Decided, Transitions
from adderclaw.tools.skills.catalogue import Catalogue

WITHHELD = (
    "The step was not carried out: its command contained a secret, and secrets are not stored with a run. "
    "Plan it again with a command that reads the secret from where it is (an environment variable, a file)."
)


class TaskExecution:
    """One run of a task in a session."""

    def __init__(
        self,
        session: Session,
        task: str,
        load: Callable[[], Catalogue],
        *,
        inputs: Mapping[str, str] | None = None,
        planned_only: bool = False,
        prompt: Prompt | None = None,
    ) -> None:
        """`inputs` are the options that the run begins with, stored so that it can be resumed."""
        self.session, self.task, self.dry = session, task, planned_only
        self._inputs = dict(inputs or {})
        self.machine = Machine()
        self._skills = TaskSkills(session, load)
        self.results: list[StepExecutionResult] = []
        self.requests: list[LlmRequestMeta] = []
        self.selected = ""
        self.turn = 0
        self.answer = ""
        self.composed: Composed | None = None
        self._failed: set[str] = set()
        self._notes: list[str] = []
        self._commands: dict[str, str] = {}
        self._unanswered = 0
        self._sent_back = 0
        self._transitions: Transitions | None = None
        self._live = True
        """False while a resumed run replays stored steps, whose events must not be published again."""
        self._earlier_requests = 0
        self._requester = DecisionRequester(session, prompt)

    async def run(self) -> TurnResult:
        """Runs the task to its end; always returns an outcome of the closed set."""
        session = self.session
        session.bus.add_sink("task", self._on_event)
        session.prompt = self._requester.prompt
        if not self.dry:
            session.tape.begin_driver(session, "task", {"task": self.task, "inputs": self._inputs})
        by: EndedBy = ""
        try:
            await self._begin()
            self._load()
            self._route()
            outcome, reason = await self._work()
        except RunEnds as end:
            outcome, reason, by = end.outcome, end.reason, end.by
        except LimitError as error:
            outcome, reason, by = "limit", str(error), error.by
        self._live = True
        if outcome == "completed":
            if not self.dry:  # a dry run ends before the model is called
                self.machine.to("DONE")
            self._leave_skill("completed", "")
        else:
            self.machine.to("ERROR")
            self._leave_skill("failed", reason)
        details = self._details()
        if self.dry and outcome == "completed":
            self.answer = _dry_run_text(details)
        return TurnResult(outcome, self.answer, reason, details, ended_by=by)

    async def _begin(self) -> None:
        if self.dry:
            return
        if self.session.environment.stopped():
            raise RunEnds("stopped", "the emergency stop is set; `adderclaw estop --clear` removes it")
        self._transitions = Transitions(self.session)
        self._live = not self._transitions.resumed
        if self._transitions.accepted:
            await lifecycle.run_start_hooks(self.session)
            return
        if not self._transitions.resumed:
            self._transitions.begin(self.task, self._inputs)
        if (refused := await lifecycle.run_submit_hooks(self.session, self.task)) is not None:
            raise RunEnds("denied", f"a hook refused the task: {refused}", "hook")

    def _details(self) -> Json:
        details: Json = {
            "turns": self.turn,
            "candidates": [[c.skill_name, c.score, c.reason] for c in self._skills.candidates[:MAX_LISTED]],
            "results": to_json(self.results),
            "requests": to_json(self.requests),
        }
        if self.dry and self.composed is not None:
            details |= {"mode": "dry_run", "prompt": self.composed.text, "system": self._requester.prompt.system}
            details |= self.composed.as_json()
        return details

    def _on_event(self, record: EventRecord) -> None:
        """Collects model calls; each retry is a transition from CALL_LLM to itself."""
        if record.session_id != self.session.session_id:
            return
        if record.event_type == "llm_retry_scheduled" and self.machine.state == "CALL_LLM":
            self.machine.to("CALL_LLM")
        elif record.event_type == "llm_response_received":
            fields = LlmRequestMeta.__dataclass_fields__
            self.requests.append(LlmRequestMeta(**{name: record.payload[name] for name in fields}))

    # -------------------------------------------------------------- skills

    def _load(self) -> None:
        self.machine.to("LOAD_SKILL_CATALOG")
        if failed := self._skills.load_catalogue():
            raise RunEnds("error", failed, "skill_catalog_failed")

    def _route(self) -> None:
        self.machine.to("PREFILTER_SKILLS")
        if self._skills.route(self.task) == "fail_fast":
            fix = "reword the task, or set skills.prefilter_zero_candidate_strategy to fallback_all_skills"
            why = f"no_candidate_skills: no skill is similar enough to the task; {fix}"
            raise RunEnds("error", why, "no_candidate_skills")
        self.machine.to("DISCLOSE_CONTEXT_STAGE")
        self._skills.load_metadata()
        known = digest([self._skills.offered, self._skills.descriptions()])
        if self._transitions is not None and not self._transitions.same_candidates(known):
            why = "skills_changed: the skills that fit the task have changed since the run began; start a new run"
            raise RunEnds("error", why, "skills_changed")

    # -------------------------------------------------------------- reasoning

    async def _work(self) -> tuple[Outcome, str]:
        """Repeats the states from DISCLOSE_CONTEXT_STAGE on until the task is finished."""
        while True:
            self._skills.load_requested()
            if await self._compose():
                return "completed", ""
            decided = await self._decide()
            following = await self._carry_out(decided)
            if following == "finish" and await self._may_finish():
                return self._outcome()
            if following != "think":
                self.machine.to("DISCLOSE_CONTEXT_STAGE")

    def _outcome(self) -> tuple[Outcome, str]:
        """Denied if the last step was denied: an answer must not hide what was refused."""
        last = self.results[-1] if self.results else None
        if last is not None and last.status == "denied":
            return "denied", f"step {last.step_id} was denied: {last.stdout_summary or last.stderr_summary}"
        return "completed", ""

    async def _compose(self) -> bool:
        """Composes the next prompt; returns True in a dry run, which ends here."""
        if self.dry:
            parts = self._parts()
            self.turn = 1
            if self._skills.candidates:
                self.composed = await self._requester.compose(parts, 1, dry=True)
            else:
                self.composed = self._requester.compose_ordinary(parts.task)
            return True
        self.machine.to("CALL_LLM")
        self.turn += 1
        if self._earlier_decision() is None:
            self._check_turns()
            self._live = True
            if not self.requests:
                await self._requester.require_ready()
            self.composed = await self._requester.compose(self._parts(), self.turn, dry=False)
        return False

    def _check_turns(self) -> None:
        limit = self.session.config.runtime.max_turns
        if self.turn > limit:
            fix = f"`adderclaw run --resume {self.session.bus.run_id} --max-turns MORE` continues"
            raise RunEnds("limit", f"max_turns_exceeded: {limit} turns are used up (runtime.max_turns); {fix}", "turns")

    def _earlier_decision(self) -> Decided | None:
        return self._transitions.decision(self.turn) if self._transitions is not None else None

    def _parts(self) -> Parts:
        names = [(candidate.skill_name, candidate.score, candidate.reason) for candidate in self._skills.candidates]
        return Parts(
            task=self.session.secrets.scrub(self.task),
            results=tuple(self.results),
            commands=self._commands,
            notes=tuple(self._notes),
            candidates=prompts.describe_candidates(names, self._skills.descriptions()),
            disclosed=tuple(self._skills.excerpts(self.selected)),
        )

    async def _decide(self) -> ModelDecision:
        """Returns the model's next decision, repaired once if invalid, or the one stored before an interruption."""
        if (known := self._earlier_decision()) is not None:
            self.machine.to("DECODE_DECISION")
            self._earlier_requests = known.requests
            return known.decision
        assert self.composed is not None
        session = self.session
        session.state.history = History(before=self._earlier_requests + len(self.requests))
        message = self.composed.text
        mode = session.config.runtime.structured_output_mode
        for last in (False, True):
            call = DecisionCall()
            text = await self._ask_model(message, call)
            self.machine.to("DECODE_DECISION")
            decoded = decisions.decode_decision(call.input, text, mode, self._requester.method)
            problems = decoded.problems
            if decoded.decision is not None:
                problems = unknown_names.unknown_names(decoded.decision, self._skills)
            if decoded.decision is not None and not problems:
                self._tell_decision("decoded", decoded.how, decoded.decision, [])
                assert self._transitions is not None
                self._transitions.save_decision(
                    self.turn, asdict(decoded.decision), self._earlier_requests + len(self.requests)
                )
                return decoded.decision
            self._tell_decision("invalid" if last else "repair", decoded.how, decoded.decision, problems)
            if last:
                break
            self.machine.to("CALL_LLM")
            message = decisions.reminder(problems)
        listed = "; ".join(problems)
        fix = "`adderclaw -p` carries out a task without decisions"
        why = f"invalid_decision: the model made two decisions that cannot be carried out: {listed}; {fix}"
        raise RunEnds("error", why, "invalid_decision")

    async def _ask_model(self, message: str, call: DecisionCall) -> str:
        result = await self._requester.ask(message, call)
        if result.outcome != "completed" and call.input is None:
            # a call of an unknown tool counts as an invalid decision; any other failure ends the run
            if result.outcome == "denied":
                return result.answer
            raise RunEnds(result.outcome, result.reason, result.ended_by)
        return result.answer

    def _tell_decision(self, status: str, how: str, decision: ModelDecision | None, problems: list[str]) -> None:
        self.session.bus.publish(
            {
                "event_type": "llm_decision_decoded",
                "turn": self.turn,
                "status": status,
                "how": how,
                "selected_skill": (decision.selected_skill or "") if decision else "",
                "summary": decision.reasoning_summary[:2_000] if decision else "",
                "actions": [action.type for action in decision.planned_actions] if decision else [],
                "disclosure": list(decision.required_disclosure_paths) if decision else [],
                "problems": problems[:20],
            }
        )

    # -------------------------------------------------------------- doing

    async def _carry_out(self, decision: ModelDecision) -> Literal["finish", "disclose", "think"]:
        """Selects the skill and runs the planned steps; returns what follows."""
        rationale = decision.reasoning_summary
        chosen = decision.selected_skill or ""
        planned = ", ".join(action.type for action in decision.planned_actions) or "nothing"
        why = steps.summary(rationale)[:600]
        self._note(f"Decision {self.turn}: skill {chosen or 'none'}; planned {planned}; {why}")
        ends = bool(decision.planned_actions) and decision.planned_actions[-1].type == "finish"
        if chosen != self.selected and (chosen or not ends):
            self._select(chosen, rationale, len(decision.planned_actions))
        if decision.required_disclosure_paths:
            self._skills.request(chosen, 2, decision.required_disclosure_paths)
        actions = self._after_instructions(decision.planned_actions)
        if actions and actions[0].type != "finish" and not _hands_over(actions[0]):
            self.machine.to("EXECUTE_STEP")
            if not await self._run_steps(actions):
                self.machine.to("HANDOFF_OR_FINISH")
                return "disclose"
            self.machine.to("VERIFY_PROGRESS")
        last = actions[-1] if actions else None
        if last is not None and last.type == "finish":
            self.answer = decode(Finish, last.params).answer
            self.machine.to("HANDOFF_OR_FINISH")
            return "finish"
        for action in filter(_hands_over, actions):
            self._select(decode(CallSkill, action.params).skill or chosen, rationale, 0)
            break
        if self.machine.state == "VERIFY_PROGRESS":
            return "disclose" if self._skills.has_requests else "think"
        self.machine.to("HANDOFF_OR_FINISH")
        return "disclose"

    async def _run_steps(self, actions: list[ActionStep]) -> bool:
        """Runs the steps up to a handover or the end; returns False if the rest must not run."""
        for number, action in enumerate(actions, 1):
            if action.type == "finish" or _hands_over(action):
                break
            step_id = f"{self.turn}.{number}"
            proceed = await self._run_step(action, step_id)
            if self._live:
                await self.session.unit_finished(f"step {step_id}")
            if not proceed:
                return False
        return True

    def _after_instructions(self, actions: list[ActionStep]) -> list[ActionStep]:
        """Returns no actions if one runs a script of a skill whose instructions the model has not seen yet."""
        for action in actions:
            params = decode(CallSkill, action.params) if action.type == "call_skill" else None
            name = (params.skill or self.selected) if params is not None and params.script else ""
            if name and not self._skills.is_disclosed(name, 1):
                if name != self.selected:
                    self._skills.request(name, 1)
                self._skills.request(name, 3)
                self._note(f"No action was run. Read the instructions of {name} first, then plan again.")
                return []
        return actions

    def _select(self, name: str, rationale: str, actions: int) -> None:
        before = self.selected
        if name == before:
            return
        self._leave_skill("handed_off", f"handed over to {name or 'no skill'}: {rationale}")
        self.selected = name
        if not name:
            return
        if not self._skills.is_disclosed(name, 1):
            self._skills.request(name, 1)
        self._tell(
            {
                "event_type": "skill_invocation_started",
                "skill": name,
                "actions": actions,
                "handoff_from": before,
                "rationale": rationale[:2_000],
            }
        )

    def _leave_skill(self, status: str, reason: str) -> None:
        if self.selected:
            self._tell(
                {
                    "event_type": "skill_invocation_finished",
                    "skill": self.selected,
                    "status": status,
                    "reason": reason[:2_000],
                }
            )
            self.selected = ""

    async def _run_step(self, action: ActionStep, step_id: str) -> bool:
        """Carries out one action, by the policy for failures; returns False if the next actions must not run."""
        skill = self._skill_of(action)
        if skill and not self._skills.is_disclosed(skill, 3):
            self._skills.load(SkillRequest(skill, 3))
        retries = 0
        while True:
            result = await self._step_result(action, skill, step_id, retries)
            if result is None:
                return self._withhold(action, skill, step_id, retries)
            if result.status == "ok":
                return True
            if result.status == "unknown":
                return self._continue_after(step_id, result)
            if result.status == "unanswered":
                return self._unanswered_question(step_id, result)
            if action.type != "call_skill" and self.session.config.runtime.on_step_failure != "abort":
                self._note(
                    f"Step {step_id} ({_describe_result(result)}) ended that decision. No later step was carried out."
                )
                return False
            fallback = self._fallback_skill()
            match remedy(
                self.session.config.runtime.on_step_failure,
                retryable=result.status in steps.RETRYABLE,
                retried=retries > 0,
                fallback=bool(fallback),
            ):
                case "retry":
                    retries += 1
                    self._tell_retry(step_id, retries, result)
                    self.machine.to("EXECUTE_STEP")
                case "fallback":
                    self._fall_back(fallback, step_id, result)
                    return False
                case "abort" if not self._live:
                    return self._continue_after(step_id, result)
                case "abort":
                    outcome = "denied" if result.status == "denied" else "error"
                    why = f"step_failed: step {step_id} ({action.type}) {_describe_result(result)}"
                    raise RunEnds(outcome, why, "step_failed")

    def _skill_of(self, action: ActionStep) -> str:
        return decode(CallSkill, action.params).skill or self.selected if action.type == "call_skill" else ""

    async def _step_result(
        self, action: ActionStep, skill: str, step_id: str, retries: int
    ) -> StepExecutionResult | None:
        """Returns the new or stored result of a step; None if it cannot be carried out as planned."""
        assert self._transitions is not None
        session = self.session
        if (known := self._earlier_step(step_id, retries)) is not None:
            if known.status == "unknown" and self._transitions.is_newly_unknown(step_id, retries):
                self._live = True
                self._tell_step(action, skill, self._commands[step_id], known)
            return known
        if self._transitions.lacks_secret(self.turn, action):
            return None
        self._live = True
        seconds = session.config.runtime.timeout_seconds
        try:
            call = steps.call_of(action, skill, self._skills.argv, session.ids("call"), seconds)
        except PathRefused as error:  # the script existed when the decision was checked
            raise RunEnds("error", f"step_failed: step {step_id}: {error.reason}", "step_failed") from error
        self._commands[step_id] = steps.summary(steps.shown(call))
        owner = skill or self.selected
        done = await self._call_tool(call, owner, self._transitions.save_step(step_id, retries, call))
        result = self._add_result(steps.result_of(step_id, done, retries))
        self._tell_step(action, skill, steps.shown(call), result)
        if result.status == "denied" and owner in self._skills.ignored_grants:
            message = f"the skill {owner!r}: {self._skills.ignored_grants[owner]}"
            session.bus.publish({"event_type": "warning", "message": message})
        if session.environment.stopped():
            raise RunEnds("stopped", "the emergency stop was set; `adderclaw estop --clear` removes it")
        if done.stop is not None:
            raise RunEnds("denied", f"a hook ended the run: {done.stop}".removesuffix(": "), "hook")
        return result

    async def _call_tool(self, call: ToolCall, skill: str, keep: SaveOutcome) -> FinishedCall:
        """Runs a step's call with the permissions of its own skill only."""
        environment = self.session.environment
        if skill and self._skills.is_disclosed(skill, 1):
            environment.active_policy.lend(self._skills.granted_rules(skill))
        try:
            return await run_planned_call(self.session, call, keep)
        finally:
            environment.active_policy.end_loans()

    def _earlier_step(self, step_id: str, retries: int) -> StepExecutionResult | None:
        """Returns the result from before an interruption, so that the step is not carried out again."""
        assert self._transitions is not None
        known = self._transitions.step(step_id, retries)
        if known is None:
            return None
        self._commands[step_id] = self._transitions.command(step_id, retries)
        return self._add_result(known)

    def _add_result(self, result: StepExecutionResult) -> StepExecutionResult:
        self.results = [earlier for earlier in self.results if earlier.step_id != result.step_id] + [result]
        return result

    def _continue_after(self, step_id: str, result: StepExecutionResult) -> bool:
        """Leaves it to the model what to do about the step at which the run ended or was interrupted."""
        self._note(
            f"The run was interrupted at step {step_id} ({_describe_result(result)}) and was resumed. "
            "Check what the step did before you repeat it."
        )
        return False

    def _withhold(self, action: ActionStep, skill: str, step_id: str, retries: int) -> bool:
        """Has the model plan a step again whose command would run with a mark in place of a secret."""
        assert self._transitions is not None
        self._live = self._transitions.decision(self.turn + 1) is None  # otherwise an earlier attempt has published it
        command = self._commands[step_id] = steps.summary(canonical(action.params))
        self._tell_step(
            action,
            skill,
            command,
            self._add_result(StepExecutionResult(step_id, None, "", WITHHELD, retries, "invalid")),
        )
        self._note(f"The run was interrupted before step {step_id} and was resumed. {WITHHELD}")
        return False

    def _unanswered_question(self, step_id: str, result: StepExecutionResult) -> bool:
        """Lets the model decide without an answer once; a second question ends the run with `needs_input`."""
        self._unanswered += 1
        if self._unanswered > 1 and not self._live:
            self._unanswered = 0
            return self._continue_after(step_id, result)
        if self._unanswered > 1:
            why = "ask_user: nobody can answer the question; run it interactively, where a person can"
            raise RunEnds("needs_input", why, "ask_user")
        return True

    def _fallback_skill(self) -> str:
        """The best candidate that has not failed; empty if there is none."""
        left = (name for name in self._skills.offered if name not in {*self._failed, self.selected})
        return next(left, "")

    def _fall_back(self, name: str, step_id: str, result: StepExecutionResult) -> None:
        failed, why = self.selected, f"step {step_id} {_describe_result(result)}"
        self._failed.add(failed)
        self._note(f"{why}. The work continues with the skill {name}{f' instead of {failed}' if failed else ''}.")
        self._leave_skill("failed", why)
        self._select(name, f"fallback: {why}", 0)

    def _tell_retry(self, step_id: str, retry: int, result: StepExecutionResult) -> None:
        self._tell(
            {
                "event_type": "step_retry_scheduled",
                "skill": self.selected,
                "step_id": step_id,
                "retry": retry,
                "reason": _describe_result(result),
            }
        )

    async def _may_finish(self) -> bool:
        """Runs the Stop hooks, which may send the model back to work."""
        assert self._transitions is not None
        reason = self._transitions.sent_back(self.turn)
        if reason is None:
            self._live = True
            reason = await lifecycle.run_stop_hooks(self.session, self.answer, self._sent_back)
            if reason is None:
                return True
            self._transitions.save_sent_back(self.turn, reason)
        self._sent_back += 1
        self._note(reason)
        return False

    # -------------------------------------------------------------- events and notes

    def _tell(self, body: Body) -> None:
        if self._live:
            self.session.bus.publish(body)

    def _tell_step(self, action: ActionStep, skill: str, command: str, result: StepExecutionResult) -> None:
        self._tell(
            {
                "event_type": "skill_step_executed",
                "skill": skill or self.selected,
                "action": action.type,
                "command": command,
                **to_json(result),  # pyright: ignore[reportArgumentType]
            }
        )

    def _note(self, text: str) -> None:
        self._notes.append(text)


def _hands_over(action: ActionStep) -> bool:
    """Whether an action is a call_skill without a script, which hands the work over to another skill."""
    return action.type == "call_skill" and not decode(CallSkill, action.params).script


def _describe_result(result: StepExecutionResult) -> str:
    code = f" with exit code {result.exit_code}" if result.exit_code is not None else ""
    lines = (result.stderr_summary or result.stdout_summary).strip().splitlines()
    return f"{result.status}{code}" + (f": {lines[-1][:300]}" if lines else "")


def _dry_run_text(details: Json) -> str:
    """The candidates, the token budget and the first request, for `--dry-run`."""
    rows = ["dry run, no model is called", "candidates:"]
    rows += [f"  {name} {score:g} ({reason})" for name, score, reason in details["candidates"]] or ["  none"]
    shares = ", ".join(f"{name} {tokens:,}" for name, tokens in details["allocated"].items())
    rows.append(f"tokens, by {details['counted']}: {shares}")
    rows += [f"  {change}" for change in details["trimmed"]]
    rows.append("prompt:")
    rows += [f"  | {line}" for line in details["prompt"].split("\n")]
    return "\n".join(rows)
