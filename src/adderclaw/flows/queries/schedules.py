"""What commands and pages show about schedules: due times, results, and whether a process ticks."""

import os
import shlex
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime

from adderclaw.agent.queries import Check, clean
from adderclaw.config import installation
from adderclaw.core.decode import thaw
from adderclaw.core.record import record
from adderclaw.core.types import Json
from adderclaw.flows.schedules import adding, ticking, when, work
from adderclaw.flows.schedules.terms import Terms
from adderclaw.flows.schedules.when import When
from adderclaw.sandbox import programs
from adderclaw.storage import Store, locks
from adderclaw.storage import schedules as rows
from adderclaw.storage.schedules import Schedule, ScheduleRun
from adderclaw.storage.text import iso

OVERDUE = 300.0
"""Seconds after which the doctor reports a due time at which nothing began."""


@record
class FiredRow:
    """A due time, and what became of it."""

    id: int
    due: str
    """ISO 8601 for a time; else hand-…, changed-…, delivery-… or missed-…."""
    cause: str
    state: str
    outcome: str | None
    reason: str
    run_id: str | None
    cost: float | None
    begun_at: str
    ended_at: str | None


@record
class ScheduleRow:
    """A schedule as it stands now."""

    id: str
    name: str
    state: str
    """active, running, waiting, paused, held, done."""
    workspace: str
    when: Json
    when_text: str
    what: Json
    what_text: str
    terms: Json
    pinned: str
    """The digest that what it begins must have; empty: it is no file, or may change."""
    next: list[str]
    """Its next due times."""
    next_text: list[str]
    """The same by the clocks of its zone."""
    last: FiredRow | None
    spent: float | None
    """Dollars that its runs cost, or may cost, in this period of its budget; none: it has no budget."""
    created_at: str
    created_by: str
    paused_at: str | None


def row(store: Store, schedule: Schedule, now: float, key: bytes | None = None) -> ScheduleRow:
    """Everything to show about a schedule; with `key`, also whether its row is as the operator signed it."""
    begins, agreed = thaw(When, schedule.when), thaw(Terms, schedule.terms)
    latest = rows.history(store, [schedule.id], 1)
    times = adding.next_times(schedule, now)
    spent = None
    if agreed.budget is not None:
        with store.snapshot() as cursor:
            spent = round(rows.budget_used(cursor, schedule.id, agreed.period_began(now, begins.zone)), 6)
    genuine = key is None or schedule.is_genuine(key)
    return ScheduleRow(
        **clean(
            {
                "id": schedule.id,
                "name": schedule.name,
                "state": _state(store, schedule, latest, times) if genuine else "held",
                "workspace": schedule.workspace,
                "when": schedule.when,
                "when_text": when.words(begins),
                "what": schedule.what,
                "what_text": work.source(schedule),
                "terms": schedule.terms,
                "pinned": schedule.pin,
                "next": [iso(at) for at in times],
                "next_text": [when.shown(at, begins.zone) for at in times],
                "spent": spent,
                "created_at": schedule.created_at,
                "created_by": schedule.created_by,
                "paused_at": schedule.paused_at,
            }
        ),
        last=fired(latest[0]) if latest else None,
    )


def fired(row: ScheduleRun) -> FiredRow:
    return FiredRow(
        row.id,
        clean(row.due),
        row.cause,
        row.state,
        row.outcome,
        clean(row.reason),
        row.run_id,
        row.cost,
        iso(row.claimed_at),
        None if row.ended_at is None else iso(row.ended_at),
    )


def history(store: Store, schedule: Schedule, limit: int, before: int = 0) -> list[FiredRow]:
    return [fired(row) for row in rows.history(store, [schedule.id], limit, before)]


def _state(store: Store, schedule: Schedule, latest: list[ScheduleRun], times: list[float]) -> str:
    open_rows = rows.open_rows(store, schedule.id)
    states = {row.state for row in open_rows if row.state == "queued" or locks.run_in_session(store.path, row.ticker)}
    if "running" in states or "claimed" in states:
        return "running"
    if schedule.paused_at is not None:
        return "paused"
    if latest and latest[0].state == "held":
        return "held"
    if states:
        return "waiting"
    return "done" if thaw(When, schedule.when).kind == "at" and not times else "active"


def due_text(row: FiredRow, zone: str) -> str:
    """A due time in a zone; for a run without one, when it began and why."""
    try:
        at, cause = datetime.fromisoformat(row.due.removeprefix("missed-").partition(" ")[0]), ""
    except ValueError:
        known = {"hand": "by hand", "changed": "files changed", "webhook": "request"}
        at, cause = datetime.fromisoformat(row.begun_at), f" ({known.get(row.cause, row.cause)})"
    return when.shown(at.astimezone(UTC).timestamp(), zone) + cause


def crontab() -> str:
    """A crontab line for ticking, with the absolute path of the program because cron's PATH is short."""
    sibling = os.path.join(os.path.dirname(sys.executable), "adderclaw")
    program = installation.program(programs.resolve_outside_sessions) or (
        sibling if os.access(sibling, os.X_OK) else "adderclaw"
    )
    return f"* * * * * {shlex.quote(program)} schedule tick --quiet"


def _counted(active: list[Schedule]) -> str:
    return f"{len(active)} active schedule{'' if len(active) == 1 else 's'}"


def checks(store: Store) -> Iterator[Check]:
    """Finds schedules that no process ticks, and schedules that are held, for the doctor."""
    known = [schedule for schedule in rows.listing(store) if schedule.paused_at is None]
    if not known:
        return
    server, last = ticking.server_that_ticks(store), rows.last_tick(store)
    late = [schedule for schedule in known if schedule.next_at is not None and schedule.next_at < time.time() - OVERDUE]
    fix = f"run `adderclaw serve`, or add to your crontab: {crontab()}"
    if late:
        begins = thaw(When, late[0].when)
        text = f"{late[0].name} was due {when.shown(late[0].next_at or 0, begins.zone)}, and nothing ticks"
        yield Check("schedules", "warning", text if len(late) == 1 else f"{text}; so were {len(late) - 1} more", fix)
    elif not server and last is None:
        yield Check("schedules", "warning", f"{_counted(known)}, and nothing has ever ticked", fix)
    else:
        by = f"ticked by {server}" if server else f"last ticked {iso(last or 0)[:16]}Z"
        yield Check("schedules", "ok", f"{_counted(known)}, {by}")
    for schedule in known:
        latest = rows.history(store, [schedule.id], 1)
        if latest and latest[0].state == "held":
            yield Check("schedules", "warning", f"{schedule.name} is held: {latest[0].reason}", "")
