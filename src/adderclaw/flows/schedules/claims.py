"""The row of a due time: claimed, queued or skipped, depending on the schedule's terms and budget."""

from sqlite3 import Cursor

from adderclaw.core.decode import thaw
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json
from adderclaw.flows.schedules.due import MOST_CAUGHT_UP
from adderclaw.flows.schedules.terms import Terms
from adderclaw.storage import schedules as rows
from adderclaw.storage.schedules import Schedule

CENT = 0.01
"""The rest of a budget, in dollars, below which no run begins."""


class Claiming(NamedTuple):
    """Who claims a due time, why, and up to which cost."""

    cause: str
    now: float
    ticker: str
    cap: float
    inputs: Json


class Reserved(NamedTuple):
    """What a run may spend of the schedule's budget, or why it may not begin."""

    dollars: float
    why: str = ""


class Claimed(NamedTuple):
    """The row of a due time; `id` is None if another process has created it."""

    id: int | None
    over_budget: str = ""
    """Why its budget does not allow it to begin."""


def claim(cursor: Cursor, schedule: Schedule, at: str, by: Claiming, *, queue: bool = False) -> Claimed:
    """Creates the row of a due time, in the state that the schedule's terms require."""
    terms, is_open = thaw(Terms, schedule.terms), rows.open_states(cursor, schedule.id)

    def row(state: rows.State, reason: str = "", dollars: float = 0.0) -> Claimed:
        id = rows.claim(
            cursor,
            schedule.id,
            at,
            cause=by.cause,
            state=state,
            now=by.now,
            ticker=by.ticker if state == "claimed" else "",
            reason=reason,
            inputs=by.inputs,
            reserved=dollars,
        )
        return Claimed(id)

    under_way = "the previous run is still under way"
    if is_open and (queue or terms.overlap != "allow"):
        if not (queue or terms.queues):
            return row("skipped", under_way)
        if is_open.count("queued") >= MOST_CAUGHT_UP:
            return row("skipped", f"{MOST_CAUGHT_UP} due times are already waiting for the previous run")
        return row("queued", under_way)
    reserved = reserve(cursor, schedule, by.now, by.cap)
    if reserved.why:
        return row("skipped", reserved.why)._replace(over_budget=reserved.why)
    return row("claimed", dollars=reserved.dollars)


def reserve(cursor: Cursor, schedule: Schedule, now: float, cap: float) -> Reserved:
    terms = thaw(Terms, schedule.terms)
    if terms.budget is None:
        return Reserved(0.0)
    since = terms.period_began(now, str(schedule.when["zone"]))
    left = terms.budget - rows.budget_used(cursor, schedule.id, since)
    if left < CENT:
        return Reserved(0.0, f"its budget of ${terms.budget:g} a {terms.period} is spent or reserved by its runs")
    return Reserved(min(left, cap))
