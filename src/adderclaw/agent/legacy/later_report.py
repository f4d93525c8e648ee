"""Changes of what other programs run later: found during a call, told with its result, and asked about."""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Protocol

from adderclaw.config.paths import followed
from adderclaw.core import home_names
from adderclaw.core.questions import Option, Question, QuestionRequest
from adderclaw.core.types import Json, ToolResult
from adderclaw.storage import Store, locks
from adderclaw.storage import later_files as rows
from adderclaw.storage.text import plain

if TYPE_CHECKING:
    from adderclaw.agent.session.session import Session
    from adderclaw.sandbox.protected_paths import Change

KEEP, ASIDE = "keep", "set aside"
QUESTION = "These files take effect later: {names}. Keep them, or set them aside?"
AGAIN = "Answer 1 or 2. " + QUESTION
MOVED = "\nadderclaw: the operator set these aside; they are no longer in the workspace: {names}\n"
REPORT = (
    "these files take effect later; look at them before they do: {names}; then `adderclaw later accept` or "
    "`adderclaw later set-aside`"
)
ANSWERED = {"kept": "the operator keeps {names}", "set_aside": "the operator set aside {names}"}
MOST_NAMED = 20


class Changes(Protocol):
    """Where the sandbox puts what it found, and who keeps the answers."""

    def take(self) -> list[Json]:
        """What was found since the last time: `path` within the workspace, `change`, and the row's `id`."""
        ...

    def edited(self, paths: Sequence[str], *, approved: bool) -> list[Json]:
        """Record instruction files that a tool changed; returns what to report."""
        ...

    def answer(self, found: Sequence[Json], word: Literal["kept", "set_aside"]) -> list[Json]:
        """Keep the operator's answer; those that it was done with."""
        ...

    @property
    def asks(self) -> bool:
        """Whether the operator is to be asked."""
        ...


def named(found: Sequence[Json]) -> str:
    from adderclaw.config.run_later_names import names  # not needed before the first request

    known = names()
    more = {True: ", instructions for later conversations", False: ""}
    shown = [
        f"{one['path']} ({one['change']}{more['as' in one or known.is_instructions(str(one['path']))]})"
        for one in found
    ]
    rest = f" and {len(shown) - MOST_NAMED} more" if len(shown) > MOST_NAMED else ""
    return ", ".join(shown[:MOST_NAMED]) + rest


async def with_changes(
    session: "Session", result: ToolResult, edited: Sequence[str] = (), *, approved: bool = False
) -> ToolResult:
    """The result with the changes found while its call ran, after the operator was asked about them.

    `edited`: the files that a tool, and no command, has written; `approved`: a person was asked, and allowed it.
    """
    changes = session.environment.later_changes
    if changes is None:
        return result
    told = changes.edited(edited, approved=approved) if edited and not result.is_error else []
    if not (found := changes.take()):
        return replace(result, metadata={**result.metadata, "changed_later": told}) if told else result
    word = await _answer(session, changes, found)
    done = changes.answer(found, word) if word else []
    entries = [
        {**{key: one[key] for key in one if key != "id"}, **({"answer": word} if one in done else {})} for one in found
    ] + told
    moved = MOVED.format(names=named(done)) if word == "set_aside" and done else ""
    return replace(result, content=result.content + moved, metadata={**result.metadata, "changed_later": entries})


async def _answer(session: "Session", changes: Changes, found: Sequence[Json]) -> Literal["kept", "set_aside"] | None:
    """The operator's answer, where there is one to be had: nobody's is none, and the report is repeated."""
    if not changes.asks or session.depth or session.environment.policy.autonomy_now != "supervised":
        return None
    options = (Option(KEEP, "They stay as they are."), Option(ASIDE, "They are moved out of the workspace."))
    for text in (QUESTION, AGAIN):
        question = Question(text.format(names=named(found)), "Later", options)
        answer = await session.operator.ask(QuestionRequest((question,), "later"))
        reply = (answer.replies or {}).get(question.question, "").strip().casefold()
        if reply in (KEEP, ASIDE):
            return "set_aside" if reply == ASIDE else "kept"
        if not reply:
            break
    return None


