"""The dry run of a workflow: its steps with their prompts, as far as they are known before it runs."""

from collections.abc import Mapping

from adderclaw.core.types import Json
from adderclaw.flows.agentfile import prompts
from adderclaw.flows.agentfile.variables import fill
from adderclaw.flows.agentfile.workflow import Goal, Step, Workflow

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
