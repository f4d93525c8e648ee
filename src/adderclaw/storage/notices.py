"""The outbox of notices: rows that wait, are claimed by one process at a time, and end as sent, failed or moot."""

import os
import sqlite3
from collections.abc import Collection, Sequence
from typing import Literal

from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json
from adderclaw.storage import Store, locks, runs
from adderclaw.storage.text import compact, parse_row, plain

type State = Literal["waiting", "sent", "failed", "moot"]

DAYS = 86_400.0
MAX_AGE = 3 * DAYS
"""Seconds after which an undelivered notice fails."""
KEEP_SECONDS = 30 * DAYS
"""Seconds that ended notices stay in the history."""
MAX_WAITING = 500
"""Most waiting notices per target. The oldest ones fail, so that an unreachable receiver does not fill the disk."""


class Row(NamedTuple):
    """One notice for one target."""

    id: str
    """Stays the same when the notice is sent again."""
    target: str
    kind: str
    about: str
    """The id of the question or event that the notice is about; may be empty."""
    run_id: str
    workspace: str
    """The full path of the folder; only its name is sent."""
    body: Json
    created_at: float
    due_at: float
    state: State
    attempts: int
    ended_at: float | None
    error: str
    """Why the last attempt failed."""


_SELECT = (
    "SELECT id, target, kind, about, run_id, workspace, body_json, created_at, due_at, state, attempts, ended_at,"
    " error, taken_by, taken_until FROM notices"
)
_NEXT = (
    "SELECT min(max(due_at, taken_until)) FROM notices WHERE state = 'waiting' AND (:target = '' OR target = :target)"
)
_DUE = "SELECT DISTINCT target FROM notices WHERE state = 'waiting' AND due_at <= ? ORDER BY target"
_TOO_MANY = (
    " WHERE rowid IN (SELECT rowid FROM (SELECT rowid, row_number() OVER"
    " (PARTITION BY target ORDER BY created_at DESC, rowid DESC) AS place FROM notices WHERE state = 'waiting')"
    " WHERE place > ?)"
)
_LAST = (
    " WHERE (:target = '' OR target = :target) AND (:state = '' OR state = :state)"
    " AND (:folders = '[]' OR workspace IN (SELECT value FROM json_each(:folders)))"
    " ORDER BY created_at DESC, rowid DESC LIMIT :limit"
)
_LEFT = (
    "SELECT run_id FROM runs WHERE outcome IS NULL AND kind NOT IN ('agent', 'repl', 'tool', 'mcp', 'acp')"
    " AND CAST(strftime('%s', started_at) AS REAL) >= max(?, (SELECT min(created_at) FROM notices) - 1)"
    " AND NOT EXISTS (SELECT 1 FROM notices WHERE notices.about = 'interrupted-' || runs.run_id) LIMIT 20"
)
_OF = " WHERE state = 'waiting' AND target IN (SELECT value FROM json_each(?))"


def _row(columns: Sequence[object]) -> Row:
    values = list(columns)[: len(Row._fields)]
    values[6] = parse_row(str(values[6]), f"the notice {values[0]}")
    return Row(*values)  # pyright: ignore[reportArgumentType]


def put(
    cursor: sqlite3.Cursor,
    *,
    id: str,
    target: str,
    kind: str,
    about: str,
    run_id: str,
    workspace: str,
    body: Json,
    now: float,
    due_at: float,
) -> None:
    """Store a notice; an existing one with the same id and target does not change."""
    cursor.execute(
        "INSERT OR IGNORE INTO notices(id, target, kind, about, run_id, workspace, body_json, created_at, due_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (plain(id), target, kind, plain(about), plain(run_id), plain(workspace), compact(body), now, due_at),
    )


def mark_moot(cursor: sqlite3.Cursor, about: str, now: float) -> None:
    """Cancel the waiting notices about a question that was answered."""
    cursor.execute(
        "UPDATE notices SET state = 'moot', ended_at = ? WHERE about = ? AND about != '' AND state = 'waiting'",
        (now, plain(about)),
    )


def unreported_runs(store: Store, now: float) -> list[runs.Run]:
    """Interrupted unattended runs without a notice, from the time since the first notice."""
    run_ids = store.read(_LEFT, (now - MAX_AGE,))
    rows = (runs.get(store, str(row[0])) for row in run_ids)
    return [row for row in rows if row is not None and row.status == "interrupted"]


def is_waiting(store: Store, targets: Collection[str]) -> bool:
    """Whether a notice, due or not, waits for one of these targets."""
    return bool(store.read(f"{_SELECT}{_OF} LIMIT 1", (compact([*targets]),)))


