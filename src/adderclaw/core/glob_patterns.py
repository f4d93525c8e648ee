"""Glob patterns as regular expressions that match in linear time.

The text between two stars is matched at its first occurrence, in an atomic group: if the rest matches after a later
occurrence, it also matches after the first. So there is no backtracking, and the time is linear in the text per star.
"""

import re
from collections.abc import Iterable

LONGEST = 4_096
"""Maximum length of a pattern. Rules do not need to match longer paths or commands."""
NAME_END = r"(?![^/])"


class InvalidPattern(ValueError):
    """A malformed pattern."""


def join_parts(parts: Iterable[str], unit: str) -> str:
    """Joins fixed-length expressions with any number of units between them, anchored at the end of the text."""
    first, *middle = parts
    if not middle:
        return first
    last = middle.pop()
    return first + "".join(f"(?>{unit}*?{part})" for part in middle if part) + f"{unit}*{last}"


def text_pattern(pattern: str, unit: str = ".", *, any_one: bool = False) -> str:
    """A rule's pattern: `*` is any number of units, `?` is one unit with `any_one`, everything else is literal."""
    return join_parts(_between_stars(pattern, unit, any_one=any_one), unit)


def rule_name(pattern: str) -> str:
    """A complete path component in a rule's pattern."""
    return name_pattern(_between_stars(pattern, "[^/]", any_one=True))


def _between_stars(pattern: str, unit: str, *, any_one: bool) -> list[str]:
    parts = map(re.escape, re.split(r"\*+", pattern))
    return [part.replace(r"\?", unit) for part in parts] if any_one else list(parts)


def name_pattern(parts: Iterable[str]) -> str:
    """A complete path component."""
    return f"(?>{join_parts(parts, '[^/]')}{NAME_END})"


def path_pattern(names: Iterable[str | None], *, whole: bool) -> str:
    """Consecutive path components; None stands for any number of folders, or at the end for everything in a folder.

    With `whole` the last component must end the path; otherwise everything below a match also matches.
    """
    blocks: list[list[str]] = [[]]
    for segment in names:
        if segment is not None:
            blocks[-1].append(segment)
        elif len(blocks) == 1 or blocks[-1]:
            blocks.append([])
    out = ""
    for index, block in enumerate(blocks):
        is_last = index == len(blocks) - 1
        expression = "/".join(block) + ("" if is_last or not block else "/")
        if not index:
            out += expression
        elif is_last and not block:
            return out + ".+"
        elif is_last and whole:
            out += f"(?:[^/]+/)*?{expression}"
        else:
            out += f"(?>(?:[^/]+/)*?{expression})"
    return out


def gitignore(pattern: str) -> tuple[str, bool]:
    """The expression for a gitignore pattern, relative to its anchor, and whether it matches only folders."""
    if pattern in ("/", "/.", "."):
        return ".*", False
    folder_only = pattern.endswith("/") and not pattern.endswith("\\/")
    body = pattern.strip("/") if folder_only else pattern.lstrip("/")
    anchored = pattern.startswith("/") or "/" in body
    segments = [segment for segment in body.split("/") if segment]
    folder_only = folder_only and segments[-1:] != ["**"]
    if not segments:
        return ".*", False
    names = [None if segment == "**" else name_pattern(_parts(segment)) for segment in segments]
    return path_pattern(names if anchored else [None, *names], whole=False), folder_only


def gitignore_tree(pattern: str) -> str:
    """Like `gitignore`, but also matches everything in a matching folder."""
    matching, folder_only = gitignore(pattern)
    return matching + ("/.*" if folder_only else "(?:/.*)?")


def _parts(segment: str) -> list[str]:
    """The expressions between the stars of one path component."""
    parts, index = [""], 0
    while index < len(segment):
        char = segment[index]
        if char == "*":
            parts += [""] if index == 0 or segment[index - 1] != "*" or parts[-1] else []
        elif char == "?":
            parts[-1] += "[^/]"
        elif char == "[":
            group = _character_class(segment, index)
            if group is None:
                raise InvalidPattern("unclosed [ in a path pattern")
            parts[-1] += group[0]
            index = group[1]
        elif char == "\\" and index + 1 < len(segment):
            index += 1
            parts[-1] += re.escape(segment[index])
        else:
            parts[-1] += re.escape(char)
        index += 1
    return parts


def _character_class(segment: str, start: int) -> tuple[str, int] | None:
    end = segment.find("]", start + 3 if segment[start + 1 : start + 2] in ("!", "^") else start + 2)
    if end < 0:
        return None
    inside = segment[start + 1 : end]
    negated = inside[:1] in ("!", "^")
    members = re.sub(r"[\\\[\]^&~|]", r"\\\g<0>", inside[1:] if negated else inside)
    try:
        re.compile(f"[{members}]")
    except re.error:
        raise InvalidPattern(f"[{inside}] is not a valid character class") from None
    return (f"(?!/)[{'^' if negated else ''}{members}]", end)
