"""On which terms a schedule begins its runs: what is missed, what overlaps, how late, how much in all."""

import hashlib
from datetime import datetime, timedelta
from typing import Literal

from adderclaw.core.errors import UsageError
from adderclaw.core.record import record
from adderclaw.flows.schedules.due import GRACE, Missed
from adderclaw.flows.schedules.zones import zone

type Overlap = Literal["skip", "queue", "allow"]
type Interrupted = Literal["resume", "again", "leave"]
type Period = Literal["day", "week", "month"]
PERIODS: tuple[Period, ...] = ("day", "week", "month")


@record
class Terms:
    missed: Missed = "skip"
    overlap: Overlap = "skip"
    grace: float = GRACE
    """Seconds that a due time may be late and is not missed."""
    jitter: float = 0.0
    """Each run begins up to so many seconds later than it is due: always the same for the same due time."""
    budget: float | None = None
    """US dollars that its runs may cost together in each period."""
    period: Period = "month"
    follow: bool = False
    """The file that it begins may change."""
    interrupted: Interrupted = "resume"
    """What happens to a run whose process was killed: it is resumed, begun again, or left."""

    def delay(self, schedule_id: str, due: float) -> float:
        if not self.jitter:
            return 0.0
        drawn = hashlib.sha256(f"{schedule_id} {due:.0f}".encode()).digest()
        return int.from_bytes(drawn[:6], "big") / (1 << 48) * self.jitter

    @property
    def queues(self) -> bool:
        """What is due while another run is under way waits for it: so does all that `missed = all` catches up on."""
        return self.overlap == "queue" or (self.missed == "all" and self.overlap == "skip")

    def period_began(self, now: float, zone_name: str) -> float:
        """By the calendar of the schedule's zone: midnight, Monday, or the first."""
        there = datetime.fromtimestamp(now, zone(zone_name)).replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
        if self.period == "week":
            there -= timedelta(days=there.weekday())
        elif self.period == "month":
            there = there.replace(day=1)
        return there.timestamp()


def budget(text: str) -> tuple[float, Period]:
    """`5/day`, `20/month` as dollars and their period."""
    number, slash, period = text.removeprefix("$").partition("/")
    for name in PERIODS:
        try:
            amount = float(number)
        except ValueError:
            break
        if slash and period == name and 0 <= amount < 1_000_000:
            return amount, name
    raise UsageError(f"--budget {text[:60]!r}: give dollars for a day, a week or a month, such as 5/day")
