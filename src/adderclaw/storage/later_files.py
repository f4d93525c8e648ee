"""What programs run later, as it was at the last look, and its changes until somebody has acknowledged them."""

import json
import sqlite3
from collections.abc import Iterable
from typing import Literal

from adderclaw.core.record import NamedTuple
from adderclaw.storage import Store
from adderclaw.storage.text import compact, plain

type Answer = Literal["kept", "set_aside"]


class Row(NamedTuple):
    id: int
    workspace: str
    path: str
    change: str
    """new or changed."""
    mark: str
    session_id: str
    found_at: str


class State(NamedTuple):
    """As a session last saw it."""

    items: dict[str, str]
    """Path → fingerprint."""
    further: tuple[str, ...]
    """Directories beside the workspace that it could write to."""


def state(store: Store, workspace: str) -> State | None:
    """None where none ever looked. In the row, a further directory is a path that ends with a slash."""
    rows = store.read("SELECT items_json FROM later_state WHERE workspace = ?", (plain(workspace),))
    if not rows:
        return None
    items: dict[str, str] = json.loads(rows[0][0])
    further = tuple(path.rstrip("/") for path in items if path.endswith("/"))
    return State({path: mark for path, mark in items.items() if not path.endswith("/")}, further)


def store_state(cursor: sqlite3.Cursor, workspace: str, now: State) -> None:
    items = now.items | {f"{plain(path)}/": "" for path in now.further}
    cursor.execute(
        "INSERT OR REPLACE INTO later_state(workspace, items_json) VALUES (?, ?)",
        (plain(workspace), compact({plain(path): mark for path, mark in items.items()})),
    )


def begin(cursor: sqlite3.Cursor, workspace: str, session_id: str) -> None:
    """A session runs commands there from now on: what is left of this row says that it was killed."""
    cursor.execute("INSERT OR REPLACE INTO later_sessions VALUES (?, ?)", (plain(workspace), session_id))


def end(cursor: sqlite3.Cursor, workspace: str, session_ids: Iterable[str]) -> None:
    rows = [(plain(workspace), session_id) for session_id in session_ids]
    cursor.executemany("DELETE FROM later_sessions WHERE workspace = ? AND session_id = ?", rows)


def unended_sessions(store: Store, workspace: str) -> list[str]:
    """Those that began to run commands there and did not end."""
    return [
        row[0] for row in store.read("SELECT session_id FROM later_sessions WHERE workspace = ?", (plain(workspace),))
    ]


def add(cursor: sqlite3.Cursor, workspace: str, session_id: str, changes: Iterable[tuple[str, str, str]]) -> None:
    """Path, change and fingerprint of each; a newer change of the same path takes the place of the older."""
    for path, change, mark in changes:
        cursor.execute(
            "DELETE FROM later_changes WHERE workspace = ? AND path = ? AND answer IS NULL",
            (plain(workspace), plain(path)),
        )
        cursor.execute(
            "INSERT INTO later_changes(workspace, path, change, mark, session_id) VALUES (?, ?, ?, ?, ?)",
            (plain(workspace), plain(path), change, mark, session_id),
        )


def unanswered(store: Store, workspace: str | None = None) -> list[Row]:
    """Changes that nobody has acknowledged, oldest first."""
    rows = store.read(
        "SELECT id, workspace, path, change, mark, session_id, found_at FROM later_changes WHERE answer IS NULL"
        " AND (? IS NULL OR workspace = ?) ORDER BY id",
        (workspace and plain(workspace),) * 2,
    )
    return [Row(*row) for row in rows]


def of_session(store: Store, session_id: str) -> list[Row]:
    """All that changed while a session ran commands, answered or not."""
    rows = store.read(
        "SELECT id, workspace, path, change, mark, session_id, found_at FROM later_changes WHERE session_id = ?"
        " ORDER BY id",
        (session_id,),
    )
    return [Row(*row) for row in rows]


def unapproved(store: Store) -> frozenset[str]:
    """Paths of files, in any workspace, that a run changed and nobody has acknowledged."""
    return frozenset(row[0] for row in store.read("SELECT DISTINCT path FROM later_changes WHERE answer IS NULL"))


def was_acknowledged(store: Store, workspace: str, path: str, mark: str) -> bool:
    """Whether the operator has acknowledged exactly this."""
    return bool(
        store.read(
            "SELECT 1 FROM later_changes WHERE workspace = ? AND path = ? AND mark = ? AND answer = 'kept' LIMIT 1",
            (plain(workspace), plain(path), mark),
        )
    )


def answer(cursor: sqlite3.Cursor, ids: Iterable[int], word: Answer) -> None:
    cursor.executemany(
        "UPDATE later_changes SET answer = ?, answered_at = datetime('now') WHERE id = ? AND answer IS NULL",
        [(word, number) for number in ids],
    )
