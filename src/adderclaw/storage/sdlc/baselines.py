"""The workspace at the approval of a plan. The plan's tests must fail on it."""

import hashlib
import json
import os
import sqlite3
import zlib
from collections.abc import Mapping

from adderclaw.core.errors import StoreError
from adderclaw.core.record import NamedTuple
from adderclaw.storage import Store
from adderclaw.storage.checkpoints import Blob, State, add_blobs

FIX = (
    "approve the plan again: `adderclaw sdlc transition planning`, then `sdlc plan FILE` and `sdlc approve "
    "--new-baseline`"
)


class TreeSnapshot(NamedTuple):
    """A complete tree with its newly stored contents. `digest` is empty if the tree could not be read."""

    root: str
    entries: Mapping[str, State]
    digest: str
    blobs: tuple[Blob, ...] = ()
    left_out: tuple[str, ...] = ()
    """Paths whose content is not stored."""
    reason: str = ""
    """Why there is no digest."""


class Baseline(NamedTuple):
    plan_id: int
    root: str
    digest: str
    left_out: tuple[str, ...]
    created_at: str


def digest_of(entries: Mapping[str, State]) -> str:
    """The digest of a tree with all entries."""
    return hashlib.sha256(_serialize(entries)).hexdigest()


def _serialize(entries: Mapping[str, State]) -> bytes:
    """As JSON, which escapes names that are not valid Unicode."""
    return json.dumps(dict(sorted(entries.items())), separators=(",", ":")).encode()


def put(cursor: sqlite3.Cursor, plan_id: int, taken: TreeSnapshot) -> None:
    """Stores the baseline, in the transaction that approves the plan."""
    add_blobs(cursor, taken.blobs)
    cursor.execute(
        "INSERT INTO plan_baselines(plan_id, root, digest, tree, left_out) VALUES (?, ?, ?, ?, ?)",
        (
            plan_id,
            os.fsencode(taken.root),
            taken.digest,
            zlib.compress(_serialize(taken.entries), 1),
            json.dumps(taken.left_out or ([taken.reason] if taken.reason else [])),
        ),
    )


def earlier_baseline(store: Store, conversation_id: str, number: int) -> int | None:
    """The last approved plan before this one, unless it or a later plan was completed."""
    rows = store.read(
        "SELECT b.plan_id FROM plan_baselines b JOIN plans p ON p.id = b.plan_id"
        " WHERE p.conversation_id = ? AND p.id < ? AND p.status = 'superseded' AND b.digest <> ''"
        " AND NOT EXISTS (SELECT 1 FROM plans c WHERE c.conversation_id = p.conversation_id"
        "                 AND c.status = 'completed' AND c.id > p.id) ORDER BY p.id DESC LIMIT 1",
        (conversation_id, number),
    )
    return rows[0][0] if rows else None


def copy(cursor: sqlite3.Cursor, earlier: int, plan_id: int) -> None:
    """Gives a plan the baseline of an earlier version."""
    cursor.execute(
        "INSERT INTO plan_baselines(plan_id, root, digest, tree, left_out)"
        " SELECT ?, root, digest, tree, left_out FROM plan_baselines WHERE plan_id = ?",
        (plan_id, earlier),
    )


def exists(store: Store, plan_id: int) -> bool:
    """Whether a plan has a baseline."""
    return bool(store.read("SELECT 1 FROM plan_baselines WHERE plan_id = ?", (plan_id,)))


def get(cursor: sqlite3.Cursor, plan_id: int) -> Baseline | None:
    row = cursor.execute(
        "SELECT plan_id, root, digest, left_out, created_at FROM plan_baselines WHERE plan_id = ?", (plan_id,)
    ).fetchone()
    return None if row is None else Baseline(row[0], os.fsdecode(row[1]), row[2], tuple(json.loads(row[3])), row[4])


def entries(store: Store, plan_id: int) -> dict[str, State]:
    """The baseline's entries. Raises StoreError if there is no baseline, or if it was changed since the approval."""
    rows = store.read("SELECT tree, digest FROM plan_baselines WHERE plan_id = ?", (plan_id,))
    if not rows or not rows[0][1]:
        raise StoreError(f"the workspace before plan {plan_id} is not stored: {FIX}")
    try:
        written = zlib.decompress(rows[0][0])
        states = {path: State(*state) for path, state in json.loads(written).items()}
    except (zlib.error, ValueError, TypeError) as error:
        raise StoreError(f"the workspace before plan {plan_id} cannot be read ({error}): {FIX}") from error
    if hashlib.sha256(written).hexdigest() != rows[0][1]:
        raise StoreError(f"the workspace before plan {plan_id} was changed since it was stored: {FIX}")
    return states


def needed_digests(store: Store) -> set[str]:
    """The contents that the baselines of approved or revised plans need. They must not be removed."""
    digests: set[str] = set()
    for row in store.read(
        "SELECT b.plan_id FROM plan_baselines b JOIN plans p ON p.id = b.plan_id"
        " LEFT JOIN conversations c ON c.id = p.conversation_id"
        " WHERE b.digest <> '' AND (p.status = 'approved' OR (p.status = 'superseded' AND c.phase = 'planning'))"
    ):
        try:
            states = entries(store, row[0])
        except StoreError:  # it can no longer be restored
            continue
        digests |= {state.digest for state in states.values() if state.kind == "file" and state.digest}
    return digests
