"""What globs match, looked up in the workspace before a command is judged, so that what is judged is what runs."""

import os
import re
from collections.abc import Callable, Iterator, Sequence

from adderclaw.gate.words import Component
from adderclaw.sandbox import programs

MAX_ENTRIES = 20_000
"""How many names are looked at for one pattern."""


def within(cwd: str, roots: Sequence[str]) -> Callable[[str, tuple[Component, ...]], list[str] | None]:
    """A function that gives the paths which match in a folder, as bash writes them; None where it may not look."""

    def look(folder: str, parts: tuple[Component, ...]) -> list[str] | None:
        try:
            return sorted(_Walk(os.path.join(cwd, folder), tuple(roots)).over(parts))
        except (OSError, _Refused):
            return None

    return look


class _Refused(Exception):
    """Outside of the workspace, too much, or names that cannot be shown."""


class _Walk:
    def __init__(self, start: str, roots: tuple[str, ...]) -> None:
        self.start, self.roots, self.entries = start, roots, 0

    def over(self, parts: tuple[Component, ...]) -> list[str]:
        found = [""]
        for index, part in enumerate(parts):
            last = index == len(parts) - 1
            found = [path for prefix in found for path in self.step(prefix, part, last=last)]
        return found

    def step(self, prefix: str, part: Component, *, last: bool) -> Iterator[str]:
        if part.pattern:
            yield from (prefix + name + ("" if last else "/") for name in self.names(prefix, part, folders=not last))
        elif not last:
            yield f"{prefix}{part.text}/"
        elif os.path.lexists(os.path.join(self.start, prefix + part.text)):
            yield prefix + part.text

    def names(self, prefix: str, part: Component, *, folders: bool) -> Iterator[str]:
        place = os.path.join(self.start, prefix)
        if not programs.inside(place, self.roots):
            raise _Refused
        wanted = re.compile(part.text, re.DOTALL)
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    self.entries += 1
                    if self.entries > MAX_ENTRIES:
                        raise _Refused
                    if wanted.fullmatch(entry.name) and (part.dots or not entry.name.startswith(".")):
                        if folders and not entry.is_dir():
                            continue
                        if not entry.name.isprintable():
                            raise _Refused
                        yield entry.name
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return
