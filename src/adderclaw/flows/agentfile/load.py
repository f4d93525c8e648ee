"""Loads an Agentfile with the files that it names, and checks it."""

import os
from collections.abc import Mapping
from dataclasses import replace

from adderclaw.config.paths import followed
from adderclaw.core.errors import PathRefused, UsageError
from adderclaw.flows.agentfile import check, variables
from adderclaw.flows.agentfile.parse import MAX_BYTES, lines_of, read_draft
from adderclaw.flows.agentfile.workflow import InvalidAgentfile, Problem, Workflow
from adderclaw.sandbox import workspace

MAX_PROMPT = 256 * 1024
MAX_VALUE = 1 << 20


def load(path: str, roots: tuple[str, ...] = ()) -> Workflow:
    """Reads and checks a workflow. Files named by FROM must be in its folder or in one of the roots."""
    if workspace.is_folder(workspace.resolved_path(followed(path))):
        path = os.path.join(path, "Agentfile")
    text = read_agentfile(path, roots)
    draft = read_draft(text, path)
    workflow, lines = draft.workflow, lines_of(text)
    folder = os.path.dirname(os.path.abspath(path))
    allowed_roots = tuple(followed(root) for root in (folder, *roots))
    problems = draft.problems

    def source(line: int) -> str:
        return lines[line - 1] if 0 < line <= len(lines) else ""

    def content(named: str, line: int) -> str:
        try:
            return _read_prompt(os.path.join(folder, named), named, allowed_roots)
        except UsageError as error:
            problems.append(Problem(line, source(line).find(named) + 1 or 1, str(error), source(line)))
            return ""

    agents = [replace(noun, prompt=content(noun.path, noun.line)) if noun.path else noun for noun in workflow.agents]
    goals = [replace(noun, outcome=content(noun.path, noun.line)) if noun.path else noun for noun in workflow.goals]
    outcomes = {goal.name: goal.outcome for goal in goals}
    steps = [
        replace(step, condition=outcomes.get(step.name, step.condition)) if step.goals == (step.name,) else step
        for step in workflow.steps
    ]
    workflow = replace(workflow, agents=tuple(agents), goals=tuple(goals), steps=tuple(steps))
    problems += check.problems(workflow, source, [line.text for line in draft.broken])
    if problems:
        raise InvalidAgentfile(path, problems)
    return workflow


def read_agentfile(path: str, roots: tuple[str, ...]) -> str:
    """Reads the Agentfile itself. A link to a file outside the roots is refused, since the error messages would
    quote that file's lines."""
    try:
        named = workspace.named_file(path, roots)
    except PathRefused as refusal:
        raise UsageError(refusal.reason) from refusal
    return read_text(path, MAX_BYTES, real=named.text)


def _read_prompt(path: str, named: str, allowed_roots: tuple[str, ...]) -> str:
    """Reads a prompt. A file of a repository must not make the program send files from outside of it."""
    folder = workspace.is_folder(workspace.resolved_path(followed(path)))
    path = os.path.join(path, "SKILL.md") if folder else path
    real = followed(path)
    if not any(real.startswith(root.rstrip("/") + "/") for root in allowed_roots):
        raise UsageError(f"FROM {named}: this is outside the workflow's folder and the workspace; move the file there")
    if folder and not workspace.exists(workspace.resolved_path(real)):
        raise UsageError(f"FROM {named}: this folder has no SKILL.md; name a file in it")
    text = read_text(path, MAX_PROMPT, f"FROM {named}: ", real).strip()
    if not text:
        raise UsageError(f"FROM {named}: the file is empty")
    return text


def read_text(path: str, most: int, prefix: str = "", real: str = "") -> str:
    """Reads an ordinary file of limited size; raises UsageError if it is not one.

    `real` is the resolved path. It is opened without following links, so that a link created later has no effect.
    """
    try:
        data, _ = workspace.read_head(workspace.resolved_path(real or followed(path)), most + 1)
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


def bind_inputs(workflow: Workflow, inputs: Mapping[str, str]) -> dict[str, str]:
    """Returns the values of the inputs; reports all missing, unknown and invalid inputs at once."""
    wrong = [
        _unknown_input(name, workflow) for name in inputs if name not in {input_.name for input_ in workflow.inputs}
    ]
    wrong += [
        f"the input {input_.name!r} is missing: give it with --input {input_.name}=VALUE"
        for input_ in workflow.inputs
        if input_.default is None and input_.name not in inputs
    ]
    large = [name for name, value in inputs.items() if len(value) > MAX_VALUE]
    wrong += [f"the input {name!r} is larger than {MAX_VALUE:,} characters" for name in large]
    if wrong:
        raise UsageError(f"{workflow.name}: " + "; ".join(wrong))
    values = variables.resolve_inputs(
        {input_.name: input_.default for input_ in workflow.inputs if input_.default is not None}, inputs
    )
    for step in workflow.steps:
        name = step.limit[1:] if isinstance(step.limit, str) else ""
        if name in values and (reason := check.limit_problem(values[name])):
            raise UsageError(f"{workflow.name}: the input {name!r} is the limit of {step.kind} {step.name}: {reason}")
    return values


def _unknown_input(name: str, workflow: Workflow) -> str:
    known = ", ".join(input_.name for input_ in workflow.inputs) or "none"
    return f"there is no input {name!r} (inputs: {known})"
