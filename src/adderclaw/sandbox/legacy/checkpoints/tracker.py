"""File checkpoints: what a call changed is seen by looking at the workspace before and after it, and kept.

A call that cannot write pays nothing; one that says where it writes has those paths looked at; before the first other
one the whole workspace is kept once, and then only what its `stat` says has changed is read.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from sqlite3 import Cursor

from adderclaw.config.own_paths import OwnPaths
from adderclaw.config.schema import Checkpoints as Settings
from adderclaw.core.errors import PathRefused, StoreError
from adderclaw.core.record import NamedTuple
from adderclaw.sandbox import workspace
from adderclaw.sandbox.legacy.checkpoints import FOLDER, saved_index
from adderclaw.sandbox.legacy.checkpoints.blobs import Blobs, prune_daily
from adderclaw.sandbox.legacy.checkpoints.tree import (
    IGNORED,
    Index,
    Limits,
    Scanned,
    Seen,
    TooBig,
    is_kept,
    scan,
    state_at,
)
from adderclaw.sandbox.workspace import WorkspacePath, within_roots
from adderclaw.storage import Store
from adderclaw.storage import checkpoints as rows
from adderclaw.storage.checkpoints import Change, Draft, State

type Turn = tuple[str, str, int]
"""The message of the user that a change belongs to: conversation, session, sequence; children work for it, too."""


def limits_of(settings: Settings) -> Limits:
    ignored = IGNORED | set(settings.ignore)
    return Limits(settings.max_files, settings.max_file_mb << 20, settings.max_total_mb << 20, frozenset(ignored))


class Who(NamedTuple):
    """Whose call it is."""

    conversation_id: str
    session_id: str
    tool: str
    tool_use_id: str


@dataclass(eq=False, repr=False)
class Watch:
    """A call that is being looked after."""

    who: Who
    turn: Turn
    named: dict[tuple[str, str], State | None] = field(default_factory=dict[tuple[str, str], State | None])
    """(root, path) → what was there before."""
    whole: tuple[str, ...] = ()
    """Roots that are looked at as a whole."""
    said: frozenset[str] = frozenset()
    """Where the call says that it writes."""


class _Tree:
    def __init__(self) -> None:
        self.index: Index | None = None
        self.too_big = False


class Tracker:
    """Looks after all calls of a run, those of its subagents too: one index, so that every change is found once."""

    def __init__(
        self,
        store: Store,
        own: OwnPaths,
        workspace: str,
        limits: Limits,
        tell: Callable[[str], None],
    ) -> None:
        self.folder = os.path.join(own.home, FOLDER)
        self.limits = limits
        self.keep_days = 30
        self.blobs = Blobs(self.folder, store, workspace, limits.max_total_bytes)
        self.background: Callable[[], str] = lambda: ""
        """What still runs in the background, if anything: what changes between calls is then its doing."""
        self._store, self._own, self._tell = store, own, tell
        self._trees: dict[str, _Tree] = {}
        self._active: list[Watch] = []
        self._one_at_a_time = asyncio.Lock()
        self._off = False

    # -------------------------------------------------------------- before

    async def begin(
        self,
        who: Who,
        turn: Turn,
        paths: Iterable[str],
        roots: Sequence[str],
        *,
        anything: bool,
        trees: Sequence[str] = (),
    ) -> Watch | None:
        if self._off:
            return None
        paths = tuple(paths)
        watch = Watch(who, turn, said=frozenset(paths))
        try:
            going = await asyncio.to_thread(self._beneath, trees, roots) if trees else []
        except (OSError, PathRefused):  # it is being exchanged for something else: this call is not looked after
            return None
        try:
            async with self._one_at_a_time:
                if anything:
                    await self._begin_whole(watch, roots)
                self._begin_named(watch, [*paths, *going], roots)
                if trees and not self._all_kept(watch):
                    return None
        except (OSError, StoreError) as error:
            self._give_up(error)
            return None
        self._active.append(watch)
        return watch

    async def _begin_whole(self, watch: Watch, roots: Sequence[str]) -> None:
        for root in roots:
            if self._tree(root).too_big:
                continue
            first = self._tree(root).index is None
            found = await asyncio.to_thread(self._scan, root)
            if found is None:
                self._tell_too_big(root)
            elif first:
                self._keep_base(root, found)
            else:
                self._record(root, marked(root, found.changes), self._between(watch.turn))
        watch.whole = tuple(root for root in roots if not self._tree(root).too_big)

    def _begin_named(self, watch: Watch, paths: Iterable[str], roots: Sequence[str]) -> None:
        for path in paths:
            for root, inner in _inside(path, roots):
                if root not in watch.whole:
                    watch.named[root, inner] = state_at(root, inner, self.limits, self.blobs)

    def _all_kept(self, watch: Watch) -> bool:
        return all(state is None or is_kept(state, self.blobs) for state in watch.named.values())

    def _beneath(self, trees: Sequence[str], roots: Sequence[str]) -> list[str]:
        """All that a checkpoint keeps of what is about to be deleted, whatever the size of the workspace."""
        from adderclaw.sandbox.legacy.checkpoints.removal import look

        places = [within_roots(tree, roots) for tree in trees]
        return [one.text for place in places if place is not None for one in look(place, self.limits).kept]

    def _tree(self, root: str) -> _Tree:
        return self._trees.setdefault(root, _Tree())

    def _scan(self, root: str) -> Scanned | None:
        tree = self._tree(root)
        known = tree.index
        if known is None:
            known = saved_index.load(self.folder, root, self.blobs.has)
        try:
            found = scan(root, known, self.limits, self.blobs, self._own)
        except TooBig:
            tree.too_big, tree.index = True, None
            return None
        tree.index = found.now
        return found

    def _keep_base(self, root: str, found: Scanned) -> None:
        """The contents of the first look are rows at once, and the index is kept for the next process."""
        new = self.blobs.taken()
        if new:
            with self._store.write() as cursor:
                rows.add_blobs(cursor, new)
        if found.changes:
            saved_index.save(self.folder, root, found.now)
        self._say_left_out(root, found.left_out)

    def _say_left_out(self, root: str, paths: list[str]) -> None:
        if paths:
            most = self.limits.max_file_bytes >> 20
            more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
            self._tell(
                f"checkpoints: the content of {', '.join(paths[:3])}{more} in {root} is not kept"
                f" (over {most} MB, unreadable, or over checkpoints.max_total_mb): it cannot be restored"
            )

    # -------------------------------------------------------------- after

    async def end(self, watch: Watch, wrote: Mapping[str, str]) -> None:
        """After a call: what changed becomes rows of the transaction that comes next."""
        try:
            async with self._one_at_a_time:
                for root in watch.whole:
                    found = await asyncio.to_thread(self._scan, root)
                    self._ended(watch, root, found)
                self._end_named(watch, wrote)
        except (OSError, StoreError) as error:
            self._give_up(error)
        finally:
            self._forget(watch)

    def end_now(self, watch: Watch) -> None:
        """The same for a call that was interrupted, when nothing can be awaited any more."""
        try:
            for root in watch.whole:
                self._ended(watch, root, self._scan(root))
            self._end_named(watch, {})
        except (OSError, StoreError) as error:
            self._give_up(error)
        finally:
            self._forget(watch)

    def _forget(self, watch: Watch) -> None:
        if watch in self._active:
            self._active.remove(watch)

    def _ended(self, watch: Watch, root: str, found: Scanned | None) -> None:
        if found is None:
            self._tell_too_big(root)
        else:
            self._record(root, marked(root, found.changes, watch.said), self._draft(root, watch))
            self._say_left_out(root, found.left_out)

    def _tell_too_big(self, root: str) -> None:
        self._tell(
            f"checkpoints: {root} has more than {self.limits.max_files:,} files (checkpoints.max_files):"
            " only what calls say that they write there can be restored"
        )

    def _end_named(self, watch: Watch, wrote: Mapping[str, str]) -> None:
        by_root: dict[str, list[Change]] = {}
        lost: dict[str, list[str]] = {}
        for (root, path), before in watch.named.items():
            after = state_at(root, path, self.limits, self.blobs)
            index = self._tree(root).index
            if index is not None:
                _note(index, path, after)
            if before != after:
                known = wrote.get(f"{root.rstrip('/')}/{path}")
                sure = known is None or after is None or after.kind != "file" or known == after.digest
                by_root.setdefault(root, []).append(Change(path, before, after, sure))
                if before is not None and not is_kept(before, self.blobs):
                    lost.setdefault(root, []).append(path)
        for root, paths in lost.items():
            self._say_left_out(root, paths)
        for root, changes in by_root.items():
            self._record(root, changes, self._draft(root, watch))

    # -------------------------------------------------------------- rows

    def _draft(self, root: str, watch: Watch) -> Draft:
        others = [other.who.tool_use_id for other in self._active if other is not watch and other.whole]
        note = f"while {', '.join(others)} ran, too" if others else ""
        who, turn = watch.who, watch.turn
        return Draft(root, turn[0] or who.conversation_id, who.session_id, *turn[1:], "call", *who[2:], note)

    def _between(self, turn: Turn) -> Draft:
        """Whose a change is that happened between calls: of a call that still runs, of background work, of others."""
        running = [watch for watch in self._active if watch.whole]
        if running:
            return self._draft("", running[0])
        if work := self.background():
            return Draft("", turn[0], turn[1], turn[1], turn[2], "call", "background", work)
        return Draft("", "", "", "", -1, "other", "", "")

    def _record(self, root: str, changes: list[Change], draft: Draft) -> None:
        new = self.blobs.taken()
        if not changes and not new:
            return
        made = draft._replace(root=root)

        def write(cursor: Cursor) -> None:
            rows.add_blobs(cursor, new)
            if changes:
                rows.add(cursor, made, changes)

        self._store.write_next(write)

    def _give_up(self, error: Exception) -> None:
        """Better a call that cannot be undone, and is said to be so, than none."""
        self._off = True
        self._tell(f"checkpoints are off for the rest of this run, since they cannot be kept: {error}")

    def noted(self, root: str, changes: Iterable[Change]) -> None:
        """What a restore of ours changed is known already."""
        index = self._tree(root).index
        if index is not None:
            for change in changes:
                _note(index, change.path, change.after)

    def close(self) -> None:
        for root, tree in self._trees.items():
            if tree.index is not None and not self._off:
                try:
                    saved_index.save(self.folder, root, tree.index)
                except OSError:
                    break
        self.blobs.close()
        if self._trees and not self._off:
            prune_daily(self._store, self.folder, self.keep_days)


def _inside(path: str, roots: Sequence[str]) -> Iterable[tuple[str, str]]:
    """A path with those of its folders that are not there yet: a tool may make them."""
    for root in sorted(roots, key=len, reverse=True):
        if path.startswith(f"{root.rstrip('/')}/"):
            inner = path[len(root.rstrip("/")) + 1 :]
            yield root, inner
            while (inner := os.path.dirname(inner)) and not workspace.exists(WorkspacePath(root, inner)):
                yield root, inner
            return


def marked(root: str, changes: Iterable[Change], said: frozenset[str] = frozenset()) -> list[Change]:
    """What changed while a command ran is its own for sure only where it says so itself.

    That is: the paths that it names as written, the folders that it makes above them, what goes with a folder that it
    names, and, beneath one, what only has another place now.
    """
    top = root.rstrip("/")
    above = {folder for path in said for folder in _folders_above(path, top)}
    found: list[Change] = []
    gone: set[str] = set()
    for change in changes:
        path = f"{top}/{change.path}"
        sure = path in said or (change.before is None and path in above)
        if change.after is None and not sure:
            sure = not said.isdisjoint(_folders_above(path, top))
        if change.after is None and sure and change.before is not None:
            gone.add(change.before.digest)
        found.append(change._replace(sure=sure))
    return [_moved(change, top, said, gone) for change in found]


def _moved(change: Change, top: str, said: frozenset[str], gone: set[str]) -> Change:
    if change.sure or change.before is not None or change.after is None:
        return change
    is_moved = change.after.kind == "folder" or (change.after.digest in gone and change.after.digest != "")
    beneath = not said.isdisjoint(_folders_above(f"{top}/{change.path}", top))
    return change._replace(sure=True) if is_moved and beneath else change


def _folders_above(path: str, top: str) -> Iterator[str]:
    while (path := os.path.dirname(path)) and len(path) > len(top):
        yield path


def _note(index: Index, path: str, state: State | None) -> None:
    if state is None:
        index.pop(path, None)
    else:
        index[path] = Seen(state, None)
