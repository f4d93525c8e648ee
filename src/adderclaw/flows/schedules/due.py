"""What is due now, as a pure function of times, including the policy for missed runs."""

from collections.abc import Callable, Iterator
from itertools import islice, takewhile
from typing import Literal

from adderclaw.core.record import NamedTuple
from adderclaw.flows.schedules.when import When, after, following, shown

type Missed = Literal["skip", "once", "all"]

MOST_CAUGHT_UP = 24
"""The most due times that `all` begins late: the latest ones."""
MOST_COUNTED = 1_000
"""The most missed due times that are counted."""
GRACE = 3_600.0
"""Seconds that a due time may be late without being missed."""


class Due(NamedTuple):
    """What is due for a schedule at one check."""

    fire: tuple[float, ...]
    """Due times that begin a run now, oldest first."""
    missed: tuple[float, ...]
    """The first and the last of the missed due times; empty if none was missed."""
    number: int
    """How many were missed; MOST_COUNTED means that many or more."""
    until: float
    """Everything that was due up to this instant is handled."""


def due(
    when: When,
    since: float,
    now: float,
    *,
    missed: Missed,
    grace: float = GRACE,
    delay: Callable[[float], float] = lambda _due: 0.0,
) -> Due:
    """What became due after `since` until now. `delay`: how much later than due a run begins (jitter)."""
    if now <= since:
        return Due((), (), 0, since)
    ready = _latest(when, since, now, MOST_CAUGHT_UP + 1)
    until = now
    while ready and ready[-1] + delay(ready[-1]) > now:  # due, but its delay is not over yet
        ready.pop()
        until = ready[-1] if ready else since
    if not ready:
        return Due((), (), 0, until)
    late = now - ready[-1] - delay(ready[-1]) > grace
    limit = MOST_CAUGHT_UP if missed == "all" else 0 if missed == "skip" and late else 1
    fire = tuple(ready[-limit:]) if limit else ()
    first = after(when, since)
    left = _count(when, since, fire[0] if fire else ready[-1] + 1)
    if not left or first is None:
        return Due(fire, (), 0, until)
    last = ready[-1] if not fire else (ready[-len(fire) - 1] if len(ready) > len(fire) else first)
    return Due(fire, (first, last), left, until)


def _latest(when: When, since: float, now: float, most: int) -> list[float]:
    """The last due times of a span, however long it is: windows that end now are searched, each wider than before."""
    width = 3_600.0
    while True:
        start = max(since, now - width)
        times = list(_until(when, start, now))
        if len(times) >= most or start == since:
            return times[-most:]
        width *= 4


def _until(when: When, since: float, now: float) -> Iterator[float]:
    for at in following(when, since):
        if at > now:
            return
        yield at


def _count(when: When, since: float, before: float) -> int:
    return sum(1 for _ in takewhile(lambda at: at < before, islice(following(when, since), MOST_COUNTED)))


def missed_text(when: When, due_times: Due) -> str:
    first, last = (shown(at, when.zone) for at in due_times.missed)
    if due_times.number == 1:
        return f"due {last}, and nothing ticked in time"
    many = f"{MOST_COUNTED} or more" if due_times.number >= MOST_COUNTED else str(due_times.number)
    return f"{many} due times from {first} to {last} passed, and nothing ticked in time"
