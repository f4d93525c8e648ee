"""Background tasks of a session, stored so that tasks lost in a crash are reported to the model."""

import sqlite3

from adderclaw.core.record import NamedTuple
from adderclaw.storage import Store
from adderclaw.storage.text import plain


class Row(NamedTuple):
    id: str
    kind: str
    title: str
    status: str
    result: str
    """The result that is reported to the model: an agent's answer."""


def begin(cursor: sqlite3.Cursor, *, task_id: str, session_id: str, kind: str, title: str) -> None:
    cursor.execute(
        "INSERT INTO background_tasks(id, session_id, kind, title) VALUES (?, ?, ?, ?)",
        (task_id, session_id, kind, plain(title)),
    )


def end(cursor: sqlite3.Cursor, task_id: str, status: str, summary: str, result: str = "") -> None:
    cursor.execute(
        "UPDATE background_tasks SET status = ?, summary = ?, result = ?, ended_at = datetime('now') WHERE id = ?",
        (status, plain(summary), plain(result), task_id),
    )


def mark_reported(cursor: sqlite3.Cursor, task_id: str) -> None:
    """Record that the end of a task was reported to the model."""
    cursor.execute("UPDATE background_tasks SET told = 1 WHERE id = ?", (task_id,))


def unreported(store: Store, session_id: str) -> list[Row]:
    """Tasks whose end was not reported to the model, oldest first."""
    rows = store.read(
        "SELECT id, kind, title, status, coalesce(result, '') FROM background_tasks"
        " WHERE session_id = ? AND told = 0 ORDER BY rowid",
        (session_id,),
    )
    return [Row(*row) for row in rows]
