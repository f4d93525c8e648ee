"""Bash's patterns as regular expressions, with what was quoted taken for itself."""

import re
from collections.abc import Iterable

from adderclaw.core import glob_patterns
from adderclaw.policy.legacy.shell.syntax import NotAPlan

type Letters = list[tuple[str, bool]]
"""Characters, each with whether it can be part of a pattern."""


def is_pattern(letters: Letters) -> bool:
    return any(active and char in "*?[" for char, active in letters)


def regex(letters: Letters) -> str:
    """A pattern for one name, or for one whole text: `*` also stands for a slash there."""
    parts: list[list[str]] = [[]]
    index = 0
    while index < len(letters):
        char, active = letters[index]
        if active and char == "*":
            parts.append([])
        elif active and char == "?":
            parts[-1].append(".")
        elif active and char == "[":
            group, index = _bracket(letters, index)
            parts[-1].append(group)
        elif active and char == "\\":
            raise NotAPlan("a pattern with a backslash that came out of a variable")
        else:
            parts[-1].append(re.escape(char))
        index += 1
    return glob_patterns.join_parts(map("".join, parts), ".")


def _bracket(letters: Letters, start: int) -> tuple[str, int]:
    """A bracket expression, and the index of its end. The kinds on which programs differ are not taken."""
    text = "".join(char for char, _ in letters[start:])
    found = re.match(r"\[([!^]?)(\]?[^\]\[/\\]*)\]", text)
    if found is None or not found[2]:
        if "]" not in text[1:]:
            return r"\[", start
        raise NotAPlan("a pattern with an unusual bracket")
    if not all(active for _, active in letters[start : start + found.end()]):
        raise NotAPlan("a pattern with quotes in its brackets")
    members = found[2]
    for low, high in re.findall(r"(.)-(.)", members):
        if not (low.isascii() and high.isascii() and low <= high):
            raise NotAPlan("a pattern with an unusual bracket")
    inside = re.sub(r"[\\\[\]^&~|]", r"\\\g<0>", members)
    return f"[{'^' if found[1] else ''}{inside}]", start + found.end() - 1


def components(letters: Letters) -> Iterable[Letters]:
    """A pattern for paths, cut at its slashes."""
    found: list[Letters] = [[]]
    for letter in letters:
        if letter[0] == "/":
            found.append([])
        else:
            found[-1].append(letter)
    return found
