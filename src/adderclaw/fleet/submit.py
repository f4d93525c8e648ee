"""Submits runs to the fleet: checks all of them first, then inserts them in one transaction, each in its fair turn."""

import contextlib
import os
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated

from adderclaw.config.legacy.options import Options
from adderclaw.core.decode import Between
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.json_text import canonical
from adderclaw.core.record import NamedTuple, record
from adderclaw.core.types import Json
from adderclaw.fleet import queue, trees
from adderclaw.fleet.database import Cursor, Database, DuplicateKey
from adderclaw.fleet.identities import Identity
from adderclaw.fleet.objects import Boxes
from adderclaw.fleet.requests import Request, require_valid, signed_text
from adderclaw.flows.request import RunParams, prepare_driver

MOST = 100_000
"""Runs in one submission."""


@record
class Order:
    """One requested run."""

    wanted: Json
    submitter: str
    project: str = ""
    label: str = ""
    priority: Annotated[int, Between(0, 9)] = 5
    """0 comes first, 9 last."""
    dedupe: str | None = None
    """Only one run with this key may exist that has not ended."""
    after: tuple[str, ...] = ()
    max_cost: Annotated[float, Between(0)] | None = None
    deadline: float | None = None
    """Seconds from now."""


class Submitted(NamedTuple):
    id: str
    new: bool
    """False: a run with this dedupe key already exists."""


def archive_folder(boxes: Boxes, folder: str) -> Json:
    """Stores a folder in the object store."""
    path = os.path.abspath(os.path.expanduser(folder))
    if not os.path.isdir(path):
        raise UsageError(f"there is no folder {folder!r} to submit")
    name = trees.Saver(boxes).save({"workspace": path}, leave_out=frozenset({"workspace/runs"}))
    return {"archive": name}


ANY_PLACE = {"archive": f"box-{'0' * 64}"}
"""For checks before the files are stored."""


def check(order: Order, workspace: str | None) -> None:
    """Refuses what a worker would refuse later, by preparing the driver in the same way."""
    from adderclaw.core.decode import decode

    params = require_valid(_request("any", order, ANY_PLACE, ("", ""), None), local=False)
    if workspace is not None:
        here = os.path.abspath(os.path.expanduser(workspace))
        files = {name: getattr(params, name) for name in ("agentfile", "spec")}
        named = {name: os.path.join(here, path) for name, path in files.items() if path}
        prepare_driver(Options(workspace=here, headless=True), decode(RunParams, {**order.wanted, **named}))


def submit(
    database: Database,
    orders: Sequence[Order],
    sources: Sequence[Json],
    signer: Identity,
    batch: str = "",
    trace: str = "",
    *,
    local: bool = False,
) -> list[Submitted]:
    """Submits all runs or none, each signed. `trace`: the submitting span; `local`: see `requests.require_valid`."""
    if len(orders) > MOST:
        raise UsageError(f"{len(orders):,} runs at once, but at most {MOST:,} are allowed; submit them in parts")
    ids = [_id() for _ in orders]
    for id, order, place in zip(ids, orders, sources, strict=True):
        require_valid(_request(id, order, place, (batch, trace), None), local=local)

    def work(cursor: Cursor) -> list[Submitted]:
        if (before := _committed(cursor, ids, orders)) is not None:
            return before
        cursor.execute("SET LOCAL statement_timeout = 0")  # a matrix of 100,000 takes a minute
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '1min'")  # it only locks the submitter's turn
        done: list[Submitted] = []
        rows: list[tuple[object, ...]] = []
        deadlines = _deadlines(cursor, orders)

        def row(id: str, order: Order, source: Json, tag: int) -> tuple[object, ...]:
            request = _request(id, order, source, (batch, trace), deadlines[order.deadline])
            values = {
                **request._asdict(),
                "wanted": canonical(request.wanted),
                "place": canonical(request.place),
                "after": list(request.after),
            }
            signature = signer.sign(signed_text(request.id, request.digest))
            return (*values.values(), tag, _state(cursor, order), signer.public, signature)

        for id, order, source, tag in zip(ids, orders, sources, _tags(cursor, orders), strict=True):
            if order.dedupe is None:
                rows.append(row(id, order, source, tag))
                done.append(Submitted(id, new=True))
            elif (known := _known(cursor, order.dedupe)) is not None:
                done.append(Submitted(known, new=False))
            else:  # inserted at once, because another row of the same matrix may have the same key
                _insert(cursor, [*rows, row(id, order, source, tag)])
                rows.clear()
                done.append(Submitted(id, new=True))
        _insert(cursor, rows)
        _queue(cursor, [submitted.id for submitted in done if submitted.new], dict(zip(ids, orders, strict=True)))
        return done

    for _ in range(3):
        with contextlib.suppress(DuplicateKey):  # a concurrent submission with the same dedupe key
            return database.do(work)
    return database.do(work)


