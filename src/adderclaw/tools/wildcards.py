"""What globs match, looked up in the workspace before a command is judged, so that what is judged is what runs."""

import os
import re
from collections.abc import Callable, Iterator, Sequence

from adderclaw.gate.shell.words import Component
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
        wanted = re.compile(part.text, re.DOTALL)
        try:
            opened = os.open(os.path.join(self.start, prefix), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return
        try:
            # The folder that was opened is asked where it lies, so that no link can be put in its place in between.
            if not programs.inside(_place(opened), self.roots):
                raise _Refused
            with os.scandir(opened) as entries:
                for entry in entries:
                    if self.fits(entry, wanted, part, folders=folders):
                        yield entry.name
        finally:
            os.close(opened)

    def fits(self, entry: "os.DirEntry[str]", wanted: re.Pattern[str], part: Component, *, folders: bool) -> bool:
        self.entries += 1
        if self.entries > MAX_ENTRIES:
            raise _Refused
        if not wanted.fullmatch(entry.name) or (entry.name.startswith(".") and not part.dots):
            return False
        if not entry.name.isprintable():
            raise _Refused
        return not folders or entry.is_dir()


def _place(opened: int) -> str:
    """Where an open folder lies."""
    if os.path.isdir("/proc/self/fd"):
        return os.readlink(f"/proc/self/fd/{opened}")
    import fcntl

    return os.fsdecode(fcntl.fcntl(opened, 50, bytes(1024)).rstrip(b"\0"))  # macOS: F_GETPATH
