"""The files that a schedule watches: their names, sizes and times, without following links."""

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
"""Changed paths that a run receives by name."""
NEVER = frozenset({".git", ".adderclaw"})
"""Folders that are not watched, because git and AdderClaw itself change them."""

type Seen = dict[str, list[int]]
"""Relative path of a file → its size and modification time."""


def snapshot(root: str, globs: Sequence[str]) -> Seen:
    """The files that match now. Raises UsageError if there are too many, or the folder cannot be read."""
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
        raise UsageError(f"the workspace {root} cannot be read: {error}") from error
    seen: Seen = {}
    for count, entry in enumerate(workspace.walk(folder, into=into)):
        if count >= MOST_LOOKED_AT:
            raise UsageError(f"more than {MOST_LOOKED_AT:,} files would be checked: name their folder in the pattern")
        fits = patterns.file_matcher(states[_above(entry.path)]) if entry.is_file else None
        if fits is not None and fits(entry.path.name):
            seen[entry.path.relative] = [entry.status.st_size, entry.status.st_mtime_ns]
            if len(seen) > MOST_FILES:
                raise UsageError(f"more than {MOST_FILES:,} files match {', '.join(globs)}: use narrower patterns")
    return seen


def _above(path: WorkspacePath) -> str:
    return os.path.dirname(path.relative) or "."


def signature(seen: Seen) -> str:
    return digest(seen)


def differing(before: Seen, now: Seen) -> list[str]:
    """The paths of files that were added, changed or removed."""
    return sorted(path for path in {*before, *now} if before.get(path) != now.get(path))


def listed(paths: Sequence[str]) -> str:
    """The first paths, one per line, escaped so that a newline in a name cannot look like another path."""
    lines = [workspace.printable(path) for path in paths[:MOST_NAMED]]
    more = len(paths) - len(lines)
    return "\n".join([*lines, *([f"… and {more} more"] if more else [])])
