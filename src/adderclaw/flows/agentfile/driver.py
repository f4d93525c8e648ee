"""The driver of an Agentfile with its inputs."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from sqlite3 import Cursor

from adderclaw.agent.run.driver import Driver, Opening
from adderclaw.agent.session.session import Session, TurnResult
from adderclaw.config.legacy.options import Options, stored
from adderclaw.core.errors import UsageError
from adderclaw.core.types import Json
from adderclaw.flows.agentfile import prompts
from adderclaw.flows.agentfile.execute import WorkflowExecution, begin_record
from adderclaw.flows.agentfile.load import bind_inputs, load
from adderclaw.flows.agentfile.variables import fill
from adderclaw.flows.agentfile.workflow import Goal, Step, Workflow
from adderclaw.storage import workflows

STRICT_PROFILES = ("supervised", "readonly")
"""Profiles that ask before or refuse everything that could do harm."""
SECURITY_WARNINGS = {
    "paranoid": "SECURITY paranoid: the run asks before anything that could do harm, as with --profile supervised",
    "research": "SECURITY research grants no permissions: --profile and policy.toml decide what a run may do",
}


def prepare(options: Options, path: str, inputs: Mapping[str, str], rounds: int | None = None) -> "AgentfileDriver":
    """`rounds` overrides how many rounds each LOOP may run."""
    workflow = load(path, (options.workspace or os.getcwd(),))
    return AgentfileDriver(options, workflow, bind_inputs(workflow, inputs), rounds)


@dataclass(frozen=True)
class AgentfileDriver:
    options: Options
    workflow: Workflow
    inputs: dict[str, str]
    rounds: int | None = None
    again: str | None = None

    @property
    def opening(self) -> Opening:
        folder = os.path.dirname(os.path.abspath(self.workflow.file))
        options = replace(self.options, beside=folder)
        return Opening(
            "agentfile", _apply_security_mode(options, self.workflow), again=self.again, rows=(self._save_begin,)
        )

    def _save_begin(self, cursor: Cursor, session: Session) -> None:
        begun = begin_record(session.bus.run_id, self.workflow, self.inputs, stored(self.options))
        workflows.begin(cursor, begun)

    def plan(self) -> Json:
        return as_json(self.workflow, self.inputs)

    def plan_text(self) -> str:
        return text(self.plan())

    def dry(self) -> Driver | None:
        return None

    async def run(self, session: Session) -> TurnResult:
        _require_capabilities(self.workflow, session.config.capabilities)
        if (warning := SECURITY_WARNINGS.get(self.workflow.security.mode)) is not None:
            session.bus.publish({"event_type": "warning", "message": warning})
        execution = WorkflowExecution(
            session,
            self.workflow,
            self.inputs,
            session.host.spawn,
            run_id=session.bus.run_id,
            rounds=self.rounds,
        )
        return await execution.run()


def _apply_security_mode(options: Options, workflow: Workflow) -> Options:
    """Applies `SECURITY paranoid`, which makes the profile stricter. A file can never make it less strict."""
    if workflow.security.mode != "paranoid":
        return options
    from adderclaw import config

    loaded = config.load(
        config_file=options.config_file, workspace=options.workspace, beside=options.beside, here=options.here
    )
    profile = options.profile or loaded.config.runtime.profile
    return options if profile in STRICT_PROFILES else replace(options, profile=STRICT_PROFILES[0])


def _require_capabilities(workflow: Workflow, known: Mapping[str, str]) -> None:
    required = {agent.requires for agent in workflow.agents if agent.requires}
    if missing := sorted(required - known.keys()):
        fix = f'name a provider for it: [capabilities] {missing[0]} = "ENTRY"'
        raise UsageError(f"{workflow.name} REQUIRES {', '.join(missing)}, but no provider is configured for it; {fix}")


MARK = "MARK"
"""Replaces the random mark of a frame, which is drawn when the workflow runs."""


def as_json(workflow: Workflow, values: Mapping[str, str]) -> Json:
    known = _known_values(workflow, values)
    steps = [
        {
            "kind": step.kind,
            "name": step.name,
            "within": fill(step.limit, known) if isinstance(step.limit, str) else step.limit,
            "condition": fill(step.condition, known) or None,
            "goals": [_goal_json(workflow, workflow.goal(name), step, known) for name in step.goals],
        }
        for step in workflow.steps
    ]
    return {"mode": "dry_run", "workflow": workflow.name, "inputs": dict(values), "steps": steps}


def _goal_json(workflow: Workflow, goal: Goal, step: Step, known: Mapping[str, str]) -> Json:
    views = {name: f"(what {name} found)" for name in goal.agents}
    review = workflow.reviewer_of(goal, step)
    return {
        "name": goal.name,
        "prompt": prompts.goal(workflow, workflow.goal_for_session(goal), known, {}, MARK),
        "agents": [_agent_json(workflow, goal, name, known) for name in goal.agents],
        "synthesis": prompts.synthesis(workflow, goal, known, views, MARK) if len(views) > 1 else None,
        "review": review,
        "review_prompt": prompts.review(workflow, goal, known, f"${goal.name}", MARK) if review == "reviewer" else None,
    }


def _agent_json(workflow: Workflow, goal: Goal, name: str, known: Mapping[str, str]) -> Json:
    persona = workflow.agent(name)
    prompt = prompts.goal(workflow, workflow.goal_for_session(goal, name), known, {}, MARK)
    return {"name": name, "persona": fill(persona.prompt, known), "requires": persona.requires, "prompt": prompt}


def _known_values(workflow: Workflow, values: Mapping[str, str]) -> dict[str, str]:
    """Adds the results and outputs of goals, which have no values yet, as their own names."""
    later = {name: f"${name}" for goal in workflow.goals for name in (goal.name, *goal.outputs)}
    return {**later, **values}


def text(plan: Json) -> str:
    """Formats the plan for a person."""
    rows = [f"{plan['workflow']}: dry run, no model is called"]
    rows += [f"  {name} = {value}" for name, value in plan["inputs"].items()]
    for step in plan["steps"]:
        until = f", until: {step['condition'].strip().split(chr(10))[0]}" if step["condition"] else ""
        most = f", at most {step['within']} rounds{until}" if step["within"] else ""
        rows.append(f"{step['kind']} {step['name']}{most}")
        for goal in step["goals"]:
            rows += _goal_rows(goal)
    return "\n".join(rows)


def _goal_rows(goal: Json) -> list[str]:
    rows = [f"  goal {goal['name']}"]
    for agent in goal["agents"]:
        on = f", on the provider for {agent['requires']}" if agent["requires"] else ""
        rows += [
            f"    as {agent['name']}{on}:",
            *_quote_lines(agent["persona"]),
            "    asked:",
            *_quote_lines(agent["prompt"]),
        ]
    rows += [] if goal["agents"] else _quote_lines(goal["prompt"])
    if goal["synthesis"]:
        rows += ["    then reconciled:", *_quote_lines(goal["synthesis"])]
    if goal["review_prompt"]:
        rows += ["    then reviewed:", *_quote_lines(goal["review_prompt"])]
    return [*rows, "    then the operator is asked"] if goal["review"] == "operator" else rows


def _quote_lines(text: str) -> list[str]:
    return [f"    | {line}" for line in text.split("\n")]