def tell(session: "Session", found: Sequence[Json], tool_use_id: str = "") -> None:
    """One event for all that was found."""
    if found:
        entries: list[dict[str, str]] = [
            {name: str(value) for name, value in one.items() if name != "id"} for one in found
        ]
        session.bus.publish(
            {"event_type": "changed_later", "message": _said(found), "changes": entries, "tool_use_id": tool_use_id}
        )


def _said(found: Sequence[Json]) -> str:
    """What is left to look at, and what the operator has answered."""
    waiting = [one for one in found if one.get("answer") not in ANSWERED]
    said = [REPORT.format(names=named(waiting))] if waiting else []
    for word, text in ANSWERED.items():
        if answered := [one for one in found if one.get("answer") == word]:
            said.append(text.format(names=named(answered)))
    return "; ".join(said)


class Later:
    """The `sandbox.protected_paths.Recorder` and `agent.legacy.later_report.Changes` of a session in one workspace."""

    def __init__(self, store: Store, root: str, session_id: str, home: str, *, allow: bool) -> None:
        self._store, self._root, self._session, self._home = store, root, session_id, home
        self._allow = allow
        self._began = False
        self._further: tuple[str, ...] = ()
        self._found: list[rows.Row] = []
        self.imported: set[str] = set()
        """Files that instruction files import: they count as instructions."""

    # -------------------------------------------------------------- from the sandbox

    def record_first(self, items: Mapping[str, str], roots: Sequence[str]) -> "Sequence[Change]":
        """Compare with what the store has, where a session that had begun to run commands did not end."""
        from adderclaw.sandbox.protected_paths import changes

        if self._began:
            self.record_widened(items, roots)
            return ()
        killed = self.killed()
        self._began, self._further = True, self._beside(roots)
        now = self._state(items)
        before = rows.state(self._store, self._root)
        left = _without_status(changes(before.items, now.items)) if killed and before is not None else []
        with self._store.write() as cursor:
            if before != now:
                rows.store_state(cursor, self._root, now)
            rows.end(cursor, self._root, killed)
            rows.begin(cursor, self._root, self._session)
        self._note(left)
        return left

    def record_widened(self, items: Mapping[str, str], roots: Sequence[str]) -> None:
        if self._further != (further := self._beside(roots)):
            self._further = further
            self.record_changes((), items)

    def record_changes(self, changes: "Sequence[Change]", items: Mapping[str, str]) -> None:
        with self._store.write() as cursor:
            rows.store_state(cursor, self._root, self._state(items))
        self._note(changes)

    def _beside(self, roots: Sequence[str]) -> tuple[str, ...]:
        return tuple(plain(root) for root in roots if root != self._root)

    def _state(self, items: Mapping[str, str]) -> rows.State:
        return rows.State({plain(path): mark for path, mark in items.items()}, self._further)

    def left_by_killed(self) -> tuple[str, ...]:
        """Directories beside the workspace that a killed session could write to, whether or not this one can."""
        before = rows.state(self._store, self._root)
        return before.further if before is not None else ()

    def looked_at(self) -> set[str]:
        """Every file of the last look: those that instructions imported then are among them."""
        before = rows.state(self._store, self._root)
        return set(before.items) if before is not None else set()

    def _note(self, found: "Sequence[Change]") -> None:
        new = [one for one in found if not rows.was_acknowledged(self._store, self._root, one.path, one.mark)]
        if not new:
            return
        with self._store.write() as cursor:
            rows.add(cursor, self._root, self._session, new)
        paths = {plain(one.path) for one in new}
        noted = [row for row in rows.unanswered(self._store, self._root) if row.path in paths]
        self._found += noted
        if self._allow:  # which is no approval of what a later conversation would follow
            with self._store.write() as cursor:
                rows.answer(cursor, (row.id for row in noted if not self._instructs(row.path)), "kept")

    def killed(self) -> list[str]:
        """Sessions that ran commands here and ended without a word; one that goes on under its id counts, too."""
        begun = rows.unended_sessions(self._store, self._root)
        own = [] if self._began else [self._session]
        return [
            one
            for one in begun
            if one in own or (one != self._session and not locks.run_in_session(self._store.path, one))
        ]

    # -------------------------------------------------------------- for the kernel

    @property
    def asks(self) -> bool:
        return not self._allow

    def take(self) -> list[Json]:
        found, self._found = self._found, []
        return [
            {"id": row.id, "path": self._short(row.path), "change": row.change, **self._imports(row.path)}
            for row in found
        ]

    def _imports(self, path: str) -> Json:
        """What the report says beside a file that only an import makes one of instructions."""
        return {"as": "import"} if self._instructs(path) and not _is_named(path) else {}

    def edited(self, paths: Sequence[str], *, approved: bool) -> list[Json]:
        """Record that a tool changed instruction files; `approved`: a person saw this change and approved it."""
        found = [(path, mark) for path in paths if self._instructs(path) and (mark := _mark(path))]
        new = [
            (path, "changed", mark)
            for path, mark in found
            if not rows.was_acknowledged(self._store, self._root, path, mark)
        ]
        waited = {row.path for row in rows.unanswered(self._store, self._root)}
        if new:
            with self._store.write() as cursor:
                rows.add(cursor, self._root, self._session, new)
        # a yes to one change approves nothing that was planted before it
        done = {plain(path) for path, _ in found if approved and plain(path) not in waited}
        with self._store.write() as cursor:
            rows.answer(
                cursor, (row.id for row in rows.unanswered(self._store, self._root) if row.path in done), "kept"
            )
        return [
            {
                "path": self._short(path),
                "change": "changed",
                **self._imports(path),
                **({"answer": "kept"} if plain(path) in done else {}),
            }
            for path, _, _ in new
        ]

    def _instructs(self, path: str) -> bool:
        return _is_named(path) or path in {plain(followed(one)) for one in self.imported}

    def unapproved(self) -> frozenset[str]:
        """Files that a run changed and nobody has accepted: conversations treat them as untrusted text."""
        return rows.unapproved(self._store)

    def answer(self, found: Sequence[Json], word: Literal["kept", "set_aside"]) -> list[Json]:
        return answered(self._store, self._root, self._home, found, word)

    def _short(self, path: str) -> str:
        return path.removeprefix(f"{self._root.rstrip('/')}/")

    def close(self) -> None:
        """The session ends in good order: nothing can change any more that was not reported."""
        if self._began:
            with self._store.write() as cursor:
                rows.end(cursor, self._root, [self._session])


