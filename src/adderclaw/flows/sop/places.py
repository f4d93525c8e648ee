"""In which line a step and its keys stand: tomllib does not say so."""

import re

_STEP = re.compile(r"^[ \t]*\[\[[ \t]*steps[ \t]*\]\]", re.MULTILINE)
_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)
_LONG = re.compile(r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'', re.DOTALL)
"""Texts of several lines: what stands in them is no key."""


class Places:
    """Lines are counted from 1; 0 where nobody knows."""

    def __init__(self, text: str, steps: int) -> None:
        blank = _LONG.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text.replace("\r\n", "\n"))
        self._lines = blank.split("\n")
        starts = [blank.count("\n", 0, found.start()) + 1 for found in _STEP.finditer(blank)]
        self._starts = starts if len(starts) == steps else []

    def of(self, step: int, key: str = "") -> int:
        """Of a step by its number, or of a key in it."""
        if step >= len(self._starts):
            return 0
        start = self._starts[step]
        end = self._starts[step + 1] - 1 if step + 1 < len(self._starts) else len(self._lines)
        return self._key(key, start, end) or start

    def top(self, key: str) -> int:
        """Of a key before the first step or table."""
        end = next((place for place, line in enumerate(self._lines) if _TABLE.match(line)), len(self._lines))
        return self._key(key, 0, end)

    def _key(self, key: str, start: int, end: int) -> int:
        if not key:
            return 0
        found = re.compile(rf"(?:^|[{{,\s\[.])[\"']?{re.escape(key)}[\"']?\s*[=\].]")
        return next((place + 1 for place in range(start, end) if found.search(self._lines[place])), 0)
