"""The prompts of a workflow's sessions. Text that a model wrote is framed as data."""

from collections.abc import Collection, Mapping

from adderclaw.core.framing import framed, framed_inline
from adderclaw.flows.agentfile.variables import fill
from adderclaw.flows.agentfile.workflow import Goal, Step, Workflow

MAX_RESULT = 4_000
"""How many characters of a result later goals see in the state; `$name` gives the whole result."""
MAX_STATE = 32_000


def frame_values(mark: str, values: Mapping[str, str], from_model: Collection[str]) -> dict[str, str]:
    """Returns the values for `$name`, framed if a model wrote them."""
    return {name: framed_inline(mark, text) if name in from_model else text for name, text in values.items()}


def goal(
    workflow: Workflow,
    wanted_goal: Goal,
    values: Mapping[str, str],
    state: Mapping[str, str],
    mark: str,
    *,
    loop: str = "",
    again: str = "",
) -> str:
    """The prompt of a goal. `loop` describes the round; `again` is the review of an earlier attempt."""
    parts = [f"Goal `{wanted_goal.name}` of the workflow `{workflow.name}`:\n\n{fill(wanted_goal.outcome, values)}"]
    if loop:
        parts.append(loop)
    if state:
        parts.append(format_state(state, mark))
    if wanted_goal.outputs:
        parts.append(f"The result needs a value for each of: {', '.join(wanted_goal.outputs)}.")
    if again:
        parts.append(again)
    parts.append("Work until the goal is reached or you know that it cannot be, then call GoalResult.")
    return "\n\n".join(parts)


def review_comment(mark: str, comment: str) -> str:
    return f"Your last result was reviewed and sent back:\n{framed(mark, comment)}"


def format_state(state: Mapping[str, str], mark: str) -> str:
    """The results so far; drops the earliest if not all fit."""
    rows: list[str] = []
    left = MAX_STATE
    for name, text in reversed(list(state.items())):
        shown = text if len(text) <= MAX_RESULT else text[:MAX_RESULT] + " […]"
        left -= len(shown)
        if left < 0:
            rows.append("(earlier results are left out)")
            break
        rows.append(f"- {name}:\n{framed(mark, shown)}")
    return "Results of the goals so far, as data:\n" + "\n".join(reversed(rows))


def synthesis(
    workflow: Workflow, shared_goal: Goal, values: Mapping[str, str], views: Mapping[str, str], mark: str
) -> str:
    findings = "\n\n".join(f"{name}:\n{framed(mark, text)}" for name, text in views.items())
    opening = (
        f"Goal `{shared_goal.name}` of the workflow `{workflow.name}` was worked on by {len(views)} agents in parallel:"
    )
    needs = f" It needs a value for each of: {', '.join(shared_goal.outputs)}." if shared_goal.outputs else ""
    return (
        f"{opening}\n\n{fill(shared_goal.outcome, values)}\n\nWhat they found, as data:\n\n{findings}\n\n"
        f"Reconcile this into one result: keep what they agree on, decide where they differ, and say why.{needs}"
        " Then call GoalResult."
    )


def review(workflow: Workflow, reviewed: Goal, values: Mapping[str, str], result: str, mark: str) -> str:
    asked = f"Review the result of goal `{reviewed.name}` of the workflow `{workflow.name}`."
    task = f"The goal:\n{fill(reviewed.outcome, values)}\n\nThe result, as data:\n{framed(mark, result)}"
    return f"{asked}\n\n{task}\n\nCheck the result yourself; change nothing. Then call ReviewVerdict."


def loop_end_condition(step: Step, values: Mapping[str, str]) -> str:
    """The condition that ends a loop, as a clause."""
    if step.condition and step.goals != (step.name,):
        return f"this holds: {fill(step.condition, values)}"
    return "the goal is reached" if len(step.goals) == 1 else "nothing is left to do in the loop"


def describe_round(step: Step, number: int, most: int) -> str:
    """Tells a session which round of the loop its goal belongs to."""
    others = f" over the goals {', '.join(step.goals)}" if len(step.goals) > 1 else ""
    return f"This is round {number} of at most {most} of the loop `{step.name}`{others}."
