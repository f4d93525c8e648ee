"""An Agentfile with everything that it names: read, checked, and only then handed on."""

import os
from collections.abc import Mapping
from dataclasses import replace

from adderclaw.config.paths import followed
from adderclaw.core.errors import PathRefused, UsageError
from adderclaw.flows.agentfile import check, variables
from adderclaw.flows.agentfile.parse import MAX_BYTES, lines_of, read
from adderclaw.flows.agentfile.workflow import InvalidAgentfile, Problem, Workflow
from adderclaw.sandbox import workspace

MAX_PROMPT = 256 * 1024
MAX_VALUE = 1 << 20


def load(path: str, roots: tuple[str, ...] = ()) -> Workflow:
    """Read and check a workflow. What it takes FROM files must lie beside it, or in one of the roots."""
    if workspace.is_folder(workspace.anywhere(followed(path))):
        path = os.path.join(path, "Agentfile")
    text = own_text(path, roots)
    draft = read(text, path)
    workflow, lines = draft.workflow, lines_of(text)
    folder = os.path.dirname(os.path.abspath(path))
    places = tuple(followed(root) for root in (folder, *roots))
    found = draft.problems

    def source(line: int) -> str:
        return lines[line - 1] if 0 < line <= len(lines) else ""

    def content(named: str, line: int) -> str:
        try:
            return _prompt(os.path.join(folder, named), named, places)
        except UsageError as error:
            found.append(Problem(line, source(line).find(named) + 1 or 1, str(error), source(line)))
            return ""

    agents = [replace(one, prompt=content(one.path, one.line)) if one.path else one for one in workflow.agents]
    goals = [replace(one, outcome=content(one.path, one.line)) if one.path else one for one in workflow.goals]
    outcomes = {goal.name: goal.outcome for goal in goals}
    steps = [
        replace(step, condition=outcomes.get(step.name, step.condition)) if step.goals == (step.name,) else step
        for step in workflow.steps
    ]
    workflow = replace(workflow, agents=tuple(agents), goals=tuple(goals), steps=tuple(steps))
    found += check.problems(workflow, source, [line.text for line in draft.broken])
    if found:
        raise InvalidAgentfile(path, found)
    return workflow


def own_text(path: str, roots: tuple[str, ...]) -> str:
    """The workflow's own text: of a file elsewhere, which a link of the repository leads to, every line would be told
    as a problem."""
    try:
        place = workspace.named(path, roots)
    except PathRefused as refusal:
        raise UsageError(refusal.reason) from refusal
    return text_of(path, MAX_BYTES, real=place.text)


def _prompt(path: str, named: str, places: tuple[str, ...]) -> str:
    """A prompt's text. A repository's file must not make us send what lies elsewhere."""
    folder = workspace.is_folder(workspace.anywhere(followed(path)))
    path = os.path.join(path, "SKILL.md") if folder else path
    real = followed(path)
    if not any(real.startswith(place.rstrip("/") + "/") for place in places):
        raise UsageError(f"FROM {named}: this leads outside of the workflow's folder and the workspace")
    if folder and not workspace.exists(workspace.anywhere(real)):
        raise UsageError(f"FROM {named}: this is a folder without a SKILL.md; name a file in it")
    text = text_of(path, MAX_PROMPT, f"FROM {named}: ", real).strip()
    if not text:
        raise UsageError(f"FROM {named}: the file is empty")
    return text


def text_of(path: str, most: int, prefix: str = "", real: str = "") -> str:
    """The text of an ordinary file that is not too large; UsageError says what else it is.

    `real` is where the path was found to lead: that place is opened, through no link that is put there afterwards.
    """
    try:
        data, _ = workspace.start(workspace.anywhere(real or followed(path)), most + 1)
    except PathRefused as refusal:
        raise UsageError(f"{prefix}{path} is not an ordinary file: {refusal.reason}") from refusal
    except OSError as error:
        raise UsageError(f"{prefix}{path}: {error.strerror}") from error
    if len(data) > most:
        raise UsageError(f"{prefix}{path} is larger than {most:,} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{prefix}{path} is not UTF-8 text (byte {error.start})") from error
    if "\0" in text:
        raise UsageError(f"{prefix}{path} is binary, not text")
    return text


def bound(workflow: Workflow, given: Mapping[str, str]) -> dict[str, str]:
    """The values of the inputs; what is missing, unknown or unfit is said at once."""
    wrong = [_unexpected(name, workflow) for name in given if name not in {one.name for one in workflow.inputs}]
    wrong += [
        f"the input {one.name!r} is missing: give it with --input {one.name}=VALUE"
        for one in workflow.inputs
        if one.default is None and one.name not in given
    ]
    large = [name for name, value in given.items() if len(value) > MAX_VALUE]
    wrong += [f"the input {name!r} is larger than {MAX_VALUE:,} characters" for name in large]
    if wrong:
        raise UsageError(f"{workflow.name}: " + "; ".join(wrong))
    values = variables.resolved({one.name: one.default for one in workflow.inputs if one.default is not None}, given)
    for step in workflow.steps:
        name = step.limit[1:] if isinstance(step.limit, str) else ""
        if name in values and (reason := check.unfit_limit(values[name])):
            raise UsageError(f"{workflow.name}: the input {name!r} is the limit of {step.kind} {step.name}: {reason}")
    return values


def _unexpected(name: str, workflow: Workflow) -> str:
    known = ", ".join(one.name for one in workflow.inputs) or "none"
    return f"there is no input {name!r} (inputs: {known})"
