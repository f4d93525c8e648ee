"""The todo list of a session, and the task list of a conversation with its dependencies."""

import json
import sqlite3
from typing import Any, NamedTuple

from adderclaw.core.types import Json
from adderclaw.storage import Store
from adderclaw.storage.text import compact, plain


class Todo(NamedTuple):
    content: str
    status: str
    active_form: str


def todos(store: Store, session_id: str) -> list[Todo]:
    rows = store.read(
        "SELECT content, status, active_form FROM todos WHERE session_id = ? ORDER BY position", (session_id,)
    )
    return [Todo(*row) for row in rows]


def replace_todos(cursor: sqlite3.Cursor, session_id: str, new: list[Todo]) -> None:
    cursor.execute("DELETE FROM todos WHERE session_id = ?", (session_id,))
    cursor.executemany(
        "INSERT INTO todos(session_id, position, content, status, active_form) VALUES (?, ?, ?, ?, ?)",
        [
            (session_id, position, plain(todo.content), todo.status, plain(todo.active_form))
            for position, todo in enumerate(new)
        ],
    )


# ------------------------------------------------------------------ tasks


class Task(NamedTuple):
    number: int
    subject: str
    description: str
    active_form: str
    status: str
    owner: str
    metadata: Json
    blocks: list[int]
    """Tasks that wait for this one."""
    blocked_by: list[int]
    """Tasks that this one waits for and that are not completed."""


_SELECT = "SELECT number, subject, description, active_form, status, owner, metadata_json FROM todo_tasks"


def tasks(store: Store, conversation_id: str) -> list[Task]:
    rows = store.read(f"{_SELECT} WHERE conversation_id = ? ORDER BY number", (conversation_id,))
    links = _links(store, conversation_id)
    open_tasks = {row[0] for row in rows if row[4] != "completed"}
    return [_task(row, links, open_tasks) for row in rows]


def task(store: Store, conversation_id: str, number: int) -> Task | None:
    return next((candidate for candidate in tasks(store, conversation_id) if candidate.number == number), None)


def create(
    cursor: sqlite3.Cursor, conversation_id: str, subject: str, description: str, active_form: str, metadata: Json
) -> int:
    """Create a task and return its number. A deleted number is reused only if it was the highest."""
    (number,) = cursor.execute(
        "INSERT INTO todo_tasks(conversation_id, number, subject, description, active_form, metadata_json)"
        " VALUES (?, (SELECT coalesce(max(number), 0) + 1 FROM todo_tasks WHERE conversation_id = ?), ?, ?, ?, ?)"
        " RETURNING number",
        (conversation_id, conversation_id, plain(subject), plain(description), plain(active_form), compact(metadata)),
    ).fetchone()
    return number


def change(cursor: sqlite3.Cursor, conversation_id: str, number: int, fields: dict[str, Any]) -> None:
    """Set columns of a task: subject, description, active_form, status, owner, metadata_json."""
    for column, value in fields.items():
        text = compact(value) if column == "metadata_json" else plain(value)
        cursor.execute(
            f"UPDATE todo_tasks SET {column} = ?, updated_at = datetime('now')"  # noqa: S608 - names from the program itself
            " WHERE conversation_id = ? AND number = ?",
            (text, conversation_id, number),
        )


def delete_task(cursor: sqlite3.Cursor, conversation_id: str, number: int) -> None:
    cursor.execute("DELETE FROM todo_tasks WHERE conversation_id = ? AND number = ?", (conversation_id, number))
    cursor.execute(
        "DELETE FROM todo_links WHERE conversation_id = ? AND (blocker = ? OR blocked = ?)",
        (conversation_id, number, number),
    )


def link(cursor: sqlite3.Cursor, conversation_id: str, blocker: int, blocked: int) -> None:
    cursor.execute(
        "INSERT OR IGNORE INTO todo_links(conversation_id, blocker, blocked) VALUES (?, ?, ?)",
        (conversation_id, blocker, blocked),
    )


def _links(store: Store, conversation_id: str) -> list[tuple[int, int]]:
    rows = store.read(
        "SELECT blocker, blocked FROM todo_links WHERE conversation_id = ? ORDER BY 1, 2", (conversation_id,)
    )
    return [(row[0], row[1]) for row in rows]


def _task(row: sqlite3.Row, links: list[tuple[int, int]], open_tasks: set[int]) -> Task:
    number = row[0]
    blocks = [blocked for blocker, blocked in links if blocker == number]
    blocked_by = [blocker for blocker, blocked in links if blocked == number and blocker in open_tasks]
    _, subject, description, active_form, status, owner, metadata = row
    return Task(number, subject, description, active_form, status, owner, json.loads(metadata), blocks, blocked_by)
