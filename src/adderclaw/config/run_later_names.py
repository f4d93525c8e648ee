"""Names of files that other programs execute later, from `later.toml`, which the survey and the policy share."""

import itertools
import os
from functools import cache
from typing import Any

from adderclaw.core.record import NamedTuple

FILE = os.path.join(os.path.dirname(__file__), "later.toml")

FOLDERS = frozenset({".claude", ".adderclaw"})
"""Folders of agents in a project. Their Markdown files are skills, commands, agents and rules."""
INSTALLED_TREES = frozenset({"node_modules", "site-packages", ".tox", "__pycache__", ".venv", "venv"})
"""Folders with installed third-party projects, whose own CI and editor settings are not used."""


class Names(NamedTuple):
    """All names in lower case."""

    single: frozenset[str]
    """Names of files and folders, at any depth."""
    pairs: dict[str, frozenset[str]]
    """A folder's name → names within it."""
    suffixes: tuple[str, ...]
    installed: frozenset[str]
    """Those of `single` that package managers write when they install."""
    denied: frozenset[str]
    """Those of `single` that no tool may write, even with approval."""
    denied_pairs: frozenset[tuple[str, str]]
    reported: frozenset[str]
    """Instructions for agents, every change of which is reported: single names, and pairs as `folder/name`."""

    def found(self, parts: list[str]) -> str | None:
        """The matching name in a path given as case-folded parts; None if there is none."""
        for name, following in zip(parts, [*parts[1:], ""], strict=False):
            if (name in self.single and name not in self.reported) or name.endswith(self.suffixes):
                return name
            if following in self.pairs.get(name, ()) and f"{name}/{following}" not in self.reported:
                return f"{name}/{following}"
        return None

    def is_instructions(self, path: str) -> bool:
        """Whether agents read a file as instructions: `AGENTS.md`, a skill, or Markdown in `.claude` or our folder."""
        parts = path.casefold().split("/")
        pairs = map("/".join, itertools.pairwise(parts))
        return not self.reported.isdisjoint((*parts, *pairs)) or (
            not FOLDERS.isdisjoint(parts) and parts[-1].endswith(".md")
        )

    def is_denied(self, parts: list[str]) -> str | None:
        """The name in the path that no tool may write; None if there is none."""
        for name, following in zip(parts, [*parts[1:], ""], strict=False):
            if name in self.denied or (name, following) in self.denied_pairs:
                return name
        return None


@cache
def names() -> Names:
    """Read once, with the first call that is judged or run."""
    import tomllib

    with open(FILE, "rb") as file:
        groups: dict[str, dict[str, Any]] = tomllib.load(file)
    single: set[str] = set()
    installed: set[str] = set()
    denied: set[str] = set()
    pairs: set[tuple[str, str]] = set()
    denied_pairs: set[tuple[str, str]] = set()
    reported: set[str] = set()
    suffixes: list[str] = []
    for group in groups.values():
        own = {name.casefold() for name in (*group.get("names", ()), *group.get("installed", ()))}
        both = {(head, inner) for head, _, inner in (pair.casefold().partition("/") for pair in group.get("pairs", ()))}
        single |= own
        pairs |= both
        installed |= {name.casefold() for name in group.get("installed", ())}
        suffixes += group.get("suffixes", ())
        if group.get("write") == "denied":
            denied |= own
            denied_pairs |= both
        if group.get("write") == "reported":
            reported |= own | set(map("/".join, both))
    inner = {head: frozenset(name for first, name in pairs if first == head) for head, _ in pairs}
    return Names(
        frozenset(single),
        inner,
        tuple(suffixes),
        frozenset(installed),
        frozenset(denied),
        frozenset(denied_pairs),
        frozenset(reported),
    )
