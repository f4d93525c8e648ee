"""When a schedule is due: pure functions from the expression that a person writes to the instants it means."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Literal

from cronsim import CronSim, CronSimError

from adderclaw.core.errors import UsageError
from adderclaw.core.record import record
from adderclaw.flows.schedules.zones import BACK, next_change, offset, zone

SHORTEST = 60
"""The shortest interval, in seconds."""
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
    """What begins a run. The zone applies to wall-clock times and to the periods of the budget."""

    kind: Kind
    zone: str
    expression: str = ""
    """cron: five fields."""
    seconds: float = 0.0
    """every: real time between two due times. changed: how long the files must stay unchanged first."""
    anchor: float = 0.0
    """every: the instant from which all due times are counted. at: the instant itself."""
    globs: tuple[str, ...] = ()
    """changed: patterns of files in the workspace."""
    input: str = ""
    """changed and webhook: the input that receives the data; empty: it is appended to the message or task."""
    scheme: str = ""
    """webhook: how requests are signed, `standard` or `github`."""

    @property
    def is_timed(self) -> bool:
        return self.kind in ("cron", "every", "at")


# ------------------------------------------------------------------ what a person writes


def cron(expression: str, zone_name: str, now: float) -> When:
    """Five fields, names of months and days, or @daily etc. Refuses expressions that never fire or fire too often."""
    written = " ".join(expression.split())
    if written.lower() == "@reboot":
        raise UsageError("@reboot is not supported: use a service of your system for work at startup")
    if written.startswith("@") and written.lower() not in NAMED:
        raise UsageError(f"cron {written!r} is not known; use one of {', '.join(NAMED)}")
    plain = NAMED.get(written.lower(), written)
    fields = plain.split()
    if len(fields) == 6:
        raise UsageError(f"cron {written!r} has six fields, but seconds are not supported: use five")
    if len(fields) != 5:
        raise UsageError(f"cron {written!r} has {len(fields)} fields; it needs five ({', '.join(FIELDS)})")
    schedule = When("cron", zone(zone_name).key, expression=plain)
    try:
        CronSim(plain, datetime(2024, 1, 1))
    except CronSimError as error:
        raise UsageError(f"cron {written!r}: {_wrong(fields) or error}") from None
    if after(schedule, now) is None:
        raise UsageError(f"cron {written!r} never fires: no day matches it in the next 50 years")
    return schedule


def _wrong(fields: list[str]) -> str:
    """Which field is wrong; if each is valid alone, no day matches all of them."""
    for index, name in enumerate(FIELDS):
        alone = ["*"] * 5
        alone[index] = fields[index]
        try:
            CronSim(" ".join(alone), datetime(2024, 1, 1))
        except CronSimError:
            return f"the {name} {fields[index]!r} is not valid"
    return f"it never fires: month {fields[3]} has no day {fields[2]}"


def every(text: str, zone_name: str, anchor: float) -> When:
    """An interval of real time, such as `90m`, `1h30m` or `1d`, independent of clock changes."""
    seconds = span(text, "--every")
    if not SHORTEST <= seconds <= LONGEST:
        raise UsageError(f"--every {text!r}: at least 1m and at most ten years")
    return When("every", zone(zone_name).key, seconds=seconds, anchor=anchor)


def at(text: str, zone_name: str, now: float) -> When:
    """Once, at a local time such as `2026-12-01 09:00`, or at an instant if it has an offset or Z."""
    when = instant(text, zone_name, "--at")
    if when <= now:
        raise UsageError(f"--at {text!r} is in the past: it is {shown(now, zone_name)} now")
    return When("at", zone(zone_name).key, anchor=when)


def changed(globs: list[str], zone_name: str, settle: float, given_as: str = "") -> When:
    """When files of the workspace change; the patterns are relative to its root."""
    from adderclaw.sandbox.workspace.globs import is_bounded

    for pattern in globs:
        if pattern.startswith("/") or ".." in pattern.split("/") or "\0" in pattern or not pattern.strip():
            raise UsageError(f"--changed {pattern!r}: give a pattern relative to the workspace, such as 'src/**/*.py'")
        if not is_bounded(pattern):
            raise UsageError(f"--changed {pattern!r} expands to too many patterns: use fewer braces")
    if len(globs) > MOST_GLOBS:
        raise UsageError(f"--changed: at most {MOST_GLOBS} patterns")
    return When("changed", zone(zone_name).key, seconds=settle, globs=tuple(globs), input=given_as)


def webhook(zone_name: str, scheme: str = "standard", given_as: str = "") -> When:
    """On a signed request to the server."""
    return When("webhook", zone(zone_name).key, input=given_as, scheme=scheme)


def span(text: str, option: str) -> float:
    """Parses `90m` or `1h30m` into seconds."""
    if not _SPAN.fullmatch(text):
        raise UsageError(f"{option} {text[:60]!r}: give a duration with units, such as 90s, 15m, 1h30m, 1d or 2w")
    return float(sum(int(number) * UNITS[unit] for number, unit in re.findall(r"(\d+)([smhdw])", text)))


def instant(text: str, zone_name: str, option: str) -> float:
    """Parses a date and a time. A time that occurs twice means the first; a time that clocks skip is refused."""
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


# ------------------------------------------------------------------ due times


def after(when: When, at: float) -> float | None:
    """The first due time after an instant; None if there is none."""
    if when.kind == "every":
        return when.anchor + max(0, int((at - when.anchor) // when.seconds) + 1) * when.seconds
    if when.kind == "at":
        return when.anchor if when.anchor > at else None
    if when.kind == "cron":
        fixed = not any(field.startswith("*") for field in when.expression.split()[:2])
        return _at_fixed_hours(when, at) if fixed else _whenever_it_matches(when, at)
    return None


def following(when: When, at: float) -> Iterator[float]:
    """All due times after an instant, in order."""
    due = after(when, at)
    while due is not None:
        yield due
        due = after(when, due)


def _at_fixed_hours(when: When, at: float) -> float | None:
    """For an expression whose minute and hour do not begin with a star: each matching local time, once.

    As in Debian's cron, a time that clocks skip is due right afterwards, and a time that occurs twice the first time.
    """
    local = _wall(when.zone, at)
    change = next_change(when.zone, at - BACK)
    if change is not None and change <= at:  # the clock may have been set back, so that times occur again
        local -= timedelta(seconds=BACK)
    for wall in CronSim(when.expression, local):
        if (due := _moved(wall, when.zone)) > at:
            return due
    return None


def _whenever_it_matches(when: When, at: float) -> float | None:
    """For an expression whose minute or hour begins with a star: each matching instant, also of repeated times."""
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
            start, still = due - 2 * BACK, True  # no earlier local time matches
        else:
            start, still = change, True


def _wall(zone_name: str, at: float) -> datetime:
    return datetime.fromtimestamp(at, zone(zone_name)).replace(tzinfo=None, fold=0, microsecond=0)


def _moved(wall: datetime, zone_name: str) -> float:
    """The instant of a local time: the first of two, or the first minute after a skipped one."""
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
    """Describes what begins a run, in one line."""
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
            return "on a signed request"


def spelled(seconds: float) -> str:
    """5400 → 1h30m."""
    left, parts = int(seconds), list[str]()
    for unit in ("w", "d", "h", "m", "s"):
        count, left = divmod(left, UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
