"""What a workflow would ask: its steps with their prompts, as far as they are known before anything runs."""

from collections.abc import Mapping

from adderclaw.core.types import Json
from adderclaw.flows.agentfile import prompts
from adderclaw.flows.agentfile.variables import filled
from adderclaw.flows.agentfile.workflow import Goal, Step, Workflow

MARK = "MARK"
"""Stands for what is drawn at random when the workflow runs."""


def as_json(workflow: Workflow, values: Mapping[str, str]) -> Json:
    known = _all(workflow, values)
    steps = [
        {
            "kind": step.kind,
            "name": step.name,
            "within": filled(step.limit, known) if isinstance(step.limit, str) else step.limit,
            "condition": filled(step.condition, known) or None,
            "goals": [_goal(workflow, workflow.goal(name), step, known) for name in step.goals],
        }
        for step in workflow.steps
    ]
    return {"mode": "dry_run", "workflow": workflow.name, "inputs": dict(values), "steps": steps}


def _goal(workflow: Workflow, goal: Goal, step: Step, known: Mapping[str, str]) -> Json:
    views = {name: f"(what {name} found)" for name in goal.agents}
    review = workflow.reviewer_of(goal, step)
    return {
        "name": goal.name,
        "prompt": prompts.goal(workflow, workflow.owed(goal), known, {}, MARK),
        "agents": [_agent(workflow, goal, name, known) for name in goal.agents],
        "synthesis": prompts.synthesis(workflow, goal, known, views, MARK) if len(views) > 1 else None,
        "review": review,
        "review_prompt": prompts.review(workflow, goal, known, f"${goal.name}", MARK) if review == "reviewer" else None,
    }


def _agent(workflow: Workflow, goal: Goal, name: str, known: Mapping[str, str]) -> Json:
    one = workflow.agent(name)
    prompt = prompts.goal(workflow, workflow.owed(goal, name), known, {}, MARK)
    return {"name": name, "persona": filled(one.prompt, known), "requires": one.requires, "prompt": prompt}


def _all(workflow: Workflow, values: Mapping[str, str]) -> dict[str, str]:
    """What no goal has given yet stands as its own name."""
    later = {name: f"${name}" for goal in workflow.goals for name in (goal.name, *goal.outputs)}
    return {**later, **values}


def text(plan: Json) -> str:
    """The same for a person."""
    rows = [f"{plan['workflow']}: dry run, no model is asked"]
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
        rows += [f"    as {agent['name']}{on}:", *_quoted(agent["persona"]), "    asked:", *_quoted(agent["prompt"])]
    rows += [] if goal["agents"] else _quoted(goal["prompt"])
    if goal["synthesis"]:
        rows += ["    then reconciled:", *_quoted(goal["synthesis"])]
    if goal["review_prompt"]:
        rows += ["    then reviewed:", *_quoted(goal["review_prompt"])]
    return [*rows, "    then the operator is asked"] if goal["review"] == "operator" else rows


def _quoted(text: str) -> list[str]:
    return [f"    | {line}" for line in text.split("\n")]
