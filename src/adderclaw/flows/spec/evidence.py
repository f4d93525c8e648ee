"""What shows that a coding session brought the work further: what is there now, not what the session says of it."""

import re
import zlib
from collections.abc import Mapping

from adderclaw.core.errors import PathRefused
from adderclaw.flows.spec.status import Status
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import Place

MAX_BYTES = 4_000_000
_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REF = re.compile(r"ref: (refs(?:/[A-Za-z0-9_][A-Za-z0-9_.+@-]*)+)")
NONE = "no new commit, no scenario that passed for the first time, no check that failed before and succeeds now"


class Evidence:
    """Remembers what was reached before, so that going to and fro counts once."""

    def __init__(self, project: str, now: Status | None) -> None:
        self._project = project
        self._trees = {committed(project)}
        self._passed = _passed(now)
        self._declared = now is not None
        self._failing: set[str] = set()
        self._mended: set[str] = set()

    def grew(self, now: Status | None, checks: Mapping[str, bool]) -> bool:
        """Whether a session that has ended left something that was never there before.

        `checks` are the commands that it ran, and whether each succeeded the last time.
        """
        tree, passed = committed(self._project), _passed(now)
        mended = {command for command, ok in checks.items() if ok and command in self._failing} - self._mended
        declared = now is not None and not self._declared
        found = declared or tree not in self._trees or bool(passed - self._passed) or bool(mended)
        self._trees.add(tree)
        self._passed |= passed
        self._mended |= mended
        self._declared = self._declared or declared
        self._failing = {one for one in self._failing if not checks.get(one)} | {
            one for one, ok in checks.items() if not ok
        }
        return found


def _passed(now: Status | None) -> set[str]:
    return {one.id for one in now.scenarios if one.passed} if now is not None else set()


# ------------------------------------------------------------------ the last commit


def committed(project: str) -> str:
    """What the last commit of the project's repository holds: its tree, so that an empty commit is none; the commit
    where that is packed; nothing where there is no repository of its own. No git is started for it."""
    head = _text(project, "HEAD")
    found = _REF.fullmatch(head)
    commit = _of_ref(project, found[1]) if found else head
    if not _ID.fullmatch(commit):
        return ""
    return _tree(project, commit) or commit


def _of_ref(project: str, ref: str) -> str:
    if ".." in ref:
        return ""
    if commit := _text(project, ref):
        return commit
    rows = (line.split(" ") for line in _text(project, "packed-refs").splitlines() if not line.startswith(("#", "^")))
    return next((row[0] for row in rows if row[1:] == [ref]), "")


def _tree(project: str, commit: str) -> str:
    try:
        data = workspace.read(Place(project, f".git/objects/{commit[:2]}/{commit[2:]}"), MAX_BYTES)
        start = zlib.decompressobj().decompress(data, 200).partition(b"\0")[2].decode("ascii", "replace")
    except (OSError, PathRefused, zlib.error):
        return ""
    found = re.match(r"tree ([0-9a-f]{40,64})\n", start)
    return found[1] if found else ""


def _text(project: str, name: str) -> str:
    try:
        return workspace.read(Place(project, f".git/{name}"), MAX_BYTES).decode("utf-8", "replace").strip()
    except (OSError, PathRefused):
        return ""
