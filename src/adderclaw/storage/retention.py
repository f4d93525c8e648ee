"""Finds and removes the data of old runs and conversations: oldest first, in small transactions, never receipts.

Removed is only what nothing needs any more: data of a completed run, and a conversation whose last run is completed,
that has no waiting question and no change that can still be undone.
"""

import json
import os
import re
import sqlite3
import time

from adderclaw.core.record import NamedTuple
from adderclaw.storage import Store, runs
from adderclaw.storage.text import plain
from adderclaw.storage.transcript import INDEXED_CHARS, text_of

KINDS = ("model_bodies", "logs", "runs", "conversations")
OF_RUNS = KINDS[:3]
BATCH_SIZE = 100
"""How many runs or conversations of a kind are removed after a run, each in its own transaction."""
MARK = "retention_at"
DAY = 86_400
LASTING_EVENTS = (
    "receipts_archived",
    "phase_changed",
    "implementation_complete",
    "plan_approved",
    "report_approved",
)
"""Events that later decisions depend on."""

_RECORDING = "NOT (t.seq = 1 AND t.items_json LIKE '%\"receipts\":false%')"
"""Leaves the first row of a session without receipts, which `receipt verify` needs."""
_OF_RUN = "FROM runs r JOIN {table} t ON t.run_id = r.run_id WHERE r.outcome = 'completed' AND r.finished_at < :before"
_NEEDED = """
    SELECT conversation_id FROM runs WHERE outcome IS NULL OR outcome = 'needs_input'
    UNION SELECT conversation_id FROM runs
        WHERE rowid IN (SELECT max(rowid) FROM runs GROUP BY conversation_id) AND outcome <> 'completed'
    UNION SELECT s.conversation_id FROM approvals a JOIN sessions s ON s.session_id = a.session_id
        WHERE a.answer IS NULL OR (a.answer = 'yes' AND a.used_at IS NULL)
    UNION SELECT s.conversation_id FROM background_tasks b JOIN sessions s ON s.session_id = b.session_id
        WHERE b.told = 0
    UNION SELECT conversation_id FROM checkpoints
    UNION SELECT conversation_id FROM plans
    UNION SELECT id FROM conversations WHERE phase <> 'idle'
    UNION SELECT s.conversation_id FROM transcript_entries e JOIN transcript_entries p ON p.id = e.parent_entry_id
        JOIN sessions s ON s.session_id = p.session_id JOIN sessions o ON o.session_id = e.session_id
        WHERE e.parent_entry_id IS NOT NULL AND o.conversation_id <> s.conversation_id"""
"""Conversations needed for resume, undo, a waiting question, a plan or a fork."""
_OLD = {
    "model_bodies": f"SELECT r.run_id, sum(length(t.response_json)), r.finished_at"
    f" {_OF_RUN.format(table='model_calls')} AND t.response_json IS NOT NULL GROUP BY r.run_id",
    "logs": f"SELECT r.run_id, 2 * sum(t.until - t.start), r.finished_at"
    f" {_OF_RUN.format(table='traces')} GROUP BY r.run_id",
    "runs": f"SELECT r.run_id, sum(length(t.items_json)), r.finished_at {_OF_RUN.format(table='tape')} AND {_RECORDING}"
    " GROUP BY r.run_id",
    "conversations": "SELECT c.id, coalesce(sum(length(e.payload_json)), 0), c.last_active FROM conversations c"  # noqa: S608
    " LEFT JOIN sessions s ON s.conversation_id = c.id LEFT JOIN transcript_entries e ON e.session_id = s.session_id"
    f" WHERE c.last_active < :before AND c.id NOT IN ({_NEEDED}) GROUP BY c.id",
}
"""Kind → what may be removed, with its size and end. Logs count twice: as a file and as rows of the same size."""
_ALL = {
    "model_bodies": "SELECT count(*), sum(length(response_json)) FROM model_calls WHERE response_json IS NOT NULL",
    "logs": "SELECT count(DISTINCT run_id), coalesce(sum(until - start), 0)"
    " + (SELECT coalesce(sum(length(detail)), 0) FROM events) FROM traces",
    "runs": "SELECT count(DISTINCT run_id), sum(length(items_json)) FROM tape",
    "conversations": "SELECT count(DISTINCT session_id), sum(length(payload_json)) FROM transcript_entries",
}
_NAME = re.compile(r"@\w+")
_BODY = re.compile(r"step-\d{4,}-(request|response)\.json")


