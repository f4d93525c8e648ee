"""Records calls, units and the end of a run that a worker holds, each in one transaction under its token."""

from typing import Any

from adderclaw.core.json_text import canonical
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json
from adderclaw.fleet import anchors, asking, budgets, queue, states, versions
from adderclaw.fleet.database import Cursor, Database, notify
from adderclaw.fleet.identities import Identity
from adderclaw.fleet.keys import Key
from adderclaw.fleet.leases import Lease, require

ANSWER = 20_000
"""Characters of an answer that are stored in the row; the state contains all of it."""


class Saved(NamedTuple):
    """A stored state."""

    name: str
    seq: int
    """The number of the last receipt in it."""
    head: str
    """The hash of that receipt."""


def begin(database: Database, lease: Lease, saved_call: int) -> list[Json]:
    """Starts an attempt. Calls that were started after the last state are lost, and their reservations spent."""

    def work(cursor: Cursor) -> list[Json]:
        require(cursor, lease)
        cursor.execute(
            "UPDATE fleet.calls SET lost = true WHERE run = %s AND token < %s AND id > %s AND NOT lost",
            (lease.run, lease.token, saved_call),
        )
        budgets.settle_lost(cursor, lease.run, lease.token)
        rows = cursor.execute(
            "SELECT tool, shown FROM fleet.calls WHERE run = %s AND id > %s AND lost ORDER BY id",
            (lease.run, saved_call),
        ).fetchall()
        return [{"tool": row.tool, "shown": row.shown} for row in rows]

    return database.do(work)


def calls_begin(database: Database, lease: Lease, calls: list[list[str]]) -> None:
    """Records the start of calls, whose outcome is unknown until they end."""

    def work(cursor: Cursor) -> None:
        require(cursor, lease)
        for call, tool, shown in calls:
            cursor.execute(
                "INSERT INTO fleet.calls (run, token, call, tool, shown) VALUES (%s, %s, %s, %s, %s)"
                " ON CONFLICT DO NOTHING",
                (lease.run, lease.token, call, tool, shown),
            )

    database.do(work)


def call_ended(database: Database, lease: Lease, call: str) -> None:
    database.run("UPDATE fleet.calls SET ended = now() WHERE run = %s AND token = %s AND call = %s", *lease[:2], call)


def keep_state(database: Database, lease: Lease, saved: Saved, identity: Identity) -> None:
    """Stores a state within a unit."""
    database.do(lambda cursor: _record_state(cursor, require(cursor, lease), saved, identity))


def keep_unit(database: Database, lease: Lease, position: str, saved: Saved, identity: Identity) -> int:
    """Stores a finished unit and returns its number."""

    def work(cursor: Cursor) -> int:
        run = require(cursor, lease)
        last = cursor.execute(
            "SELECT place, token, saved FROM fleet.units WHERE run = %s AND number = %s", (lease.run, run.units)
        ).fetchone()
        if last is not None and tuple(last) == (position, lease.token, saved.name):
            return int(run.units)  # already committed, but the reply was lost
        number = int(run.units) + 1
        cursor.execute(
            "INSERT INTO fleet.units (run, number, place, token, worker, saved) VALUES (%s, %s, %s, %s, %s, %s)",
            (lease.run, number, position, lease.token, lease.worker, saved.name),
        )
        cursor.execute("UPDATE fleet.runs SET units = %s, strikes = 0, starts = 0 WHERE id = %s", (number, lease.run))
        _record_state(cursor, run, saved, identity)
        anchors.append_anchor(cursor, identity, _entry(lease, "unit", saved, unit=number))
        return number

    return database.do(work)


def keep_end(database: Database, lease: Lease, report: Json, saved: Saved | None, identity: Identity) -> None:
    """Stores the outcome of a run, and queues the runs that wait for it."""

    def work(cursor: Cursor) -> None:
        run = require(cursor, lease)
        if saved is not None:
            _record_state(cursor, run, saved, identity)
        _end(cursor, run, report)
        sql = f"SELECT {anchors.TEXTS} FROM fleet.runs WHERE id = %s"  # noqa: S608 - constant
        texts = anchors.texts(cursor.execute(sql.encode(), (lease.run,)).fetchone())
        anchors.append_anchor(
            cursor, identity, _entry(lease, "end", saved, outcome=str(report["outcome"]), texts=texts)
        )

    database.do(work)


