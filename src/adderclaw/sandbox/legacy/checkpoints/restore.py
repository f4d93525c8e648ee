"""Puts files back as they were before a checkpoint: first a plan that can be shown, then its steps, each of them whole.

Only what tools changed is put back. What others changed since is a conflict, left alone unless `force` is said; what
others made is never deleted. What changed while a command ran, and the command does not name, may be the user's: it is
left unless a person says so, or `force` comes with its path. A restore is a checkpoint itself: its rows are written
before the first file is touched, so that one that was cut off can be finished, and every one can be undone.
"""

import errno
import os
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager, suppress
from typing import Literal, NamedTuple

from adderclaw.config.own_paths import OwnPaths
from adderclaw.config.paths import beneath
from adderclaw.core.errors import PathRefused, UsageError
from adderclaw.sandbox import workspace
from adderclaw.sandbox.legacy.checkpoints.blobs import Blobs
from adderclaw.sandbox.legacy.checkpoints.tree import Forgets, Limits, state_at, state_in
from adderclaw.sandbox.workspace import Folder, WorkspacePath
from adderclaw.storage import Store
from adderclaw.storage import checkpoints as rows
from adderclaw.storage.checkpoints import Change, Checkpoint, Draft, PathChange, State

NEW_FOLDER = 0o700
"""The mode of a folder that was just made, before it is given its own."""

type Fate = Literal["restore", "delete", "same", "conflict", "left", "impossible"]
type Asked = Literal["conflict", "made", "changed", "deleted"]
"""What a person is asked about together."""


class Step(NamedTuple):
    """What becomes of one path, and why where it is not simply put back."""

    path: str
    fate: Fate
    now: State | None
    then: State | None
    why: str = ""

    @property
    def acts(self) -> bool:
        return self.fate in ("restore", "delete")

    @property
    def asked(self) -> Asked | None:
        """What somebody has to say yes to before it is done."""
        if self.fate == "conflict":
            return "conflict"
        if self.fate != "left":
            return None
        return "made" if self.then is None else "deleted" if self.now is None else "changed"

    def agreed(self) -> "Step":
        return self._replace(fate="delete" if self.then is None else "restore")


class Plan(NamedTuple):
    target: Checkpoint
    steps: list[Step]
    """Files and links first, those in folders that go before the folders."""


class Outcome(NamedTuple):
    """What a restore did. `undo` is the checkpoint by which it is undone; 0 where nothing was done."""

    undo: int
    done: list[str]
    failed: dict[str, str]


class Workshop(NamedTuple):
    """What a restore works with."""

    store: Store
    blobs: Blobs
    limits: Limits
    own: Callable[[str], OwnPaths]
    """Root → what there is AdderClaw's own: nothing puts it back."""


# ------------------------------------------------------------------ the plan


def plan(shop: Workshop, checkpoint: int, *, force: bool = False, only: frozenset[str] = frozenset()) -> Plan:
    """What it takes to be back before a checkpoint of its conversation; nothing is changed yet.

    `only` are paths and folders ("." is all); with `force` also those of them that may be the user's.
    """
    target = rows.get(shop.store, checkpoint)
    if target is None or target.kind == "other":
        raise UsageError(f"there is no checkpoint {checkpoint}: see `adderclaw checkpoint list`")
    ours = shop.own(target.root)
    since = rows.changes_since(shop.store, target.root, target.id)
    found = {path: changes for path, changes in since.items() if not ours.holds(target.root, path)}
    steps: list[Step] = []
    for path, changes in found.items():
        own = [change for change in changes if change.conversation_id == target.conversation_id]
        if own and (not only or _is_named(path, only)):
            step = _step(shop, target, path, own, changes, force=force)
            steps.append(step if force and only else _held(step, own))
    unknown = [name for name in sorted(only) if not any(_is_named(path, {name}) for path in found)]
    if unknown:
        raise UsageError(f"{unknown[0]!r} was not changed since checkpoint {checkpoint}: name a path that `show` lists")
    return Plan(target, sorted(steps, key=_order))


def _order(step: Step) -> tuple[int, object]:
    """What goes, deepest first; then what comes, outermost first."""
    if step.then is None or (step.now is not None and step.now.kind == "folder" and step.then.kind != "folder"):
        return (0, (-step.path.count("/"), step.path)) if step.then is None else (1, step.path)
    return (2, (step.path.count("/"), step.path))


def _step(
    shop: Workshop, target: Checkpoint, path: str, own: list[PathChange], every: list[PathChange], *, force: bool
) -> Step:
    then = own[0].change.before
    now = state_at(target.root, path, shop.limits, shop.blobs)
    if now == then:
        return Step(path, "same", now, then)
    if then is not None and then.kind == "special":
        return Step(path, "impossible", now, then, "it was no file, link or folder")
    if then is not None and (not then.is_kept or (then.kind == "file" and shop.blobs.read(then.digest) is None)):
        return Step(path, "impossible", now, then, "its content was not kept (too large, unreadable, or pruned)")
    why = _conflict(own, every, now)
    if why and not force:
        return Step(path, "conflict", now, then, why)
    return Step(path, "delete" if then is None else "restore", now, then, why)


def _is_named(path: str, only: Collection[str]) -> bool:
    return "." in only or any(beneath(path, name.rstrip("/")) for name in only)


