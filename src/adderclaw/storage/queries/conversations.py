"""Conversations as commands and pages show them: folders, first messages, turns, usage."""

import sqlite3

from adderclaw.core.record import NamedTuple
from adderclaw.storage import Store

_CONVERSATIONS = "SELECT project_dir FROM conversations c"
_SESSIONS = f"{_CONVERSATIONS} JOIN sessions s ON s.conversation_id = c.id"
_FOLDERS = {
    "conversation": f"{_CONVERSATIONS} WHERE c.id = ?",
    "session": f"{_SESSIONS} WHERE s.session_id = ?",
    "run": f"{_CONVERSATIONS} JOIN runs r ON r.conversation_id = c.id WHERE r.run_id = ?",
    "question": f"{_SESSIONS} JOIN approvals a ON a.session_id = s.session_id WHERE a.id = ?",
    "checkpoint": f"{_CONVERSATIONS} JOIN checkpoints p ON p.conversation_id = c.id WHERE p.id = ?",
    "receipt": f"{_SESSIONS} JOIN receipts r ON r.session_id = s.session_id WHERE r.archive = '' AND r.seq = ?",
    "schedule": "SELECT workspace FROM schedules WHERE ? IN (name, id)",
}


def folders_of(store: Store, kind: str, value: str) -> list[str]:
    """The folder of the conversation, session, run, question, checkpoint, receipt or schedule with this name."""
    return [str(row[0]) for row in store.read(_FOLDERS[kind], (value,))]


def projects(store: Store) -> list[str]:
    """The folder of every project that a conversation was held in."""
    return [str(row[0]) for row in store.read("SELECT DISTINCT project_dir FROM conversations")]


def recent_projects(store: Store) -> list[str]:
    """The folders of at most a hundred projects, the last used first."""
    sql = "SELECT project_dir, max(last_active) FROM conversations GROUP BY 1 ORDER BY 2 DESC LIMIT 100"
    return [row[0] for row in store.read(sql)]


def matching(store: Store, id: str) -> list[str]:
    """Ids that begin with this text; the one that equals it is first."""
    sql = "SELECT id FROM conversations WHERE id = ?1 OR instr(id, ?1) = 1 ORDER BY id = ?1 DESC"
    return [str(row[0]) for row in store.read(sql, (id,))]


def of_session(store: Store, session_id: str) -> str:
    """The conversation of a session, or '' if there is no such session."""
    rows = store.read("SELECT conversation_id FROM sessions WHERE session_id = ?", (session_id,))
    return str(rows[0][0]) if rows else ""


def session_ids(store: Store, conversation_id: str) -> list[str]:
    """All sessions of a conversation, those of subagents too."""
    rows = store.read("SELECT session_id FROM sessions WHERE conversation_id = ?", (conversation_id,))
    return [str(row[0]) for row in rows]


def first_message(store: Store, conversation_id: str) -> str | None:
    """The payload of the first user message, as JSON."""
    rows = store.read(
        "SELECT e.payload_json FROM sessions s JOIN transcript_entries e USING (session_id)"
        " WHERE s.conversation_id = ? AND e.entry_type = 'user' ORDER BY e.id LIMIT 1",
        (conversation_id,),
    )
    return rows[0][0] if rows else None


def turn_count(store: Store, conversation_id: str) -> int:
    """How many turns a conversation has had, without those of subagents."""
    sql = (
        "SELECT count(*) FROM turns JOIN sessions USING (session_id) WHERE conversation_id = ?"
        " AND session_id NOT IN (SELECT session_id FROM subagents)"
    )
    return int(store.read(sql, (conversation_id,))[0][0])


class Usage(NamedTuple):
    calls: int
    input_tokens: int | None
    output_tokens: int | None
    model: str | None
    """The model that was called last."""
    cost: float | None


def usage(store: Store, conversation_id: str) -> Usage:
    """What a conversation has used."""
    rows = store.read(
        "SELECT count(*), sum(json_extract(usage_json, '$.input_tokens')),"
        " sum(json_extract(usage_json, '$.output_tokens')),"
        " (SELECT model FROM model_calls m JOIN sessions USING (session_id) WHERE conversation_id = ?"
        "  ORDER BY m.id DESC LIMIT 1),"
        " (SELECT sum(cost) FROM runs WHERE conversation_id = ?)"
        " FROM model_calls JOIN sessions USING (session_id) WHERE conversation_id = ?",
        (conversation_id, conversation_id, conversation_id),
    )
    return Usage(*rows[0])


def latest_entry_type(store: Store, session_id: str) -> sqlite3.Row | None:
    """The type and the call of a session's latest entry."""
    rows = store.read(
        "SELECT entry_type, tool_use_id FROM transcript_entries WHERE session_id = ? ORDER BY sequence DESC LIMIT 1",
        (session_id,),
    )
    return rows[0] if rows else None
