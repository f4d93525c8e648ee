"""What a workflow would ask: its steps with their prompts, as far as they are known before anything runs."""

from collections.abc import Mapping

from adderclaw.drivers.agentfile import prompts
from adderclaw.drivers.agentfile.variables import filled
from adderclaw.drivers.agentfile.workflow import Goal, Workflow
from adderclaw.types import Json


def as_json(workflow: Workflow, values: Mapping[str, str]) -> Json:
    known = _all(workflow, values)
    steps = [
        {
            "kind": step.kind,
            "name": step.name,
            "within": filled(step.limit, known) if isinstance(step.limit, str) else step.limit,
            "condition": filled(step.condition, known) or None,
            "goals": [_goal(workflow, workflow.goal(name), known) for name in step.goals],
        }
        for step in workflow.steps
    ]
    return {"mode": "dry_run", "workflow": workflow.name, "inputs": dict(values), "steps": steps}


def _goal(workflow: Workflow, goal: Goal, known: Mapping[str, str]) -> Json:
    named = [workflow.agent(name) for name in goal.agents]
    agents = [{"name": one.name, "persona": filled(one.prompt, known), "requires": one.requires} for one in named]
    return {
        "name": goal.name,
        "prompt": prompts.goal(workflow, goal, known, {}),
        "agents": agents,
        "synthesis": len(agents) > 1,
        "review": workflow.reviewer_of(goal),
    }


def _all(workflow: Workflow, values: Mapping[str, str]) -> dict[str, str]:
    """What no goal has given yet stands as its own name."""
    later = {name: f"${name}" for goal in workflow.goals for name in (goal.name, *goal.outputs)}
    return {**later, **values}


def text(plan: Json) -> str:
    """The same for a person."""
    rows = [f"{plan['workflow']}: dry run, no model is asked"]
    rows += [f"  {name} = {value}" for name, value in plan["inputs"].items()]
    for step in plan["steps"]:
        rows.append(f"{step['kind']} {step['name']}" + (f", at most {step['within']} rounds" if step["within"] else ""))
        for goal in step["goals"]:
            rows.append(f"  goal {goal['name']}")
            rows += [f"    as {agent['name']}: {agent['persona']}" for agent in goal["agents"]]
            rows += [f"    | {line}" for line in goal["prompt"].split("\n")]
    return "\n".join(rows)
