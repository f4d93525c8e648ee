"""What tools changed on disk: which call, which path, what was there before and after, and where the bytes are kept."""

import json
import os
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from adderclaw.core.record import NamedTuple
from adderclaw.storage import Store

type Kind = Literal["call", "other", "restore"]
"""A tool's call, somebody else who changed files meanwhile, or a restore."""


class State(NamedTuple):
    """What is at a path. Of a file without a digest the content is not kept."""

    kind: Literal["file", "link", "folder", "special"]
    mode: int = 0
    size: int = 0
    digest: str = ""
    """Of a file its content's hash, of a link where it leads, of the rest what it is."""

    @property
    def is_kept(self) -> bool:
        return self.kind != "file" or bool(self.digest)


class Change(NamedTuple):
    path: str
    """From the root on, as the file system has it (surrogates stand for bytes that are no UTF-8)."""
    before: State | None
    after: State | None
    sure: bool = True
    """Whether the call itself said that it writes there. Else it changed while the call ran, by it or by others."""


class Checkpoint(NamedTuple):
    """One call's changes. `turn` is the sequence of the user's message in `turn_session`."""

    id: int
    root: str
    conversation_id: str
    session_id: str
    turn_session: str
    turn: int
    kind: Kind
    tool: str
    tool_use_id: str
    note: str
    status: str
    created_at: str


class Draft(NamedTuple):
    """A checkpoint that has no id yet."""

    root: str
    conversation_id: str
    session_id: str
    turn_session: str
    turn: int
    kind: Kind
    tool: str
    tool_use_id: str
    note: str = ""
    status: Literal["done", "pending"] = "done"


class Blob(NamedTuple):
    """Where the bytes of a content are: a pack, and the place in it."""

    digest: str
    pack: str
    start: int
    size: int


SELECT = (
    "SELECT id, root, conversation_id, session_id, turn_session, turn, kind, tool, tool_use_id, note, status,"
    " created_at FROM checkpoints"
)


# ------------------------------------------------------------------ writing


def add(cursor: sqlite3.Cursor, draft: Draft, changes: Iterable[Change]) -> int:
    cursor.execute(
        "INSERT INTO checkpoints(root, conversation_id, session_id, turn_session, turn, kind, tool, tool_use_id, note,"
        " status) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (os.fsencode(draft.root), *draft[1:]),
    )
    checkpoint_id = cursor.lastrowid or 0
    cursor.executemany(
        "INSERT INTO checkpoint_changes(checkpoint_id, path, before_json, after_json, sure) VALUES (?, ?, ?, ?, ?)",
        (
            (checkpoint_id, os.fsencode(change.path), _text(change.before), _text(change.after), change.sure)
            for change in changes
        ),
    )
    return checkpoint_id


def add_blobs(cursor: sqlite3.Cursor, blobs: Iterable[Blob]) -> None:
    cursor.executemany("INSERT OR IGNORE INTO checkpoint_blobs(digest, pack, start, size) VALUES (?, ?, ?, ?)", blobs)


def finish(cursor: sqlite3.Cursor, checkpoint: int) -> None:
    cursor.execute("UPDATE checkpoints SET status = 'done' WHERE id = ?", (checkpoint,))


def delete_older(cursor: sqlite3.Cursor, before: str) -> int:
    """Drop checkpoints older than a moment (`datetime` text, UTC); returns how many."""
    cursor.execute(
        "DELETE FROM checkpoint_changes WHERE checkpoint_id IN (SELECT id FROM checkpoints WHERE created_at < ?)",
        (before,),
    )
    return cursor.execute("DELETE FROM checkpoints WHERE created_at < ?", (before,)).rowcount


def drop_packs(cursor: sqlite3.Cursor, packs: Sequence[str]) -> None:
    cursor.executemany("DELETE FROM checkpoint_blobs WHERE pack = ?", ((pack,) for pack in packs))


# ------------------------------------------------------------------ reading


def get(store: Store, checkpoint: int) -> Checkpoint | None:
    rows = store.read(SELECT + " WHERE id = ?", (checkpoint,))
    return _checkpoint(rows[0]) if rows else None


def listing(store: Store, *, conversation_id: str | None = None) -> list[Checkpoint]:
    """Oldest first."""
    rows = store.read(SELECT + " WHERE conversation_id = coalesce(?, conversation_id) ORDER BY id", (conversation_id,))
    return [_checkpoint(row) for row in rows]


def changes(store: Store, checkpoint: int) -> list[Change]:
    rows = store.read(
        "SELECT path, before_json, after_json, sure FROM checkpoint_changes WHERE checkpoint_id = ? ORDER BY path",
        (checkpoint,),
    )
    return [_change(*row) for row in rows]


def counts(store: Store) -> dict[int, int]:
    """Checkpoint → how many paths it has."""
    rows = store.read("SELECT checkpoint_id, count(*) FROM checkpoint_changes GROUP BY checkpoint_id")
    return {row[0]: row[1] for row in rows}


class PathChange(NamedTuple):
    """One change of a path with whose it was."""

    checkpoint: int
    conversation_id: str
    kind: Kind
    tool: str
    change: Change


def changes_since(store: Store, root: str, first: int) -> dict[str, list[PathChange]]:
    """Every change in a root from a checkpoint on, by path, oldest first."""
    by_path: dict[str, list[PathChange]] = {}
    for row in store.read(
        "SELECT c.id, c.conversation_id, c.kind, c.tool, h.path, h.before_json, h.after_json, h.sure FROM checkpoints c"
        " JOIN checkpoint_changes h ON h.checkpoint_id = c.id WHERE c.root = ? AND c.id >= ? ORDER BY c.id",
        (os.fsencode(root), first),
    ):
        change = _change(*row[4:])
        by_path.setdefault(change.path, []).append(PathChange(row[0], row[1], row[2], row[3], change))
    return by_path


def unfinished_restores(store: Store) -> list[Checkpoint]:
    """Restores that were begun and not finished."""
    rows = store.read(SELECT + " WHERE status = 'pending' ORDER BY id")
    return [_checkpoint(row) for row in rows]


def blobs(store: Store) -> list[Blob]:
    rows = store.read("SELECT digest, pack, start, size FROM checkpoint_blobs")
    return [Blob(*tuple(row)) for row in rows]


def blob(store: Store, digest: str) -> Blob | None:
    rows = store.read("SELECT digest, pack, start, size FROM checkpoint_blobs WHERE digest = ?", (digest,))
    return Blob(*tuple(rows[0])) if rows else None


def changed_digests(store: Store) -> set[str]:
    """Every digest that some change names."""
    digests: set[str] = set()
    for row in store.read("SELECT before_json, after_json FROM checkpoint_changes"):
        digests |= {state.digest for state in map(_state, row) if state is not None and state.kind == "file"}
    return digests


def _checkpoint(row: sqlite3.Row) -> Checkpoint:
    values: list[Any] = list(row)
    values[1] = os.fsdecode(values[1])
    return Checkpoint(*values)


def _change(path: bytes, before: str | None, after: str | None, sure: int) -> Change:
    return Change(os.fsdecode(path), _state(before), _state(after), bool(sure))


def _text(state: State | None) -> str | None:
    """JSON escapes what is no Unicode, so that every name of a link can be a row."""
    return None if state is None else json.dumps(state, separators=(",", ":"))


def _state(text: str | None) -> State | None:
    return None if text is None else State(*json.loads(text))
