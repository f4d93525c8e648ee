"""Removes events, calls and states of runs that ended long ago, while others work. Signed entries are never removed.

An object is removed if it is a day old and no remaining run refers to it. A worker that is about to refer to an older
object writes it again first (`objects.NEW_SECONDS`), so an object in use is never removed.
"""

from collections.abc import Iterator
from itertools import batched
from typing import Any

from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json
from adderclaw.fleet import trees
from adderclaw.fleet.database import Cursor, Database
from adderclaw.fleet.objects import Gone, Objects

BATCH = 500
"""Runs and objects per transaction."""

_OLD = "state = 'ended' AND pruned IS NULL AND finished < now() - make_interval(secs => %s)"


class Pruned(NamedTuple):
    runs: int
    calls: int
    events: int
    objects: int
    unreadable: tuple[str, ...]
    """Runs whose state or archive cannot be read."""


def prune(database: Database, objects: Objects, seconds: float, by: str, *, dry: bool = False) -> Pruned:
    """Removes the rows of runs that ended so long ago, then objects without references."""
    runs, calls, events = _counted(database, seconds) if dry else _rows(database, seconds)
    used, unreadable = _used(database, objects, seconds if dry else None)
    unused = objects.unused(lambda name: name in used)
    if dry:
        return Pruned(runs, calls, events, sum(1 for _ in unused), unreadable)
    gone = sum(objects.remove(some) for some in batched(unused, BATCH))
    database.run(
        "INSERT INTO fleet.prunings (by, older_than, runs, calls, events, objects)"
        " VALUES (%s, now() - make_interval(secs => %s), %s, %s, %s, %s)",
        *(by, seconds, runs, calls, events, gone),
    )
    return Pruned(runs, calls, events, gone, unreadable)


def _counted(database: Database, seconds: float) -> tuple[int, int, int]:
    row = database.one(
        f"WITH old AS (SELECT id FROM fleet.runs WHERE {_OLD})"  # noqa: S608 - constant
        " SELECT (SELECT count(*) FROM old) AS runs,"
        " (SELECT count(*) FROM fleet.calls WHERE run IN (SELECT id FROM old)) AS calls,"
        " (SELECT count(*) FROM fleet.events WHERE run IN (SELECT id FROM old)) AS events",
        seconds,
    )
    return row.runs, row.calls, row.events


def _rows(database: Database, seconds: float) -> tuple[int, int, int]:
    total = 0, 0, 0
    while (done := database.do(lambda cursor: _prune_batch(cursor, seconds)))[0]:
        total = total[0] + done[0], total[1] + done[1], total[2] + done[2]
    return total


def _prune_batch(cursor: Cursor, seconds: float) -> tuple[int, int, int]:
    """Removes one batch. Skips locked rows, such as runs that are just being queued again."""
    rows = cursor.execute(
        f"SELECT id, generation FROM fleet.runs WHERE {_OLD} ORDER BY finished LIMIT %s FOR UPDATE SKIP LOCKED",  # noqa: S608
        (seconds, BATCH),
    ).fetchall()
    ids = [row.id for row in rows]
    if not ids:
        return 0, 0, 0
    calls = _removed(cursor, "fleet.calls", ids)
    events = _removed(cursor, "fleet.events", ids)
    workflows = [f"{row.id}.{number}" for row in rows for number in range(1, row.generation + 1)]
    cursor.execute("DELETE FROM dbos.workflow_status WHERE workflow_uuid = ANY(%s)", (workflows,))
    cursor.execute("UPDATE fleet.runs SET pruned = now() WHERE id = ANY(%s)", (ids,))
    return len(ids), calls, events


def _removed(cursor: Cursor, table: str, ids: list[str]) -> int:
    sql = f"WITH gone AS (DELETE FROM {table} WHERE run = ANY(%s) RETURNING 1) SELECT count(*) AS n FROM gone"  # noqa: S608
    row: Any = cursor.execute(sql.encode(), (ids,)).fetchone()
    return int(row.n)


def _used(database: Database, objects: Objects, seconds: float | None) -> tuple[set[str], tuple[str, ...]]:
    """The objects that remaining runs continue from or started with, and the runs for which one cannot be read.

    For such a run, the states of all its units are kept as well. `seconds`: as after pruning with this age.
    """
    used, unreadable = set[str](), dict[str, str]()
    for run, name in _roots(database, seconds):
        if name not in used and (why := _read(objects, name, used)):
            unreadable[run] = why
    if unreadable and not used:
        why = next(iter(unreadable.values()))
        raise AdderClawError(f"no objects were removed: none can be read with this key: {why}")
    for row in database.rows("SELECT DISTINCT saved FROM fleet.units WHERE run = ANY(%s)", list(unreadable)):
        _read(objects, row.saved, used)
    return used, tuple(unreadable)


def _read(objects: Objects, name: str, used: set[str]) -> str:
    """Adds the objects of a state or archive; returns why it cannot be read. An unavailable store raises."""
    try:
        tree = trees.load(objects, name)
    except (Gone, UsageError) as error:
        return str(error)
    used.add(name)
    used.update(piece[0] for file in tree.files.values() for piece in file.pieces)
    return ""


def _roots(database: Database, seconds: float | None) -> Iterator[tuple[str, str]]:
    number, dry = 0, "" if seconds is None else f" AND NOT ({_OLD})"
    while True:
        rows = database.rows(
            f"SELECT id, number, saved, place->>'archive' AS archive FROM fleet.runs"  # noqa: S608 - constant
            f" WHERE number > %s AND pruned IS NULL{dry} ORDER BY number LIMIT {BATCH}",
            number,
            *(() if seconds is None else (seconds,)),
        )
        yield from ((row.id, name) for row in rows for name in (row.archive, row.saved) if name)
        if len(rows) < BATCH:
            return
        number = rows[-1].number


def last(database: Database) -> Json | None:
    """The time and the operator of the last pruning."""
    row = database.one("SELECT at, by FROM fleet.prunings ORDER BY id DESC LIMIT 1")
    return None if row is None else {"at": row.at.isoformat(timespec="seconds"), "by": row.by}