_SESSIONS = "(SELECT session_id FROM sessions WHERE conversation_id = :id)"
_NAMED = {
    "@sessions": _SESSIONS,
    "@runs": "(SELECT run_id FROM runs WHERE conversation_id = :id)",
    "@plans": "(SELECT id FROM plans WHERE conversation_id = :id)",
}
_FORGET = (
    "DELETE FROM opaque_blocks WHERE entry_id IN (SELECT id FROM transcript_entries WHERE session_id IN @sessions)",
    "UPDATE transcript_entries SET parent_entry_id = NULL"
    " WHERE parent_entry_id IN (SELECT id FROM transcript_entries WHERE session_id IN @sessions)",
    "DELETE FROM transcript_entries WHERE session_id IN @sessions",
    "DELETE FROM turns WHERE session_id IN @sessions",
    "DELETE FROM background_tasks WHERE session_id IN @sessions",
    "DELETE FROM todos WHERE session_id IN @sessions",
    "DELETE FROM tape WHERE session_id IN @sessions",
    "UPDATE model_calls SET response_json = NULL, error = NULL WHERE session_id IN @sessions",
    "DELETE FROM subagents WHERE session_id IN @sessions OR parent_id IN @sessions",
    "UPDATE approvals SET shown = '', reason = '', comment = '', questions_json = '', replies_json = ''"
    " WHERE answer IS NOT NULL AND session_id IN @sessions",
    "DELETE FROM test_results WHERE test_id IN (SELECT id FROM generated_tests WHERE plan_id IN @plans)",
    "DELETE FROM generated_tests WHERE plan_id IN @plans",
    "DELETE FROM plan_criteria WHERE plan_id IN @plans",
    "DELETE FROM plan_baselines WHERE plan_id IN @plans",
    "DELETE FROM plans WHERE conversation_id = :id",
    "DELETE FROM imprints WHERE run_id IN @runs",
    "DELETE FROM workflows WHERE run_id IN @runs",
    "DELETE FROM workflow_results WHERE run_id IN @runs",
    "UPDATE notices SET body_json = '{}' WHERE state <> 'waiting' AND run_id IN @runs",
    "UPDATE runs SET answer = NULL, reason = NULL WHERE conversation_id = :id",
    "DELETE FROM summaries WHERE conversation_id = :id",
    "DELETE FROM state WHERE conversation_id = :id",
    "DELETE FROM task_ratings WHERE conversation_id = :id",
    "DELETE FROM todo_links WHERE conversation_id = :id",
    "DELETE FROM todo_tasks WHERE conversation_id = :id",
    "DELETE FROM events WHERE id > :first AND id <= :last AND conversation_id = :id"
    " AND event_type <> 'receipts_archived'",
    "DELETE FROM sessions WHERE conversation_id = :id",
    "DELETE FROM conversations WHERE id = :id",
)
"""Removes from one conversation what `memory clear` removes from all. A fork only loses the link to its original."""


class Limit(NamedTuple):
    """0: no limit."""

    days: float
    megabytes: int


class Expired(NamedTuple):
    kind: str
    id: str
    bytes: int
    ended: str


def sizes(store: Store) -> dict[str, tuple[int, int]]:
    """Kind → count and bytes; reads the whole tables."""
    return {kind: (int(row[0]), int(row[1] or 0)) for kind, sql in _ALL.items() for row in store.read(sql)}


def find_expired(store: Store, kind: str, limit: Limit, most: int) -> list[Expired]:
    """What is beyond the limit and may be removed, oldest first."""
    before = cutoff(limit.days) if limit.days else ""
    by_size = max(before, cutoff(1)) if limit.megabytes else before  # never what somebody may still work with
    sql = f"{_OLD[kind]} ORDER BY 3, 1 LIMIT :most"
    candidates = [Expired(kind, *row) for row in store.read(sql, {"before": by_size, "most": most})]
    excess = 0
    if limit.megabytes:
        excess = int(store.read(_ALL[kind])[0][1] or 0) - (limit.megabytes << 20)
    chosen: list[Expired] = []
    for candidate in candidates:
        if not (candidate.ended < before or excess > 0):
            break
        excess -= candidate.bytes
        chosen.append(candidate)
    return chosen


