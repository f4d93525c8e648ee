"""Files by name: one walk by descriptor, through no link, that asks of a file no more than its name until that fits."""

import errno
import os
from collections.abc import Callable, Iterator
from itertools import islice

from adderclaw.config.safe_open import ANCHOR, opener
from adderclaw.sandbox.workspace.globs import Patterns, PatternStates
from adderclaw.sandbox.workspace.place import WorkspacePath
from adderclaw.sandbox.workspace.reading import FOLDER

CLOCK_INTERVAL = 1000
"""Entries of one folder between two looks at the clock."""


class Matches:
    """What a walk has found so far."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._newest: list[tuple[int, str]] = []
        self.total = 0
        self.loops: list[str] = []
        """Links that lead in a circle, so that nobody can say what they are."""
        self.unseen = 0
        """Entries whose names fit, and of which nothing more can be known."""
        self.is_whole = True

    def add(self, modified: int, path: str) -> None:
        self.total += 1
        self._newest.append((-modified, path))
        if len(self._newest) >= 4 * self._most:
            self._cut()

    def _cut(self) -> None:
        self._newest.sort()
        del self._newest[self._most :]

    def newest(self) -> list[str]:
        """Paths from the walk's place on, the newest first; those of one time by name."""
        self._cut()
        return [path for _, path in self._newest]

    def exclude(self, is_left_out: Callable[[str], bool]) -> None:
        """Drop these of the paths that are kept."""
        self._cut()
        remaining = [match for match in self._newest if not is_left_out(match[1])]
        self.total -= len(self._newest) - len(remaining)
        self._newest = remaining


def find_matching(path: WorkspacePath, patterns: Patterns, most: int, over: Callable[[], bool]) -> Matches:
    """The newest files beneath a place that the patterns name; what it comes to is not whole once it is `over`.

    Each folder is opened from the root's descriptor: the way there leads through no link, whatever is exchanged.
    """
    matches = Matches(most)
    waiting: list[tuple[str, PatternStates]] = [("", patterns.start())]
    base = "" if path.is_root else f"{path.relative}/"
    root, opened = os.open(path.root, ANCHOR), opener()
    try:
        while waiting:
            relative, states = waiting.pop()
            try:
                fd = opened(root, (base + relative).rstrip("/") or ".", FOLDER)
            except OSError:
                continue  # gone, exchanged for a link, or nothing that we may read
            try:
                with os.scandir(fd) as entries:
                    while batch := [*islice(entries, CLOCK_INTERVAL)]:
                        if over():
                            matches.is_whole = False
                            return matches
                        waiting += _visit(fd, batch, f"{relative}/" if relative else "", patterns, states, matches)
            except OSError:
                continue
            finally:
                os.close(fd)
    finally:
        os.close(root)
    return matches


def _visit(
    fd: int, batch: "list[os.DirEntry[str]]", above: str, patterns: Patterns, states: PatternStates, matches: Matches
) -> Iterator[tuple[str, PatternStates]]:
    """Note the files that match; give the folders in which more may be."""
    fits = patterns.file_matcher(states)
    for entry in batch:
        name = entry.name
        if entry.is_dir(follow_symlinks=False):
            if name != ".git" and any(after := patterns.step(states, name)):
                yield above + name, after
        elif fits is not None and fits(name):
            _note(fd, entry, above + name, matches)


def _note(fd: int, entry: "os.DirEntry[str]", path: str, matches: Matches) -> None:
    try:
        if entry.is_symlink() and _leads_to_folder(fd, entry.name):
            return
        matches.add(entry.stat(follow_symlinks=False).st_mtime_ns, path)
    except FileNotFoundError:
        pass  # deleted while we look
    except OSError as error:
        if error.errno == errno.ELOOP:
            matches.loops.append(path)
        else:
            matches.unseen += 1  # the others of its folder are still found


def _leads_to_folder(fd: int, name: str) -> bool:
    """Raises OSError where the link leads in a circle; one that leads nowhere is a link to a file."""
    import stat

    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=fd).st_mode)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise
        return False
