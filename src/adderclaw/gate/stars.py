"""Glob patterns as regular expressions that match in linear time.

What stands between two stars is matched where it first fits, in an atomic group: if the rest fits after a later place,
then after this one as well. So nothing is tried twice, and a match takes time linear in the text for each star.
"""

import re
from collections.abc import Iterable

LONGEST = 4_096
"""Characters of a pattern. No path and no command that rules are written for is longer."""
NAME_END = r"(?![^/])"


def joined(parts: Iterable[str], unit: str) -> str:
    """Expressions of a fixed length, with any number of units between each two of them, up to the end of the text."""
    first, *middle = parts
    if not middle:
        return first
    last = middle.pop()
    return first + "".join(f"(?>{unit}*?{part})" for part in middle if part) + f"{unit}*{last}"


def text(pattern: str, unit: str = ".") -> str:
    """`*` stands for any number of units, and everything else for itself."""
    return joined(map(re.escape, re.split(r"\*+", pattern)), unit)


def name(parts: Iterable[str]) -> str:
    """One whole name of a path."""
    return f"(?>{joined(parts, '[^/]')}{NAME_END})"


def path(names: Iterable[str | None], *, whole: bool) -> str:
    """Names in a row, where None is any number of folders; `whole`: the last one ends the path.

    Else what lies in what is matched is matched, too. A None at the end is whatever lies in the folder before it.
    """
    blocks: list[list[str]] = [[]]
    for one in names:
        if one is not None:
            blocks[-1].append(one)
        elif len(blocks) == 1 or blocks[-1]:
            blocks.append([])
    out = ""
    for index, block in enumerate(blocks):
        is_last = index == len(blocks) - 1
        found = "/".join(block) + ("" if is_last or not block else "/")
        if not index:
            out += found
        elif is_last and not block:
            return out + ".+"
        elif is_last and whole:
            out += f"(?:[^/]+/)*?{found}"
        else:
            out += f"(?>(?:[^/]+/)*?{found})"
    return out
