"""The rows of a recorded run that a replay compares, saves and plays. A range whose `until` is None has no end."""

import sqlite3
from collections.abc import Sequence

from adderclaw.storage import Store


def has_later_run(store: Store, run_id: str, session_id: str) -> bool:
    sql = "SELECT 1 FROM runs WHERE session_id = ? AND rowid > (SELECT rowid FROM runs WHERE run_id = ?)"
    return bool(store.read(sql, (session_id, run_id)))


def next_taped_run(store: Store, run_id: str, session_id: str) -> str | None:
    """The run after this one that has a tape of the same session."""
    rows = store.read(
        "SELECT run_id FROM tape WHERE session_id = ? AND run_id <> ? AND seq = 1"
        " AND rowid > (SELECT max(rowid) FROM tape WHERE run_id = ? AND session_id = ?) ORDER BY rowid LIMIT 1",
        (session_id, run_id, run_id, session_id),
    )
    return rows[0][0] if rows else None


def end_of_subagent(store: Store, session_id: str) -> sqlite3.Row | None:
    """Outcome and reason, if the session is a subagent."""
    rows = store.read("SELECT outcome, reason FROM subagents WHERE session_id = ?", (session_id,))
    return rows[0] if rows else None


def requests(store: Store, run_id: str, session_id: str) -> list[sqlite3.Row]:
    """Hash and purpose of each request to a model."""
    return store.read(
        "SELECT request_hash, json_extract(response_json, '$.purpose') FROM model_calls"
        " WHERE session_id = ? AND run_id = ?",
        (session_id, run_id),
    )


def model_calls(
    store: Store, columns: Sequence[str], run_id: str, session_id: str, after: int, until: int
) -> list[sqlite3.Row]:
    names = ", ".join(columns)
    sql = f"SELECT {names} FROM model_calls WHERE session_id = ? AND run_id = ? AND id > ? AND id <= ? ORDER BY id"  # noqa: S608
    return store.read(sql, (session_id, run_id, after, until))


def events(store: Store, session_id: str, after: int, until: int | None) -> list[sqlite3.Row]:
    """Type and detail of each event of a session, of any run."""
    return store.read(
        "SELECT event_type, detail FROM events WHERE session_id = ? AND id > ? AND (? IS NULL OR id <= ?) ORDER BY id",
        (session_id, after, until, until),
    )


def events_of_run(store: Store, run_id: str, session_id: str, after: int, until: int | None) -> list[sqlite3.Row]:
    """Id, session, type and detail of each event of a run in a session."""
    return store.read(
        "SELECT id, session_id, event_type, detail FROM events WHERE session_id = ? AND json_valid(detail)"
        " AND json_extract(detail, '$.run_id') = ? AND id > ? AND (? IS NULL OR id <= ?) ORDER BY id",
        (session_id, run_id, after, until, until),
    )


def entries(store: Store, session_id: str, first: int, until: int | None) -> list[sqlite3.Row]:
    """Session, sequence, type, payload, call and opaque blocks of the entries from `first` to before `until`."""
    return store.read(
        "SELECT e.session_id, e.sequence, e.entry_type, e.payload_json, e.tool_use_id, o.blocks_json"
        " FROM transcript_entries e LEFT JOIN opaque_blocks o ON o.entry_id = e.id"
        " WHERE e.session_id = ? AND e.sequence >= ? AND (? IS NULL OR e.sequence < ?) ORDER BY e.sequence",
        (session_id, first, until, until),
    )


def permissions(store: Store, session_id: str, after: int, until: int | None) -> list[sqlite3.Row]:
    """Call, tool, decision and reason of each permission."""
    return store.read(
        "SELECT tool_use_id, tool_name, decision, reason_json FROM tool_permission_log WHERE session_id = ?"
        " AND id > ? AND (? IS NULL OR id <= ?) ORDER BY id",
        (session_id, after, until, until),
    )


def receipts(store: Store, session_id: str, after: int, until: int | None) -> list[sqlite3.Row]:
    """Sequence, line, call and run of each receipt."""
    return store.read(
        "SELECT seq, line, tool_use_id, run_id FROM receipts"
        " WHERE session_id = ? AND seq > ? AND (? IS NULL OR seq <= ?)"
        " ORDER BY archive = '', archive, seq",
        (session_id, after, until, until),
    )


def archives(store: Store, sessions: Sequence[str]) -> list[str]:
    """The logs that contain the receipts of these sessions; '' is the current one."""
    marks = ", ".join("?" * len(sessions))
    rows = store.read(f"SELECT DISTINCT archive FROM receipts WHERE session_id IN ({marks})", sessions)  # noqa: S608
    return [row[0] for row in rows]
