"""Glob patterns as small automata over the parts of a path: linear time, and folders that cannot match are skipped."""

import fnmatch
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise

MAX_ALTERNATIVES = 256
TOO_MANY = f"the pattern expands to more than {MAX_ALTERNATIVES} patterns: use fewer braces"
MAGIC = frozenset("*?[{")

type States = frozenset[int]
type PatternStates = tuple[States, ...]
"""The states of several patterns."""


class Pattern:
    """One pattern without braces: each part matches one name, `**` matches any number of directories."""

    __slots__ = ("_parts",)

    def __init__(self, pattern: str) -> None:
        parts = [part for part in pattern.split("/") if part not in ("", ".")]
        # fnmatch uses atomic groups, so no name can make a match slow
        self._parts = [None if part == "**" else re.compile(fnmatch.translate(part)) for part in parts]

    def start(self) -> States:
        return self._reach({0})

    def _reach(self, states: set[int]) -> States:
        for state in sorted(states):
            while state < len(self._parts) and self._parts[state] is None:
                state += 1
                states.add(state)
        return frozenset(states)

    def step(self, states: States, name: str) -> States:
        """The states after one more name; empty if nothing below can match."""
        after: set[int] = set()
        for state in states:
            if state == len(self._parts):
                continue
            part = self._parts[state]
            if part is None:
                after.add(state)
            elif part.match(name):
                after.add(state + 1)
        return self._reach(after)

    def matched(self, states: States) -> bool:
        return len(self._parts) in states

    def final_names(self, states: States) -> Iterator[str]:
        """Regular expressions for the names that complete the pattern."""
        for state in states:
            if state < len(self._parts) and not any(self._parts[state + 1 :]):
                part = self._parts[state]
                yield "" if part is None else part.pattern


class Patterns:
    """Several patterns; a path must match one of them."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = [Pattern(pattern) for pattern in patterns]
        self._ends: dict[PatternStates, Callable[[str], object] | None] = {}

    def start(self) -> PatternStates:
        return tuple(pattern.start() for pattern in self._patterns)

    def step(self, states: PatternStates, name: str) -> PatternStates:
        return tuple(pattern.step(state, name) for pattern, state in zip(self._patterns, states, strict=True))

    def file_matcher(self, states: PatternStates) -> Callable[[str], object] | None:
        """A test for the names of files in a folder; None if no name can match."""
        if states not in self._ends:
            pairs = zip(self._patterns, states, strict=True)
            lasts = dict.fromkeys(last for pattern, state in pairs for last in pattern.final_names(state))
            self._ends[states] = re.compile("|".join(lasts)).match if lasts else None
        return self._ends[states]


def matches(pattern: str, path: str) -> bool:
    """Whether a pattern, which may have braces, matches a path."""
    for one_pattern in map(Pattern, alternatives(pattern)):
        states = one_pattern.start()
        for name in path.split("/"):
            states = one_pattern.step(states, name)
        if one_pattern.matched(states):
            return True
    return False


def is_bounded(pattern: str) -> bool:
    try:
        alternatives(pattern)
    except ValueError:
        return False
    return True


def split_base(pattern: str) -> tuple[str, str]:
    """The directory that a pattern names literally, and the rest: `src/a/*.py` → `src/a`, `*.py`."""
    parts = pattern.split("/")
    plain = 0
    while plain < len(parts) - 1 and not MAGIC & set(parts[plain]):
        plain += 1
    return "/".join(parts[:plain]) or ("/" if pattern.startswith("/") else ""), "/".join(parts[plain:])


def alternatives(pattern: str) -> list[str]:
    """Expands braces: `a.{py,md}` → `a.py`, `a.md`. Raises ValueError beyond MAX_ALTERNATIVES."""
    expanded = list(islice(_expanded(pattern, 0), MAX_ALTERNATIVES + 1))
    if len(expanded) > MAX_ALTERNATIVES:
        raise ValueError(TOO_MANY)
    return expanded


def _expanded(pattern: str, depth: int) -> Iterator[str]:
    if depth > MAX_ALTERNATIVES:  # each level adds at least one alternative
        raise ValueError(TOO_MANY)
    braces = _braces(pattern)
    if braces is None:
        yield pattern
        return
    start, commas, end = braces
    edges = [start, *commas, end]
    for left, right in pairwise(edges):
        yield from _expanded(pattern[:start] + pattern[left + 1 : right] + pattern[end + 1 :], depth + 1)


def _braces(pattern: str) -> tuple[int, list[int], int] | None:
    """The first closed pair of braces that contains a comma: its start, its own commas and its end."""
    opened: list[tuple[int, list[int]]] = []
    first: tuple[int, list[int], int] | None = None
    for index, char in enumerate(pattern):
        if char == "{":
            opened.append((index, []))
        elif char == "," and opened:
            opened[-1][1].append(index)
        elif char == "}" and opened:
            start, commas = opened.pop()
            if commas and (first is None or start < first[0]):
                first = start, commas, index
    return first
