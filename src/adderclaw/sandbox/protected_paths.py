"""Paths of a workspace that commands must not change: mounts that protect them, and a report of those that changed.

Git directories are read-only for every command except git itself, as are existing files that other programs run later.
A mount cannot protect a file that does not exist yet; it is reported once it appears. Nothing is restored or removed.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import visible
from adderclaw.sandbox.legacy.survey import Survey
from adderclaw.sandbox.workspace import stat_target

MAX_MOUNTED = 600
"""At most this many paths get a mount, git directories first. Changes to the others are only reported."""
MAX_NAMED = 20
"""At most this many paths are listed in one message."""
OWN_FOLDER = ".adderclaw"
REPORT = "these files take effect later; look at them before they do: {names}"


class Change(NamedTuple):
    path: str
    how: Literal["new", "changed"]
    mark: str
    """Its fingerprint now."""


class Recorder(Protocol):
    """Stores the state of a workspace and receives its changes."""

    def record_first(self, items: Mapping[str, str], roots: Sequence[str]) -> Sequence[Change]:
        """The first survey of a session; returns the changes that a killed session left unreported."""
        ...

    def record_widened(self, items: Mapping[str, str], roots: Sequence[str]) -> None:
        """More directories are surveyed from now on; their current content counts as unchanged."""
        ...

    def record_changes(self, changes: Sequence[Change], items: Mapping[str, str]) -> None:
        """Called at the end of a command, or between two while another runs; `items` is the state now."""
        ...


class Unrecorded:
    """A recorder that stores nothing."""

    def record_first(self, items: Mapping[str, str], roots: Sequence[str]) -> Sequence[Change]:  # noqa: ARG002
        return ()

    def record_widened(self, items: Mapping[str, str], roots: Sequence[str]) -> None:
        pass

    def record_changes(self, changes: Sequence[Change], items: Mapping[str, str]) -> None:
        pass


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[Change]:
    """The items that are new or changed. Removed items are left out, because they cannot run."""
    if before == now:
        return []
    return [
        Change(path, "changed" if path in before else "new", mark)
        for path, mark in now.items()
        if before.get(path) != mark
    ]


def without_own_folder(survey: Survey, own: str) -> Survey:
    """The survey without our own folder, which is in the workspace if that is the home; no command writes there."""
    inside = f"{own}/"
    if not own or not any(path.startswith(inside) for path in survey.items):
        return survey
    return survey._replace(items={path: mark for path, mark in survey.items.items() if not path.startswith(inside)})


def describe_changes(changes: Sequence[Change], roots: Sequence[str]) -> str:
    """The changed paths for a message, relative to the first root."""
    top = f"{roots[0].rstrip('/')}/" if roots else "/"
    shown = [f"{visible(change.path.removeprefix(top), keep_newlines=False)} ({change.how})" for change in changes]
    more = f" and {len(shown) - MAX_NAMED} more" if len(shown) > MAX_NAMED else ""
    return ", ".join(shown[:MAX_NAMED]) + more


class Mounts(NamedTuple):
    """The paths that one view of the workspace shows read-only, and the folders above them that must not be moved."""

    kept: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    inodes: tuple[int, ...] = ()
    """The inodes of `kept`: if another file takes a name, it needs a new mount."""
    left: int = 0
    """How many paths exceed MAX_MOUNTED."""


NO_MOUNTS = Mounts()


def with_traces(survey: Survey, traces: Sequence[str]) -> Survey:
    """Adds the traces of runs as read-only for all commands. Our own writes there are not reported as changes."""
    inodes = {path: status.st_ino for path in traces if (status := stat_target(path)) is not None}
    return survey._replace(hooks=(*inodes, *survey.hooks), inodes={**survey.inodes, **inodes}) if inodes else survey


def mounts_for_commands(survey: Survey, roots: Sequence[str], fixed: Sequence[str]) -> Mounts:
    """The mounts for every command except git; paths in `fixed` must not be moved but may be changed."""
    inner = tuple(f"{git}/" for git in survey.gits)
    outer = [path for path in (*survey.hooks, *survey.places) if not path.startswith(inner)]
    within = [path for path in fixed if any(path.startswith(f"{root.rstrip('/')}/") for root in roots)]
    return _mounts(survey, (*survey.gits, *outer), roots, within)


def mounts_for_git(survey: Survey, further: Sequence[str]) -> Mounts:
    """The mounts for git: hooks, our own settings, and `further`, which rules or trusted settings protect."""
    own = [path for path in survey.places if OWN_FOLDER in path.split("/")]
    existing = [path for path in further if path in survey.inodes]
    return _mounts(survey, (*survey.hooks, *own, *existing), ())._replace(pinned=())


def _mounts(survey: Survey, paths: Sequence[str], roots: Sequence[str], fixed: Sequence[str] = ()) -> Mounts:
    unique = tuple(dict.fromkeys(paths))
    read_only = unique[:MAX_MOUNTED]
    tops = {root.rstrip("/") for root in roots}
    pinned: dict[str, None] = {}
    for path in (*read_only, *fixed):
        folder = os.path.dirname(path)
        while folder not in tops and folder != "/" and folder not in pinned:
            pinned[folder] = None
            folder = os.path.dirname(folder)
    inodes = tuple(survey.inodes.get(path, 0) for path in read_only)
    return Mounts(read_only, tuple(pinned), inodes, len(unique) - len(read_only))
