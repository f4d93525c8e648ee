"""When cron fires, found by brute force: every minute of UTC is looked at, and nothing of the program is asked."""

from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


def _number(text: str, place: int) -> int:
    names = {3: MONTHS, 4: DAYS}.get(place, ())
    return names.index(text) + (place == 3) if text in names else int(text)


def _field(text: str, place: int) -> frozenset[int]:
    low, high = BOUNDS[place]
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, _, last = (str(low), "", str(high)) if span == "*" else span.partition("-")
        start = _number(first, place)
        end = _number(last, place) if last else (high if step else start)
        found |= set(range(start, end + 1, int(step or 1)))
    return frozenset(found)


class Expression:
    def __init__(self, text: str) -> None:
        self.fields = text.upper().split()
        self.sets = [_field(one, place) for place, one in enumerate(self.fields)]
        self.is_fixed = not (self.fields[0].startswith("*") or self.fields[1].startswith("*"))

    def matches(self, wall: int) -> bool:
        """Whether a wall clock that shows this many minutes since 1970 fits."""
        hour, minute = wall // 60 % 24, wall % 60
        return minute in self.sets[0] and hour in self.sets[1] and self._matches_day(_EPOCH + wall // 1_440)

    @lru_cache(maxsize=2_000)  # noqa: B019 - as long as a test
    def _matches_day(self, ordinal: int) -> bool:
        day = date.fromordinal(ordinal)
        of_month, of_week = day.day in self.sets[2], bool({day.isoweekday(), day.isoweekday() % 7} & self.sets[4])
        both = self.fields[2].startswith("*") or self.fields[4].startswith("*")
        return day.month in self.sets[3] and ((of_month and of_week) if both else (of_month or of_week))


_EPOCH = date(1970, 1, 1).toordinal()


@lru_cache(maxsize=8)
def offsets(zone: str, start: int, end: int) -> dict[int, int]:
    """Every quarter of an hour of UTC, and by how many minutes the clocks of the zone are before it then."""
    there, found = ZoneInfo(zone), dict[int, int]()
    for quarter in range(start // 900, end // 900):  # clocks are changed at quarters
        moved = datetime.fromtimestamp(quarter * 900, there).utcoffset() or timedelta()
        found[quarter] = int(moved.total_seconds()) // 60
    return found


def due_times(text: str, zone: str, start: float, end: float) -> list[float]:
    """Every due time of [start, end)."""
    expression, moved = Expression(text), offsets(zone, int(start), int(end))
    if not expression.is_fixed:
        return [
            at * 60.0
            for quarter, before in moved.items()
            if (quarter * 15 + before) // 60 % 24 in expression.sets[1]
            for at in range(quarter * 15, quarter * 15 + 15)
            if expression.matches(at + before)
        ]
    found, every = set[float](), set(moved.values())
    first, last = min(moved) * 15 + moved[min(moved)], max(moved) * 15 + 14 + moved[max(moved)]
    for hour in range(first // 60, last // 60 + 1):  # all that a wall clock can show, whether or not this one does
        if hour % 24 in expression.sets[1]:
            for wall in (hour * 60 + minute for minute in expression.sets[0]):
                if first <= wall <= last and expression.matches(wall):
                    found |= _first_from(wall, last, moved, every)
    return sorted(found)


def _first_from(wall: int, last: int, moved: dict[int, int], every: set[int]) -> set[float]:
    """When the clocks first show this time, or the next one that they show at all; `every` offset of the zone."""
    while wall <= last:
        if shown := [wall - one for one in every if moved.get((wall - one) // 15) == one]:
            return {min(shown) * 60.0}
        wall += 1
    return set()


def utc(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> float:
    return datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp()
