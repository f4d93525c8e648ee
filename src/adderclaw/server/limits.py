"""Rate limits as token buckets, and the time limits of a shutdown."""

from collections.abc import Callable

from adderclaw.core.record import NamedTuple

ANSWERS_END = 3
"""Seconds for unfinished responses after everything else has ended."""
LAST_NOTICES = 2.0
"""Seconds for sending the last notices; the next process sends the rest."""
EXIT_SLACK = 2.0
"""Additional seconds after which the process exits in any case."""
MOST_BUCKETS = 10_000


class Rate(NamedTuple):
    per_second: float
    at_once: float


REQUESTS = Rate(200, 1_000)
"""Requests of a client."""
FAILURES = Rate(1, 20)
"""Invalid tokens of all clients together; above that, tokens are not even checked."""
OPEN = Rate(50, 200)
"""Requests without a token to a path, of all clients together."""
ADDRESS = Rate(20, 100)
"""Signed requests from an address, before the signature is verified."""
DELIVERY = Rate(5, 60)
"""Verified signed requests to an endpoint."""


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
        """Bucket → what was left in it, and at which time."""

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
