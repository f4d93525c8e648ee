"""Which worker holds a run: claims, expiring leases, and the fencing token that every write requires."""

from typing import Any

from adderclaw.core.errors import AdderClawError
from adderclaw.core.record import NamedTuple
from adderclaw.fleet import requests, states
from adderclaw.fleet.database import Cursor, Database

STRIKES = 3
"""Starts after which a run is set aside if its process or worker died each time while working on the same unit."""
STARTS = 10
"""The same for workers that died before the work started, for example while filling the folder."""
LEAP = 1000
"""The most turns that the clock advances with one claim, because rows are untrusted and may have any turn."""
POISON = "set aside: {strikes} starts ended without finishing a unit; find the cause, then `fleet retry {id}`"

_WORKED = (
    "(EXISTS (SELECT 1 FROM fleet.reservations AS v WHERE v.run = r.id AND v.token = r.token AND v.begun > coalesce("
    "(SELECT max(u.at) FROM fleet.units AS u WHERE u.run = r.id), '-infinity'))"
    " OR EXISTS (SELECT 1 FROM fleet.calls AS c WHERE c.run = r.id AND c.token = r.token AND c.begun > coalesce("
    "(SELECT max(u.at) FROM fleet.units AS u WHERE u.run = r.id), '-infinity')))"
)
"""SQL: whether the current holder of the run has called a model or a tool since the last finished unit."""


class Fenced(AdderClawError):
    """The run belongs to another worker now, so nothing more of this one is written."""


class Lease(NamedTuple):
    """A run that a worker holds."""

    run: str
    token: int
    worker: str


def claim(
    database: Database, run: str, worker: str, seconds: float, token: int = 0, *, local_repos: bool = False
) -> Any:
    """Claims a run that is free or held by the caller with `token`. Returns its row; None if another holds it.

    Raises `requests.Refused` for an invalid or unsigned request; then nothing is claimed.
    """

    def work(cursor: Cursor) -> Any:
        row = cursor.execute(
            "UPDATE fleet.runs SET token = token + 1, worker = %s, state = 'running', resume_due = false,"
            " lease_until = now() + make_interval(secs => %s), began = coalesce(began, now())"
            " WHERE id = %s AND (state = 'queued' OR (state = 'running' AND worker = %s AND token = %s)) RETURNING *,"
            " CASE WHEN isfinite(deadline) THEN extract(epoch FROM deadline - now())::float8 END AS seconds_left",
            (worker, seconds, run, worker, token),
        ).fetchone()
        if row is not None:
            requests.require_submitted(cursor, row, local=local_repos)
            states.require_signed(cursor, row)
            sql = "UPDATE fleet.clock SET tag = least(%s, tag + %s) WHERE tag < %s"
            cursor.execute(sql, (row.tag, LEAP, row.tag))
        return row

    return database.do(work)


def set_aside(row: Any) -> str | None:
    """Why a run is set aside; None if it is not."""
    strikes = row.strikes if row.strikes >= STRIKES else row.starts if row.starts >= STARTS else 0
    return POISON.format(strikes=strikes, id=row.id) if strikes else None


def require(cursor: Cursor, lease: Lease) -> Any:
    """The run's row, locked until the end of the transaction. Raises Fenced if the lease no longer holds."""
    row = cursor.execute(
        "SELECT id, token, worker, state, units, submitter, project FROM fleet.runs WHERE id = %s FOR UPDATE",
        (lease.run,),
    ).fetchone()
    if row is None or row.token != lease.token or row.worker != lease.worker or row.state != "running":
        holder = f"worker {row.worker} holds it" if row is not None and row.worker else "its lease ran out"
        raise Fenced(f"run {lease.run} no longer belongs to worker {lease.worker}: {holder}")
    return row


class Renewed(NamedTuple):
    kept: frozenset[str]
    """Runs whose lease was renewed."""
    lost: frozenset[str]
    """Runs that another worker holds. Those in neither set were locked and are renewed the next time."""
    draining: bool


