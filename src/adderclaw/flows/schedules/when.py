"""When a schedule is due: pure time, from the expression that a person writes to the instants that it stands for."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Literal

from cronsim import CronSim, CronSimError

from adderclaw.core.errors import UsageError
from adderclaw.core.record import record
from adderclaw.flows.schedules.zones import BACK, next_change, offset, zone

SHORTEST = 60
"""Seconds between two due times at least."""
LONGEST = 10 * 366 * 86_400
MOST_GLOBS = 20
NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
FIELDS = ("minute", "hour", "day of month", "month", "day of week")
UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
_SPAN = re.compile(r"(?:\d{1,7}[smhdw])+")

type Kind = Literal["cron", "every", "at", "changed", "webhook"]
KINDS: tuple[Kind, ...] = ("cron", "every", "at", "changed", "webhook")
UNSET = ("", 0.0, ())
"""Values of a When that its stored form omits; `thaw` restores it."""


@record
class When:
    """What begins it. The zone is that of its wall clock, and of the days, weeks and months of its budget."""

    kind: Kind
    zone: str
    expression: str = ""
    """Of cron: five fields."""
    seconds: float = 0.0
    """Of every: real time between two due times. Of changed: how long the files have to be left alone before."""
    anchor: float = 0.0
    """Of every: the instant that all due times are counted from. Of at: the instant itself."""
    globs: tuple[str, ...] = ()
    """Of changed: files of the workspace."""
    input: str = ""
    """Of changed and webhook: the input that is given what came; empty: a message or a task is given it."""
    scheme: str = ""
    """Of webhook: how requests are signed, `standard` or `github`."""

    @property
    def is_timed(self) -> bool:
        return self.kind in ("cron", "every", "at")


# ------------------------------------------------------------------ what a person writes


def cron(expression: str, zone_name: str, now: float) -> When:
    """Five fields, names of months and days, or @daily and the like. What never fires, or too often, is refused."""
    written = " ".join(expression.split())
    if written.lower() == "@reboot":
        raise UsageError("@reboot is no time: begin such work with a service of your system")
    if written.startswith("@") and written.lower() not in NAMED:
        raise UsageError(f"cron {written!r}: there is {', '.join(NAMED)}")
    plain = NAMED.get(written.lower(), written)
    fields = plain.split()
    if len(fields) == 6:
        raise UsageError(f"cron {written!r} has six fields, one for seconds: a schedule is due once a minute at most")
    if len(fields) != 5:
        raise UsageError(f"cron {written!r} has {len(fields)} fields: it takes five ({', '.join(FIELDS)})")
    schedule = When("cron", zone(zone_name).key, expression=plain)
    try:
        CronSim(plain, datetime(2024, 1, 1))
    except CronSimError as error:
        raise UsageError(f"cron {written!r}: {_wrong(fields) or error}") from None
    if after(schedule, now) is None:
        raise UsageError(f"cron {written!r} never fires: no such day comes in the next 50 years")
    return schedule


def _wrong(fields: list[str]) -> str:
    """Which field is wrong; where each is right by itself, no day is like this."""
    for index, name in enumerate(FIELDS):
        alone = ["*"] * 5
        alone[index] = fields[index]
        try:
            CronSim(" ".join(alone), datetime(2024, 1, 1))
        except CronSimError:
            return f"the {name} {fields[index]!r} is not understood"
    return f"it never fires: month {fields[3]} has no day {fields[2]}"


def every(text: str, zone_name: str, anchor: float) -> When:
    """`90m`, `1h30m`, `1d`: real time, whatever the clocks on the wall do."""
    seconds = span(text, "--every")
    if not SHORTEST <= seconds <= LONGEST:
        raise UsageError(f"--every {text!r}: at least 1m and at most ten years")
    return When("every", zone(zone_name).key, seconds=seconds, anchor=anchor)


def at(text: str, zone_name: str, now: float) -> When:
    """Once, by the clock on the wall: `2026-12-01 09:00`; with an offset or Z it is that instant."""
    when = instant(text, zone_name, "--at")
    if when <= now:
        raise UsageError(f"--at {text!r} is over: it is {shown(now, zone_name)}")
    return When("at", zone(zone_name).key, anchor=when)


def changed(globs: list[str], zone_name: str, settle: float, given_as: str = "") -> When:
    """Files of the workspace, by patterns from its root on."""
    from adderclaw.sandbox.workspace.globs import is_bounded

    for pattern in globs:
        if pattern.startswith("/") or ".." in pattern.split("/") or "\0" in pattern or not pattern.strip():
            raise UsageError(f"--changed {pattern!r}: give a pattern from the workspace on, such as 'src/**/*.py'")
        if not is_bounded(pattern):
            raise UsageError(f"--changed {pattern!r} stands for too many patterns: use fewer braces")
    if len(globs) > MOST_GLOBS:
        raise UsageError(f"--changed: at most {MOST_GLOBS} patterns")
    return When("changed", zone(zone_name).key, seconds=settle, globs=tuple(globs), input=given_as)


def webhook(zone_name: str, scheme: str = "standard", given_as: str = "") -> When:
    """A signed request; the server has the door for it."""
    return When("webhook", zone(zone_name).key, input=given_as, scheme=scheme)


def span(text: str, option: str) -> float:
    """`90m`, `1h30m` as seconds."""
    if not _SPAN.fullmatch(text):
        raise UsageError(f"{option} {text[:60]!r}: give a time with units, such as 90s, 15m, 1h30m, 1d or 2w")
    return float(sum(int(number) * UNITS[unit] for number, unit in re.findall(r"(\d+)([smhdw])", text)))


def instant(text: str, zone_name: str, option: str) -> float:
    """A date and a time. One that the clocks show twice is the first of the two; one that they skip is refused."""
    try:
        local = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option} {text[:60]!r}: give a date and a time, such as 2026-12-01T09:00") from None
    if local.tzinfo is not None:
        return local.timestamp()
    if len(text) <= 10:
        raise UsageError(f"{option} {text!r}: the time is missing, as in {text}T09:00")
    seconds = _moved(local, zone_name)
    if datetime.fromtimestamp(seconds, zone(zone_name)).replace(tzinfo=None) != local:
        raise UsageError(
            f"{option} {text!r}: the clocks of {zone_name} skip that time; the next is {shown(seconds, zone_name)}"
        )
    return seconds


# ------------------------------------------------------------------ what it stands for


def after(when: When, at: float) -> float | None:
    """The first due time after an instant; None where no other comes."""
    if when.kind == "every":
        return when.anchor + max(0, int((at - when.anchor) // when.seconds) + 1) * when.seconds
    if when.kind == "at":
        return when.anchor if when.anchor > at else None
    if when.kind == "cron":
        fixed = not any(field.startswith("*") for field in when.expression.split()[:2])
        return _at_fixed_hours(when, at) if fixed else _whenever_it_matches(when, at)
    return None


def following(when: When, at: float) -> Iterator[float]:
    """All due times after an instant, in their order."""
    due = after(when, at)
    while due is not None:
        yield due
        due = after(when, due)


def _at_fixed_hours(when: When, at: float) -> float | None:
    """Neither minute nor hour begins with a star: each matching time of the wall clock, once.

    As cron on Debian has it: a time that the clocks skip is due right after, one that they show twice the first time.
    """
    local = _wall(when.zone, at)
    change = next_change(when.zone, at - BACK)
    if change is not None and change <= at:  # the wall clock may show again what it has shown
        local -= timedelta(seconds=BACK)
    for wall in CronSim(when.expression, local):
        if (due := _moved(wall, when.zone)) > at:
            return due
    return None


def _whenever_it_matches(when: When, at: float) -> float | None:
    """Minute or hour begins with a star: each instant whose wall clock matches; what is shown twice is due twice."""
    start, still = at, False
    while True:
        local = _wall(when.zone, start) - timedelta(seconds=1 if still else 0)
        wall = next(CronSim(when.expression, local), None)
        if wall is None:
            return None
        due = (wall - datetime(1970, 1, 1)).total_seconds() - offset(when.zone, start)
        change = next_change(when.zone, start)
        if change is None or due < change:
            return due
        if change - start > BACK and due - change > 2 * BACK:
            start, still = due - 2 * BACK, True  # until then the wall clock shows nothing that matches
        else:
            start, still = change, True


def _wall(zone_name: str, at: float) -> datetime:
    return datetime.fromtimestamp(at, zone(zone_name)).replace(tzinfo=None, fold=0, microsecond=0)


def _moved(wall: datetime, zone_name: str) -> float:
    """The instant of a wall clock's time: the first of two, and where it is skipped the first minute after that."""
    there = zone(zone_name)
    while True:
        instant_ = wall.replace(tzinfo=there, fold=0).astimezone(UTC)
        if instant_.astimezone(there).replace(tzinfo=None) == wall.replace(tzinfo=None, fold=0):
            return instant_.timestamp()
        wall += timedelta(minutes=1)


# ------------------------------------------------------------------ for people


def shown(at: float, zone_name: str) -> str:
    """`Sun 2026-03-29 03:00 CEST`."""
    return datetime.fromtimestamp(at, zone(zone_name)).strftime("%a %Y-%m-%d %H:%M %Z")


def words(when: When) -> str:
    """One line that says what begins it."""
    match when.kind:
        case "cron":
            return f"cron {when.expression} ({when.zone})"
        case "every":
            return f"every {spelled(when.seconds)}"
        case "at":
            return f"once at {shown(when.anchor, when.zone)}"
        case "changed":
            return f"when {', '.join(when.globs)} change, {spelled(when.seconds)} later"
        case "webhook":
            return "by a signed request"


def spelled(seconds: float) -> str:
    """5400 → 1h30m."""
    left, parts = int(seconds), list[str]()
    for unit in ("w", "d", "h", "m", "s"):
        count, left = divmod(left, UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
