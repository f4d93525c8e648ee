"""Claims that a scenario passes, and the verdict of a separate session on each."""

import json
import sqlite3
from typing import Literal

from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json
from adderclaw.storage import Store
from adderclaw.storage.text import parse_row, plain

type Verdict = Literal["", "passed", "failed", "unproven", "withdrawn"]
"""Empty: not checked yet. unproven: the check reached no valid verdict."""


class Check(NamedTuple):
    id: int
    scenario_id: str
    name: str
    run_id: str
    """The run in which it was claimed."""
    claimed_by: str
    """The session that claimed it."""
    claimed_at: str
    checked_in: str
    """The run in which it was checked."""
    checked_by: str
    """The session that checked it."""
    verdict: Verdict
    reason: str
    evidence: list[Json]
    tokens: int
    cost: float | None
    seconds: float
    checked_at: str | None


_SELECT = (
    "SELECT id, scenario_id, name, run_id, claimed_by, claimed_at, checked_in, checked_by, verdict, reason,"
    " evidence_json, tokens, cost, seconds, checked_at FROM scenario_checks"
)


def claim(cursor: sqlite3.Cursor, *, project: str, scenario_id: str, name: str, run_id: str, session_id: str) -> None:
    """Records the claim of a session that a scenario passes, unless one is already pending."""
    cursor.execute(
        "INSERT INTO scenario_checks(project, scenario_id, name, run_id, claimed_by) SELECT ?, ?, ?, ?, ?"
        " WHERE NOT EXISTS (SELECT 1 FROM scenario_checks WHERE project = ? AND scenario_id = ? AND verdict = '')",
        (project, plain(scenario_id), plain(name), run_id, session_id, project, plain(scenario_id)),
    )


def withdraw(cursor: sqlite3.Cursor, project: str, scenario_id: str) -> None:
    """Withdraws the pending claim: a session reported that the scenario does not pass after all."""
    cursor.execute(
        "UPDATE scenario_checks SET verdict = 'withdrawn' WHERE project = ? AND scenario_id = ? AND verdict = ''",
        (project, plain(scenario_id)),
    )


def settle(
    cursor: sqlite3.Cursor,
    check_id: int,
    verdict: Verdict,
    reason: str,
    *,
    run_id: str,
    session_id: str = "",
    evidence: list[Json] | None = None,
    tokens: int = 0,
    cost: float | None = None,
    seconds: float = 0.0,
) -> None:
    cursor.execute(
        "UPDATE scenario_checks SET verdict = ?, reason = ?, checked_in = ?, checked_by = ?, evidence_json = ?,"
        " tokens = ?, cost = ?, seconds = ?, checked_at = datetime('now') WHERE id = ? AND verdict = ''",
        (
            *(verdict, plain(reason), run_id, session_id, plain(json.dumps(evidence or []))),
            *(tokens, cost, seconds, check_id),
        ),
    )


def pending(store: Store, project: str) -> list[Check]:
    """The claims that are not checked yet, oldest first."""
    return _checks(store.read(f"{_SELECT} WHERE project = ? AND verdict = '' ORDER BY id", (project,)))


def last(store: Store, project: str) -> dict[str, Check]:
    """Scenario → its latest check."""
    rows = store.read(f"{_SELECT} WHERE project = ? AND verdict NOT IN ('', 'withdrawn') ORDER BY id", (project,))
    return {check.scenario_id: check for check in _checks(rows)}


def of_run(store: Store, run_id: str) -> list[Check]:
    """The claims that were checked in a run, or made in it and not checked yet."""
    rows = store.read(f"{_SELECT} WHERE checked_in = ? OR (run_id = ? AND verdict = '') ORDER BY id", (run_id, run_id))
    return _checks(rows)


def _checks(rows: list[sqlite3.Row]) -> list[Check]:
    return [Check._make((*row[:10], parse_row(row[10], f"scenario_checks row {row[0]}"), *row[11:])) for row in rows]