def renew(database: Database, worker: str, held: list[Lease], seconds: float) -> Renewed:
    """Renews the leases of this worker. Locked rows are skipped, so they do not delay the others."""
    names, tokens = [lease.run for lease in held], [lease.token for lease in held]

    def work(cursor: Cursor) -> Renewed:
        sql = "UPDATE fleet.workers SET seen = now() WHERE id = %s RETURNING draining"
        me = cursor.execute(sql, (worker,)).fetchone()
        draining = me is not None and me.draining
        if not held:
            return Renewed(frozenset(), frozenset(), draining)
        rows = cursor.execute(
            "UPDATE fleet.runs SET lease_until = now() + make_interval(secs => %s) WHERE id IN ("
            "SELECT r.id FROM fleet.runs AS r JOIN unnest(%s::text[], %s::bigint[]) AS held(id, token)"
            " ON r.id = held.id AND r.token = held.token WHERE r.worker = %s AND r.state = 'running'"
            " FOR UPDATE OF r SKIP LOCKED) RETURNING id",
            (seconds, names, tokens, worker),
        )
        ours = frozenset(row.id for row in rows.fetchall())
        if len(ours) == len(held):
            return Renewed(ours, frozenset(), draining)
        now = cursor.execute("SELECT id, token, worker, state FROM fleet.runs WHERE id = ANY(%s)", (names,)).fetchall()
        still = {row.id for row in now if (row.id, row.token, row.worker) in set(held) and row.state == "running"}
        return Renewed(ours, frozenset(names) - still, draining)

    return database.do(work, patience=0.5)


def release(database: Database, lease: Lease) -> None:
    """Gives a run back without a strike. Another worker continues it from its last unit."""
    database.run(
        "UPDATE fleet.runs SET token = token + 1, state = 'queued', worker = NULL, lease_until = NULL,"
        " resume_due = true WHERE id = %s AND token = %s AND state = 'running'",
        lease.run,
        lease.token,
    )


def strike(database: Database, lease: Lease) -> None:
    """Counts a strike: the run's process died by itself."""
    database.run(
        "UPDATE fleet.runs SET strikes = strikes + 1 WHERE id = %s AND token = %s AND state = 'running'",
        lease.run,
        lease.token,
    )


def take_back_strike(database: Database, lease: Lease) -> None:
    """Removes a strike: the lease expired because the worker was slow, not because of the run."""
    database.run(
        f"UPDATE fleet.runs AS r SET strikes = greatest(0, strikes - 1) WHERE id = %s AND state <> 'ended' AND "  # noqa: S608
        f"{_WORKED.replace('r.token', '%s')}",
        lease.run,
        lease.token,
        lease.token,
    )


def reap(database: Database, seconds: float) -> list[Any]:
    """Takes runs with expired leases from their workers, with a new token. Returns the runs that are due to be resumed.

    An advisory lock ensures that one worker does this at a time. Locked rows wait for the next time. A worker that died
    while working on a run counts as a strike; one that only held it does not.
    """

    def work(cursor: Cursor) -> list[Any]:
        locked = cursor.execute("SELECT pg_try_advisory_xact_lock(hashtext('adderclaw fleet reaper'))").fetchone()
        if locked is None or not locked[0]:
            return []
        cursor.execute(
            "UPDATE fleet.runs AS r SET token = token + 1, state = 'queued', worker = NULL, lease_until = NULL,"  # noqa: S608
            f" resume_due = true, strikes = strikes + {_WORKED}::int, starts = starts + 1 - {_WORKED}::int"
            " WHERE id IN (SELECT id FROM fleet.runs WHERE state = 'running' AND lease_until < now()"
            " FOR UPDATE SKIP LOCKED)"
        )
        cursor.execute(  # a worker took them from the queue and died before it could claim them
            "UPDATE fleet.runs SET resume_due = true WHERE id IN (SELECT r.id FROM fleet.runs AS r,"
            " dbos.workflow_status AS w, fleet.workers AS d"
            " WHERE w.status = 'PENDING' AND d.id = w.executor_id AND d.seen < now() - make_interval(secs => %s)"
            " AND r.id = split_part(w.workflow_uuid, '.', 1) AND w.workflow_uuid = r.id || '.' || r.generation"
            " AND r.state = 'queued' AND NOT r.resume_due FOR UPDATE OF r SKIP LOCKED)",
            (seconds,),
        )
        cursor.execute(
            "UPDATE fleet.workers SET ended = seen WHERE ended IS NULL AND seen < now() - interval '5 minutes'"
        )
        return cursor.execute("SELECT id, generation, label, token FROM fleet.runs WHERE resume_due").fetchall()

    return database.do(work, patience=0.5)


def mark_due(database: Database, runs: list[str]) -> None:
    """Marks runs that came from the queue but never started here, so that a worker takes them again."""
    database.run("UPDATE fleet.runs SET resume_due = true WHERE id = ANY(%s) AND state = 'queued'", runs)
