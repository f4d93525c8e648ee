"""Runs: when each began, what it used, and its outcome."""

import json
import os
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from adderclaw.core.errors import UsageError
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import PHASES, Json, Outcome
from adderclaw.storage import Store
from adderclaw.storage.locks import run_in_session
from adderclaw.storage.text import compact, parse_row, plain


class Run(NamedTuple):
    run_id: str
    kind: str
    conversation_id: str
    session_id: str
    pid: int
    started_at: str
    finished_at: str | None
    outcome: Outcome | None
    exit_code: int | None
    answer: str | None
    usage: Json
    reason: str | None
    cost: float | None
    status: str
    """The outcome; without one, `running` while a process works on the run, else `interrupted`."""


_COLUMNS = (
    "SELECT run_id, kind, conversation_id, session_id, pid, started_at, finished_at, outcome, exit_code, answer,"
    " usage_json, reason, cost FROM runs"
)


def begin(cursor: sqlite3.Cursor, *, run_id: str, kind: str, conversation_id: str, session_id: str, pid: int) -> None:
    """Store the start of a run; a resumed run begins again and loses its earlier outcome."""
    began = compact(table_positions(cursor.execute, session_id))
    cursor.execute(
        "INSERT INTO runs(run_id, kind, conversation_id, session_id, pid, began_json) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT(run_id) DO UPDATE SET pid = excluded.pid, session_id = excluded.session_id,"
        " finished_at = NULL, outcome = NULL, exit_code = NULL",
        (run_id, kind, conversation_id, session_id, pid, began),
    )


def table_positions(execute: Callable[..., Any], session_id: str) -> Json:
    """The position in each table at which a session continues."""
    (row,) = execute(
        "SELECT (SELECT coalesce(max(sequence) + 1, 0) FROM transcript_entries WHERE session_id = ?),"
        " (SELECT coalesce(max(id), 0) FROM model_calls),"
        " (SELECT coalesce(max(seq), 0) FROM receipts WHERE archive = ''),"
        " (SELECT coalesce(max(rowid), 0) FROM tool_permission_log),"
        " (SELECT coalesce(max(id), 0) FROM events)",
        (session_id,),
    )
    return dict(zip(("entries", "calls", "receipts", "permissions", "events"), row, strict=True))


def next_run_positions(store: Store, run_id: str, session_id: str) -> Json | None:
    """The table positions at which the next run of the same session began."""
    rows = store.read(
        "SELECT began_json FROM runs WHERE session_id = ? AND began_json IS NOT NULL"
        " AND rowid > (SELECT rowid FROM runs WHERE run_id = ?) ORDER BY rowid LIMIT 1",
        (session_id, run_id),
    )
    return json.loads(rows[0][0]) if rows else None


def record_usage(cursor: sqlite3.Cursor, run_id: str, used: list[float], rounds: int | None) -> None:
    """Store what a run has used so far, so that its limits hold after a resume; `rounds` are those of its turn."""
    if rounds is None:
        cursor.execute("UPDATE runs SET used_json = ? WHERE run_id = ?", (compact(used), run_id))
    else:
        cursor.execute("UPDATE runs SET used_json = ?, rounds = ? WHERE run_id = ?", (compact(used), rounds, run_id))


class RunUsage(NamedTuple):
    """What a run had used of its budget, and the rounds of tool calls of its last turn."""

    used: list[float]
    rounds: int


def usage_of_run(store: Store, run_id: str) -> RunUsage | None:
    """What a run used before it was resumed."""
    return _usage(store, "run_id = ?", run_id)


def usage_in_session(store: Store, session_id: str) -> RunUsage | None:
    """What the last run in a session used."""
    return _usage(store, "session_id = ?", session_id)


def _usage(store: Store, which: str, value: str) -> RunUsage | None:
    rows = store.read(
        f"SELECT used_json, rounds FROM runs WHERE {which} AND used_json IS NOT NULL ORDER BY rowid DESC LIMIT 1",  # noqa: S608
        (value,),
    )
    return RunUsage(json.loads(rows[0][0]), rows[0][1]) if rows else None


def finish(
    cursor: sqlite3.Cursor,
    *,
    run_id: str,
    outcome: Outcome,
    exit_code: int,
    answer: str | None,
    usage: Json,
    reason: str | None,
    cost: float | None = None,
) -> None:
    cursor.execute(
        "UPDATE runs SET finished_at = datetime('now'), outcome = ?, exit_code = ?, answer = ?, usage_json = ?,"
        " reason = ?, cost = ? WHERE run_id = ?",
        (outcome, exit_code, answer and plain(answer), compact(usage), reason and plain(reason), cost, run_id),
    )


