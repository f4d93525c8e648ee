"""Glob patterns as regular expressions that match in linear time.

What stands between two stars is matched where it first fits, in an atomic group: if the rest fits after a later place,
then after this one as well. So nothing is tried twice, and a match takes time linear in the text for each star.
"""

import re
from collections.abc import Iterable

LONGEST = 4_096
"""Characters of a pattern. No path and no command that rules are written for is longer."""
NAME_END = r"(?![^/])"


class InvalidPattern(ValueError):
    """Why a pattern has no meaning."""


def joined(parts: Iterable[str], unit: str) -> str:
    """Expressions of a fixed length, with any number of units between each two of them, up to the end of the text."""
    first, *middle = parts
    if not middle:
        return first
    last = middle.pop()
    return first + "".join(f"(?>{unit}*?{part})" for part in middle if part) + f"{unit}*{last}"


def text(pattern: str, unit: str = ".", *, any_one: bool = False) -> str:
    """The text of a rule: `*` is any number of units, `?` is one with `any_one`, and everything else is itself."""
    return joined(_between_stars(pattern, unit, any_one=any_one), unit)


def rule_name(pattern: str) -> str:
    """One whole name of a path in the text of a rule."""
    return name(_between_stars(pattern, "[^/]", any_one=True))


def _between_stars(pattern: str, unit: str, *, any_one: bool) -> list[str]:
    parts = map(re.escape, re.split(r"\*+", pattern))
    return [part.replace(r"\?", unit) for part in parts] if any_one else list(parts)


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


def gitignore(pattern: str) -> tuple[str, bool]:
    """A gitignore pattern over the path after the anchor's slash, and whether it matches folders alone."""
    if pattern in ("/", "/.", "."):
        return ".*", False
    folder_only = pattern.endswith("/") and not pattern.endswith("\\/")
    body = pattern.strip("/") if folder_only else pattern.lstrip("/")
    anchored = pattern.startswith("/") or "/" in body
    segments = [segment for segment in body.split("/") if segment]
    folder_only = folder_only and segments[-1:] != ["**"]
    if not segments:
        return ".*", False
    names = [None if segment == "**" else name(_parts(segment)) for segment in segments]
    return path(names if anchored else [None, *names], whole=False), folder_only


def covering(pattern: str) -> str:
    """As `gitignore`, with everything in a folder that matches."""
    matching, folder_only = gitignore(pattern)
    return matching + ("/.*" if folder_only else "(?:/.*)?")


def _parts(segment: str) -> list[str]:
    """The literal parts between the stars of one name."""
    parts, index = [""], 0
    while index < len(segment):
        char = segment[index]
        if char == "*":
            parts += [""] if index == 0 or segment[index - 1] != "*" or parts[-1] else []
        elif char == "?":
            parts[-1] += "[^/]"
        elif char == "[":
            group = _class(segment, index)
            if group is None:
                raise InvalidPattern("an unclosed [ in a path pattern")
            parts[-1] += group[0]
            index = group[1]
        elif char == "\\" and index + 1 < len(segment):
            index += 1
            parts[-1] += re.escape(segment[index])
        else:
            parts[-1] += re.escape(char)
        index += 1
    return parts


def _class(segment: str, start: int) -> tuple[str, int] | None:
    end = segment.find("]", start + 3 if segment[start + 1 : start + 2] in ("!", "^") else start + 2)
    if end < 0:
        return None
    inside = segment[start + 1 : end]
    negated = inside[:1] in ("!", "^")
    members = re.sub(r"[\\\[\]^&~|]", r"\\\g<0>", inside[1:] if negated else inside)
    try:
        re.compile(f"[{members}]")
    except re.error:
        raise InvalidPattern(f"[{inside}] is no character class") from None
    return (f"(?!/)[{'^' if negated else ''}{members}]", end)
