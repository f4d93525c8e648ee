"""The terms on which a schedule begins its runs: missed and overlapping runs, delays, and the budget."""

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
    """Seconds that a due time may be late without being missed."""
    jitter: float = 0.0
    """Each run begins up to this many seconds late; the same due time always gets the same delay."""
    budget: float | None = None
    """US dollars that all its runs together may cost in each period."""
    period: Period = "month"
    follow: bool = False
    """Whether the Agentfile or SOP may change."""
    interrupted: Interrupted = "resume"
    """What happens to a run whose process was killed: it is resumed, begun again, or left."""

    def delay(self, schedule_id: str, due: float) -> float:
        if not self.jitter:
            return 0.0
        drawn = hashlib.sha256(f"{schedule_id} {due:.0f}".encode()).digest()
        return int.from_bytes(drawn[:6], "big") / (1 << 48) * self.jitter

    @property
    def queues(self) -> bool:
        """Whether a due time waits while a run is under way. With `missed = all`, late ones wait for each other too."""
        return self.overlap == "queue" or (self.missed == "all" and self.overlap == "skip")

    def period_began(self, now: float, zone_name: str) -> float:
        """The last midnight, Monday, or first of the month in the schedule's zone."""
        there = datetime.fromtimestamp(now, zone(zone_name)).replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
        if self.period == "week":
            there -= timedelta(days=there.weekday())
        elif self.period == "month":
            there = there.replace(day=1)
        return there.timestamp()


def budget(text: str) -> tuple[float, Period]:
    """Parses `5/day` or `20/month` into dollars and their period."""
    number, slash, period = text.removeprefix("$").partition("/")
    for name in PERIODS:
        try:
            amount = float(number)
        except ValueError:
            break
        if slash and period == name and 0 <= amount < 1_000_000:
            return amount, name
    raise UsageError(f"--budget {text[:60]!r}: give dollars per day, week or month, such as 5/day")
