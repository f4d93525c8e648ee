"""Time zones: by name, the system's own, and the next clock change of one."""

import os
from datetime import datetime
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from adderclaw.core.errors import UsageError
from adderclaw.core.suggestions import did_you_mean

DAY = 86_400.0
LONGEST = 500
"""Days that are searched for the next clock change."""
BACK = 25 * 3600.0
"""Seconds; no zone has ever moved its clocks this far at once."""


@lru_cache(maxsize=64)
def zone(name: str) -> ZoneInfo:
    """The zone with this name; raises UsageError with a similar name if there is none."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        names = sorted(available_timezones())
        last = [candidate for candidate in names if candidate.lower().endswith(f"/{name.lower().replace(' ', '_')}")]
        hint = f"; did you mean {last[0]}?" if last else did_you_mean(name, names)
        fix = hint or "; zones are named like Europe/Berlin or UTC"
        raise UsageError(f"no time zone is called {name[:60]!r}{fix}") from None


def system_zone() -> str:
    """The name of this machine's zone; UTC if it has none."""
    variable = os.environ.get("TZ", "").removeprefix(":")
    if variable:
        try:
            return zone(variable).key
        except UsageError:
            raise UsageError(f"TZ={variable!r} is not in the time zone database: give --zone") from None
    try:
        path = os.path.realpath("/etc/localtime")
        if "zoneinfo/" in path:
            return zone(path.rpartition("zoneinfo/")[2]).key
        with open("/etc/timezone", encoding="ascii") as file:
            return zone(file.read(200).strip()).key
    except (OSError, UsageError, UnicodeDecodeError):
        return "UTC"


def offset(name: str, at: float) -> float:
    """Seconds by which the zone's clocks are ahead of UTC."""
    moved = datetime.fromtimestamp(at, zone(name)).utcoffset()
    assert moved is not None
    return moved.total_seconds()


def next_change(name: str, at: float) -> float | None:
    """The first instant after `at` with another offset; None if there is none within LONGEST days."""
    change = _from_day(name, int(at // DAY))
    if change is not None and change <= at:
        return next_change(name, (at // DAY + 1) * DAY)
    return change


@lru_cache(maxsize=4_096)
def _from_day(name: str, day: int) -> float | None:
    before = offset(name, day * DAY)
    for later in range(day + 1, day + LONGEST):
        if offset(name, later * DAY) != before:
            return _between(name, (later - 1) * DAY, later * DAY)
    return None


def _between(name: str, low: float, high: float) -> float:
    """The second at which the offset changes; exact, because changes occur on whole seconds."""
    first, left, right = offset(name, low), int(low), int(high)
    while right - left > 1:
        middle = (left + right) // 2
        left, right = (middle, right) if offset(name, middle) == first else (left, middle)
    return float(right)