def _committed(cursor: Cursor, ids: list[str], orders: Sequence[Order]) -> list[Submitted] | None:
    """The result of an earlier commit whose reply was lost; None if there was none."""
    rows = cursor.execute("SELECT id FROM fleet.runs WHERE id = ANY(%s)", (ids,)).fetchall()
    there = {row.id for row in rows}
    if not there:
        return None
    known = (_known(cursor, order.dedupe) if order.dedupe else None for order in orders)
    return [Submitted(id if id in there else str(run_id), id in there) for id, run_id in zip(ids, known, strict=True)]


def _id() -> str:
    """An id in the format of all runs."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:12]}"


def _tags(cursor: Cursor, orders: Sequence[Order]) -> list[int]:
    """The turn of each run, so that runs of different submitters alternate.

    Start-time fair queueing: a tag is one more than the submitter's last, but at least that of the current run.
    """
    counts: dict[str, int] = {}
    for order in orders:
        counts[order.submitter] = counts.get(order.submitter, 0) + 1
    first: dict[str, int] = {}
    for submitter in sorted(counts):
        row = cursor.execute(
            "INSERT INTO fleet.shares (submitter, tag) SELECT %s, tag + %s FROM fleet.clock"
            " ON CONFLICT (submitter) DO UPDATE SET"
            " tag = greatest(fleet.shares.tag, (SELECT tag FROM fleet.clock)) + %s RETURNING tag",
            (submitter, counts[submitter], counts[submitter]),
        ).fetchone()
        assert row is not None
        first[submitter] = int(row.tag) - counts[submitter]
    tags: list[int] = []
    for order in orders:
        first[order.submitter] += 1
        tags.append(first[order.submitter])
    return tags


def _known(cursor: Cursor, dedupe: str) -> str | None:
    row = cursor.execute("SELECT id FROM fleet.runs WHERE dedupe = %s AND state <> 'ended'", (dedupe,)).fetchone()
    return None if row is None else str(row.id)


def _deadlines(cursor: Cursor, orders: Sequence[Order]) -> dict[float | None, datetime | None]:
    """The time of each deadline, by PostgreSQL's clock."""
    deadlines: dict[float | None, datetime | None] = {None: None}
    for order in orders:
        if order.deadline not in deadlines:
            sql = "SELECT now() + make_interval(secs => %s) AS at"
            row = cursor.execute(sql, (order.deadline,)).fetchone()
            assert row is not None
            deadlines[order.deadline] = row.at
    return deadlines


def _request(id: str, order: Order, source: Json, together: tuple[str, str], deadline: datetime | None) -> Request:
    batch, trace = together
    return Request(
        id=id,
        submitter=order.submitter,
        project=order.project,
        label=order.label,
        batch=batch,
        trace=trace,
        wanted=order.wanted,
        place=source,
        priority=order.priority,
        dedupe=order.dedupe,
        after=order.after,
        max_cost=order.max_cost,
        deadline=deadline,
    )