def cutoff(days: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time.time() - days * DAY))


def remove(store: Store, expired: Expired) -> bool:
    """Remove it, unless it was resumed in the meantime; whether it was removed."""
    event_range = runs.event_range(store, expired.id) if expired.kind == "logs" else (0, 0)
    with store.write() as cursor:
        if expired.kind == "conversations":
            sql = f"SELECT 1 WHERE ? NOT IN ({_NEEDED})"
        else:
            sql = "SELECT 1 FROM runs WHERE run_id = ? AND outcome = 'completed'"
        if cursor.execute(sql, (expired.id,)).fetchone() is None:
            return False
        if expired.kind == "conversations":
            delete_conversation(store, cursor, expired.id)
        elif expired.kind == "runs":
            cursor.execute(f"DELETE FROM tape AS t WHERE run_id = ? AND {_RECORDING}", (expired.id,))  # noqa: S608
            cursor.execute("DELETE FROM imprints WHERE run_id = ?", (expired.id,))
            cursor.execute(
                "DELETE FROM workflows WHERE run_id = ? AND name = ''", (expired.id,)
            )  # a message, to resume it
        elif expired.kind == "logs":
            cursor.execute("DELETE FROM traces WHERE run_id = ?", (expired.id,))
            cursor.execute(
                "DELETE FROM events WHERE id > ? AND id <= ? AND json_valid(detail)"
                " AND json_extract(detail, '$.run_id') = ? AND event_type NOT IN (SELECT value FROM json_each(?))",
                (*event_range, expired.id, json.dumps(LASTING_EVENTS)),
            )
        else:
            cursor.execute("UPDATE model_calls SET response_json = NULL WHERE run_id = ?", (expired.id,))
    return True


def is_body(name: str) -> bool:
    """Whether this is the name of a file with the request or the answer of a model call."""
    return _BODY.fullmatch(name) is not None


def delete_conversation(store: Store, cursor: sqlite3.Cursor, conversation_id: str) -> None:
    """Remove what was said in a conversation; its receipts, permissions, hooks, runs and their costs stay."""
    entries = "SELECT id, entry_type, payload_json FROM transcript_entries WHERE session_id IN "
    for id, kind, payload in cursor.execute(entries + _SESSIONS, {"id": conversation_id}).fetchall():
        if cursor.execute("SELECT 1 FROM transcript_fts WHERE rowid = ?", (id,)).fetchone():
            body = plain(text_of(json.loads(payload))[: INDEXED_CHARS[kind]])
            cursor.execute(
                "INSERT INTO transcript_fts(transcript_fts, rowid, body) VALUES ('delete', ?, ?)", (id, body)
            )
    sql = "SELECT run_id FROM runs WHERE conversation_id = ?"
    ranges = [runs.event_range(store, run_id) for (run_id,) in cursor.execute(sql, (conversation_id,)).fetchall()]
    first, last = (
        min((event_range[0] for event_range in ranges), default=0),
        max((event_range[1] for event_range in ranges), default=1 << 62),
    )
    for statement in _FORGET:
        sql = _NAME.sub(lambda name: _NAMED[name[0]], statement)
        cursor.execute(sql, {"id": conversation_id, "first": first, "last": last})


def is_due(store: Store) -> bool:
    """Whether a day has passed; marks the day at once, so that of processes that end together only one prunes."""
    now = int(time.time())
    with store.write() as cursor:
        row = cursor.execute("SELECT value FROM schema_meta WHERE key = ?", (MARK,)).fetchone()
        if row is not None and now - int(row[0]) < DAY:
            return False
        cursor.execute("INSERT OR REPLACE INTO schema_meta(key, value) VALUES (?, ?)", (MARK, str(now)))
    return True


def is_completed(store: Store, run_id: str) -> bool:
    return bool(store.read("SELECT 1 FROM runs WHERE run_id = ? AND outcome = 'completed'", (run_id,)))


def traces(store: Store, run_id: str) -> list[tuple[str, str]]:
    """Root and relative path of each events file of a run."""
    rows = store.read("SELECT DISTINCT root, way FROM traces WHERE run_id = ?", (run_id,))
    return [(os.fsdecode(root), os.fsdecode(way)) for root, way in rows]
