"""The permission log: what was decided on each call, by whom, and why."""

import sqlite3

from adderclaw.core.types import Json
from adderclaw.storage.text import compact, plain


def log(
    cursor: sqlite3.Cursor, *, session_id: str, tool_use_id: str, tool_name: str, decision: str, reason: Json
) -> None:
    cursor.execute(
        "INSERT INTO tool_permission_log(session_id, tool_use_id, tool_name, decision, reason_json)"
        " VALUES (?, ?, ?, ?, ?)",
        (session_id, plain(tool_use_id), plain(tool_name), decision, compact(reason)),
    )
