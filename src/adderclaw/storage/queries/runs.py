"""Runs as commands and pages show them: sessions, model use, tool use, times."""

import json
import sqlite3
from collections.abc import Sequence

from adderclaw.storage import Store


def first_message(store: Store, session_id: str) -> str | None:
    """The payload of the first user message of a session, as JSON."""
    rows = store.read(
        "SELECT payload_json FROM transcript_entries WHERE session_id = ? AND entry_type = 'user'"
        " ORDER BY sequence LIMIT 1",
        (session_id,),
    )
    return rows[0][0] if rows else None


def sessions_below(store: Store, session_id: str, limit: int) -> list[str]:
    """A session and all its descendants."""
    rows = store.read(
        "WITH RECURSIVE below(id) AS (SELECT ? UNION SELECT s.session_id FROM subagents s"
        " JOIN below ON s.parent_id = below.id)"
        " SELECT id FROM below LIMIT ?",
        (session_id, limit),
    )
    return [row[0] for row in rows]


def model_use(store: Store, run_id: str, sessions: Sequence[str]) -> list[sqlite3.Row]:
    """For each model: name, calls, failed calls, input, output and cached tokens, seconds, cost."""
    return store.read(
        "SELECT provider || '/' || model, count(*), sum(status <> 'ok'),"
        " coalesce(sum(json_extract(usage_json, '$.input_tokens')), 0),"
        " coalesce(sum(json_extract(usage_json, '$.output_tokens')), 0),"
        " coalesce(sum(json_extract(usage_json, '$.cache_read_tokens')), 0), sum(latency_ms) / 1000.0, sum(cost)"
        " FROM model_calls WHERE session_id IN (SELECT value FROM json_each(?)) AND run_id = ?"
        " GROUP BY 1 ORDER BY 2 DESC",
        (json.dumps(sessions), run_id),
    )


def tool_use(store: Store, run_id: str) -> list[sqlite3.Row]:
    """For each tool: name, calls, denied calls, failed calls."""
    return store.read(
        "SELECT json_extract(line, '$.tool'), count(*), sum(json_extract(line, '$.status') = 'denied'),"
        " sum(json_extract(line, '$.status') = 'failed') FROM receipts WHERE run_id = ? AND json_valid(line)"
        " GROUP BY 1 ORDER BY 2 DESC",
        (run_id,),
    )


def kinds(store: Store) -> list[str]:
    """The kinds of the stored runs."""
    return [row[0] for row in store.read("SELECT DISTINCT kind FROM runs ORDER BY 1 LIMIT 50")]


def calls(store: Store, session_id: str) -> list[sqlite3.Row]:
    """For each tool call of a session: sequence, id, tool, who decided, the line of its receipt."""
    return store.read(
        "SELECT e.sequence, e.tool_use_id, json_extract(e.payload_json, '$.name'),"
        " (SELECT json_extract(p.reason_json, '$.by') FROM tool_permission_log p"
        "  WHERE p.session_id = e.session_id AND p.tool_use_id = e.tool_use_id ORDER BY p.id DESC LIMIT 1),"
        " (SELECT r.line FROM receipts r WHERE r.session_id = e.session_id AND r.tool_use_id = e.tool_use_id LIMIT 1)"
        " FROM transcript_entries e WHERE e.session_id = ? AND e.entry_type = 'tool_use' ORDER BY e.sequence",
        (session_id,),
    )


def receipt_times(store: Store, run_id: str, limit: int) -> list[sqlite3.Row]:
    """Session, call and time of each receipt of a run."""
    return store.read(
        "SELECT session_id, tool_use_id, json_extract(line, '$.timestamp') FROM receipts"
        " WHERE run_id = ? AND json_valid(line) ORDER BY seq LIMIT ?",
        (run_id, limit),
    )


def subagent_names(store: Store, sessions: Sequence[str]) -> list[sqlite3.Row]:
    """Session, agent and description of those sessions that are subagents."""
    return store.read(
        "SELECT session_id, agent_type, description FROM subagents"
        " WHERE session_id IN (SELECT value FROM json_each(?))",
        (json.dumps(sessions),),
    )


def last_warnings(store: Store) -> list[str]:
    """The details of the last twenty warnings, as JSON, the newest first."""
    sql = "SELECT detail FROM events WHERE event_type = 'warning' ORDER BY id DESC LIMIT 20"
    return [row[0] for row in store.read(sql)]
