"""Schedules as rows: what starts when, until which time each was processed, and the result of every due time.

The row of a schedule has an HMAC over its content, so that a program that can only write to the database cannot
schedule anything.
"""

import hashlib
import hmac
import json
import os
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from adderclaw.core.errors import StoreError, UsageError
from adderclaw.core.json_text import canonical
from adderclaw.core.record import NamedTuple
from adderclaw.core.suggestions import did_you_mean
from adderclaw.core.types import Json
from adderclaw.storage import Store, locks
from adderclaw.storage.text import compact, iso, parse_row, plain

MAX_SCHEDULES = 500
"""Most schedules of one database."""
HISTORY_ROWS = 1_000
"""Most rows of history per schedule; older ones are deleted."""
ANSWERS = "answers"
"""The schedule id in rows that record the resumption of a run after an answer."""
LONGEST_PERIOD = 32 * 86_400.0
"""Seconds before a row with budget may be deleted: longer than any month, so that monthly budgets stay correct."""

type State = Literal["queued", "claimed", "running", "ended", "skipped", "missed", "held", "failed", "interrupted"]
"""queued: starts as soon as the run before it has ended. claimed: a process is about to start it. running: its run is
in progress. ended: its run has an outcome. interrupted: the process of its run was killed, and no schedule resumes it.
The others have no run: skipped (another run is in progress, or the budget is used up), missed (nothing ticked), held
(the pinned file has changed), failed (the run could not start)."""

OPEN = ("queued", "claimed", "running")


class Schedule(NamedTuple):
    id: str
    name: str
    workspace: str
    when: Json
    """`flows.schedules.when.When` as JSON."""
    what: Json
    """`flows.request.RunRequest` as JSON."""
    terms: Json
    """`flows.schedules.terms.Terms` as JSON: missed runs, overlap, budget."""
    pin: str
    """Digest of the file that the schedule runs, taken when it was added or approved; empty: the file may change."""
    created_at: str
    created_by: str
    mac: str
    paused_at: str | None = None
    until: float = 0.0
    """Every due time up to this one was processed."""
    next_at: float | None = None
    """The next due time; None if the schedule does not depend on the clock."""

    def is_genuine(self, key: bytes) -> bool:
        """Whether the operator's key signed the schedule with its current content."""
        return hmac.compare_digest(_mac(key, self), self.mac)


class ScheduleRun(NamedTuple):
    """A due time and its result."""

    id: int
    schedule_id: str
    due: str
    """ISO 8601 for a time; otherwise a unique key: `hand-…`, `changed-…`, `delivery-…`."""
    cause: str
    """time, hand, changed, webhook."""
    state: State
    reason: str
    inputs: Json
    ticker: str
    reserved: float
    """US dollars of the schedule's budget that its run may use."""
    run_id: str | None
    outcome: str | None
    cost: float | None
    claimed_at: float
    ended_at: float | None
    begins: int
    """How many times the run was started."""


_SELECT = (
    "SELECT id, name, workspace, when_json, what_json, terms_json, pin, created_at, created_by, mac, paused_at, until,"
    " next_at FROM schedules"
)
_SELECT_RUNS = (
    "SELECT id, schedule_id, due, cause, state, reason, inputs_json, ticker, reserved, run_id, outcome, cost,"
    " claimed_at, ended_at, begins FROM schedule_runs"
)


# ------------------------------------------------------------------ schedules


def sign(schedule: Schedule, key: bytes) -> Schedule:
    return schedule._replace(mac=_mac(key, schedule))


def fresh_id() -> str:
    return f"schedule-{os.urandom(6).hex()}"


def add(store: Store, schedule: Schedule) -> None:
    """Store a new, signed schedule."""
    with store.write() as cursor:
        names = [str(row[0]) for row in cursor.execute("SELECT name FROM schedules")]
        if schedule.name in names:
            fix = "choose another name, or remove that one first"
            raise UsageError(f"there is a schedule {schedule.name!r} already: {fix}")
        if len(names) >= MAX_SCHEDULES:
            raise UsageError(f"there are {MAX_SCHEDULES} schedules already: remove one first")
        cursor.execute(
            "INSERT INTO schedules(id, name, workspace, when_json, what_json, terms_json, pin, created_at, created_by,"
            " mac, until, next_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*_columns(schedule), schedule.until, schedule.next_at),
        )


