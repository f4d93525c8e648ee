"""Rate limits as token buckets, and the time limits of a shutdown."""

from collections.abc import Callable

from adderclaw.core.record import NamedTuple

ANSWERS_END = 3
"""Seconds that answers under way have once everything else has ended."""
LAST_NOTICES = 2.0
"""Seconds that notices of what ended have to be sent; what is not sent waits for the next process."""
EXIT_SLACK = 2.0
"""Seconds more after which the process is gone, whatever is still under way."""
MOST_BUCKETS = 10_000
"""Buckets that are kept at a time."""


class Rate(NamedTuple):
    per_second: float
    at_once: float


REQUESTS = Rate(200, 1_000)
"""Of one client."""
FAILURES = Rate(1, 20)
"""Tokens that are none, of all who come without one: a guess more than that is not looked at."""
OPEN = Rate(50, 200)
"""Requests that need no token, of all who come to one path."""
ADDRESS = Rate(20, 100)
"""Requests with a signature, of one address, before the signature is looked at."""
DELIVERY = Rate(5, 60)
"""Requests that were signed, at one door."""


class Rates:
    def __init__(
        self,
        monotonic: Callable[[], float],
        *,
        requests: Rate = REQUESTS,
        failures: Rate = FAILURES,
        open_to_all: Rate = OPEN,
        addresses: Rate = ADDRESS,
        deliveries: Rate = DELIVERY,
    ) -> None:
        self._monotonic = monotonic
        self._rates = {"client": requests, "failure": failures, "open": open_to_all}
        self._rates |= {"address": addresses, "delivery": deliveries}
        self._left: dict[tuple[str, str], tuple[float, float]] = {}
        """Of each bucket what was left in it, and when that was."""

    def wait(self, kind: str, who: str = "") -> float:
        """Take one from a bucket: 0, or the seconds to wait until one is available."""
        rate, now = self._rates[kind], self._monotonic()
        left, since = self._left.pop((kind, who), (rate.at_once, now))
        left = min(rate.at_once, left + (now - since) * rate.per_second)
        is_allowed = left >= 1
        self._left[kind, who] = (left - 1 if is_allowed else left, now)
        if len(self._left) > MOST_BUCKETS:
            del self._left[next(iter(self._left))]
        return 0.0 if is_allowed else (1 - left) / rate.per_second