def get(store: Store, run_id: str, workspaces: Sequence[str] = ()) -> Run | None:
    """The run with this id or unique prefix; only of these workspaces, if any are given."""
    run_id = plain(run_id)
    here, values = workspace_condition(workspaces)
    rows = store.read(f"{_COLUMNS} WHERE run_id = ? AND {here}", (run_id, *values))
    if not rows and run_id:
        rows = store.read(f"{_COLUMNS} WHERE instr(run_id, ?) = 1 AND {here} LIMIT 4", (run_id, *values))
    if len(rows) > 1:
        raise UsageError(f"{run_id!r} matches several runs ({', '.join(row[0] for row in rows)}). Use a longer prefix")
    return _run(store, rows[0]) if rows else None


def last_of(store: Store, session_id: str) -> Run | None:
    """The last run of a session."""
    rows = store.read(f"{_COLUMNS} WHERE session_id = ? ORDER BY rowid DESC LIMIT 1", (session_id,))
    return _run(store, rows[0]) if rows else None


def last_manual_conversation(store: Store, project_dir: str) -> str | None:
    """The last conversation in a workspace that has only manually run tools and no model."""
    rows = store.read(
        "SELECT r.conversation_id FROM runs r JOIN conversations c ON c.id = r.conversation_id"  # noqa: S608 - no input
        f" WHERE r.kind = 'tool' AND c.project_dir = ? AND c.phase IN ({', '.join('?' * len(PHASES))})"
        " AND NOT EXISTS (SELECT 1 FROM runs o WHERE o.conversation_id = c.id AND o.kind <> 'tool')"
        " ORDER BY r.rowid DESC LIMIT 1",
        (project_dir, *PHASES),
    )
    return rows[0][0] if rows else None


def listing(store: Store, limit: int, workspaces: Sequence[str] = ()) -> list[Run]:
    """Runs, most recent first; only of these workspaces, if any are given."""
    here, values = workspace_condition(workspaces)
    sql = f"{_COLUMNS} WHERE {here} ORDER BY started_at DESC, rowid DESC LIMIT ?"
    return [_run(store, row) for row in store.read(sql, (*values, limit))]


def search(
    store: Store,
    *,
    status: str = "",
    kind: str = "",
    project: str = "",
    before: str = "",
    limit: int = 50,
    workspaces: Sequence[str] = (),
) -> list[Run]:
    """Runs with this status, kind and project, most recent first; `before`: only runs that began before this one;
    `workspaces`: only runs in these, if any are given."""
    here, held = workspace_condition(workspaces)
    conditions, values = [here], list[str | int](held)
    for sql, value in (
        ("kind = ?", kind),
        ("conversation_id IN (SELECT id FROM conversations WHERE project_dir = ?)", project),
        ("rowid < (SELECT rowid FROM runs WHERE run_id = ?)", before),
    ):
        if value:
            conditions.append(sql)
            values.append(plain(value))
    if status in ("running", "interrupted"):
        conditions.append("outcome IS NULL")
    elif status:
        conditions.append("outcome = ?")
        values.append(plain(status))
    sql = f"{_COLUMNS} WHERE {' AND '.join(conditions)} ORDER BY rowid DESC LIMIT ?"
    rows = store.read(sql, (*values, MAX_WITHOUT_OUTCOME if status in ("running", "interrupted") else limit))
    matching = (_run(store, row) for row in rows)
    return [run for run in matching if not status or run.status == status][:limit]


MAX_WITHOUT_OUTCOME = 1_000
"""Most runs without an outcome that are checked for a working process."""


