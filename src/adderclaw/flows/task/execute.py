"""A task run: skills found, routed and disclosed; the model decides step by step, and what it plans is carried out."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Literal

from adderclaw.agent.loop import lifecycle
from adderclaw.agent.loop.loop import run_planned_call
from adderclaw.agent.run.driver import RunEnds
from adderclaw.agent.session.prompt import Prompt
from adderclaw.agent.session.session import Session, TurnResult
from adderclaw.agent.tool_call.hooks import Keep
from adderclaw.agent.tool_call.result import Done
from adderclaw.core.decode import decode
from adderclaw.core.errors import LimitError, PathRefused
from adderclaw.core.events import Body, EventRecord
from adderclaw.core.history import History
from adderclaw.core.json_text import canonical, digest
from adderclaw.core.types import EndedBy, Json, Outcome, ToolCall
from adderclaw.flows.task import decision as decisions
from adderclaw.flows.task import dry, prompts, steps, unknown_names
from adderclaw.flows.task.contracts import (
    ActionStep,
    CallSkill,
    Finish,
    LlmRequestMeta,
    ModelDecision,
    StepExecutionResult,
)
from adderclaw.flows.task.decision import Taken
from adderclaw.flows.task.machine import Machine, remedy
from adderclaw.flows.task.model_request import Asking
from adderclaw.flows.task.prompts import Composed, Parts
from adderclaw.flows.task.task_skills import LISTED, Disclosing, SkillRequest
from adderclaw.flows.task.transitions import Decided, Transitions
from adderclaw.tools.skills.catalogue import Catalogue

WITHHELD = (
    "It was not carried out: its command held a secret, and a run is kept without secrets. "
    "Plan it anew, with the secret read where it is (a variable of the environment, a file)."
)


class TaskExecution:
    """One run of a task on a session."""

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
        """`inputs` is what a run is begun with, for whoever resumes it."""
        self.session, self.task, self.dry = session, task, planned_only
        self._inputs = dict(inputs or {})
        self.machine = Machine()
        self._shown = Disclosing(session, load)
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
        self._kept: Transitions | None = None
        self._live = True
        """False while it goes through what an earlier try at this run did: nothing of that is told again."""
        self._asked_before = 0
        self._asking = Asking(session, prompt)

    async def run(self) -> TurnResult:
        """To the end; whatever ends it, its outcome is one of the closed set."""
        session = self.session
        session.bus.add_sink("task", self._heard)
        session.prompt = self._asking.prompt
        if not self.dry:
            session.tape.drives(session, "task", {"task": self.task, "inputs": self._inputs})
        by: EndedBy = ""
        try:
            await self._begun()
            self._load()
            self._route()
            outcome, reason = await self._work()
        except RunEnds as end:
            outcome, reason, by = end.outcome, end.reason, end.by
        except LimitError as error:
            outcome, reason, by = "limit", str(error), error.by
        self._live = True
        if outcome == "completed":
            if not self.dry:  # which ends where the model would be asked
                self.machine.to("DONE")
            self._left_skill("completed", "")
        else:
            self.machine.to("ERROR")
            self._left_skill("failed", reason)
        details = self._details()
        if self.dry and outcome == "completed":
            self.answer = dry.text(details)
        return TurnResult(outcome, self.answer, reason, details, ended_by=by)

    async def _begun(self) -> None:
        if self.dry:
            return
        if self.session.scene.stopped():
            raise RunEnds("stopped", "the emergency stop is set; `adderclaw estop --clear` removes it")
        self._kept = Transitions(self.session)
        self._live = not self._kept.resumed
        if self._kept.accepted:
            await lifecycle.begin(self.session)
            return
        if not self._kept.resumed:
            self._kept.begin(self.task, self._inputs)
        if (refused := await lifecycle.submitted(self.session, self.task)) is not None:
            raise RunEnds("denied", f"a hook refused the task: {refused}", "hook")

    def _details(self) -> Json:
        told: Json = {
            "turns": self.turn,
            "candidates": [[one.skill_name, one.score, one.reason] for one in self._shown.candidates[:LISTED]],
            "results": [result.as_json() for result in self.results],
            "requests": [request.as_json() for request in self.requests],
        }
        if self.dry and self.composed is not None:
            told |= {"mode": "dry_run", "prompt": self.composed.text, "system": self._asking.prompt.system}
            told |= self.composed.as_json()
        return told

    def _heard(self, record: EventRecord) -> None:
        """Model calls as they go: each try again is a way from CALL_LLM to itself."""
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
        if failed := self._shown.load_catalogue():
            raise RunEnds("error", failed, "skill_catalog_failed")

    def _route(self) -> None:
        self.machine.to("PREFILTER_SKILLS")
        if self._shown.route(self.task) == "fail_fast":
            fix = "say it otherwise, or set skills.prefilter_zero_candidate_strategy to fallback_all_skills"
            why = f"no_candidate_skills: no skill is similar enough to the task; {fix}"
            raise RunEnds("error", why, "no_candidate_skills")
        self.machine.to("DISCLOSE_CONTEXT_STAGE")
        self._shown.metadata()
        known = digest([self._shown.offered, self._shown.about()])
        if self._kept is not None and not self._kept.same_candidates(known):
            why = "skills_changed: other skills fit the task than when the run began; run it anew"
            raise RunEnds("error", why, "skills_changed")

    # -------------------------------------------------------------- reasoning

    async def _work(self) -> tuple[Outcome, str]:
        """From DISCLOSE_CONTEXT_STAGE, around, to the end."""
        while True:
            self._shown.load_wanted()
            if await self._composed_only():
                return "completed", ""
            decided = await self._decide()
            way = await self._carry_out(decided)
            if way == "finish" and await self._may_finish():
                return self._finished()
            if way != "think":
                self.machine.to("DISCLOSE_CONTEXT_STAGE")

    def _finished(self) -> tuple[Outcome, str]:
        """Denied while the last step is: an answer must not hide what was refused."""
        last = self.results[-1] if self.results else None
        if last is not None and last.status == "denied":
            return "denied", f"step {last.step_id} was denied: {last.stdout_summary or last.stderr_summary}"
        return "completed", ""

    async def _composed_only(self) -> bool:
        """Compose the next prompt; True where that is all that is wanted."""
        if self.dry:
            parts = self._parts()
            self.turn = 1
            if self._shown.candidates:
                self.composed = await self._asking.compose(parts, 1, dry=True)
            else:
                self.composed = self._asking.compose_ordinary(parts.task)
            return True
        self.machine.to("CALL_LLM")
        self.turn += 1
        if self._known_decision() is None:
            self._within_turns()
            self._live = True
            if not self.requests:
                await self._asking.require_ready()
            self.composed = await self._asking.compose(self._parts(), self.turn, dry=False)
        return False

    def _within_turns(self) -> None:
        limit = self.session.config.runtime.max_turns
        if self.turn > limit:
            fix = f"`adderclaw run --resume {self.session.bus.run_id} --max-turns MORE` goes on"
            raise RunEnds("limit", f"max_turns_exceeded: {limit} turns are used up (runtime.max_turns); {fix}", "turns")

    def _known_decision(self) -> Decided | None:
        return self._kept.decision(self.turn) if self._kept is not None else None

    def _parts(self) -> Parts:
        names = [(one.skill_name, one.score, one.reason) for one in self._shown.candidates]
        return Parts(
            task=self.session.secrets.scrub(self.task),
            results=tuple(self.results),
            commands=self._commands,
            notes=tuple(self._notes),
            candidates=prompts.offered(names, self._shown.about()),
            disclosed=tuple(self._shown.excerpts(self.selected)),
        )

    async def _decide(self) -> ModelDecision:
        """One reasoning step: asked, decoded, and once repaired; or as it was taken before an interruption."""
        if (known := self._known_decision()) is not None:
            self.machine.to("DECODE_DECISION")
            self._asked_before = known.requests
            return known.decision
        assert self.composed is not None
        session = self.session
        session.state.history = History(before=self._asked_before + len(self.requests))
        message = self.composed.text
        mode = session.config.runtime.structured_output_mode
        for last in (False, True):
            taken = Taken()
            text = await self._asked(message, taken)
            self.machine.to("DECODE_DECISION")
            decoded = decisions.decoded(taken.given, text, mode, self._asking.by)
            problems = decoded.problems
            if decoded.decision is not None:
                problems = unknown_names.unknown(decoded.decision, self._shown)
            if decoded.decision is not None and not problems:
                self._told_decision("decoded", decoded.how, decoded.decision, [])
                assert self._kept is not None
                self._kept.decided(self.turn, asdict(decoded.decision), self._asked_before + len(self.requests))
                return decoded.decision
            self._told_decision("invalid" if last else "repair", decoded.how, decoded.decision, problems)
            if last:
                break
            self.machine.to("CALL_LLM")
            message = decisions.reminder(problems)
        said = "; ".join(problems)
        fix = "`adderclaw -p` works on a task without decisions"
        why = f"invalid_decision: twice the model gave no decision that can be carried out: {said}; {fix}"
        raise RunEnds("error", why, "invalid_decision")

    async def _asked(self, message: str, taken: Taken) -> str:
        result = await self._asking.ask(message, taken)
        if result.outcome != "completed" and taken.given is None:
            # a call of a tool that is not there is no decision, and is said so; all else ends the run
            if result.outcome == "denied":
                return result.answer
            raise RunEnds(result.outcome, result.reason, result.ended_by)
        return result.answer

    def _told_decision(self, status: str, how: str, made: ModelDecision | None, problems: list[str]) -> None:
        self.session.bus.publish(
            {
                "event_type": "llm_decision_decoded",
                "turn": self.turn,
                "status": status,
                "how": how,
                "selected_skill": (made.selected_skill or "") if made else "",
                "summary": made.reasoning_summary[:2_000] if made else "",
                "actions": [action.type for action in made.planned_actions] if made else [],
                "disclosure": list(made.required_disclosure_paths) if made else [],
                "problems": problems[:20],
            }
        )

    # -------------------------------------------------------------- doing

    async def _carry_out(self, made: ModelDecision) -> Literal["finish", "disclose", "think"]:
        """Select, execute, verify; says where it goes on."""
        rationale = made.reasoning_summary
        chosen = made.selected_skill or ""
        planned = ", ".join(action.type for action in made.planned_actions) or "nothing"
        why = steps.summary(rationale)[:600]
        self._note(f"Decision {self.turn}: skill {chosen or 'none'}; planned {planned}; {why}")
        ends = bool(made.planned_actions) and made.planned_actions[-1].type == "finish"
        if chosen != self.selected and (chosen or not ends):
            self._select(chosen, rationale, len(made.planned_actions))
        if made.required_disclosure_paths:
            self._shown.want(chosen, 2, made.required_disclosure_paths)
        actions = self._with_instructions(made.planned_actions)
        if actions and actions[0].type != "finish" and not _hands_over(actions[0]):
            self.machine.to("EXECUTE_STEP")
            if not await self._executed(actions):
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
            return "disclose" if self._shown.waiting else "think"
        self.machine.to("HANDOFF_OR_FINISH")
        return "disclose"

    async def _executed(self, actions: list[ActionStep]) -> bool:
        """The steps up to a handover or the end; False where one failed."""
        for place, action in enumerate(actions):
            if action.type == "finish" or _hands_over(action):
                break
            step_id = f"{self.turn}.{place + 1}"
            goes_on = await self._step(action, step_id)
            if self._live:
                await self.session.finished(f"step {step_id}")
            if not goes_on:
                return False
        return True

    def _with_instructions(self, actions: list[ActionStep]) -> list[ActionStep]:
        """Instructions first: a script of a skill runs once the model was shown what the skill says of it."""
        for action in actions:
            called = decode(CallSkill, action.params) if action.type == "call_skill" else None
            name = (called.skill or self.selected) if called is not None and called.script else ""
            if name and not self._shown.shows(name, 1):
                if name != self.selected:
                    self._shown.want(name, 1)
                self._shown.want(name, 3)
                self._note(f"Nothing was run: read the instructions of {name} first, then plan again.")
                return []
        return actions

    def _select(self, name: str, rationale: str, actions: int) -> None:
        before = self.selected
        if name == before:
            return
        self._left_skill("handed_off", f"handed over to {name or 'no skill'}: {rationale}")
        self.selected = name
        if not name:
            return
        if not self._shown.shows(name, 1):
            self._shown.want(name, 1)
        self._tell(
            {
                "event_type": "skill_invocation_started",
                "skill": name,
                "actions": actions,
                "handoff_from": before,
                "rationale": rationale[:2_000],
            }
        )

    def _left_skill(self, status: str, reason: str) -> None:
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

    async def _step(self, action: ActionStep, step_id: str) -> bool:
        """Carry out one action, by the policy for failures; False where another skill takes over."""
        skill = self._skill_of(action)
        if skill and not self._shown.shows(skill, 3):
            self._shown.load(SkillRequest(skill, 3))
        retries = 0
        while True:
            result = await self._lived(action, skill, step_id, retries)
            if result is None:
                return self._withheld(action, skill, step_id, retries)
            if result.status == "ok":
                return True
            if result.status == "unknown":
                return self._goes_on(step_id, result)
            if result.status == "unanswered":
                return self._nobody(step_id, result)
            if action.type != "call_skill" and self.session.config.runtime.on_step_failure != "abort":
                self._note(f"Step {step_id} ({_how(result)}) ended that decision. Nothing after it was carried out.")
                return False
            fallback = self._fallback()
            match remedy(
                self.session.config.runtime.on_step_failure,
                retryable=result.status in steps.RETRYABLE,
                retried=retries > 0,
                fallback=bool(fallback),
            ):
                case "retry":
                    retries += 1
                    self._told_retry(step_id, retries, result)
                    self.machine.to("EXECUTE_STEP")
                case "fallback":
                    self._fall_back(fallback, step_id, result)
                    return False
                case "abort" if not self._live:
                    return self._goes_on(step_id, result)
                case "abort":
                    outcome = "denied" if result.status == "denied" else "error"
                    why = f"step_failed: step {step_id} ({action.type}) {_how(result)}"
                    raise RunEnds(outcome, why, "step_failed")

    def _skill_of(self, action: ActionStep) -> str:
        return decode(CallSkill, action.params).skill or self.selected if action.type == "call_skill" else ""

    async def _lived(self, action: ActionStep, skill: str, step_id: str, retries: int) -> StepExecutionResult | None:
        """What a step comes to, or came to; None where it cannot be carried out as it was planned."""
        assert self._kept is not None
        session = self.session
        if (known := self._known_step(step_id, retries)) is not None:
            if known.status == "unknown" and self._kept.lost(step_id, retries):
                self._live = True
                self._tell_step(action, skill, self._commands[step_id], known)
            return known
        if self._kept.incomplete(self.turn, action):
            return None
        self._live = True
        seconds = session.config.runtime.timeout_seconds
        try:
            call = steps.call_of(action, skill, self._shown.argv, session.ids("call"), seconds)
        except PathRefused as error:  # it was there when the decision was looked at
            raise RunEnds("error", f"step_failed: step {step_id}: {error.reason}", "step_failed") from error
        self._commands[step_id] = steps.summary(steps.shown(call))
        owner = skill or self.selected
        done = await self._called(call, owner, self._kept.begins(step_id, retries, call))
        result = self._came_to(steps.result_of(step_id, done, retries))
        self._tell_step(action, skill, steps.shown(call), result)
        if result.status == "denied" and owner in self._shown.unvouched:
            message = f"the skill {owner!r}: {self._shown.unvouched[owner]}"
            session.bus.publish({"event_type": "warning", "message": message})
        if session.scene.stopped():
            raise RunEnds("stopped", "the emergency stop was set; `adderclaw estop --clear` removes it")
        if done.stop is not None:
            raise RunEnds("denied", f"a hook ended the run: {done.stop}".removesuffix(": "), "hook")
        return result

    async def _called(self, call: ToolCall, skill: str, keep: Keep) -> Done:
        """A step's call with what its own skill is allowed: what one skill may is not lent to another's script."""
        scene = self.session.scene
        if skill and self._shown.shows(skill, 1):
            scene.in_force.lend(self._shown.granted(skill))
        try:
            return await run_planned_call(self.session, call, keep)
        finally:
            scene.in_force.take_back()

    def _known_step(self, step_id: str, retries: int) -> StepExecutionResult | None:
        """What a step came to before an interruption: it is not carried out again."""
        assert self._kept is not None
        known = self._kept.step(step_id, retries)
        if known is None:
            return None
        self._commands[step_id] = self._kept.command(step_id, retries)
        return self._came_to(known)

    def _came_to(self, result: StepExecutionResult) -> StepExecutionResult:
        self.results = [one for one in self.results if one.step_id != result.step_id] + [result]
        return result

    def _goes_on(self, step_id: str, result: StepExecutionResult) -> bool:
        """The run had ended, or was interrupted, with this step: nothing of it is repeated, the model says what now."""
        self._note(
            f"The run was interrupted at step {step_id} ({_how(result)}) and goes on. Look before you repeat it."
        )
        return False

    def _withheld(self, action: ActionStep, skill: str, step_id: str, retries: int) -> bool:
        """With a mark in place of a secret a command would do something else: the model plans the step anew."""
        assert self._kept is not None
        self._live = self._kept.decision(self.turn + 1) is None  # else an earlier try has told it
        command = self._commands[step_id] = steps.summary(canonical(action.params))
        self._tell_step(
            action, skill, command, self._came_to(StepExecutionResult(step_id, None, "", WITHHELD, retries, "invalid"))
        )
        self._note(f"The run was interrupted before step {step_id} and goes on. {WITHHELD}")
        return False

    def _nobody(self, step_id: str, result: StepExecutionResult) -> bool:
        """Nobody can answer: the model may decide by itself what is safe to decide; asking again needs input."""
        self._unanswered += 1
        if self._unanswered > 1 and not self._live:
            self._unanswered = 0
            return self._goes_on(step_id, result)
        if self._unanswered > 1:
            raise RunEnds("needs_input", "ask_user: nobody is there to answer; run it where somebody is", "ask_user")
        return True

    def _fallback(self) -> str:
        """The best candidate that has not failed."""
        left = (name for name in self._shown.offered if name not in {*self._failed, self.selected})
        return next(left, "")

    def _fall_back(self, name: str, step_id: str, result: StepExecutionResult) -> None:
        failed, why = self.selected, f"step {step_id} {_how(result)}"
        self._failed.add(failed)
        self._note(f"{why}. The work goes on with the skill {name}{f' in place of {failed}' if failed else ''}.")
        self._left_skill("failed", why)
        self._select(name, f"fallback: {why}", 0)

    def _told_retry(self, step_id: str, retry: int, result: StepExecutionResult) -> None:
        self._tell(
            {
                "event_type": "step_retry_scheduled",
                "skill": self.selected,
                "step_id": step_id,
                "retry": retry,
                "reason": _how(result),
            }
        )

    async def _may_finish(self) -> bool:
        """A Stop hook may send the model back to work."""
        assert self._kept is not None
        reason = self._kept.sent_back(self.turn)
        if reason is None:
            self._live = True
            reason = await lifecycle.stopping(self.session, self.answer, self._sent_back)
            if reason is None:
                return True
            self._kept.sends_back(self.turn, reason)
        self._sent_back += 1
        self._note(reason)
        return False

    # -------------------------------------------------------------- said

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
                **result.as_json(),  # pyright: ignore[reportArgumentType]
            }
        )

    def _note(self, text: str) -> None:
        self._notes.append(text)


def _hands_over(action: ActionStep) -> bool:
    """call_skill without a script: the work goes on with another skill."""
    return action.type == "call_skill" and not decode(CallSkill, action.params).script


def _how(result: StepExecutionResult) -> str:
    code = f" with exit code {result.exit_code}" if result.exit_code is not None else ""
    said = (result.stderr_summary or result.stdout_summary).strip().splitlines()
    return f"{result.status}{code}" + (f": {said[-1][:300]}" if said else "")
