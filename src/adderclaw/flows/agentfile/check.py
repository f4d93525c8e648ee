"""Whether a workflow makes sense: names, order, variables; every problem at once, each with its own message."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain, islice

from adderclaw.core.suggestions import did_you_mean
from adderclaw.flows.agentfile import variables
from adderclaw.flows.agentfile.workflow import MOST_SHOWN, Goal, Persona, Problem, Step, Workflow

MOST_ROUNDS = 10_000
WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
QUOTED = re.compile(r'"[^"]*"')


def problems(workflow: Workflow, source: Callable[[int], str], broken: Collection[str] = ()) -> list[Problem]:
    """What is wrong with a workflow whose files are loaded; `source` gives a line of the file.

    `broken` are statements that could not be read: what follows from them alone is not said.
    """
    words = [text.split(maxsplit=2) for text in broken]
    unsure = {word.strip(",") for one in words for word in one[1:2]}
    named = {word for text in broken for word in WORD.findall(QUOTED.sub(" ", text))}
    found = chain(
        _whole(workflow, {one[0] for one in words}),
        _twice(workflow),
        _references(workflow, unsure),
        _limits(workflow, named),
        _circles(workflow),
        _unknown(workflow, named if broken else None),
    )
    return [Problem(line, 1, message, source(line)) for line, message in islice(found, MOST_SHOWN + 1)]


type Found = Iterable[tuple[int, str]]


def _whole(workflow: Workflow, broken: Collection[str]) -> Found:
    if not workflow.name and "NAME" not in broken:
        yield 1, "the workflow has no NAME; begin with a line such as: NAME my-workflow"
    if not workflow.steps and not {"RUN", "LOOP", "CONVERGE"}.intersection(broken):
        yield 1, "nothing would happen: no RUN, LOOP or CONVERGE step; end with a line such as: RUN main USING my_goal"


def _twice(workflow: Workflow) -> Found:
    kinds = {
        "input": [(one.name, one.line) for one in workflow.inputs],
        "agent": [(one.name, one.line) for one in workflow.agents],
        "goal": [(one.name, one.line) for one in workflow.goals],
        "step": [(one.name, one.line) for one in _distinct(workflow.steps)],
    }
    for kind, named in kinds.items():
        seen: dict[str, int] = {}
        for name, line in named:
            if name in seen:
                yield line, f"the {kind} {name!r} is defined twice; the first stands in line {seen[name]}"
            seen.setdefault(name, line)
    yield from _shared_variables(workflow)


def _distinct(steps: tuple[Step, ...]) -> Iterable[Step]:
    """A RUN that a CONVERGE divides is still one step."""
    last: tuple[str, int] | None = None
    for step in steps:
        if step.condition and step.goals == (step.name,):
            continue
        if (step.name, step.line) != last:
            yield step
        last = (step.name, step.line)


def _shared_variables(workflow: Workflow) -> Found:
    """Inputs, goals and outputs are variables of one set: two of the same name could not be told apart. A goal may be
    called like an input, which `$name` then stands for."""
    owner = {one.name: f"the input in line {one.line}" for one in workflow.inputs}
    for goal in workflow.goals:
        owner.setdefault(goal.name, f"the goal in line {goal.line}")
    for goal in workflow.goals:
        for output in goal.outputs:
            if output in owner:
                yield goal.line, f"the output {output!r} of {goal.name} would hide {owner[output]}; rename one"
            owner.setdefault(output, f"the output in line {goal.line}")


def _references(workflow: Workflow, unsure: Collection[str]) -> Found:
    agents = {one.name: one.line for one in workflow.agents}
    goals = {one.name: one.line for one in workflow.goals}
    steps = {one.name for one in workflow.steps}
    for goal in workflow.goals:
        for name in goal.agents:
            if name not in agents and name not in unsure:
                yield (
                    goal.line,
                    f"goal {goal.name} uses the agent {name!r}, which is not defined{did_you_mean(name, agents)}",
                )
        for name in (name for name, count in Counter(goal.agents).items() if count > 1):
            yield goal.line, f"goal {goal.name} names the agent {name!r} more than once"
    for step in workflow.steps:
        for name in step.goals:
            if name not in goals:
                if name in unsure:
                    continue
                why = (
                    "which is a step: a step names goals"
                    if name in steps
                    else f"which is not defined{did_you_mean(name, goals)}"
                )
                yield step.line, f"{step.kind} {step.name} uses the goal {name!r}, {why}"
            elif goals[name] > step.line:
                message = f"{step.kind} {step.name} uses the goal {name!r} before it is defined, in line {goals[name]}"
                yield step.line, f"{message}; move the GOAL up"


def _limits(workflow: Workflow, unsure: Collection[str]) -> Found:
    inputs = {one.name: one for one in workflow.inputs}
    known = set(inputs).union(unsure, *map(_variables, workflow.goals))
    for step in workflow.steps:
        if isinstance(step.limit, int):
            if reason := unfit_limit(str(step.limit)):
                yield step.line, f"{step.kind} {step.name}: WITHIN {step.limit}: {reason}"
        elif step.limit is not None:
            name = step.limit[1:]
            if name not in known:
                yield (
                    step.line,
                    f"{step.kind} {step.name}: WITHIN {step.limit}: no such variable{did_you_mean(name, known)}",
                )
            elif name in inputs and (default := inputs[name].default) is not None and (reason := unfit_limit(default)):
                yield inputs[name].line, f"{name} is the limit of {step.kind} {step.name}: {reason}"


def unfit_limit(text: str) -> str | None:
    """Why a text cannot be the number of rounds of a loop."""
    if not text.strip().isascii() or not text.strip().isdigit():
        return f"{text[:40]!r} is not a whole number"
    if not 1 <= int(text[:9]) <= MOST_ROUNDS or len(text.strip()) > 9:
        return f"a loop goes round at least once and at most {MOST_ROUNDS:,} times"
    return None


# ------------------------------------------------------------------ variables


def _circles(workflow: Workflow) -> Found:
    """Defaults that lead back to themselves: by themselves they have no value."""
    from graphlib import CycleError, TopologicalSorter

    names = {one.name for one in workflow.inputs}
    needs = {one.name: {*variables.used(one.default or "", names)} & names for one in workflow.inputs}
    lines = {one.name: one.line for one in workflow.inputs}
    while True:
        try:
            TopologicalSorter(needs).prepare()
            return
        except CycleError as error:
            circle: list[str] = error.args[1][1:]
            last = max(circle, key=lines.__getitem__)
            yield (
                lines[last],
                f"the default of {last} needs itself"
                + (f", by way of {', '.join(name for name in circle if name != last)}" if len(circle) > 1 else ""),
            )
            needs[last] = set()


def _unknown(workflow: Workflow, unsure: Collection[str] | None) -> Found:
    """A text may name inputs, and what ran before it: in a LOOP, what the round before left, too.

    Where statements could not be read, what they name (`unsure`) may be known, and any order may be meant.
    """
    inputs = {one.name for one in workflow.inputs}
    named = inputs.union(unsure or ())
    for one in workflow.inputs:
        for name in variables.used(one.default or "", named):
            if name not in named:
                yield one.line, f"the default of {one.name} uses ${name}, which is no input{did_you_mean(name, inputs)}"
    by_name = {goal.name: goal for goal in workflow.goals}
    agents = {agent.name: agent for agent in workflow.agents}
    known = set(inputs) if unsure is None else named.union(*map(_variables, workflow.goals))
    seen: set[str] = set()
    for step in workflow.steps:
        goals = [by_name[name] for name in step.goals if name in by_name]
        if step.kind == "LOOP":
            known.update(*map(_variables, goals))
        for goal in goals:
            if goal.name not in seen:  # where it stands again, more is known
                seen.add(goal.name)
                yield from _unknown_of(workflow, goal, agents, known)
            known.update(_variables(goal))
        yield from _unknown_in(step, known)


def _unknown_of(workflow: Workflow, goal: Goal, agents: Mapping[str, Persona], known: set[str]) -> Found:
    told: set[str] = set()
    for where, text in _texts(goal, agents):
        for name in variables.used(text, known):
            if name not in known and name not in told:
                told.add(name)
                yield goal.line, f"{where} uses ${name}, {_why_unknown(workflow, name, known)}"


def _unknown_in(step: Step, known: set[str]) -> Found:
    if step.condition and step.goals != (step.name,):
        for name in variables.used(step.condition, known):
            if name not in known:
                yield (
                    step.line,
                    f"the condition of {step.name} uses ${name}, which is not defined{did_you_mean(name, known)}",
                )


def _variables(goal: Goal) -> set[str]:
    return {goal.name, *goal.outputs}


def _texts(goal: Goal, agents: Mapping[str, Persona]) -> Iterable[tuple[str, str]]:
    yield f"goal {goal.name}" + (f" ({goal.path})" if goal.path else ""), goal.outcome
    for name in goal.agents:
        if (agent := agents.get(name)) is not None:
            yield f"agent {agent.name}" + (f" ({agent.path})" if agent.path else ""), agent.prompt


def _why_unknown(workflow: Workflow, name: str, known: set[str]) -> str:
    later = next((goal for goal in workflow.goals if name in _variables(goal)), None)
    if later is not None:
        return f"which has no value there: goal {later.name} does not run before it"
    return f"which is not defined{did_you_mean(name, known)} (a dollar sign itself is written $$)"
