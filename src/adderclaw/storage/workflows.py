"""Workflows under way: which file with which inputs, and the result of every goal that is finished."""

import sqlite3
from typing import NamedTuple

from adderclaw.core.types import Json
from adderclaw.storage import Store
from adderclaw.storage.text import compact, parse_row, plain


class WorkflowStart(NamedTuple):
    run_id: str
    file: str
    name: str
    digest: str
    """Of the workflow with all its files: a run goes on only with the one that it began with."""
    inputs: dict[str, str]
    said: dict[str, str] | None = None
    """The options that it was begun with, for whoever resumes it; a task has them among its inputs."""


class GoalResult(NamedTuple):
    place: str
    """Step, round and goal, as `execute` counts them."""
    agent: str
    """The persona; empty for the goal's own result."""
    goal: str
    session_id: str
    result: Json


def begin(cursor: sqlite3.Cursor, begun: WorkflowStart) -> None:
    cursor.execute(
        "INSERT INTO workflows(run_id, file, name, digest, inputs_json, said_json) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT(run_id) DO NOTHING",
        (
            begun.run_id,
            plain(begun.file),
            plain(begun.name),
            begun.digest,
            compact(begun.inputs),
            compact(begun.said or {}),
        ),
    )


def get(store: Store, run_id: str) -> WorkflowStart | None:
    sql = "SELECT run_id, file, name, digest, inputs_json, said_json FROM workflows WHERE run_id = ?"
    rows = store.read(sql, (run_id,))
    if not rows:
        return None
    row = rows[0]
    known = f"workflows row {row[0]}"
    return WorkflowStart(row[0], row[1], row[2], row[3], parse_row(row[4], known), parse_row(row[5], known))


def store_result(cursor: sqlite3.Cursor, run_id: str, done: GoalResult) -> None:
    """A result is kept once: whoever comes to the same place again finds it."""
    cursor.execute(
        "INSERT INTO workflow_results(run_id, place, agent, goal, session_id, result_json) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT(run_id, place, agent) DO UPDATE SET session_id = excluded.session_id,"
        " result_json = excluded.result_json",
        (run_id, done.place, done.agent, done.goal, done.session_id, compact(done.result)),
    )


def delete_results(cursor: sqlite3.Cursor, run_id: str, results: list[tuple[str, str]]) -> None:
    """These (place, agent) are to be worked on anew."""
    cursor.executemany(
        "DELETE FROM workflow_results WHERE run_id = ? AND place = ? AND agent = ?",
        [(run_id, *result) for result in results],
    )


def goal_results(store: Store, run_id: str) -> dict[tuple[str, str], GoalResult]:
    """(place, agent) → what came of it."""
    rows = store.read(
        "SELECT place, agent, goal, session_id, result_json FROM workflow_results WHERE run_id = ? ORDER BY rowid",
        (run_id,),
    )
    return {
        (row[0], row[1]): GoalResult(
            row[0], row[1], row[2], row[3], parse_row(row[4], f"workflow_results row {run_id} {row[0]} {row[1]}")
        )
        for row in rows
    }


def is_turn(store: Store, run_id: str, kind: str) -> bool:
    """Whether a run is one turn of the ordinary agent: of a message, or of a task, which then left no decisions."""
    return kind == "message" or (kind == "task" and not goal_results(store, run_id))


def results_for_tape(store: Store, run_id: str) -> Json:
    """What an earlier process left of a run, as its tape has it."""
    rows = [[row.place, row.agent, row.result] for row in goal_results(store, run_id).values()]
    return {"rows": rows}
