"""Stops runs on every worker by rows that workers poll, announced by NOTIFY. A stop lasts until it is cleared."""

from typing import Any

from psycopg import Connection

from adderclaw.core.errors import UsageError
from adderclaw.core.record import NamedTuple
from adderclaw.fleet import queue
from adderclaw.fleet.database import Cursor, Database, notify


class Stop(NamedTuple):
    id: int
    scope: str
    """fleet, label or run."""
    name: str
    reason: str

    def holds(self, run: str, label: str) -> bool:
        return self.scope == "fleet" or self.name == (label if self.scope == "label" else run)

    @property
    def said(self) -> str:
        of = {"fleet": "", "label": f" for the label {self.name}", "run": " for this run"}[self.scope]
        return f"the fleet was stopped{of}" + (f": {self.reason}" if self.reason else "")


ACTIVE = "SELECT id, scope, name, reason FROM fleet.controls WHERE cleared IS NULL ORDER BY id"


def active(database: Database) -> list[Stop]:
    return [Stop(*row) for row in database.rows(ACTIVE)]


def active_on(connection: Connection[Any]) -> list[Stop]:
    """The active stops, read on the connection that listens for notifications."""
    return [Stop(*row) for row in connection.execute(ACTIVE).fetchall()]


def heard(database: Database, stop: Stop, worker: str, runs: int) -> None:
    """Records that a worker received a stop and passed it to so many runs."""
    database.run(
        "INSERT INTO fleet.heard AS h (control, worker, runs) VALUES (%s, %s, %s)"
        " ON CONFLICT (control, worker) DO UPDATE SET runs = h.runs + excluded.runs, ended = NULL",
        stop.id,
        worker,
        runs,
    )


def record_ended(database: Database, stop: Stop, worker: str) -> None:
    """Records that the processes of the stopped runs have ended."""
    database.run("UPDATE fleet.heard SET ended = clock_timestamp() WHERE control = %s AND worker = %s", stop.id, worker)


class StopReceipt(NamedTuple):
    """When a worker received and completed a stop, in seconds since it was set, by PostgreSQL's clock."""

    worker: str
    heard: float | None
    """None: not received yet."""
    ended: float | None
    """When the processes of the stopped runs had ended."""
    runs: int


def stop_receipts(database: Database, control: int) -> list[StopReceipt]:
    """The receipts of all workers that were active within the last minute."""
    rows = database.rows(
        "SELECT w.id, extract(epoch FROM h.heard - c.at)::float8 AS heard,"
        " extract(epoch FROM h.ended - c.at)::float8 AS ended,"
        " coalesce(h.runs, 0) AS runs FROM fleet.controls c CROSS JOIN fleet.workers w LEFT JOIN fleet.heard h"
        " ON h.control = c.id AND h.worker = w.id WHERE c.id = %s"
        " AND (h.worker IS NOT NULL OR (w.ended IS NULL AND w.seen > now() - interval '1 minute')) ORDER BY w.id",
        control,
    )
    return [StopReceipt(*row) for row in rows]


def stop(database: Database, scope: str, name: str, reason: str, by: str) -> int:
    """Sets a stop and returns its id."""

    def work(cursor: Cursor) -> int:
        if scope == "run" and cursor.execute("SELECT 1 FROM fleet.runs WHERE id = %s", (name,)).fetchone() is None:
            raise UsageError(f"there is no run {name!r}; `adderclaw fleet list` lists them")
        row = cursor.execute(
            "INSERT INTO fleet.controls (scope, name, reason, by) VALUES (%s, %s, %s, %s) RETURNING id",
            (scope, name, reason, by),
        ).fetchone()
        assert row is not None
        notify(cursor, "stop")
        return int(row.id)

    return database.do(work)


def resume(database: Database, scope: str, name: str) -> int:
    """Clears the stops of this scope and queues the runs again that they ended or held. Returns their number."""

    def work(cursor: Cursor) -> int:
        cleared = cursor.execute(
            "UPDATE fleet.controls SET cleared = now() WHERE cleared IS NULL AND scope = %s AND name = %s RETURNING id",
            (scope, name),
        ).fetchall()
        runs = cursor.execute(
            "SELECT * FROM fleet.runs WHERE stopped_by = ANY(%s) AND state IN ('held', 'ended') ORDER BY number"
            " FOR UPDATE",
            ([row.id for row in cleared],),
        ).fetchall()
        notify(cursor, "resume")
        return _requeue(cursor, runs)

    return database.do(work)


def resume_cleared(database: Database) -> int:
    """Queues runs again that a worker held or ended after their stop was cleared. Returns their number."""

    def work(cursor: Cursor) -> int:
        runs = cursor.execute(
            "SELECT r.* FROM fleet.runs AS r JOIN fleet.controls AS c ON c.id = r.stopped_by AND c.cleared IS NOT NULL"
            " WHERE r.state IN ('held', 'ended') ORDER BY r.number FOR UPDATE OF r SKIP LOCKED"
        ).fetchall()
        return _requeue(cursor, runs)

    return database.do(work)


def _requeue(cursor: Cursor, runs: list[Any]) -> int:
    """Queues runs again, except pruned ones and those whose dedupe key another run has now."""
    count = 0
    for run in runs:
        if run.state == "ended" and (run.pruned is not None or queue.has_key(cursor, run) is not None):
            cursor.execute("UPDATE fleet.runs SET stopped_by = NULL WHERE id = %s", (run.id,))
            continue
        queue.again(cursor, run)
        count += 1
    return count
