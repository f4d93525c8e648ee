"""Entries of a session with their decisions and receipts, for views."""

import sqlite3

from adderclaw.storage import Store


def of_call(store: Store, session_id: str, tool_use_id: str) -> list[sqlite3.Row]:
    """The last two entries of a call: sequence, type, payload, time."""
    return store.read(
        "SELECT sequence, entry_type, payload_json, created_at FROM transcript_entries"
        " WHERE session_id = ? AND tool_use_id = ? ORDER BY sequence DESC LIMIT 2",
        (session_id, tool_use_id),
    )


def last_sequence(store: Store, session_id: str) -> int:
    """The sequence of a session's latest entry; -1 if it has none."""
    sql = "SELECT coalesce(max(sequence), -1) FROM transcript_entries WHERE session_id = ?"
    return int(store.read(sql, (session_id,))[0][0])


def sequence_of_call(store: Store, session_id: str, tool_use_id: str) -> int:
    """The sequence of the latest call with this id; -1 if it is not written yet."""
    sql = (
        "SELECT coalesce(max(sequence), -1) FROM transcript_entries"
        " WHERE session_id = ? AND tool_use_id = ? AND entry_type = 'tool_use'"
    )
    return int(store.read(sql, (session_id, tool_use_id))[0][0])


def messages_between(store: Store, session_id: str, after: int, before: int | None) -> list[sqlite3.Row]:
    """Messages after one entry and before another, or before the next call: the columns of `transcript.Entry`."""
    return store.read(
        "SELECT id, sequence, entry_type, payload_json, tool_use_id, created_at FROM transcript_entries"
        " WHERE session_id = ? AND sequence > ? AND entry_type IN ('user', 'assistant', 'system')"
        " AND sequence < coalesce(?, (SELECT min(sequence) FROM transcript_entries"
        "  WHERE session_id = ? AND sequence > ? AND entry_type = 'tool_use'), 9e18) ORDER BY sequence",
        (session_id, after, before, session_id, after),
    )


def call_count(store: Store, session_id: str) -> int:
    sql = "SELECT count(*) FROM transcript_entries WHERE session_id = ? AND entry_type = 'tool_use'"
    return int(store.read(sql, (session_id,))[0][0])


def last_decision(store: Store, session_id: str, tool_use_id: str) -> str | None:
    """The reason of the last decision on a call, as JSON."""
    rows = store.read(
        "SELECT reason_json FROM tool_permission_log WHERE session_id = ? AND tool_use_id = ? ORDER BY id DESC LIMIT 1",
        (session_id, tool_use_id),
    )
    return rows[0][0] if rows else None


def last_receipt(store: Store, session_id: str, tool_use_id: str) -> sqlite3.Row | None:
    """Sequence and line of the last receipt of a call."""
    rows = store.read(
        "SELECT seq, line FROM receipts WHERE archive = '' AND session_id = ? AND tool_use_id = ?"
        " ORDER BY seq DESC LIMIT 1",
        (session_id, tool_use_id),
    )
    return rows[0] if rows else None


def receipts(store: Store, session_id: str) -> list[sqlite3.Row]:
    """Call, sequence and line of each receipt of a session, oldest first."""
    sql = "SELECT tool_use_id, seq, line FROM receipts WHERE session_id = ? ORDER BY archive, seq"
    return store.read(sql, (session_id,))


def call_durations(store: Store, session_id: str) -> list[sqlite3.Row]:
    """Call and milliseconds of each call that ended."""
    return store.read(
        "SELECT json_extract(detail, '$.tool_use_id'), json_extract(detail, '$.duration_ms') FROM events"
        " WHERE session_id = ? AND event_type IN ('tool_completed', 'tool_failed')",
        (session_id,),
    )
