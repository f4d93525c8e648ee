"""Mixed versions of AdderClaw in one fleet: a worker never opens a state whose store is newer than it knows."""

from typing import Any

from adderclaw import __version__
from adderclaw.core.errors import UsageError
from adderclaw.fleet import queue
from adderclaw.fleet.database import MIGRATIONS, Cursor, Database
from adderclaw.storage.migrations import MIGRATIONS as STEPS

SCHEMA = 1 + len(STEPS)
"""The version of this program's store. Migrations are only ever added, so a larger number is newer."""
WAITS = "it waits for a worker of AdderClaw {version} (store {schema}) or newer"


def require_tables(database: Database) -> None:
    """Refuses a database that lacks migrations of this program. A newer database is fine."""
    known = {row.name for row in database.rows("SELECT name FROM fleet.migrations")}
    if missing := [name for name in MIGRATIONS if name not in known]:
        fix = "run `adderclaw fleet init` again with the same address; workers can keep running meanwhile"
        raise UsageError(f"the fleet's tables are older than this program (no {missing[0]}): {fix}")


def hold(database: Database, run: Any) -> bool:
    """Takes a run whose state this program cannot open out of the queue, with the version that it waits for."""
    reason = WAITS.format(version=run.version, schema=run.schema)
    held = database.one(
        "UPDATE fleet.runs SET state = 'held', reason = %s WHERE id = %s AND state = 'queued' AND schema > %s"
        " RETURNING id",
        reason,
        run.id,
        SCHEMA,
    )
    return held is not None


def release(database: Database, labels: list[str], room: int) -> int:
    """Queues at most `room` runs again that wait for a worker of this version. Returns their number."""

    def work(cursor: Cursor) -> int:
        rows = cursor.execute(
            "SELECT * FROM fleet.runs WHERE state = 'held' AND stopped_by IS NULL AND saved IS NOT NULL"
            " AND schema BETWEEN 1 AND %s AND label = ANY(%s) ORDER BY number LIMIT %s FOR UPDATE SKIP LOCKED",
            (SCHEMA, labels, room),
        ).fetchall()
        for run in rows:
            queue.again(cursor, run)
        return len(rows)

    return database.do(work) if room > 0 else 0


def schema_and_version() -> tuple[int, str]:
    """The versions that are recorded with a state."""
    return SCHEMA, __version__