def next_due(store: Store, target: str = "") -> float | None:
    """When the next notice of this target, or of any, is due; None if no notice waits."""
    (due,) = store.read(_NEXT, {"target": target})
    return None if due[0] is None else float(due[0])


def targets_waiting(store: Store, until: float) -> list[str]:
    """The targets with a notice that is due by a time."""
    return [row[0] for row in store.read(_DUE, (until,))]


def claim_due(store: Store, target: str, now: float, seconds: float, *, early: float = 0.0) -> Row | None:
    """Claim the oldest notice that is due for a target, for `seconds`, so that no other process sends it meanwhile.

    `early`: a notice that was never tried may be claimed this many seconds before it is due.
    The claim of an ended process is void, so each notice is delivered at least once.
    """
    with store.write() as cursor:
        cursor.execute(
            f"{_SELECT} WHERE state = 'waiting' AND target = ? AND due_at <= ? + iif(attempts = 0, ?, 0)"
            " ORDER BY created_at, rowid LIMIT 50",
            (target, now, early),
        )
        for columns in cursor.fetchall():
            *_, by, until = columns
            if until > now and locks.is_alive(by):
                continue
            row = _row(columns)
            if row.kind == "needs_you" and _is_settled(cursor, row.about):
                _end(cursor, row, "moot", now, "")
                continue
            cursor.execute(
                "UPDATE notices SET taken_by = ?, taken_until = ?, attempts = attempts + 1 WHERE id = ? AND target = ?",
                (os.getpid(), now + seconds, row.id, row.target),
            )
            return row._replace(attempts=row.attempts + 1)
    return None


def _is_settled(cursor: sqlite3.Cursor, about: str) -> bool:
    answer = cursor.execute("SELECT answer FROM approvals WHERE id = ?", (about,)).fetchone()
    return answer is not None and answer[0] is not None


def mark_sent(store: Store, row: Row, now: float) -> None:
    with store.write() as cursor:
        _end(cursor, row._replace(attempts=max(row.attempts, 1)), "sent", now, "")


def mark_failed(store: Store, row: Row, now: float, error: str) -> None:
    """Give up a notice."""
    with store.write() as cursor:
        _end(cursor, row._replace(attempts=max(row.attempts, 1)), "failed", now, error)


def reschedule(store: Store, row: Row, due_at: float, error: str) -> None:
    """Store the error of a failed delivery and when to try again."""
    with store.write() as cursor:
        cursor.execute(
            "UPDATE notices SET due_at = ?, error = ?, taken_by = 0, taken_until = 0"
            " WHERE id = ? AND target = ? AND state = 'waiting'",
            (due_at, plain(error), row.id, row.target),
        )


def _end(cursor: sqlite3.Cursor, row: Row, state: State, now: float, error: str) -> None:
    cursor.execute(
        "UPDATE notices SET state = ?, ended_at = ?, error = ?, attempts = ?, taken_until = 0"
        " WHERE id = ? AND target = ?",
        (state, now, plain(error), row.attempts, row.id, row.target),
    )


def delete_old(store: Store, now: float) -> list[Row]:
    """Give up notices that are too old or too many, and delete old ended ones; returns those given up."""
    old = store.read(f"{_SELECT} WHERE state = 'waiting' AND created_at < ?", (now - MAX_AGE,))
    many = store.read(_SELECT + _TOO_MANY, (MAX_WAITING,))
    over = {(row.id, row.target): row for row in map(_row, [*old, *many])}
    gone = store.read("SELECT 1 FROM notices WHERE state != 'waiting' AND ended_at < ? LIMIT 1", (now - KEEP_SECONDS,))
    if over or gone:
        with store.write() as cursor:
            for row in over.values():
                _end(cursor, row, "failed", now, row.error or "it could not be delivered in time")
            cursor.execute("DELETE FROM notices WHERE state != 'waiting' AND ended_at < ?", (now - KEEP_SECONDS,))
    return list(over.values())


def history(store: Store, *, limit: int, target: str = "", state: str = "", folders: Sequence[str] = ()) -> list[Row]:
    """The latest notices, newest first; only of these folders, if any are given."""
    params = {"target": target, "state": state, "folders": compact([*folders]), "limit": limit}
    return [_row(row) for row in store.read(_SELECT + _LAST, params)]


def get(store: Store, id: str, target: str) -> Row | None:
    rows = store.read(f"{_SELECT} WHERE id = ? AND target = ?", (id, target))
    return _row(rows[0]) if rows else None


def waiting_counts(store: Store) -> dict[str, int]:
    """Target → number of waiting notices."""
    sql = "SELECT target, count(*) FROM notices WHERE state = 'waiting' GROUP BY target"
    return {str(row[0]): int(row[1]) for row in store.read(sql)}
