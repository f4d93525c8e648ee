"""Runs one coding session after another until every scenario has passed, or something ends the work."""

import re
import zlib
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol

from adderclaw.core.errors import PathRefused
from adderclaw.core.types import EndedBy, Outcome
from adderclaw.flows.spec import status
from adderclaw.flows.spec.checks import Checked
from adderclaw.flows.spec.prompts import Names, prompt
from adderclaw.flows.spec.status import Status
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import WorkspacePath

MAX_IDLE_SESSIONS = 5
"""After this many sessions in a row without progress, the work stops."""
CONTINUABLE = frozenset({"completed", "denied", "limit"})
"""The outcomes after which another session may begin; a session's own limit of rounds does not end the work."""


class SessionOrder(NamedTuple):
    """A session to run."""

    number: int
    prompt: str
    first: bool
    """Whether it must declare the scenarios."""


class SessionEnd(NamedTuple):
    """How a session ended."""

    outcome: Outcome
    reason: str = ""
    tool_calls: int = 0
    checks: Mapping[str, bool] = MappingProxyType({})
    """The commands that it ran, and whether the last run of each succeeded."""
    by: EndedBy = ""


class Ask(Protocol):
    """Runs a session: as a child session of a run, or through the client of another program."""

    async def __call__(self, order: SessionOrder, /) -> SessionEnd: ...


class Watcher(Protocol):
    """Is notified of the begin and end of each session."""

    def began(self, order: SessionOrder, status: Status | None, /) -> None: ...
    def ended(self, order: SessionOrder, ended: SessionEnd, status: Status | None, /) -> None: ...


class Check(Protocol):
    """Verifies scenarios that sessions claim to pass."""

    def distrust(self, before: Status | None, now: Status | None, /) -> None: ...
    async def check(self) -> Checked: ...
    async def verify_again(self, now: Status, /) -> Checked: ...
    def rejected_claims(self, now: Status | None, /) -> str: ...


class WorkResult(NamedTuple):
    """The result of all sessions."""

    outcome: Outcome
    reason: str
    sessions: int
    status: Status | None
    by: EndedBy = ""

    @property
    def passed(self) -> int:
        return self.status.passed if self.status is not None else 0

    @property
    def total(self) -> int:
        return self.status.total if self.status is not None else 0

    @property
    def answer(self) -> str:
        """A summary for a person."""
        if self.status is None:
            return f"no scenario is declared after {_count_sessions(self.sessions)}"
        rows = [f"{self.passed} of {self.total} scenarios have passed ({_count_sessions(self.sessions)})"]
        rows += [f"left: {scenario.id} {scenario.name}" for scenario in self.status.left]
        now = self.status
        return "\n".join(
            [
                *rows,
                *(f"blocked: {scenario.id} {scenario.name}: {now.mark(scenario).blocked}" for scenario in now.blocked),
            ]
        )


def _no_progress(before: Status | None, now: Status | None) -> bool:
    """Whether no more scenarios have passed; a session with a false claim made progress only if some have."""
    return (before.passed if before is not None else 0) >= (now.passed if now is not None else 0)


def _count_sessions(sessions: int) -> str:
    return f"{sessions} session{'' if sessions == 1 else 's'}"


async def run_sessions(
    project: str,
    spec: str,
    ask: Ask,
    names: Names,
    *,
    most: int | None = None,
    pause: Callable[[], Awaitable[None]] | None = None,
    watcher: Watcher | None = None,
    checker: Check | None = None,
) -> WorkResult:
    """Runs sessions, at most `most`, with a `pause` between them; `checker` verifies their claims."""
    now, idle, number = status.read(project), 0, 0
    evidence = Evidence(project, now)
    if checker is not None and now is not None:
        checker.distrust(now, now)
        checked = await checker.check()  # what an earlier run left
        now = status.read(project)
        if checked.ended is not None:
            return WorkResult(checked.ended.outcome, checked.ended.reason, number, now, checked.ended.by)
    while True:
        if now is not None and not now.left:
            if checker is None:
                break
            checked = await checker.verify_again(now)  # later sessions may have broken what passed before
            now = status.read(project)
            if checked.ended is not None:
                return WorkResult(checked.ended.outcome, checked.ended.reason, number, now, checked.ended.by)
            if now is not None and not now.left:
                break
        if most is not None and number >= most:
            return WorkResult(
                "limit", f"the limit of {_count_sessions(number)} is reached (--max-iterations)", number, now
            )
        if idle == MAX_IDLE_SESSIONS:
            return WorkResult(
                "limit", f"{MAX_IDLE_SESSIONS} sessions in a row made no progress: {NO_PROGRESS}", number, now
            )
        if pause is not None and number:
            await pause()
        number += 1
        turned_back = checker.rejected_claims(now) if checker is not None else ""
        order = SessionOrder(number, prompt(spec, now, names, turned_back), now is None)
        if watcher is not None:
            watcher.began(order, now)
        ended = await ask(order)
        before, now = now, status.read(project)
        continues = ended.outcome in CONTINUABLE and (ended.outcome != "limit" or bool(ended.tool_calls))
        checked = Checked()
        if checker is not None:
            checker.distrust(before, now)
            checked = await checker.check() if continues else checked
            now = status.read(project)
        if watcher is not None:
            watcher.ended(order, ended, now)
        if not continues:
            return WorkResult(
                ended.outcome, f"session {number}: {ended.reason or ended.outcome}", number, now, ended.by
            )
        if checked.ended is not None:
            return WorkResult(checked.ended.outcome, checked.ended.reason, number, now, checked.ended.by)
        grew = evidence.add_session(now, ended.checks) and not (checked.turned_back and _no_progress(before, now))
        idle = 0 if grew else idle + 1
    if now.blocked:
        which = ", ".join(scenario.id for scenario in now.blocked[:10])
        fix = "provide what they need, then run `adderclaw spec unblock`"
        return WorkResult(
            "needs_input", f"{len(now.blocked)} of {now.total} scenarios are blocked ({which}): {fix}", number, now
        )
    if not now.wanted:
        return WorkResult("error", "every scenario is deprecated: there is nothing to build", number, now)
    return WorkResult("completed", "", number, now)


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
        self._fixed: set[str] = set()

    def add_session(self, now: Status | None, checks: Mapping[str, bool]) -> bool:
        """Adds a session that has ended; returns whether it reached something new.

        `checks` are the commands that it ran, and whether the last run of each succeeded.
        """
        tree, passed = last_commit_tree(self._project), _passed_ids(now)
        fixed = {command for command, ok in checks.items() if ok and command in self._failing} - self._fixed
        declared = now is not None and not self._declared
        progressed = declared or tree not in self._trees or bool(passed - self._passed) or bool(fixed)
        self._trees.add(tree)
        self._passed |= passed
        self._fixed |= fixed
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