def _held(step: Step, own: list[PathChange]) -> Step:
    """What may be the user's is left as it is."""
    unsure = next((one for one in own if not one.change.sure), None)
    if unsure is None or not step.acts:
        return step
    while_it_ran = "background work" if unsure.tool == "background" else unsure.tool
    return step._replace(fate="left", why=f"changed while {while_it_ran} ran, may be yours")


def _conflict(own: list[PathChange], every: list[PathChange], now: State | None) -> str:
    """Who else changed it: between the tools' changes, or after the last of them."""
    left = own[0].change.after
    for change in every[every.index(own[0]) :]:
        if change.conversation_id == own[0].conversation_id:
            left = change.change.after
        elif not _same(change.change.after, left):
            return "it was changed by others, too"  # else it is our own, seen again by a session that did not make it
    last = own[-1].change.after
    if not _same(now, last) and not (now is not None and last is not None and now.kind == last.kind == "folder"):
        return "it was changed since by others"
    return ""


def _same(one: State | None, other: State | None) -> bool:
    """Of what was not read, for want of room, the size has to do."""
    if one is None or other is None or (one.digest and other.digest):
        return one == other
    return one[:3] == other[:3]


# ------------------------------------------------------------------ the deed


def carry_out(shop: Workshop, plan: Plan, session_id: str = "") -> Outcome:
    """Do what the plan says; what is on disk then is written down first."""
    acting = [step for step in plan.steps if step.acts]
    if not acting:
        return Outcome(0, [], {})
    target = plan.target
    changes = [Change(step.path, step.now, step.then) for step in acting]
    draft = Draft(
        target.root,
        target.conversation_id,
        session_id or target.session_id,
        target.turn_session,
        target.turn,
        "restore",
        "restore",
        "",
        f"back to before checkpoint {target.id}",
        "pending",
    )
    with shop.store.write() as cursor:
        rows.add_blobs(cursor, shop.blobs.taken())
        made = rows.add(cursor, draft, changes)
    return _do(shop, target.root, made, acting)


def finish_pending(shop: Workshop) -> list[Outcome]:
    """Finish restores that were cut off: each path is as it was, as it should be, or as we left it between the two."""
    outcomes: list[Outcome] = []
    for cut_off in rows.unfinished_restores(shop.store):
        steps: list[Step] = []
        for change in rows.changes(shop.store, cut_off.id):
            _drop_unfinished(cut_off.root, change.path)
            now = state_at(cut_off.root, change.path, shop.limits, shop.blobs)
            fate: Fate = "delete" if change.after is None else "restore"
            if now != change.after and (now == change.before or _is_half_done(change, now)):
                steps.append(Step(change.path, fate, now, change.after))
        outcomes.append(_do(shop, cut_off.root, cut_off.id, sorted(steps, key=_order)))
    return outcomes


def _is_half_done(change: Change, now: State | None) -> bool:
    """Only what becomes another kind of thing is between the two: gone and not there yet, or a folder with no mode."""
    before, after = change.before, change.after
    if after is None or (before is not None and before.kind == after.kind):
        return False
    return now is None or (now.kind == after.kind == "folder" and now.mode == NEW_FOLDER)


def _do(shop: Workshop, root: str, made: int, steps: list[Step]) -> Outcome:
    done: list[str] = []
    failed: dict[str, str] = {}
    for step in steps:
        try:
            _apply(shop, root, step)
        except OSError as error:
            failed[step.path] = error.strerror or str(error)
        else:
            done.append(step.path)
    with shop.store.write() as cursor:
        rows.finish(cursor, made)
    return Outcome(made, done, failed)


def _apply(shop: Workshop, root: str, step: Step) -> None:
    """All of a step happens in the folder that was opened, through no link, wherever that is moved meanwhile."""
    above, name = os.path.split(step.path)
    with _opened(root, above, make=0o755 if step.then is not None else None) as folder:
        if state_in(folder, name, shop.limits, Forgets()) != step.now:
            raise OSError(errno.EBUSY, "it changed while it was being restored: try again")
        if step.then is None:
            _remove(folder, name)
            return
        if step.now is not None and (step.now.kind == "folder") != (step.then.kind == "folder"):
            _remove(folder, name)
        match step.then.kind:
            case "folder":
                folder.make_folder(name, NEW_FOLDER, step.then.mode)
            case "link":
                folder.put_link(name, step.then.digest, _unfinished(name))
            case _:
                data = shop.blobs.read(step.then.digest)
                if data is None:
                    raise OSError(errno.ENODATA, "its content is not kept any more")
                folder.put_file(name, data, step.then.mode, _unfinished(name))


@contextmanager
def _opened(root: str, above: str, *, make: int | None = None) -> Generator[Folder]:
    """A folder in the root; one that was exchanged for a link is an error of that step."""
    try:
        with workspace.folder(WorkspacePath(root, above or "."), make=make) as folder:
            yield folder
    except PathRefused as refusal:
        raise OSError(errno.ELOOP, refusal.reason) from None


def _remove(folder: Folder, name: str) -> None:
    try:
        folder.remove(name)
    except OSError as error:
        if error.errno == errno.ENOTEMPTY:
            raise OSError(errno.ENOTEMPTY, "kept: it holds what no tool made") from error
        raise


def _unfinished(name: str) -> str:
    return f".{name[:200]}.adderclaw-restore"


def _drop_unfinished(root: str, path: str) -> None:
    above, name = os.path.split(path)
    with suppress(OSError), _opened(root, above) as folder:
        folder.remove(_unfinished(name))
