"""Detects progress of a coding session from the project itself, not from what the session says."""

import re
import zlib
from collections.abc import Mapping

from adderclaw.core.errors import PathRefused
from adderclaw.flows.spec.status import Status
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import WorkspacePath

MAX_BYTES = 4_000_000
_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REF = re.compile(r"ref: (refs(?:/[A-Za-z0-9_][A-Za-z0-9_.+@-]*)+)")
NO_PROGRESS = "no new commit, no scenario that passed for the first time, no check that failed before and succeeds now"


class Evidence:
    """Remembers earlier states, so that going back and forth between them does not count as progress."""

    def __init__(self, project: str, now: Status | None) -> None:
        self._project = project
        self._trees = {last_commit_tree(project)}
        self._passed = _passed_ids(now)
        self._declared = now is not None
        self._failing: set[str] = set()
        self._mended: set[str] = set()

    def add_session(self, now: Status | None, checks: Mapping[str, bool]) -> bool:
        """Adds a session that has ended; returns whether it reached something new.

        `checks` are the commands that it ran, and whether the last run of each succeeded.
        """
        tree, passed = last_commit_tree(self._project), _passed_ids(now)
        mended = {command for command, ok in checks.items() if ok and command in self._failing} - self._mended
        declared = now is not None and not self._declared
        progressed = declared or tree not in self._trees or bool(passed - self._passed) or bool(mended)
        self._trees.add(tree)
        self._passed |= passed
        self._mended |= mended
        self._declared = self._declared or declared
        self._failing = {failing for failing in self._failing if not checks.get(failing)} | {
            failing for failing, ok in checks.items() if not ok
        }
        return progressed


def _passed_ids(now: Status | None) -> set[str]:
    return {scenario.id for scenario in now.scenarios if scenario.passed} if now is not None else set()


# ------------------------------------------------------------------ the last commit


def last_commit_tree(project: str) -> str:
    """Returns the tree of the project's last commit, so that an empty commit does not count; the commit itself if it is
    packed; empty without a repository. Reads the files of git without starting it."""
    head = _text(project, "HEAD")
    match = _REF.fullmatch(head)
    commit = _commit_of_ref(project, match[1]) if match else head
    if not _ID.fullmatch(commit):
        return ""
    return _tree(project, commit) or commit


def _commit_of_ref(project: str, ref: str) -> str:
    if ".." in ref:
        return ""
    if commit := _text(project, ref):
        return commit
    rows = (line.split(" ") for line in _text(project, "packed-refs").splitlines() if not line.startswith(("#", "^")))
    return next((row[0] for row in rows if row[1:] == [ref]), "")


def _tree(project: str, commit: str) -> str:
    try:
        data = workspace.read(WorkspacePath(project, f".git/objects/{commit[:2]}/{commit[2:]}"), MAX_BYTES)
        start = zlib.decompressobj().decompress(data, 200).partition(b"\0")[2].decode("ascii", "replace")
    except (OSError, PathRefused, zlib.error):
        return ""
    match = re.match(r"tree ([0-9a-f]{40,64})\n", start)
    return match[1] if match else ""


def _text(project: str, name: str) -> str:
    try:
        return workspace.read(WorkspacePath(project, f".git/{name}"), MAX_BYTES).decode("utf-8", "replace").strip()
    except (OSError, PathRefused):
        return ""
