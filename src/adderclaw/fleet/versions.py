"""Two versions of AdderClaw in one fleet: a state is opened by who knows its store, and never by one that is older."""

from typing import Any

from adderclaw import __version__
from adderclaw.core.errors import UsageError
from adderclaw.fleet import queue
from adderclaw.fleet.database import MIGRATIONS, Cursor, Database
from adderclaw.storage.migrations import MIGRATIONS as STEPS

SCHEMA = 1 + len(STEPS)
"""Of this program's store: migrations are only ever added, so that a larger number is a later one."""
WAITS = "it waits for a worker of AdderClaw {version} (store {schema}) or newer"


def require_tables(database: Database) -> None:
    """Refuse to work with a database that lacks what this program writes; a newer one has it all."""
    known = {row.name for row in database.rows("SELECT name FROM fleet.migrations")}
    if missing := [name for name in MIGRATIONS if name not in known]:
        fix = "run `adderclaw fleet init` again with the same address; workers can keep running meanwhile"
        raise UsageError(f"the fleet's tables are older than this program (no {missing[0]}): {fix}")


def hold(database: Database, run: Any) -> bool:
    """A run whose state this program cannot open leaves the queue, and says for whom it waits."""
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
    """Queue again what waits for a worker such as this one, as many as it can take; how many."""

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
    """What a state of this program is marked with."""
    return SCHEMA, __version__