def keep_waiting(database: Database, key: Key, lease: Lease, saved: Saved, question: Json, identity: Identity) -> None:
    """Stores a run that waits for an answer and takes no slot until then."""

    def work(cursor: Cursor) -> None:
        run = require(cursor, lease)
        _record_state(cursor, run, saved, identity)
        asking.put(cursor, key, lease.run, question)
        cursor.execute(
            "UPDATE fleet.runs SET state = 'waiting', worker = NULL, lease_until = NULL, strikes = 0, starts = 0,"
            " token = token + 1 WHERE id = %s",
            (lease.run,),
        )
        anchors.append_anchor(cursor, identity, _entry(lease, "wait", saved, question=question["id"]))
        notify(cursor, f"waiting {lease.run}")

    database.do(work)


def end_unworked(cursor: Cursor, run: Any, outcome: str, reason: str) -> None:
    """Ends a run that no worker holds, such as one that was cancelled or refused."""
    _end(cursor, run, {"outcome": outcome, "reason": reason, "answer": "", "exit_code": None})


def _end(cursor: Cursor, run: Any, report: Json) -> None:
    cursor.execute(
        "UPDATE fleet.runs SET state = 'ended', outcome = %s, exit_code = %s, reason = %s, answer = %s, cost = %s,"
        " tokens = %s, stopped_by = %s, finished = now(), worker = NULL, lease_until = NULL, resume_due = false,"
        " token = token + 1 WHERE id = %s",
        (
            report["outcome"],
            report.get("exit_code"),
            _text(report.get("reason")),
            _text(report.get("answer")),
            report.get("cost"),
            report.get("tokens") or 0,
            report.get("stopped_by"),
            run.id,
        ),
    )
    budgets.settle_lost(cursor, run.id, run.token + 1)
    _start_dependents(cursor, run.id)
    notify(cursor, f"ended {run.id}")


def _start_dependents(cursor: Cursor, ended: str) -> None:
    """Queues runs that waited only for this one, or ends them if a run that they wait for did not complete."""
    waiting = cursor.execute(
        "SELECT id, token, after FROM fleet.runs WHERE state = 'held' AND stopped_by IS NULL AND %s = ANY(after)"
        " FOR UPDATE",
        (ended,),
    ).fetchall()
    for run in waiting:
        left = cursor.execute(
            "SELECT id, outcome FROM fleet.runs WHERE id = ANY(%s) AND outcome IS DISTINCT FROM 'completed'",
            (list(run.after),),
        ).fetchall()
        failed = [row for row in left if row.outcome is not None]
        if failed:
            end_unworked(cursor, run, "error", f"run {failed[0].id}, which it waits for, ended {failed[0].outcome}")
        elif not left:
            cursor.execute("UPDATE fleet.runs SET state = 'queued' WHERE id = %s", (run.id,))
            queue.enqueue(cursor, run)


def _text(text: object) -> str:
    return str(text or "").replace("\0", "")[:ANSWER]


def _record_state(cursor: Cursor, run: Any, saved: Saved, identity: Identity) -> None:
    """Makes this the state that a takeover starts with. It includes all calls so far."""
    cursor.execute(
        "UPDATE fleet.runs SET saved = %s, saved_by = %s, saved_signature = %s, schema = %s, version = %s,"
        " saved_call = coalesce((SELECT max(id) FROM fleet.calls WHERE run = %s), 0) WHERE id = %s",
        (saved.name, *states.signed(identity, run.id, saved.name), *versions.schema_and_version(), run.id, run.id),
    )


def _entry(lease: Lease, kind: str, saved: Saved | None, **more: Any) -> Json:
    state = {"state": saved.name, "receipts": saved.seq, "head": saved.head} if saved is not None else {}
    return {"kind": kind, "run": lease.run, "token": lease.token, **state, **more}


def keep_events(database: Database, lease: Lease, events: list[Json]) -> None:
    if not events:
        return
    database.run(
        "INSERT INTO fleet.events (run, token, event) SELECT %s, %s, event FROM unnest(%s::jsonb[]) WITH ORDINALITY"
        " AS told(event, n) WHERE EXISTS (SELECT 1 FROM fleet.runs WHERE id = %s AND worker = %s AND state = 'running')"
        " ORDER BY n",
        lease.run,
        lease.token,
        [canonical(event).replace("\\u0000", "") for event in events],
        lease.run,
        lease.worker,
    )
