"""Solutions of the tasks of bench/tasks: references, other right ones, and plausible wrong ones."""

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from bench.tasks.catalogue import Task

FOLDER = Path(__file__).with_name("solutions")


class Solution(NamedTuple):
    """What is done to the workspace: files as they are in the end, then a script."""

    why: str
    files: dict[str, str]
    run: str


class Solutions(NamedTuple):
    right: Solution
    also: list[Solution]
    """Other right ones, by what is different."""
    wrong: list[Solution]


def solutions(name: str, task: Task) -> Solutions:
    found = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    also, wrong = ([_made(one, task) for one in found.get(which, [])] for which in ("also", "wrong"))
    return Solutions(_made(found["right"], task), also, wrong)


def _made(given: dict[str, Any], task: Task) -> Solution:
    files = dict(given.get("files", {}))
    for name, old, new in given.get("edits", []):
        text = files.get(name, task.files.get(name, ""))
        assert text.count(old) == 1, f"{name}: {old!r} is there {text.count(old)} times"
        files[name] = text.replace(old, new)
    return Solution(given.get("why", "the reference"), files, given.get("run", ""))
