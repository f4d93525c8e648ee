"""What the files that a schedule watches look like from outside: their names, sizes and times, through no link."""

import os
from collections.abc import Sequence

from adderclaw.core.errors import PathRefused, UsageError
from adderclaw.core.json_text import digest
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import Entry, WorkspacePath
from adderclaw.sandbox.workspace.globs import Patterns, PatternStates, alternatives

MOST_FILES = 5_000
MOST_LOOKED_AT = 100_000
MOST_NAMED = 200
"""Changed paths that a run is given by name."""
NEVER = frozenset({".git", ".adderclaw"})
"""Folders that are never entered: what changes there is git's work or ours."""

type Seen = dict[str, list[int]]
"""A file's way from the workspace → its size and its time of change."""


def snapshot(root: str, globs: Sequence[str]) -> Seen:
    """The files that match now. UsageError where they are too many, or the folder is not there."""
    patterns = Patterns([pattern for glob in globs for pattern in alternatives(glob)])
    states: dict[str, PatternStates] = {".": patterns.start()}

    def into(entry: Entry) -> bool:
        if entry.path.name in NEVER:
            return False
        there = patterns.step(states[_above(entry.path)], entry.path.name)
        states[entry.path.relative] = there
        return any(there)

    folder = WorkspacePath(root)
    try:
        os.close(workspace.open_folder(folder))
    except (OSError, PathRefused) as error:
        raise UsageError(f"the workspace {root} cannot be looked at: {error}") from error
    seen: Seen = {}
    for count, entry in enumerate(workspace.walk(folder, into=into)):
        if count >= MOST_LOOKED_AT:
            raise UsageError(f"more than {MOST_LOOKED_AT:,} files are looked at: name the folder in the pattern")
        fits = patterns.file_matcher(states[_above(entry.path)]) if entry.is_file else None
        if fits is not None and fits(entry.path.name):
            seen[entry.path.relative] = [entry.status.st_size, entry.status.st_mtime_ns]
            if len(seen) > MOST_FILES:
                raise UsageError(f"more than {MOST_FILES:,} files match {', '.join(globs)}: name fewer")
    return seen


def _above(path: WorkspacePath) -> str:
    return os.path.dirname(path.relative) or "."


def signature(seen: Seen) -> str:
    return digest(seen)


def differing(before: Seen, now: Seen) -> list[str]:
    """What was added, changed or removed, by name."""
    return sorted(way for way in {*before, *now} if before.get(way) != now.get(way))


def listed(paths: Sequence[str]) -> str:
    """One path in a line, each escaped so that none can look like two; the first ones of many."""
    lines = [workspace.printable(path) for path in paths[:MOST_NAMED]]
    more = len(paths) - len(lines)
    return "\n".join([*lines, *([f"… and {more} more"] if more else [])])
