"""SOP runs that wait for an answer, and those of them that have it."""

import time

from adderclaw.storage import Store, approvals, runs
from adderclaw.storage.approvals import Approval
from adderclaw.storage.runs import Run
from adderclaw.storage.text import iso

WAITING = ("needs_input", "stopped", "interrupted")
"""How a run may have ended whose question can still be answered: the process was killed, or somebody ended it."""


def ready(store: Store, now: float | None = None) -> list[str]:
    """Ids of SOP runs whose question was answered, or whose time to answer is over, and nobody acted on it yet."""
    late = iso(time.time() if now is None else now)
    found = (runs.get(store, id) for id in approvals.decided_sops(store, late))
    return [run.run_id for run in found if run is not None and run.status in WAITING]


def question(store: Store, run: Run) -> Approval | None:
    """What a run waits for; None where it waits for nothing."""
    return approvals.open_question(store, run.session_id)
