"""Finds SOP runs whose question was answered, and the question that a run waits for."""

import time

from adderclaw.storage import Store, approvals, runs
from adderclaw.storage.approvals import Approval
from adderclaw.storage.runs import Run
from adderclaw.storage.text import iso

WAITING = ("needs_input", "stopped", "interrupted")
"""The states of runs whose question can still be answered, even if their process was killed or stopped."""


def answered_runs(store: Store, now: float | None = None) -> list[str]:
    """Returns the ids of SOP runs whose question was answered or has expired, and that were not resumed yet."""
    late = iso(time.time() if now is None else now)
    answered = (runs.get(store, id) for id in approvals.decided_sops(store, late))
    return [run.run_id for run in answered if run is not None and run.status in WAITING]


def open_question(store: Store, run: Run) -> Approval | None:
    """Returns the question that a run waits for; None if there is none."""
    return approvals.open_question(store, run.session_id)
