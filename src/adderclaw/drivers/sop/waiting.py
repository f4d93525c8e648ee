"""SOP runs that wait for an answer, and those of them that have it."""

import time

from adderclaw.store import Store, approvals, runs
from adderclaw.store.approvals import Approval
from adderclaw.store.runs import Run
from adderclaw.store.text import iso

WAITING = ("needs_input", "stopped", "interrupted")
"""How a run may have ended whose question can still be answered: the process was killed, or somebody ended it."""


def ready(store: Store, now: float | None = None) -> list[str]:
    """Ids of SOP runs whose question was answered, or whose time to answer is over, and nobody acted on it yet."""
    late = iso(time.time() if now is None else now)
    rows = store.read(
        # from the few open questions to their runs: each tick looks, and there may be many runs
        "SELECT DISTINCT r.run_id FROM approvals a INDEXED BY idx_approvals_open CROSS JOIN runs r"
        " ON r.session_id = a.session_id WHERE r.kind = 'sop' AND a.stays AND a.used_at IS NULL"
        " AND (a.answer IS NOT NULL OR a.expires_at <= ?)"
        " AND (r.outcome IS NULL OR r.outcome IN ('needs_input', 'stopped')) ORDER BY r.rowid",
        (late,),
    )
    found = (runs.get(store, row[0]) for row in rows)
    return [run.run_id for run in found if run is not None and run.status in WAITING]


def question(store: Store, run: Run) -> Approval | None:
    """What a run waits for; None where it waits for nothing."""
    return approvals.open_in(store, run.session_id)
