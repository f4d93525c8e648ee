"""What globs match, looked up in the workspace before a command is judged, so that what is judged is what runs."""

import os
import re
from collections.abc import Callable, Iterator, Sequence

from adderclaw.config.paths import followed
from adderclaw.core.errors import PathRefused
from adderclaw.policy.legacy.shell.words import Component
from adderclaw.sandbox import workspace

MAX_ENTRIES = 20_000
"""How many names are looked at for one pattern."""


def within(cwd: str, roots: Sequence[str]) -> Callable[[str, tuple[Component, ...]], list[str] | None]:
    """A function that gives the paths which match in a folder, as bash writes them; None where it may not look."""

    def look(folder: str, parts: tuple[Component, ...]) -> list[str] | None:
        try:
            return sorted(_Walk(os.path.join(cwd, folder), tuple(roots)).over(parts))
        except (OSError, PathRefused):  # outside of the workspace, too much, or names that cannot be shown
            return None

    return look


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
        elif workspace.is_named(os.path.join(self.start, prefix + part.text)):
            yield prefix + part.text

    def names(self, prefix: str, part: Component, *, folders: bool) -> Iterator[str]:
        wanted = re.compile(part.text, re.DOTALL)
        folder = followed(os.path.join(self.start, prefix))
        place = workspace.within_roots(folder, self.roots)
        if place is None:
            raise PathRefused(f"{folder} is outside the workspace")
        try:
            opened = workspace.open_folder(place)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return
        try:
            with workspace.scan(opened) as entries:
                for entry in entries:
                    if self.fits(entry, wanted, part) and (not folders or _is_folder(entry, folder)):
                        yield entry.name
        finally:
            os.close(opened)

    def fits(self, entry: "os.DirEntry[str]", wanted: re.Pattern[str], part: Component) -> bool:
        self.entries += 1
        if self.entries > MAX_ENTRIES:
            raise PathRefused(f"more than {MAX_ENTRIES:,} names are looked at for one pattern")
        if not wanted.fullmatch(entry.name) or (entry.name.startswith(".") and not part.dots):
            return False
        if not entry.name.isprintable():
            raise PathRefused("a name cannot be shown")
        return True


def _is_folder(entry: "os.DirEntry[str]", folder: str) -> bool:
    """A link to a folder is one for a pattern."""
    if entry.is_symlink():
        return workspace.is_directory(os.path.join(folder, entry.name))
    return entry.is_dir(follow_symlinks=False)
