"""Headings and sections of a Markdown text. Lines in code fences and indented blocks are not headings."""

import re
from typing import NamedTuple

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


class Section(NamedTuple):
    level: int
    """1 to 6; 0 is the text before the first heading."""
    title: str
    own: str
    """The heading and the text up to the next heading of any level."""
    whole: str
    """Includes all deeper sections."""


def sections(text: str) -> tuple[Section, ...]:
    """The sections in order; the first is the text before the first heading, if there is any."""
    lines = text.split("\n")
    starts = _headings(lines)
    result: list[Section] = []
    before = "\n".join(lines[: starts[0][0]] if starts else lines).strip()
    if before:
        result.append(Section(0, "", before, before))
    for index, (start, level, title) in enumerate(starts):
        following = starts[index + 1 :]
        own = following[0][0] if following else len(lines)
        whole = next((line for line, deep, _ in following if deep <= level), len(lines))
        result.append(Section(level, title, "\n".join(lines[start:own]).strip(), "\n".join(lines[start:whole]).strip()))
    return tuple(result)


def _headings(lines: list[str]) -> list[tuple[int, int, str]]:
    """(line, level, title) of each heading."""
    headings: list[tuple[int, int, str]] = []
    fence = ""
    for number, line in enumerate(lines):
        mark = _FENCE.fullmatch(line)
        if fence:
            if mark and mark[1][0] == fence[0] and len(mark[1]) >= len(fence) and not mark[2].strip():
                fence = ""
        elif mark and not (mark[1][0] == "`" and "`" in mark[2]):
            fence = mark[1]
        elif heading := _HEADING.fullmatch(line):
            headings.append((number, len(heading[1]), (heading[2] or "").strip()))
    return headings


def slug(title: str) -> str:
    """A heading in the form used in links."""
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", title.lower()).strip())
