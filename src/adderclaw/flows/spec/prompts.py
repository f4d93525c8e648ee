"""The prompts of coding sessions: the first declares the scenarios, later ones work on those that are left."""

import os
from typing import NamedTuple

from adderclaw.flows.spec.status import FILE, Status

MAX_NAMED = 60
"""How many scenarios a prompt lists; the others are in the file."""


class Names(NamedTuple):
    """The names of the session's two tools."""

    declare: str
    update: str


def _text(name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()


initializer_prompt = _text("initializer.md")
coding_prompt = _text("coding.md")


def prompt(spec: str, status: Status | None, names: Names, turned_back: str = "") -> str:
    """`spec` is the specification's path in the project; `turned_back` describes claims that were rejected."""
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
