"""Finds the lines of steps and their keys, which tomllib does not report."""

import re

_STEP = re.compile(r"^[ \t]*\[\[[ \t]*steps[ \t]*\]\]", re.MULTILINE)
_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)
_LONG = re.compile(r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'', re.DOTALL)
"""Texts of several lines, whose content must not be taken for keys."""


class SourceLines:
    """Line numbers count from 1; 0 means unknown."""

    def __init__(self, text: str, steps: int) -> None:
        blank = _LONG.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text.replace("\r\n", "\n"))
        self._lines = blank.split("\n")
        starts = [blank.count("\n", 0, match.start()) + 1 for match in _STEP.finditer(blank)]
        self._starts = starts if len(starts) == steps else []

    def step_line(self, step: int, key: str = "") -> int:
        """Returns the line of a step by its index, or of a key in it."""
        if step >= len(self._starts):
            return 0
        start = self._starts[step]
        end = self._starts[step + 1] - 1 if step + 1 < len(self._starts) else len(self._lines)
        return self._key_line(key, start, end) or start

    def top_line(self, key: str) -> int:
        """Returns the line of a key before the first step or table."""
        end = next((index for index, line in enumerate(self._lines) if _TABLE.match(line)), len(self._lines))
        return self._key_line(key, 0, end)

    def _key_line(self, key: str, start: int, end: int) -> int:
        if not key:
            return 0
        pattern = re.compile(rf"(?:^|[{{,\s\[.])[\"']?{re.escape(key)}[\"']?\s*[=\].]")
        return next((index + 1 for index in range(start, end) if pattern.search(self._lines[index])), 0)
