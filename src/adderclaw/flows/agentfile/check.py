"""Checks the names, order and variables of a workflow, and reports all problems at once."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain, islice

from adderclaw.core.suggestions import did_you_mean
from adderclaw.flows.agentfile import variables
from adderclaw.flows.agentfile.workflow import MAX_PROBLEMS, Goal, Persona, Problem, Step, Workflow

MAX_ROUNDS = 10_000
WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
QUOTED = re.compile(r'"[^"]*"')


def problems(workflow: Workflow, source: Callable[[int], str], broken: Collection[str] = ()) -> list[Problem]:
    """Finds what is wrong with a workflow whose files are loaded; `source` returns a line of the file.

    `broken` are statements that could not be parsed. Problems that only follow from them are not reported.
    """
    words = [text.split(maxsplit=2) for text in broken]
    unsure = {word.strip(",") for words_of_line in words for word in words_of_line[1:2]}
    named = {word for text in broken for word in WORD.findall(QUOTED.sub(" ", text))}
    findings = chain(
        _check_complete(workflow, {words_of_line[0] for words_of_line in words}),
        _check_duplicates(workflow),
        _check_references(workflow, unsure),
        _check_limits(workflow, named),
        _check_cycles(workflow),
        _check_variables(workflow, named if broken else None),
    )
    return [Problem(line, 1, message, source(line)) for line, message in islice(findings, MAX_PROBLEMS + 1)]


type Findings = Iterable[tuple[int, str]]


def _check_complete(workflow: Workflow, broken: Collection[str]) -> Findings:
    if not workflow.name and "NAME" not in broken:
        yield 1, "the workflow has no NAME; begin with a line such as: NAME my-workflow"
    if not workflow.steps and not {"RUN", "LOOP", "CONVERGE"}.intersection(broken):
        yield 1, "the workflow has no RUN, LOOP or CONVERGE step; end with a line such as: RUN main USING my_goal"


def _check_duplicates(workflow: Workflow) -> Findings:
    kinds = {
        "input": [(noun.name, noun.line) for noun in workflow.inputs],
        "agent": [(noun.name, noun.line) for noun in workflow.agents],
        "goal": [(noun.name, noun.line) for noun in workflow.goals],
        "step": [(noun.name, noun.line) for noun in _distinct_steps(workflow.steps)],
    }
    for kind, named in kinds.items():
        seen: dict[str, int] = {}
        for name, line in named:
            if name in seen:
                yield line, f"the {kind} {name!r} is defined twice; the first is in line {seen[name]}"
            seen.setdefault(name, line)
    yield from _check_shared_variables(workflow)


def _distinct_steps(steps: tuple[Step, ...]) -> Iterable[Step]:
    """Yields each step once, including a RUN that a CONVERGE splits."""
    last: tuple[str, int] | None = None
    for step in steps:
        if step.condition and step.goals == (step.name,):
            continue
        if (step.name, step.line) != last:
            yield step
        last = (step.name, step.line)


def _check_shared_variables(workflow: Workflow) -> Findings:
    """Inputs, goals and outputs share one namespace of variables, so their names must differ. Only a goal may have the
    name of an input; `$name` is then the input."""
    owner = {input_.name: f"the input in line {input_.line}" for input_ in workflow.inputs}
    for goal in workflow.goals:
        owner.setdefault(goal.name, f"the goal in line {goal.line}")
    for goal in workflow.goals:
        for output in goal.outputs:
            if output in owner:
                yield goal.line, f"the output {output!r} of {goal.name} would hide {owner[output]}; rename one of them"
            owner.setdefault(output, f"the output in line {goal.line}")


def _check_references(workflow: Workflow, unsure: Collection[str]) -> Findings:
    agents = {noun.name: noun.line for noun in workflow.agents}
    goals = {noun.name: noun.line for noun in workflow.goals}
    steps = {noun.name for noun in workflow.steps}
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
                    "which is a step; a step can only use goals"
                    if name in steps
                    else f"which is not defined{did_you_mean(name, goals)}"
                )
                yield step.line, f"{step.kind} {step.name} uses the goal {name!r}, {why}"
            elif goals[name] > step.line:
                message = f"{step.kind} {step.name} uses the goal {name!r} before it is defined, in line {goals[name]}"
                yield step.line, f"{message}; move the GOAL above the {step.kind}"


def _check_limits(workflow: Workflow, unsure: Collection[str]) -> Findings:
    inputs = {input_.name: input_ for input_ in workflow.inputs}
    known = set(inputs).union(unsure, *map(_variables, workflow.goals))
    for step in workflow.steps:
        if isinstance(step.limit, int):
            if reason := limit_problem(str(step.limit)):
                yield step.line, f"{step.kind} {step.name}: WITHIN {step.limit}: {reason}"
        elif step.limit is not None:
            name = step.limit[1:]
            if name not in known:
                yield (
                    step.line,
                    f"{step.kind} {step.name}: WITHIN {step.limit}: no such variable{did_you_mean(name, known)}",
                )
            elif (
                name in inputs and (default := inputs[name].default) is not None and (reason := limit_problem(default))
            ):
                yield inputs[name].line, f"{name} is the limit of {step.kind} {step.name}: {reason}"


def limit_problem(text: str) -> str | None:
    """Returns why a text cannot be the number of rounds of a loop; None if it can."""
    if not text.strip().isascii() or not text.strip().isdigit():
        return f"{text[:40]!r} is not a whole number"
    if not 1 <= int(text[:9]) <= MAX_ROUNDS or len(text.strip()) > 9:
        return f"a loop runs at least 1 and at most {MAX_ROUNDS:,} rounds"
    return None


# ------------------------------------------------------------------ variables


def _check_cycles(workflow: Workflow) -> Findings:
    """Finds defaults that refer to themselves, directly or through other inputs."""
    from graphlib import CycleError, TopologicalSorter

    names = {input_.name for input_ in workflow.inputs}
    needs = {input_.name: {*variables.names_in(input_.default or "", names)} & names for input_ in workflow.inputs}
    lines = {input_.name: input_.line for input_ in workflow.inputs}
    while True:
        try:
            TopologicalSorter(needs).prepare()
            return
        except CycleError as error:
            cycle: list[str] = error.args[1][1:]
            last = max(cycle, key=lines.__getitem__)
            yield (
                lines[last],
                f"the default of {last} refers to itself"
                + (f" through {', '.join(name for name in cycle if name != last)}" if len(cycle) > 1 else ""),
            )
            needs[last] = set()


def _check_variables(workflow: Workflow, unsure: Collection[str] | None) -> Findings:
    """Finds uses of variables that are not inputs or results of earlier goals (in a LOOP, of the previous round).

    If some statements could not be parsed, the names in them (`unsure`) count as defined, and order is not checked.
    """
    inputs = {input_.name for input_ in workflow.inputs}
    named = inputs.union(unsure or ())
    for input_ in workflow.inputs:
        for name in variables.names_in(input_.default or "", named):
            if name not in named:
                yield (
                    input_.line,
                    f"the default of {input_.name} uses ${name}, which is not an input{did_you_mean(name, inputs)}",
                )
    by_name = {goal.name: goal for goal in workflow.goals}
    agents = {agent.name: agent for agent in workflow.agents}
    known = set(inputs) if unsure is None else named.union(*map(_variables, workflow.goals))
    seen: set[str] = set()
    for step in workflow.steps:
        goals = [by_name[name] for name in step.goals if name in by_name]
        if step.kind == "LOOP":
            known.update(*map(_variables, goals))
        for goal in goals:
            if goal.name not in seen:  # a later use knows more variables
                seen.add(goal.name)
                yield from _check_goal_variables(workflow, goal, agents, known)
            known.update(_variables(goal))
        yield from _check_condition(step, known)


def _check_goal_variables(workflow: Workflow, goal: Goal, agents: Mapping[str, Persona], known: set[str]) -> Findings:
    reported: set[str] = set()
    for where, text in _texts(goal, agents):
        for name in variables.names_in(text, known):
            if name not in known and name not in reported:
                reported.add(name)
                yield goal.line, f"{where} uses ${name}, {_why_unknown(workflow, name, known)}"


def _check_condition(step: Step, known: set[str]) -> Findings:
    if step.condition and step.goals != (step.name,):
        for name in variables.names_in(step.condition, known):
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
    return f"which is not defined{did_you_mean(name, known)} (write $$ for a dollar sign)"