def _mark(path: str) -> str:
    """The fingerprint that the sandbox records for a file; empty if the file does not exist."""
    from adderclaw.sandbox.workspace.contents import FOLDER, Fingerprints

    folder, name = os.path.split(path)
    try:
        fd = os.open(folder, FOLDER)
    except OSError:
        return ""
    try:
        return Fingerprints().mark(fd, name, path)
    finally:
        os.close(fd)


def answered(
    store: Store, root: str, home: str, found: Sequence[Json], word: Literal["kept", "set_aside"]
) -> list[Json]:
    """Keep the answer, and for `set_aside` move what is there; those that it was done with."""
    done = [one for one in found if word == "kept" or _moved(root, home, str(one["path"]))]
    with store.write() as cursor:
        rows.answer(cursor, (one["id"] for one in done), word)
    return done


def _moved(root: str, home: str, path: str) -> bool:
    """By descriptor, to a folder of ours; what is gone already is fine, what cannot be moved is not."""
    from adderclaw.core.errors import PathRefused
    from adderclaw.sandbox import workspace

    folder, own = os.path.join(home, home_names.SET_ASIDE), os.path.realpath(home)
    if os.path.commonpath((own, os.path.join(root, path))) == own:
        return False  # where the workspace holds our own folder: the database is not what anybody means
    try:
        # A path that is whole lies in a further directory, where a look found it through no link: none is followed now.
        place = (
            workspace.resolved_path(path)
            if os.path.isabs(path)
            else workspace.require_within_roots(f"{root}/{path}", (root,))
        )
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):
            workspace.move_out(place, folder, f"{time.time_ns()}-{place.name}")
    except (OSError, PathRefused):
        return False
    return True


def _without_status(found: "Sequence[Change]") -> "list[Change]":
    """The changes but for the status of a specification: our own tools write it, and no program runs it later."""
    if not found:
        return []
    from adderclaw.config.own_paths import SPEC_MARKS_FILE, SPEC_STATUS_FILE

    return [one for one in found if not one.path.endswith((f"/{SPEC_STATUS_FILE}", f"/{SPEC_MARKS_FILE}"))]


def _is_named(path: str) -> bool:
    """Whether its name alone makes it an instruction file."""
    from adderclaw.config.run_later_names import names  # not needed before the first request

    return names().is_instructions(path)
