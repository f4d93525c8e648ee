"""Queues runs with DBOS. A run enters the queue in the transaction that makes it ready."""

import re
from typing import Any

from adderclaw.fleet.database import Cursor

WORKFLOW = "run"
APPLICATION = "adderclaw"
VERSION = "fleet-1"
"""Fixed, so that a worker can continue runs of every other version. A state says which versions can read it."""
STEP = 200
"""The turns that one level of priority is worth: a run that waited longer comes first, whatever its priority."""

ID = re.compile(r"[0-9A-Za-z_-]{1,64}")
"""Valid ids of runs, which become names of folders. Rows are untrusted and may have others."""


def name(label: str) -> str:
    """The queue for a label. Every worker takes runs without a label."""
    return f"runs-{label}" if label else "runs"


def workflow_id(run: Any) -> str:
    return f"{run.id}.{run.generation}"


def run_id(workflow: str) -> str:
    return workflow.partition(".")[0]


def enqueue(cursor: Cursor, run: Any) -> None:
    """Queues a run, once for each generation, which is part of the workflow's id."""
    cursor.execute("SELECT fleet.enqueue(%s, %s)", (run.id, STEP))


def again(cursor: Cursor, run: Any, *, fresh: bool = False) -> None:
    """Queues a run again that has ended or waits. It continues from its last unit, or with `fresh` starts over."""
    row = cursor.execute(
        "UPDATE fleet.runs SET state = 'queued', generation = generation + 1, outcome = NULL, exit_code = NULL,"
        " reason = '', answer = '', finished = NULL, strikes = 0, starts = 0, stopped_by = NULL, resume_due = false,"
        " saved = CASE WHEN %s THEN NULL ELSE saved END, schema = CASE WHEN %s THEN 0 ELSE schema END,"
        " units = CASE WHEN %s THEN 0 ELSE units END WHERE id = %s RETURNING *",
        (fresh, fresh, fresh, run.id),
    ).fetchone()
    if fresh:
        cursor.execute("DELETE FROM fleet.units WHERE run = %s", (run.id,))
    enqueue(cursor, row)


def enqueue_again(cursor: Cursor, run_id: str) -> None:
    """Moves a run from a wrong queue to that of its label, with a new workflow."""
    sql = "UPDATE fleet.runs SET generation = generation + 1 WHERE id = %s AND state = 'queued' RETURNING *"
    if (row := cursor.execute(sql, (run_id,)).fetchone()) is not None:
        enqueue(cursor, row)


def has_key(cursor: Cursor, run: Any) -> str | None:
    """Another run with the same dedupe key that has not ended, if any."""
    sql = "SELECT id FROM fleet.runs WHERE dedupe = %s AND state <> 'ended' AND id <> %s"
    other = cursor.execute(sql, (run.dedupe, run.id)).fetchone()
    return None if other is None else str(other.id)


def replace_ended_workflow(cursor: Cursor, run: Any) -> bool:
    """Queues a due run with a new workflow if its workflow has ended without it. Returns whether it has."""
    row = cursor.execute(
        "SELECT r.*, w.status FROM fleet.runs r JOIN dbos.workflow_status w"
        " ON w.workflow_uuid = r.id || '.' || r.generation"
        " WHERE r.id = %s AND r.token = %s AND r.state = 'queued' FOR UPDATE OF r",
        (run.id, run.token),
    ).fetchone()
    if row is None or row.status in ("PENDING", "ENQUEUED", "DELAYED"):
        return False
    cursor.execute("UPDATE fleet.runs SET generation = generation + 1, resume_due = false WHERE id = %s", (run.id,))
    enqueue(cursor, row)
    return True
