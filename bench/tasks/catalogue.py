"""The tasks: each one file with a repository, what is asked, and checks that stay outside of it."""

import hashlib
import os
import tomllib
from functools import cache
from typing import Literal

from adderclaw.core.decode import Invalid, decode
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.record import NamedTuple, record
from adderclaw.core.suggestions import did_you_mean

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases")
"""Where they lie: no command of a run may read there."""


@record
class Probe:
    """One command, and what it must print. What is expected never enters the sandbox: it is compared outside."""

    what: str
    """What it looks at, in a few words, for whoever reads the results."""
    py: str | None = None
    """Python, run with the workspace on its path, behind Python's own modules."""
    js: str | None = None
    """JavaScript for node."""
    sh: str | None = None
    """A script for bash."""
    stdin: str = ""
    out: str | None = None
    """All that it prints, but for white space at the end."""
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    code: int | Literal["nonzero", "any"] = 0
    put: dict[str, str] | None = None
    """Files that are written into its copy of the workspace first."""
    back: tuple[str, ...] = ()
    """Files that are put back first as the task gave them."""
    same: tuple[str, ...] = ()
    """Files that must be as the task gave them."""


@record
class Task:
    kind: str
    text: str
    files: dict[str, str]
    check: tuple[Probe, ...]
    needs: tuple[str, ...] = ()
    """Programs beside python3, git and bash."""
    setup: str = ""
    """A script for bash that makes the repository's history; without one all files are one commit."""


class Named(NamedTuple):
    name: str
    task: Task


@cache
def tasks() -> tuple[Named, ...]:
    """All of them, by name."""
    return tuple(Named(name, _read(name)) for name in names())


def names() -> list[str]:
    return sorted(name.removesuffix(".toml") for name in os.listdir(FOLDER) if name.endswith(".toml"))


def _read(name: str) -> Task:
    path = os.path.join(FOLDER, f"{name}.toml")
    with open(path, "rb") as file:
        found = tomllib.load(file)
    try:
        return decode(Task, found)
    except Invalid as error:
        raise AdderClawError(f"{path}: {error}") from error


@cache
def digest() -> str:
    """Names this very set: results of two versions of it are not compared."""
    made = hashlib.sha256()
    for name in names():
        with open(os.path.join(FOLDER, f"{name}.toml"), "rb") as file:
            made.update(name.encode() + b"\0" + file.read() + b"\0")
    return made.hexdigest()[:16]


def chosen(only: list[str]) -> tuple[Named, ...]:
    """The tasks of these names and kinds, all where none is given."""
    every = tasks()
    kinds = {one.task.kind for one in every}
    known = {one.name for one in every} | kinds
    for word in only:
        if word not in known:
            raise UsageError(f"--only {word}: no task and no kind of that name{did_you_mean(word, known)}; see --list")
    return tuple(one for one in every if not only or one.name in only or one.task.kind in only)
