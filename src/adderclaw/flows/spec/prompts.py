"""What a coding session is told: the first makes the list of scenarios, each later one works on what is left."""

import os
from typing import NamedTuple

from adderclaw.flows.spec.status import FILE, Status

MAX_NAMED = 60
"""Scenarios that a prompt names; the others stand in the file."""


class Names(NamedTuple):
    """What the session's two tools are called."""

    declare: str
    update: str


def _text(name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()


initializer_prompt = _text("initializer.md")
coding_prompt = _text("coding.md")


def prompt(spec: str, status: Status | None, names: Names, turned_back: str = "") -> str:
    """`spec` is the specification's path as seen from the project; `turned_back` what was claimed and did not hold."""
    text = initializer_prompt if status is None else coding_prompt
    known = {"spec": spec, "declare": f"`{names.declare}`", "update": f"`{names.update}`"}
    known["progress"] = "" if status is None else _progress(status)
    for name, value in known.items():
        text = text.replace(f"{{{{{name}}}}}", value)
    return f"{text}\n\n{turned_back}" if turned_back else text


def _progress(status: Status) -> str:
    left = status.left
    rows = [f"{status.passed} of {status.total} scenarios have passed. Left:", ""]
    rows += [f"- {scenario.id} ({scenario.feature}): {scenario.name}" for scenario in left[:MAX_NAMED]]
    if len(left) > MAX_NAMED:
        rows.append(f"- and {len(left) - MAX_NAMED} more: see `{FILE}`")
    return "\n".join(rows)
