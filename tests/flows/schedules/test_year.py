"""A year of schedules in three zones, over both changes of the clocks: each is begun exactly as an oracle says.

The clock is set by hand, the store is real. Ticks come at irregular times, from one process or two, with restarts, with
the machine asleep, and with a clock that jumps.
"""

import asyncio
import random
from bisect import bisect_right
from pathlib import Path

import pytest

from adderclaw.flows.schedules import when
from adderclaw.flows.schedules.due import GRACE, MOST_CAUGHT_UP, Missed
from adderclaw.flows.schedules.terms import Terms
from adderclaw.storage import Store
from adderclaw.storage.text import iso
from tests.flows.schedules.oracle import due_times, utc
from tests.flows.schedules.world import Place

START, END = utc(2026, 1, 1), utc(2027, 1, 1)
CRON: tuple[tuple[str, str, Missed], ...] = (
    ("Europe/Berlin", "30 2 * * *", "skip"),
    ("Europe/Berlin", "30 */12 * * *", "once"),
    ("Europe/Berlin", "0 9 * * MON-FRI", "all"),
    ("Europe/Berlin", "0 0 31 * *", "once"),
    ("America/New_York", "30 1,2 * * *", "skip"),
    ("America/New_York", "15 */12 * * *", "all"),
    ("America/New_York", "0 12 1 * MON", "once"),
    ("Australia/Lord_Howe", "45 1 * * *", "all"),
    ("Australia/Lord_Howe", "15 2 * * *", "skip"),
    ("Australia/Lord_Howe", "*/30 2 * * SUN", "once"),
)
INTERVALS: tuple[tuple[str, int, Missed], ...] = (("11h", 11 * 3_600, "skip"), ("1d", 86_400, "all"))


class Expected:
    """What the policy says of one list of due times, written down anew: no code of the program is in it."""

    def __init__(self, times: list[float], missed: Missed) -> None:
        self.times, self.missed, self.until, self.begun = times, missed, START, list[float]()

    def tick(self, now: float) -> None:
        if now < self.until:  # set back: what was begun is not begun again
            self.until = now
            return
        came = self.times[bisect_right(self.times, self.until) : bisect_right(self.times, now)]
        self.until = now
        if not came:
            return
        if self.missed == "all":
            chosen = came[-MOST_CAUGHT_UP:]
        elif self.missed == "once" or now - came[-1] <= GRACE:
            chosen = came[-1:]
        else:
            chosen = []
        self.begun += [at for at in chosen if at not in self.begun]


def moments(seed: int) -> "list[tuple[float, str]]":
    """When somebody ticks, and what happens besides."""
    draw = random.Random(seed)
    now, made = START, list[tuple[float, str]]()
    while now < END:
        kind = draw.random()
        if kind < 0.01:
            now += draw.uniform(5 * 3_600, 60 * 3_600)  # asleep
            made.append((now, "tick"))
        elif kind < 0.016:
            now -= draw.uniform(60, 5 * 3_600)  # set back
            made.append((now, "tick"))
        elif kind < 0.02:
            made.append((now + draw.uniform(3_600, 40 * 3_600), "tick"))  # set forward, and soon set right
        else:
            now += draw.uniform(20, 26_000)
            made.append((now, "restart" if kind < 0.04 else "both" if kind < 0.3 else "tick"))
    return made


@pytest.mark.parametrize("seed", [1])
def test_a_year_is_begun_exactly_as_the_oracle_says(tmp_path: Path, seed: int) -> None:
    asyncio.run(_year(tmp_path, seed))


async def _year(tmp_path: Path, seed: int) -> None:
    place = Place(tmp_path, START)
    expected: dict[str, Expected] = {}
    for number, (zone, text, missed) in enumerate(CRON):
        name = f"cron-{number}"
        place.add(name, when.cron(text, zone, START), Terms(missed=missed))
        expected[name] = Expected([at for at in due_times(text, zone, START, END + 86_400 * 3) if at > START], missed)
    for text, seconds, missed in INTERVALS:
        place.add(f"every-{text}", when.every(text, "Europe/Berlin", START), Terms(missed=missed))
        times = [START + count * seconds for count in range(1, int(370 * 86_400 / seconds))]
        expected[f"every-{text}"] = Expected(times, missed)
    one, two = place.scheduler(), place.scheduler(Store.open(place.path))
    for now, what in moments(seed):
        place.clock.at = now
        place.clock.up += 1
        if what == "restart":
            await one.close()
            place.store.close()
            place.store = Store.open(place.path)
            one = place.scheduler()
        await asyncio.gather(*[each.tick() for each in ((one, two) if what == "both" else (one,))])
        await one.settled()
        await two.settled()
        for each in expected.values():
            each.tick(now)
    await one.close()
    await two.close()
    rows = place.store.read(
        "SELECT s.name, r.due FROM schedule_runs r JOIN schedules s ON s.id = r.schedule_id"
        " WHERE r.state = 'ended' ORDER BY r.id"
    )
    for name, each in expected.items():
        assert [row[1] for row in rows if row[0] == name] == [iso(at) for at in each.begun], name
    assert len(place.begun) == len(rows) == sum(len(each.begun) for each in expected.values()) > 1_500
    place.store.close()
