"""What of a workspace commands may not change, as mounts, and what they changed all the same, as a report.

Git directories are read-only to every command but git's own; what other programs run later is, too, where it exists.
No mount keeps what is not there yet: that is reported when it has come to be. Nothing is put back or taken away.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import visible
from adderclaw.sandbox.legacy.survey import Survey
from adderclaw.sandbox.workspace import stat_target

MAX_MOUNTED = 600
"""Places that are mounts of their own, git directories first; changes of the others are reported all the same."""
MAX_NAMED = 20
"""Paths that one message names."""
OWN_FOLDER = ".adderclaw"
REPORT = "these files take effect later; look at them before they do: {names}"


class Change(NamedTuple):
    path: str
    how: Literal["new", "changed"]
    mark: str
    """Its fingerprint now."""


class Recorder(Protocol):
    """Who keeps the state of a workspace, and is told what changed."""

    def record_first(self, items: Mapping[str, str], roots: Sequence[str]) -> Sequence[Change]:
        """The first look of a session: what a session that was killed has left."""
        ...

    def record_widened(self, items: Mapping[str, str], roots: Sequence[str]) -> None:
        """Other directories are looked at from now on; nothing was changed in those that are new."""
        ...

    def record_changes(self, changes: Sequence[Change], items: Mapping[str, str]) -> None:
        """At the end of a command, or between two while another runs; `items` is the state now."""
        ...


class Unrecorded:
    """Nobody does."""

    def record_first(self, items: Mapping[str, str], roots: Sequence[str]) -> Sequence[Change]:  # noqa: ARG002
        return ()

    def record_widened(self, items: Mapping[str, str], roots: Sequence[str]) -> None:
        pass

    def record_changes(self, changes: Sequence[Change], items: Mapping[str, str]) -> None:
        pass


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[Change]:
    """What appeared or changed. What has gone can run nothing."""
    if before == now:
        return []
    return [
        Change(path, "changed" if path in before else "new", mark)
        for path, mark in now.items()
        if before.get(path) != mark
    ]


def without_own_folder(survey: Survey, own: str) -> Survey:
    """The look without our own folder, which the home holds where that is the workspace; no command writes there."""
    inside = f"{own}/"
    if not own or not any(path.startswith(inside) for path in survey.items):
        return survey
    return survey._replace(items={path: mark for path, mark in survey.items.items() if not path.startswith(inside)})


def describe_changes(changes: Sequence[Change], roots: Sequence[str]) -> str:
    """The paths, as short as they are clear, for a message."""
    top = f"{roots[0].rstrip('/')}/" if roots else "/"
    shown = [f"{visible(change.path.removeprefix(top), keep_newlines=False)} ({change.how})" for change in changes]
    more = f" and {len(shown) - MAX_NAMED} more" if len(shown) > MAX_NAMED else ""
    return ", ".join(shown[:MAX_NAMED]) + more


class Mounts(NamedTuple):
    """What one view of the workspace shows read-only, and which folders above it must not be moved."""

    kept: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    inodes: tuple[int, ...] = ()
    """Of the kept: another file of the same name needs a mount of its own."""
    left: int = 0
    """Places that were too many."""


NO_MOUNTS = Mounts()


def with_traces(survey: Survey, traces: Sequence[str]) -> Survey:
    """The traces of runs are read-only to all, too. What we write there is no change that anybody must look at."""
    inodes = {path: status.st_ino for path in traces if (status := stat_target(path)) is not None}
    return survey._replace(hooks=(*inodes, *survey.hooks), inodes={**survey.inodes, **inodes}) if inodes else survey


def mounts_for_commands(survey: Survey, roots: Sequence[str], fixed: Sequence[str]) -> Mounts:
    """What every command but git's own sees read-only; `fixed` is only to stay where it is."""
    inner = tuple(f"{git}/" for git in survey.gits)
    outer = [path for path in (*survey.hooks, *survey.places) if not path.startswith(inner)]
    within = [path for path in fixed if any(path.startswith(f"{root.rstrip('/')}/") for root in roots)]
    return _mounts(survey, (*survey.gits, *outer), roots, within)


def mounts_for_git(survey: Survey, further: Sequence[str]) -> Mounts:
    """What even git does not change: hooks, our own settings, and what rules or trusted settings keep."""
    own = [path for path in survey.places if OWN_FOLDER in path.split("/")]
    existing = [path for path in further if path in survey.inodes]
    return _mounts(survey, (*survey.hooks, *own, *existing), ())._replace(pinned=())


def _mounts(survey: Survey, paths: Sequence[str], roots: Sequence[str], fixed: Sequence[str] = ()) -> Mounts:
    every = tuple(dict.fromkeys(paths))
    read_only = every[:MAX_MOUNTED]
    tops = {root.rstrip("/") for root in roots}
    pinned: dict[str, None] = {}
    for path in (*read_only, *fixed):
        folder = os.path.dirname(path)
        while folder not in tops and folder != "/" and folder not in pinned:
            pinned[folder] = None
            folder = os.path.dirname(folder)
    return Mounts(
        read_only, tuple(pinned), tuple(survey.inodes.get(path, 0) for path in read_only), len(every) - len(read_only)
    )