def _columns(schedule: Schedule) -> tuple[Any, ...]:
    texts = (compact(schedule.when), compact(schedule.what), compact(schedule.terms))
    return (
        schedule.id,
        schedule.name,
        plain(schedule.workspace),
        *texts,
        schedule.pin,
        schedule.created_at,
        schedule.created_by,
        schedule.mac,
    )


def approve(store: Store, schedule: Schedule) -> None:
    """Store the new pin of a schedule with its signature."""
    with store.write() as cursor:
        sql = "UPDATE schedules SET pin = ?, mac = ? WHERE id = ?"
        cursor.execute(sql, (schedule.pin, schedule.mac, schedule.id))


def remove(store: Store, schedule: Schedule) -> None:
    """Delete a schedule with its history. Its runs stay in the `runs` table."""
    with store.write() as cursor:
        cursor.execute("DELETE FROM schedule_runs WHERE schedule_id = ?", (schedule.id,))
        cursor.execute("DELETE FROM schedules WHERE id = ?", (schedule.id,))


def pause(store: Store, schedule: Schedule, now: float | None) -> None:
    """Pause a schedule, or resume it if `now` is None: times that came due meanwhile count as missed runs."""
    with store.write() as cursor:
        if now is None:
            cursor.execute("UPDATE schedules SET paused_at = NULL WHERE id = ?", (schedule.id,))
        else:
            sql = "UPDATE schedules SET paused_at = coalesce(paused_at, ?) WHERE id = ?"
            cursor.execute(sql, (iso(now), schedule.id))


def listing(store: Store) -> list[Schedule]:
    return [_schedule(row) for row in store.read(f"{_SELECT} ORDER BY name")]


def get(store: Store, name: str) -> Schedule:
    """The schedule with this name or id; raises UsageError."""
    rows = store.read(f"{_SELECT} WHERE name = ? OR id = ?", (plain(name), plain(name)))
    if not rows:
        hint = did_you_mean(name, [schedule.name for schedule in listing(store)])
        raise UsageError(f"there is no schedule {name[:100]!r}{hint or '; `adderclaw schedule list` lists them'}")
    return _schedule(rows[0])


def by_id(store: Store, id: str) -> Schedule | None:
    """The schedule with this id, or None if it was removed."""
    rows = store.read(f"{_SELECT} WHERE id = ?", (id,))
    return _schedule(rows[0]) if rows else None


def is_any(store: Store) -> bool:
    return bool(store.read("SELECT 1 FROM schedules LIMIT 1"))


def possibly_due(store: Store, now: float) -> list[Schedule]:
    """Schedules that may be due: not paused, and the next time has come, the clock went back, or they watch files."""
    watches = "iif(json_valid(when_json), when_json ->> '$.kind', '') = 'changed'"
    where = f"paused_at IS NULL AND (next_at <= :now OR until > :now OR {watches})"
    return [_schedule(row) for row in store.read(f"{_SELECT} WHERE {where} ORDER BY next_at, name", {"now": now})]


def next_time(store: Store) -> float | None:
    rows = store.read("SELECT min(next_at) FROM schedules WHERE paused_at IS NULL")
    return rows[0][0] if rows else None


def advance(cursor: sqlite3.Cursor, schedule: Schedule, until: float, next_at: float | None) -> bool:
    """Store until when a schedule was processed; False if another process has done so since the row was read."""
    sql = "UPDATE schedules SET until = ?, next_at = ? WHERE id = ? AND until = ? AND paused_at IS NULL"
    return cursor.execute(sql, (until, next_at, schedule.id, schedule.until)).rowcount == 1


def seen_files(store: Store, schedule_id: str) -> Json:
    """The last recorded state of the files that a schedule watches."""
    rows = store.read("SELECT seen_json FROM schedules WHERE id = ?", (schedule_id,))
    return parse_row(rows[0][0], f"schedules row {schedule_id}") if rows and rows[0][0] else {}


def record_seen_files(cursor: sqlite3.Cursor, schedule_id: str, state: Json, before: Json | None = None) -> bool:
    """Record the state of the watched files; with `before`, only if that is the recorded state."""
    sql, values = "UPDATE schedules SET seen_json = ? WHERE id = ?", [compact(state), schedule_id]
    if before is not None:
        sql, values = f"{sql} AND coalesce(seen_json, '') = ?", [*values, compact(before) if before else ""]
    return cursor.execute(sql, values).rowcount == 1