def _insert(cursor: Cursor, rows: list[tuple[object, ...]]) -> None:
    cursor.executemany(
        "INSERT INTO fleet.runs (id, submitter, project, label, batch, trace, wanted, place, priority, dedupe, after,"
        " max_cost, deadline, tag, state, signed_by, signature)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s::jsonb, %s::jsonb, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
        rows,
    )


def _queue(cursor: Cursor, ids: list[str], orders: Mapping[str, Order]) -> None:
    """Inserts the budgets of single runs, and queues the runs that need not wait for another."""
    bounded = [(id, orders[id].max_cost) for id in ids if orders[id].max_cost is not None]
    cursor.executemany("INSERT INTO fleet.budgets (scope, name, cost) VALUES ('run', %s, %s)", bounded)
    cursor.execute(
        "SELECT fleet.enqueue(id, %s) FROM fleet.runs WHERE id = ANY(%s) AND state = 'queued' ORDER BY number",
        (queue.STEP, ids),
    )


def _state(cursor: Cursor, order: Order) -> str:
    if not order.after:
        return "queued"
    known = cursor.execute("SELECT id, outcome FROM fleet.runs WHERE id = ANY(%s) FOR SHARE", (list(order.after),))
    outcomes = {row.id: row.outcome for row in known.fetchall()}
    if missing := [run_id for run_id in order.after if run_id not in outcomes]:
        raise UsageError(f"--after {missing[0]}: there is no such run; `adderclaw fleet list` lists them")
    if failed := [run_id for run_id, outcome in outcomes.items() if outcome not in (None, "completed")]:
        raise UsageError(f"--after {failed[0]}: it ended {outcomes[failed[0]]}; it will never be completed")
    return "held" if None in outcomes.values() else "queued"


def cancel(database: Database, run_id: str, by: str) -> str:
    """Ends a run and returns its former state. A worker that holds it ends its process at once."""
    from adderclaw.fleet.progress import end_unworked

    def work(cursor: Cursor) -> str:
        run = cursor.execute("SELECT * FROM fleet.runs WHERE id = %s FOR UPDATE", (run_id,)).fetchone()
        if run is None:
            raise UsageError(f"there is no run {run_id!r}; `adderclaw fleet list` lists them")
        if run.state != "ended":
            end_unworked(cursor, run, "stopped", f"cancelled by {by}")
        elif run.stopped_by is not None:  # so that `fleet resume` does not continue it
            sql = "UPDATE fleet.runs SET stopped_by = NULL, reason = %s WHERE id = %s"
            cursor.execute(sql, (f"cancelled by {by}", run_id))
        return str(run.state)

    return database.do(work)


def retry(database: Database, run_id: str, *, fresh: bool) -> None:
    """Queues a run again that did not complete, from its last unit or, with `fresh`, from the start."""

    def work(cursor: Cursor) -> None:
        run = cursor.execute("SELECT * FROM fleet.runs WHERE id = %s FOR UPDATE", (run_id,)).fetchone()
        if run is None:
            raise UsageError(f"there is no run {run_id!r}; `adderclaw fleet list` lists them")
        if run.state != "ended" or run.outcome == "completed":
            status = "has completed" if run.state == "ended" else f"is {run.state}"
            raise AdderClawError(f"run {run_id} {status}, so there is nothing to retry")
        if run.pruned is not None:
            raise AdderClawError(f"run {run_id}: its files were pruned; submit it again")
        if (other := queue.has_key(cursor, run)) is not None:
            raise AdderClawError(f"run {other} now has the dedupe key {run.dedupe!r} and does the same work")
        queue.again(cursor, run, fresh=fresh)

    database.do(work)


def new_batch() -> str:
    """An id for the runs of one matrix."""
    return f"batch-{uuid.uuid4().hex[:12]}"
