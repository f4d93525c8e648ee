"""Finds files by name: a walk by descriptor that follows no links and queries only the files whose names match."""

import errno
import os
from collections.abc import Callable, Iterator
from itertools import islice

from adderclaw.config.safe_open import ANCHOR, opener
from adderclaw.sandbox.workspace.globs import Patterns, PatternStates
from adderclaw.sandbox.workspace.path import WorkspacePath
from adderclaw.sandbox.workspace.reading import FOLDER

CLOCK_INTERVAL = 1000
"""The time limit is checked after this many entries of a folder."""


class Matches:
    """The files that a walk has found so far."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._newest: list[tuple[int, str]] = []
        self.total = 0
        self.loops: list[str] = []
        """Links that lead in a circle."""
        self.unseen = 0
        """The number of entries whose names match but whose status cannot be read."""
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
        """Paths relative to the start of the walk, newest first; files with the same time are ordered by name."""
        self._cut()
        return [path for _, path in self._newest]

    def exclude(self, is_left_out: Callable[[str], bool]) -> None:
        """Removes the paths for which `is_left_out` returns True."""
        self._cut()
        remaining = [match for match in self._newest if not is_left_out(match[1])]
        self.total -= len(self._newest) - len(remaining)
        self._newest = remaining


def find_matching(path: WorkspacePath, patterns: Patterns, most: int, over: Callable[[], bool]) -> Matches:
    """The newest files beneath `path` that match the patterns; the result is incomplete once `over` returns True.

    Each folder is opened from the root's descriptor, so no link is followed even if files are swapped meanwhile.
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
                continue  # removed, replaced by a link, or not readable
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
    """Adds the files that match, and yields the folders that may contain more."""
    matches_name = patterns.file_matcher(states)
    for entry in batch:
        name = entry.name
        if entry.is_dir(follow_symlinks=False):
            if name != ".git" and any(after := patterns.step(states, name)):
                yield above + name, after
        elif matches_name is not None and matches_name(name):
            path = above + name
            try:
                if not (entry.is_symlink() and _leads_to_folder(fd, name)):
                    matches.add(entry.stat(follow_symlinks=False).st_mtime_ns, path)
            except FileNotFoundError:
                pass  # deleted meanwhile
            except OSError as error:
                if error.errno == errno.ELOOP:
                    matches.loops.append(path)
                else:
                    matches.unseen += 1


def _leads_to_folder(fd: int, name: str) -> bool:
    """Raises OSError for a link that leads in a circle. A dangling link counts as a link to a file."""
    import stat

    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=fd).st_mode)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise
        return False