def _schedule(row: sqlite3.Row) -> Schedule:
    """Read a row. With damaged JSON its signature does not match, so it starts nothing."""
    fields = list(row)
    for index, otherwise in ((3, {"kind": "webhook", "zone": "UTC"}), (4, {}), (5, {})):
        try:
            fields[index] = parse_row(fields[index], f"schedules row {row[0]}")
        except StoreError:
            fields[index] = otherwise
    return Schedule._make(fields)


def _mac(key: bytes, schedule: Schedule) -> str:
    signed_fields = [
        schedule.id,
        schedule.name,
        schedule.workspace,
        schedule.when,
        schedule.what,
        schedule.terms,
        schedule.pin,
        schedule.created_at,
        schedule.created_by,
    ]
    text = canonical(["schedule", *signed_fields])
    return hmac.new(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


# ------------------------------------------------------------------ history


def claim(
    cursor: sqlite3.Cursor,
    schedule_id: str,
    due: str,
    *,
    cause: str,
    state: State,
    now: float,
    ticker: str = "",
    reason: str = "",
    inputs: Json | None = None,
    reserved: float = 0.0,
    begins: int = 0,
) -> int | None:
    """Create the row of a due time; None if it exists already, so that nothing starts twice."""
    done = now if state not in OPEN else None
    inserted = cursor.execute(
        "INSERT INTO schedule_runs(schedule_id, due, cause, state, reason, inputs_json, ticker, reserved, claimed_at,"
        " ended_at, begins) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT(schedule_id, due) DO NOTHING",
        (schedule_id, due, cause, state, plain(reason), compact(inputs or {}), ticker, reserved, now, done, begins),
    )
    if inserted.rowcount != 1:
        return None
    id = inserted.lastrowid
    cursor.execute(
        "DELETE FROM schedule_runs WHERE schedule_id = ? AND id <= ? AND state NOT IN ('queued', 'claimed', 'running')"
        " AND NOT (reserved > 0 AND run_id IS NOT NULL AND claimed_at > ?)",
        (schedule_id, _oldest_kept_id(cursor, schedule_id), now - LONGEST_PERIOD),
    )
    return id


def free_due_key(cursor: sqlite3.Cursor, schedule_id: str, due: str) -> None:
    """Rename the due key of a row that started no run, so that the same request can be claimed again."""
    cursor.execute(
        "UPDATE schedule_runs SET due = due || ' ' || id WHERE schedule_id = ? AND due = ? AND run_id IS NULL"
        " AND state IN ('skipped', 'held', 'failed')",
        (schedule_id, due),
    )


def answer_key(run_id: str, approval_id: str) -> str:
    """The due key in the row of an answer."""
    return f"{run_id}-{approval_id}"


def failed_answer_reason(store: Store, run_id: str, approval_id: str) -> str:
    """Why a run could not be resumed after an answer; empty if it was resumed or nothing tried to."""
    rows = store.read(
        "SELECT reason FROM schedule_runs WHERE schedule_id = ? AND due = ? AND state = 'failed'",
        (ANSWERS, answer_key(run_id, approval_id)),
    )
    return str(rows[0][0]) if rows else ""


def delete_claim(store: Store, id: int) -> None:
    """Delete a claim that was not used, so that the next tick can claim the same due time."""
    with store.write() as cursor:
        cursor.execute("DELETE FROM schedule_runs WHERE id = ?", (id,))


def _oldest_kept_id(cursor: sqlite3.Cursor, schedule_id: str) -> int:
    sql = "SELECT id FROM schedule_runs WHERE schedule_id = ? ORDER BY id DESC LIMIT 1 OFFSET ?"
    row = cursor.execute(sql, (schedule_id, HISTORY_ROWS)).fetchone()
    return row[0] if row else 0


def claim_queued(cursor: sqlite3.Cursor, id: int, *, ticker: str, now: float, reserved: float) -> bool:
    """Claim a queued row that is about to start; False if another process claimed it first."""
    sql = "UPDATE schedule_runs SET state = 'claimed', ticker = ?, claimed_at = ?, reserved = ?, reason = ''"
    return cursor.execute(f"{sql} WHERE id = ? AND state = 'queued'", (ticker, now, reserved, id)).rowcount == 1


def record_start(cursor: sqlite3.Cursor, id: int, ticker: str, run_id: str) -> bool:
    """Record a start in the transaction that writes the run's row; False if another process has taken over the row."""
    sql = "UPDATE schedule_runs SET state = 'running', run_id = ?, begins = begins + 1 WHERE id = ? AND ticker = ?"
    return cursor.execute(f"{sql} AND state IN ('claimed', 'running')", (run_id, id, ticker)).rowcount == 1


def release(store: Store, id: int, ticker: str, reason: str) -> None:
    """Release a row whose run could not start or resume yet, so that the next tick tries again."""
    with store.write() as cursor:
        cursor.execute(
            "UPDATE schedule_runs SET state = iif(run_id IS NULL, 'queued', state), ticker = '', reason = ?,"
            " reserved = iif(run_id IS NULL, 0, reserved) WHERE id = ? AND ticker = ? AND ended_at IS NULL",
            (plain(reason), id, ticker),
        )


def take_over(store: Store, row: ScheduleRun, ticker: str) -> bool:
    """Take responsibility for a row whose process is gone; False if another process was first."""
    sql = "UPDATE schedule_runs SET ticker = ? WHERE id = ? AND ticker = ? AND state = ?"
    with store.write() as cursor:
        return cursor.execute(sql, (ticker, row.id, row.ticker, row.state)).rowcount == 1


def requeue_interrupted(store: Store, row: ScheduleRun, now: float, reason: str) -> None:
    """Queue a due time whose run was interrupted again, as a new row."""
    cost = cost_of(store, row.run_id or "")
    with store.write() as cursor:
        sql = (
            "UPDATE schedule_runs SET due = due || ' ' || id, state = 'interrupted', cost = ?, reason = ?, ended_at = ?"
        )
        values = (cost, plain(reason), now, row.id)
        if not cursor.execute(f"{sql} WHERE id = ? AND ended_at IS NULL", values).rowcount:
            return
        claim(
            cursor,
            row.schedule_id,
            row.due,
            cause=row.cause,
            state="queued",
            now=now,
            reason="the run before was interrupted",
            inputs=row.inputs,
            begins=row.begins,
        )


def settle(
    store: Store,
    id: int,
    state: State,
    now: float,
    *,
    outcome: str | None = None,
    cost: float | None = None,
    reason: str = "",
    run_id: str | None = None,
) -> None:
    """Store the result of a row; later calls change nothing."""
    with store.write() as cursor:
        cursor.execute(
            "UPDATE schedule_runs SET state = ?, outcome = ?, cost = ?, reason = ?, ended_at = ?,"
            " run_id = coalesce(run_id, ?) WHERE id = ? AND ended_at IS NULL",
            (state, outcome, cost, plain(reason), now, run_id, id),
        )


def open_rows(store: Store, schedule_id: str = "") -> list[ScheduleRun]:
    """Queued, claimed and running rows, oldest first."""
    where, values = ("AND schedule_id = ?", (schedule_id,)) if schedule_id else ("", ())
    few = "INDEXED BY idx_schedule_runs_open"  # each tick runs this, so it must not scan the whole history
    sql = f"{_SELECT_RUNS} {few} WHERE state IN ('queued', 'claimed', 'running') {where} ORDER BY id"
    return [_schedule_run(row) for row in store.read(sql, values)]


def open_states(cursor: sqlite3.Cursor, schedule_id: str) -> list[str]:
    sql = "SELECT state FROM schedule_runs WHERE schedule_id = ? AND state IN ('queued', 'claimed', 'running')"
    return [str(row[0]) for row in cursor.execute(sql, (schedule_id,))]


def history(store: Store, schedule_ids: Iterable[str], limit: int, before: int = 0) -> list[ScheduleRun]:
    """Latest first, with the current state: a run may have continued since, or its process may be dead."""
    marks: Sequence[str] = tuple(schedule_ids)
    where = f"WHERE schedule_id IN ({', '.join('?' * len(marks))}) {'AND id < ?' if before else ''}"
    sql = f"{_SELECT_RUNS} {where} ORDER BY id DESC LIMIT ?"
    rows = [_schedule_run(row) for row in store.read(sql, (*marks, *((before,) if before else ()), limit))]
    return [_current_state(store, row) for row in rows]


def _current_state(store: Store, row: ScheduleRun) -> ScheduleRun:
    if row.state in ("claimed", "running"):
        if locks.run_in_session(store.path, row.ticker):
            return row
        if row.run_id is None:
            return row._replace(state="queued", reason="the process that was about to begin it was killed")
        row = row._replace(state="interrupted", reason="the process that it ran in was killed")
    if row.run_id is None or row.outcome not in ("needs_input", None):
        return row
    run_rows = store.read("SELECT outcome, cost, reason FROM runs WHERE run_id = ?", (row.run_id,))
    if not run_rows or run_rows[0][0] in (None, row.outcome):
        return row
    return row._replace(outcome=run_rows[0][0], cost=run_rows[0][1], reason=run_rows[0][2] or "", state="ended")


def find_run(store: Store, id: int) -> ScheduleRun | None:
    """The row with this id, or None if its schedule was removed meanwhile."""
    rows = store.read(f"{_SELECT_RUNS} WHERE id = ?", (id,))
    return _schedule_run(rows[0]) if rows else None


def require_run(store: Store, id: int) -> ScheduleRun:
    row = find_run(store, id)
    if row is None:
        raise UsageError("the schedule was removed meanwhile")
    return row


def last_row_of_run(store: Store, run_id: str) -> ScheduleRun | None:
    """The latest row of a run."""
    rows = store.read(f"{_SELECT_RUNS} WHERE run_id = ? ORDER BY id DESC LIMIT 1", (run_id,))
    return _schedule_run(rows[0]) if rows else None


def first_row_of_run(store: Store, run_id: str) -> ScheduleRun | None:
    """The row that started a run, even if the run was resumed since."""
    rows = store.read(f"{_SELECT_RUNS} WHERE run_id = ? ORDER BY id LIMIT 1", (run_id,))
    return _schedule_run(rows[0]) if rows else None


def schedule_of_run(store: Store, run_id: str) -> Schedule | None:
    """The schedule that started a run; None if no schedule did."""
    sql = f"{_SELECT} WHERE id = (SELECT schedule_id FROM schedule_runs WHERE run_id = ? ORDER BY id LIMIT 1)"  # noqa: S608
    rows = store.read(sql, (run_id,))
    return _schedule(rows[0]) if rows else None


def cost_of(store: Store, run_id: str) -> float | None:
    """The cost of a run in US dollars so far, whether or not it has ended."""
    rows = store.read(
        "SELECT coalesce((SELECT cost FROM runs WHERE run_id = :run),"
        " (SELECT sum(cost) FROM model_calls WHERE run_id = :run))",
        {"run": run_id},
    )
    return rows[0][0]


def budget_used(cursor: sqlite3.Cursor, schedule_id: str, since: float) -> float:
    """US dollars of a schedule's runs since a time: what they cost, or may still cost.

    An interrupted run with an unknown cost counts with its whole reservation.
    """
    (total,) = cursor.execute(
        "SELECT coalesce(sum(CASE WHEN s.state IN ('claimed', 'running') THEN max(s.reserved, coalesce(s.cost, 0))"
        " WHEN s.run_id IS NULL THEN 0 ELSE coalesce(r.cost, s.cost, s.reserved) END), 0)"
        " FROM schedule_runs s LEFT JOIN runs r ON r.run_id = s.run_id"
        " WHERE s.schedule_id = ? AND s.claimed_at >= ?",
        (schedule_id, since),
    ).fetchone()
    return float(total)


def _schedule_run(row: sqlite3.Row) -> ScheduleRun:
    fields = list(row)
    fields[6] = json.loads(fields[6] or "{}")
    return ScheduleRun._make(fields)


# ------------------------------------------------------------------ who ticks


def note_tick(store: Store, ticker: Literal["server", "command"], now: float) -> None:
    with store.write() as cursor:
        cursor.execute(
            "INSERT INTO schedule_ticks(ticker, at) VALUES (?, ?) ON CONFLICT(ticker) DO UPDATE SET at = excluded.at",
            (ticker, now),
        )


def last_tick(store: Store) -> float | None:
    return store.read("SELECT max(at) FROM schedule_ticks")[0][0]
