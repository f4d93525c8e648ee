"""The texts that a workflow's sessions are given: the goal, and what models found so far, in frames."""

from collections.abc import Collection, Mapping

from adderclaw.core.framing import framed, framed_inline
from adderclaw.flows.agentfile.variables import filled
from adderclaw.flows.agentfile.workflow import Goal, Step, Workflow

MOST_OF_ONE = 4_000
"""Characters of one result in the state that later goals are told; `$name` gives the whole of it."""
MOST_OF_ALL = 32_000


def values_in(mark: str, values: Mapping[str, str], made: Collection[str]) -> dict[str, str]:
    """The values of `$name` as a text holds them: those that a model made are framed."""
    return {name: framed_inline(mark, text) if name in made else text for name, text in values.items()}


def goal(
    workflow: Workflow,
    one: Goal,
    values: Mapping[str, str],
    state: Mapping[str, str],
    mark: str,
    *,
    loop: str = "",
    again: str = "",
) -> str:
    """What a session is asked to reach. `loop` says which round it is, `again` what an earlier try came to."""
    parts = [f"Goal `{one.name}` of the workflow `{workflow.name}`:\n\n{filled(one.outcome, values)}"]
    if loop:
        parts.append(loop)
    if state:
        parts.append(known(state, mark))
    if one.outputs:
        parts.append(f"The result needs a value for each of: {', '.join(one.outputs)}.")
    if again:
        parts.append(again)
    parts.append("Work until the goal is reached or you know that it cannot be, then call GoalResult.")
    return "\n\n".join(parts)


def sent_back(mark: str, comment: str) -> str:
    return f"Your last result was looked at and sent back:\n{framed(mark, comment)}"


def known(state: Mapping[str, str], mark: str) -> str:
    """The results so far, the latest first where not all fit."""
    rows: list[str] = []
    left = MOST_OF_ALL
    for name, text in reversed(list(state.items())):
        shown = text if len(text) <= MOST_OF_ONE else text[:MOST_OF_ONE] + " […]"
        left -= len(shown)
        if left < 0:
            rows.append("(earlier results are left out)")
            break
        rows.append(f"- {name}:\n{framed(mark, shown)}")
    return "Results of the goals so far, as data:\n" + "\n".join(reversed(rows))


def synthesis(workflow: Workflow, one: Goal, values: Mapping[str, str], views: Mapping[str, str], mark: str) -> str:
    heard = "\n\n".join(f"{name}:\n{framed(mark, text)}" for name, text in views.items())
    asked = f"Goal `{one.name}` of the workflow `{workflow.name}` was worked on by {len(views)} agents in parallel:"
    needs = f" It needs a value for each of: {', '.join(one.outputs)}." if one.outputs else ""
    return (
        f"{asked}\n\n{filled(one.outcome, values)}\n\nWhat they found, as data:\n\n{heard}\n\n"
        f"Reconcile this into one result: keep what they agree on, decide where they differ and say why.{needs}"
        " Then call GoalResult."
    )


def review(workflow: Workflow, one: Goal, values: Mapping[str, str], result: str, mark: str) -> str:
    asked = f"Review the result of goal `{one.name}` of the workflow `{workflow.name}`."
    told = f"The goal:\n{filled(one.outcome, values)}\n\nThe result, as data:\n{framed(mark, result)}"
    return f"{asked}\n\n{told}\n\nLook for yourself whether it holds; change nothing. Then call ReviewVerdict."


def until(step: Step, values: Mapping[str, str]) -> str:
    """When a loop ends, as a clause."""
    if step.condition and step.goals != (step.name,):
        return f"this holds: {filled(step.condition, values)}"
    return "the goal is reached" if len(step.goals) == 1 else "nothing is left to do in the loop"


def round_of(step: Step, number: int, most: int) -> str:
    """What a session is told of the loop that its goal is part of."""
    others = f" over the goals {', '.join(step.goals)}" if len(step.goals) > 1 else ""
    return f"This is round {number} of at most {most} of the loop `{step.name}`{others}."
