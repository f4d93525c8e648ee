"""The whole workspace at one moment: kept when a plan is approved, looked at again, and laid out elsewhere."""

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType

from adderclaw.config.own_paths import OwnPaths
from adderclaw.core.errors import StoreError
from adderclaw.core.redaction import visible
from adderclaw.sandbox.legacy.checkpoints.blobs import Blobs
from adderclaw.sandbox.legacy.checkpoints.git_ignored import ignored
from adderclaw.sandbox.legacy.checkpoints.tree import Forgets, Keep, Limits, TooBig, is_kept, scan
from adderclaw.storage import Store
from adderclaw.storage.checkpoints import State
from adderclaw.storage.sdlc import baselines, criteria, plans
from adderclaw.storage.sdlc.baselines import TreeSnapshot
from adderclaw.storage.sdlc.phases import Mover, Transition, TransitionRefused, transition

NO_REPORTS: Mapping[str, str] = MappingProxyType({})
MAX_FILE = 256 << 20
"""Bytes of a file that is still kept: a baseline without one of its files proves nothing."""


def take(store: Store, folder: str, root: str, limits: Limits, own: OwnPaths) -> TreeSnapshot:
    """Keep what the workspace holds now. The rows of it are for the transaction that approves the plan."""
    blobs = Blobs(folder, store, f"{root}\0baseline", limits.max_total_bytes)
    try:
        taken = _looked(root, limits, own, blobs)
    finally:
        blobs.close()
    reason = taken.reason or (_why_left_out(taken, blobs.room()) if taken.left_out else "")
    return taken._replace(blobs=tuple(blobs.taken()), reason=reason)


def now(root: str, limits: Limits, own: OwnPaths, reports: Mapping[str, str] = NO_REPORTS) -> str:
    """The digest of the workspace as it is; empty where it cannot be looked at. Nothing is kept."""
    found = _looked(root, limits, own, Forgets())
    return counted(root, found.entries, reports) if found.digest else ""


def counted(root: str, entries: Mapping[str, State], reports: Mapping[str, str]) -> str:
    """The digest that results of tests rest on: without what git ignores, and without reports of AdderClaw's own, which
    are known by path and content."""
    skipped = ignored(root, entries)
    return baselines.digest_of(
        {
            path: state
            for path, state in entries.items()
            if path not in skipped and (not state.digest or reports.get(path) != state.digest)
        }
    )


def _looked(root: str, limits: Limits, own: OwnPaths, keep: Keep) -> TreeSnapshot:
    """Every file is read: what its `stat` says is not enough where somebody may want to deceive."""
    try:
        found = scan(root, {}, limits._replace(max_file_bytes=MAX_FILE), keep, own)
    except TooBig:
        reason = f"{root} has more than {limits.max_files:,} files (checkpoints.max_files)"
        return TreeSnapshot(root, {}, "", reason=reason)
    entries = {path: seen.state for path, seen in found.now.items()}
    left_out = tuple(
        path for path, state in entries.items() if not isinstance(keep, Forgets) and not is_kept(state, keep)
    )
    return TreeSnapshot(root, entries, baselines.digest_of(entries), left_out=left_out)


def approve(
    store: Store,
    conversation_id: str,
    number: int,
    by: Mover,
    taking: Callable[[], TreeSnapshot] | None,
    *,
    new_baseline: bool = False,
) -> Transition:
    """Approve a draft and let the work begin: the plan, the workspace before it and the phase in one transaction.

    A new version of a plan that was approved and not completed keeps that plan's baseline, since the workspace may hold
    a part of the change by now; `new_baseline` takes the workspace as it is. Raises NotMoved. A plan without criteria
    proves nothing, so that nothing is kept for it.
    """
    wanted = criteria.has_criteria(store, number)
    earlier = None if new_baseline or not wanted else baselines.earlier_baseline(store, conversation_id, number)
    taken = None
    if wanted and earlier is None:
        taken = taking() if taking is not None else TreeSnapshot("", {}, "", reason="there are no checkpoints here")
    with store.write() as cursor:
        if not plans.approve(cursor, number, by.name):
            raise TransitionRefused(f"plan {number} is no draft any more: it was approved or withdrawn meanwhile")
        if taken is not None:
            baselines.put(cursor, number, taken)
        elif earlier is not None:
            baselines.copy(cursor, earlier, number)
        moved = transition(cursor, conversation_id, "implement", by=by)
    if earlier is not None:
        fix = "`adderclaw sdlc approve --new-baseline` would have taken the workspace as it is"
        return moved._replace(notice=f"the workspace before plan {earlier} is kept as its baseline; {fix}")
    return moved if taken is None else moved._replace(notice=_notice(taken))


def _notice(taken: TreeSnapshot) -> str:
    if not taken.digest:
        return f"the workspace before the plan is not kept ({taken.reason}): nothing can be proved against it"
    if not taken.left_out:
        return ""
    more = f" and {len(taken.left_out) - 3} more" if len(taken.left_out) > 3 else ""
    names = ", ".join(visible(path, keep_newlines=False) for path in taken.left_out[:3])
    what = f"{names}{more} of the workspace before the plan is not kept ({taken.reason})"
    return f"{what}: nothing can be proved against it"


def _why_left_out(taken: TreeSnapshot, room: int) -> str:
    """Of the first that is: there was no room for it, or it was not even read."""
    path = taken.left_out[0]
    name = visible(path, keep_newlines=False)
    if room < taken.entries[path].size <= MAX_FILE:
        full = "the checkpoints of this workspace have all that checkpoints.max_total_mb lets them have"
        return f"there is no room for {name!r}: {full}; raise it, or run `adderclaw checkpoint prune`"
    return f"{name!r} is larger than {MAX_FILE >> 20} MB, or cannot be read"


def before(plan_id: int) -> tuple[str, str]:
    """How a plan's baseline is called where a byte of it is missing, and what to do then."""
    again = f"nothing can be proved against it: {baselines.FIX}"
    return f"the workspace before plan {plan_id}", again


def write_out(blobs: Blobs, entries: Mapping[str, State], target: str, what: tuple[str, str]) -> None:
    for path, state in sorted(entries.items()):
        _put(blobs, os.path.join(target, path), path, state, what)
    # deepest first: what lies in a folder that may not be written has to be there before
    for path in sorted((path for path, state in entries.items() if state.kind == "folder"), reverse=True):
        os.chmod(os.path.join(target, path), entries[path].mode)


def _put(blobs: Blobs, at: str, path: str, state: State, what: tuple[str, str]) -> None:
    if state.kind == "folder":
        os.mkdir(at, 0o700)
    elif state.kind == "link":
        os.symlink(state.digest, at)
    elif state.kind == "file":
        data = blobs.read(state.digest) if state.digest else None
        if data is None:
            tree, then = what
            raise StoreError(f"{path!r} of {tree} is not kept, so that {then}")
        with open(os.open(at, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(data)
        os.chmod(at, state.mode)