def workspace_condition(workspaces: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """A condition on `conversation_id`, with its values: the conversation is in one of these workspaces."""
    if not workspaces:
        return "1", ()
    marks = ", ".join("?" * len(workspaces))
    sql = f"conversation_id IN (SELECT id FROM conversations WHERE project_dir IN ({marks}))"  # noqa: S608
    return sql, tuple(map(plain, workspaces))


def receipts(store: Store, run_id: str, limit: int) -> list[Json]:
    """The receipts of a run in the current log, latest first."""
    sql = "SELECT line FROM receipts WHERE run_id = ? AND archive = '' ORDER BY seq DESC LIMIT ?"
    return [json.loads(row[0]) for row in store.read(sql, (run_id, limit))]


def receipts_in(store: Store, workspaces: Sequence[str], limit: int) -> list[Json]:
    """The receipts of these workspaces in the current log, latest first."""
    where, values = workspace_condition(workspaces)
    sql = (
        "SELECT line FROM receipts WHERE archive = '' AND session_id IN"  # noqa: S608
        f" (SELECT session_id FROM sessions WHERE {where}) ORDER BY seq DESC LIMIT ?"
    )
    return [json.loads(row[0]) for row in store.read(sql, (*values, limit))]


# ------------------------------------------------------------------ traces

UPSERT_TRACE = (
    "INSERT INTO traces(run_id, root, way, start, until, digest) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT(run_id, root, way, start) DO UPDATE SET until = excluded.until, digest = excluded.digest"
)
"""Updates the range that this process has written to the trace file; executed after each event."""


class TraceRange(NamedTuple):
    """The part of a run's trace file that one process wrote."""

    root: str
    way: str
    start: int
    until: int
    digest: str


def traces(store: Store, run_id: str) -> list[TraceRange]:
    """The parts of a run's trace, in the order of the file."""
    rows = store.read("SELECT root, way, start, until, digest FROM traces WHERE run_id = ? ORDER BY start", (run_id,))
    return [TraceRange(os.fsdecode(row[0]), os.fsdecode(row[1]), *row[2:]) for row in rows]


class Event(NamedTuple):
    """A row of the run's events."""

    event_type: str
    session_id: str
    timestamp: str
    payload: Json


def events(store: Store, run_id: str) -> list[Event]:
    """All events of a run, in order."""
    rows = store.read(
        "SELECT event_type, session_id, timestamp, detail FROM events"
        " WHERE json_valid(detail) AND json_extract(detail, '$.run_id') = ? ORDER BY id",
        (run_id,),
    )
    return [Event(row[0], row[1] or "", row[2], json.loads(row[3])) for row in rows]


def events_of_types(store: Store, run: Run, types: Sequence[str], limit: int) -> list[Event]:
    """The events of a run with one of these types, in order. Only the range of the run is searched."""
    first, last = event_range(store, run.run_id)
    rows = store.read(
        "SELECT event_type, session_id, timestamp, detail FROM events WHERE id > ? AND id <= ?"
        " AND event_type IN (SELECT value FROM json_each(?))"
        " AND json_valid(detail) AND json_extract(detail, '$.run_id') = ? ORDER BY id LIMIT ?",
        (first, last, json.dumps(list(types)), run.run_id, limit),
    )
    return [Event(row[0], row[1] or "", row[2], json.loads(row[3])) for row in rows]


def has_unplayed_steps(store: Store, run: Run) -> bool:
    """Whether a run failed only because its scripted model had steps left."""
    failed = events_of_types(store, run, ("run_failed",), 10_000) if run.outcome == "error" else []
    return bool(failed) and failed[-1].payload["reason"] == "unplayed"


def event_range(store: Store, run_id: str) -> tuple[int, int]:
    """The id of the last event before a run, and an id after its last event."""
    (row,) = store.read("SELECT began_json, finished_at FROM runs WHERE run_id = ?", (run_id,))
    first = json.loads(row[0])["events"] if row[0] else 0
    return first, _last_event_until(store, first, row[1])


def _last_event_until(store: Store, first: int, finished_at: str | None) -> int:
    """An id after all events up to a minute after a run, by binary search: ids are nearly in the order of time."""
    (row,) = store.read("SELECT coalesce(max(id), 0) FROM events")
    low, high = first, int(row[0])
    if finished_at is None:
        return high
    while low < high:
        middle = (low + high) // 2
        rows = store.read(
            "SELECT timestamp > datetime(?, '+60 seconds') FROM events WHERE id > ? ORDER BY id LIMIT 1",
            (finished_at, middle),
        )
        low, high = (low, middle) if rows and rows[0][0] else (middle + 1, high)
    return high


def _run(store: Store, row: sqlite3.Row) -> Run:
    fields = list(row)
    fields[10] = parse_row(fields[10] or "{}", f"runs row {row[0]}")
    works = row["outcome"] is None and run_in_session(store.path, row["session_id"]) == row["run_id"]
    status = row["outcome"] or ("running" if works else "interrupted")
    return Run._make([*fields, status])
