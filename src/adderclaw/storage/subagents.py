"""Child sessions: whose each is, and how it ended."""

import os
import sqlite3

from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Outcome
from adderclaw.storage import Store
from adderclaw.storage.text import plain

INTERRUPTED = "interrupted with its parent"
"""Why a child ended that its parent's end cut off."""


class Subagent(NamedTuple):
    session_id: str
    parent_id: str
    tool_use_id: str
    agent_type: str
    description: str
    background: bool
    pid: int
    started_at: str
    finished_at: str | None
    outcome: Outcome | None
    answer: str
    reason: str

    @property
    def status(self) -> str:
        """Its outcome; without one, whether the process that ran it could still be at it."""
        return self.outcome or ("running" if self.pid == os.getpid() else "interrupted")


_SELECT = (
    "SELECT session_id, parent_id, tool_use_id, agent_type, description, background, pid, started_at, finished_at,"
    " outcome, coalesce(answer, ''), coalesce(reason, '') FROM subagents"
)


def begin(
    cursor: sqlite3.Cursor,
    *,
    session_id: str,
    parent_id: str,
    tool_use_id: str,
    agent_type: str,
    description: str,
    background: bool,
) -> None:
    cursor.execute(
        "INSERT INTO subagents(session_id, parent_id, tool_use_id, agent_type, description, background, pid)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (session_id, parent_id, plain(tool_use_id), plain(agent_type), plain(description), background, os.getpid()),
    )


def resume(cursor: sqlite3.Cursor, session_id: str) -> None:
    """One that another process left unfinished goes on in this one."""
    cursor.execute(
        "UPDATE subagents SET pid = ?, finished_at = NULL, outcome = NULL, answer = NULL, reason = NULL"
        " WHERE session_id = ?",
        (os.getpid(), session_id),
    )


def finish(cursor: sqlite3.Cursor, session_id: str, outcome: Outcome, answer: str, reason: str) -> None:
    cursor.execute(
        "UPDATE subagents SET finished_at = datetime('now'), outcome = ?, answer = ?, reason = ? WHERE session_id = ?",
        (outcome, plain(answer), plain(reason), session_id),
    )


def of_parent(store: Store, parent_id: str) -> list[Subagent]:
    """Oldest first."""
    return [_subagent(row) for row in store.read(f"{_SELECT} WHERE parent_id = ? ORDER BY rowid", (parent_id,))]


def of_call(store: Store, parent_id: str, tool_use_id: str) -> Subagent | None:
    """The child that a call began; of several (ids may come again) the last."""
    rows = store.read(
        f"{_SELECT} WHERE parent_id = ? AND tool_use_id = ? ORDER BY rowid DESC LIMIT 1", (parent_id, tool_use_id)
    )
    return _subagent(rows[0]) if rows else None


def token_and_call_counts(store: Store, session_id: str) -> tuple[int, int]:
    """Tokens of the last request and tool calls of a session."""
    rows = store.read(
        "SELECT coalesce((SELECT json_extract(usage_json, '$.input_tokens') + json_extract(usage_json,"
        " '$.output_tokens') FROM model_calls WHERE session_id = ? AND status = 'ok' ORDER BY id DESC LIMIT 1), 0),"
        " (SELECT count(*) FROM transcript_entries WHERE session_id = ? AND entry_type = 'tool_result')",
        (session_id, session_id),
    )
    return int(rows[0][0]), int(rows[0][1])


def tool_call_rounds(store: Store, session_id: str) -> int:
    """Replies of a session that made calls."""
    rows = store.read(
        "SELECT count(*) FROM transcript_entries WHERE session_id = ? AND entry_type = 'assistant' AND EXISTS"
        " (SELECT 1 FROM json_each(payload_json, '$.content') WHERE json_extract(value, '$.type') = 'tool_use')",
        (session_id,),
    )
    return int(rows[0][0])


def _subagent(row: sqlite3.Row) -> Subagent:
    fields = list(row)
    fields[5] = bool(fields[5])
    return Subagent(*fields)
