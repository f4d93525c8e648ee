"""Checks and adds schedules."""

import os
import re
from itertools import islice, pairwise
from typing import Literal

from adderclaw.config.legacy.options import Options
from adderclaw.config.paths import followed
from adderclaw.core.decode import thaw
from adderclaw.core.errors import UsageError
from adderclaw.core.json_text import to_json
from adderclaw.core.record import record
from adderclaw.core.types import Json
from adderclaw.flows.request import RunParams, RunRequest
from adderclaw.flows.schedules import due, files, terms, when, work
from adderclaw.flows.schedules.terms import Terms
from adderclaw.flows.schedules.when import When
from adderclaw.flows.schedules.zones import system_zone
from adderclaw.storage import Store
from adderclaw.storage import schedules as rows
from adderclaw.storage.schedules import Schedule
from adderclaw.storage.text import iso

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MAX_JITTER = 6 * 3_600.0
MAX_GRACE = 30 * 86_400.0
MAX_SETTLE = 3_600.0
TIMES_COMPARED = 200
"""Due times that are compared to find the shortest interval."""


@record
class New:
    """A schedule as it is written: exactly one of cron, every, at, changed and webhook, and what it begins."""

    name: str
    what: RunRequest
    """What it begins: as for a run, without `resume`."""
    cron: str | None = None
    """Five fields, or @daily and the like."""
    every: str | None = None
    """An interval of real time: 15m, 1h30m, 1d."""
    at: str | None = None
    """Once: 2026-12-01T09:00, by the clocks of the zone."""
    changed: list[str] | None = None
    """Patterns of files in the workspace."""
    webhook: Literal["standard", "github"] | None = None
    """A signed request, and how it is signed."""
    zone: str | None = None
    """A name such as Europe/Berlin; none: this machine's."""
    start: str | None = None
    """Of every: the first due time, from which all others are counted; none: now and one interval."""
    settle: str = "5s"
    """Of changed: how long the files have to be left alone."""
    given_as: str = ""
    """Of changed and webhook: the input of the Agentfile or SOP that is given what came."""
    missed: Literal["skip", "once", "all"] | None = None
    """What becomes of due times at which nothing ticked; none: once for at, else skip."""
    overlap: Literal["skip", "queue", "allow"] = "skip"
    """What becomes of a due time while the run before is under way."""
    grace: str = "1h"
    """How late a run may begin and is not missed."""
    jitter: str = "0s"
    """How much later than due it may begin, drawn for each due time."""
    budget: str | None = None
    """Dollars for all its runs of a day, a week or a month: 5/day."""
    follow_changes: bool = False
    """The Agentfile or SOP may change: it is not pinned."""
    interrupted: Literal["resume", "again", "leave"] = "resume"
    """What happens to a run whose process was killed. A specification cannot be resumed."""


def make_schedule(new: New, options: Options, key: bytes, now: float, by: str, extra: Json | None = None) -> Schedule:
    """Returns a signed schedule without storing it. `extra`: further options that the operator sets for its runs."""
    if not NAME.fullmatch(new.name):
        raise UsageError(f"{new.name[:80]!r} is not a valid schedule name; use up to 64 letters, digits, dots, - and _")
    begins = _parse_trigger(new, now)
    what = {
        name: value for name in RunRequest.__dataclass_fields__ if (value := getattr(new.what, name)) not in (None, {})
    }
    if what.pop("resume", None):
        raise UsageError("a schedule always begins new runs; remove resume")
    folder = what.pop("workspace", None) or options.workspace
    if folder is None:
        raise UsageError("a schedule needs a workspace; name the folder that its runs work in")
    agreed = _parse_terms(new, begins, now)
    schedule = Schedule(
        rows.fresh_id(),
        new.name,
        followed(os.path.abspath(folder)),
        to_json(begins, omit=when.UNSET),
        {**what, **(extra or {})},
        to_json(agreed, omit=(None,)),
        "",
        iso(now),
        by,
        "",
        None,
        now,
        when.after(begins, now),
    )
    kind = work.kind(schedule)
    RunParams(**schedule.what)
    if begins.input and kind not in work.PINNED:
        raise UsageError(f"given_as names an input, but a {kind} has no inputs: the data is appended to its text")
    pin = work.pin(work.make_driver(schedule, options, trial=True))
    return rows.sign(schedule._replace(pin="" if agreed.follow else pin), key)


