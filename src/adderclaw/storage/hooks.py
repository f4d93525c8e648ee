"""Hook rows: every invocation of a hook, including skipped ones, with its input and output."""

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from adderclaw.storage.text import plain


class Invocation(NamedTuple):
    """One invocation of a hook. `exit_code` is None if no process exited by itself."""

    hook_event: str
    hook_ordinal: int
    matcher: str
    command: str
    input_json: str
    started_at: str
    tool_use_id: str | None = None
    tool_name: str | None = None
    exit_code: int | None = None
    stdout_text: str | None = None
    stderr_text: str | None = None
    completed_at: str | None = None
    skipped_reason: str | None = None


_COLUMNS = ("session_id", "conversation_id", *Invocation._fields)
_INSERT = f"INSERT INTO hook_invocations({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608


def record(cursor: sqlite3.Cursor, session_id: str, conversation_id: str, rows: Iterable[Invocation]) -> None:
    for row in rows:
        values = [plain(value) if isinstance(value, str) else value for value in row]
        cursor.execute(_INSERT, (session_id, conversation_id, *values))
