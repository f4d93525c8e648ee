"""Shows a workflow as a tree, as JSON or as a Mermaid graph, and formats its file."""

import re
from typing import Any

from adderclaw.core.types import Json
from adderclaw.flows.agentfile.parse import Line, lines_of, pieces, statements
from adderclaw.flows.agentfile.workflow import Goal, Step, Workflow

REVIEWERS = {"reviewer": "a reviewer", "operator": "the operator"}


def as_json(workflow: Workflow) -> Json:
    return {
        "file": workflow.file,
        "name": workflow.name,
        "version": workflow.version or None,
        "security": workflow.security.mode,
        "inputs": [
            {"name": noun.name, "default": noun.default, "required": noun.default is None} for noun in workflow.inputs
        ],
        "agents": [
            {"name": noun.name, "from": noun.path, "requires": noun.requires, "outputs": list(noun.outputs)}
            for noun in workflow.agents
        ],
        "goals": [_goal_json(workflow, goal) for goal in workflow.goals],
        "steps": [_step_json(step) for step in workflow.steps],
    }


def _goal_json(workflow: Workflow, goal: Goal) -> Json:
    return {
        "name": goal.name,
        "from": goal.path,
        "outcome": goal.outcome,
        "outputs": list(goal.outputs),
        "agents": list(goal.agents),
        "review": workflow.reviewer_of(goal),
    }


def _step_json(step: Step) -> Json:
    shown: dict[str, Any] = {"kind": step.kind, "name": step.name, "goals": list(step.goals), "review": step.review}
    if step.kind == "LOOP":
        shown |= {"within": step.limit, "condition": step.condition or None}
    return shown


def tree(workflow: Workflow) -> str:
    """Shows the inputs, then the steps with the details of each goal, as a tree for a person."""
    defaults = {
        input_.name: f" = {input_.default}" if input_.default is not None else " (required)"
        for input_ in workflow.inputs
    }
    rows = [
        f"{workflow.name} {workflow.version}".rstrip(),
        *(f"├─ input {name}{default}" for name, default in defaults.items()),
    ]
    for index, step in enumerate(workflow.steps):
        last = index == len(workflow.steps) - 1
        rows.append(f"{'└─' if last else '├─'} {_headline(step)}")
        bar = "   " if last else "│  "
        for nth, name in enumerate(step.goals):
            rows += [bar + row for row in _goal_rows(workflow, step, name, nth == len(step.goals) - 1)]
    return "\n".join(rows)


def _headline(step: Step) -> str:
    until = f" until: {_first_line(step.condition)}" if step.condition else ""
    return f"{step.kind} {step.name}" + (f" (at most {step.limit} rounds){until}" if step.kind == "LOOP" else "")


def _goal_rows(workflow: Workflow, step: Step, name: str, last: bool) -> list[str]:
    goal = workflow.goal(name)
    rows = [f"{'└─' if last else '├─'} goal {goal.name}: {_first_line(goal.outcome)}"]
    bar = "   " if last else "│  "
    for name in goal.agents:
        agent = workflow.agent(name)
        source = f" from {agent.path}" if agent.path else ""
        gives = f", gives {', '.join(agent.outputs)}" if agent.outputs else ""
        rows.append(f"{bar}· agent {name}{source}{gives}" + (f", requires {agent.requires}" if agent.requires else ""))
    if goal.outputs:
        rows.append(f"{bar}· gives {', '.join(goal.outputs)}")
    if (review := workflow.reviewer_of(goal, step)) != "nobody":
        rows.append(f"{bar}· reviewed by {REVIEWERS[review]}")
    return rows


def _first_line(text: str) -> str:
    line = text.strip().split("\n")[0]
    return line if len(line) <= 80 else line[:79] + "…"


def graph(workflow: Workflow) -> str:
    """The workflow as a Mermaid flowchart."""
    rows = ["flowchart TD", f"  start([{_label(workflow.name)}])"]
    before = "start"
    for number, step in enumerate(workflow.steps):
        rows.append(f"  subgraph s{number}[{_label(_headline(step))}]")
        first = f"g{number}_0"
        for nth, name in enumerate(step.goals):
            rows.append(f"    g{number}_{nth}[{_label(name)}]")
            agents = enumerate(workflow.goal(name).agents)
            rows += [f"    g{number}_{nth} -.- p{number}_{nth}_{at}(({_label(agent)}))" for at, agent in agents]
        rows += [f"    g{number}_{nth} --> g{number}_{nth + 1}" for nth in range(len(step.goals) - 1)]
        last = f"g{number}_{len(step.goals) - 1}"
        if step.kind == "LOOP":
            rows.append(f"    {last} -->|again| {first}")
        rows += ["  end", f"  {before} --> {first}"]
        before = last
    return "\n".join([*rows, f"  {before} --> done([done])"])


def _label(text: str) -> str:
    """Quotes a text for Mermaid, with markup characters written as character codes."""
    return '"' + re.sub(r'["#&<>;`\\*_~|{}\[\]]', lambda match: f"#{ord(match[0])};", text.replace("\n", " ")) + '"'


# ------------------------------------------------------------------ formatting

SECTIONS = {
    "NAME": "name",
    "VERSION": "name",
    "SECURITY": "name",
    "SUPERVISED": "name",
    "UNSUPERVISED": "name",
    "INPUT": "input",
    "AGENT": "agent",
    "GOAL": "goal",
    "CONVERGE": "goal",
    "RUN": "step",
    "LOOP": "step",
}


def format_text(text: str) -> str:
    """Formats a file: one space between words, and an empty line before each new kind of statement."""
    lines = lines_of(text)
    by_number = {line.number: line for line in statements(text)}
    rows: list[str] = []
    number, section, comments = 1, "", False
    while number <= len(lines):
        line = by_number.get(number)
        if line is not None:
            kind = SECTIONS[line.text.split()[0]]
            if rows and rows[-1] and kind != section and not comments:
                rows.append("")
            rows += _format_statement(line).split("\n")
            section, comments = kind, False
            number += line.text.count("\n") + 1
            continue
        stripped = lines[number - 1].strip()
        if stripped and rows and rows[-1] and not rows[-1].startswith("#"):
            rows.append("")
        if stripped or (rows and rows[-1]):
            rows.append(stripped)
        comments = bool(stripped)
        number += 1
    tidy = "\n".join(rows).strip("\n")
    return f"{tidy}\n" if tidy else ""


def _format_statement(line: Line) -> str:
    """Formats one statement with single spaces; quoted texts and comments stay unchanged."""
    tidy = ""
    for piece in pieces(line.text):
        if piece.startswith("#"):
            tidy = f"{tidy.rstrip()}  {piece.rstrip()}"
        elif piece.startswith('"'):
            tidy = f"{tidy.rstrip()} {piece}" if tidy else piece
        elif piece == ",":
            tidy = f"{tidy.rstrip()}, "
        else:
            tidy = f"{tidy.rstrip()} {piece}" if tidy and not tidy.endswith(", ") else tidy + piece
    return tidy.strip()