def add_schedule(store: Store, schedule: Schedule) -> None:
    """Stores a schedule, and the current state of the files that it watches."""
    begins = thaw(When, schedule.when)
    seen = files.snapshot(schedule.workspace, begins.globs) if begins.kind == "changed" else None
    rows.add(store, schedule)
    if seen is not None:
        with store.write() as cursor:
            rows.record_seen_files(cursor, schedule.id, {"files": seen})


def approve_schedule(store: Store, schedule: Schedule, options: Options, key: bytes) -> Schedule:
    """Pins the current content of the Agentfile or SOP that a schedule begins."""
    if thaw(Terms, schedule.terms).follow or not schedule.pin:
        raise UsageError(f"schedule {schedule.name} pins nothing, so there is nothing to approve")
    if not schedule.is_genuine(key):
        raise UsageError(f"another program changed the row of schedule {schedule.name}; remove it and add it again")
    pin = work.pin(work.make_driver(schedule._replace(pin=""), options, trial=True))
    changed = rows.sign(schedule._replace(pin=pin), key)
    rows.approve(store, changed)
    return changed


def next_times(schedule: Schedule, now: float) -> list[float]:
    """The next five due times; empty for a schedule that is not timed."""
    return list(islice(when.following(thaw(When, schedule.when), max(now, schedule.until)), 5))


def _parse_trigger(new: New, now: float) -> When:
    triggers = [name for name in when.KINDS if getattr(new, name) not in (None, [])]
    if len(triggers) != 1:
        named = f", not {' and '.join(triggers)}" if triggers else ""
        raise UsageError(f"give exactly one of {', '.join(when.KINDS[:-1])} and webhook{named}")
    zone = new.zone or system_zone()
    if new.start is not None and new.every is None:
        raise UsageError("start is only for an interval (every)")
    if new.given_as and triggers[0] not in ("changed", "webhook"):
        raise UsageError("given_as is only for changed and webhook, because a time has no data to pass on")
    match triggers[0]:
        case "cron":
            return when.cron(new.cron or "", zone, now)
        case "every":
            start = now if new.start is None else when.instant(new.start, zone, "start")
            return when.every(new.every or "", zone, start)
        case "at":
            return when.at(new.at or "", zone, now)
        case "changed":
            settle = _parse_span(new.settle, "settle", MAX_SETTLE)
            return when.changed(new.changed or [], zone, settle, new.given_as)
        case _:
            return when.webhook(zone, new.webhook or "standard", new.given_as)


def _parse_terms(new: New, begins: When, now: float) -> Terms:
    missed: due.Missed = new.missed or ("once" if begins.kind == "at" else "skip")
    budget, period = terms.budget(new.budget) if new.budget is not None else (None, "month")
    jitter = _parse_span(new.jitter, "jitter", MAX_JITTER)
    if jitter and not begins.is_timed:
        raise UsageError("jitter is only for times: a changed file or a request begins a run immediately")
    shortest = min(
        (b - a for a, b in pairwise(islice(when.following(begins, now), TIMES_COMPARED))), default=jitter + 1
    )
    if jitter >= shortest and jitter:
        fix = f"it must be shorter than the {when.spelled(shortest)} between two due times"
        raise UsageError(f"jitter {new.jitter!r}: {fix}")
    grace = _parse_span(new.grace, "grace", MAX_GRACE)
    return Terms(missed, new.overlap, grace, jitter, budget, period, new.follow_changes, new.interrupted)


def _parse_span(text: str, name: str, most: float) -> float:
    seconds = 0.0 if text == "0" else when.span(text, name)
    if seconds > most:
        raise UsageError(f"{name} {text!r}: at most {when.spelled(most)}")
    return seconds
