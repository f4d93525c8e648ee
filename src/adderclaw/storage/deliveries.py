"""Received signed requests as rows: each is claimed before anything starts, so that it takes effect only once.

A claim is one transaction, so of two servers that get the same request only one starts something. A process that is
killed between the claim and the start leaves a row without effect: the sender has to send the request with a new id.
"""

from collections.abc import Sequence

from adderclaw.core.record import NamedTuple
from adderclaw.storage import Store
from adderclaw.storage.text import iso, plain

KEEP_SECONDS = 30 * 86_400.0
"""Seconds that an id is stored: the timestamp of its signature is refused long before, even if a clock is set back."""
DAY = 86_400.0


class Claim(NamedTuple):
    source: str
    """Where the request came in: `trigger:NAME`, `channel:NAME`, `channel:NAME:SENDER`."""
    id: str
    seconds: float | None = KEEP_SECONDS
    """How long the id is stored; None: forever, because the request does not contain the time of its signature."""


class Delivery(NamedTuple):
    source: str
    id: str
    received_at: str
    expires_at: str | None
    became: str
    """The id of the run or turn that it started; empty before the start, or if the process was killed before it."""


class DailyLimitReached(Exception):
    """The source has reached its limit of requests per day; nothing was claimed."""


def claim(store: Store, claims: Sequence[Claim], now: float, *, most: int | None = None) -> Delivery | None:
    """Claim all ids and return None, or return the earlier delivery that has one of them and change nothing.

    `most`: the daily limit of requests for the source of the last claim; raises DailyLimitReached.
    """
    with store.write() as cursor:
        cursor.execute("DELETE FROM deliveries WHERE expires_at < ?", (iso(now),))
        for new in claims:
            earlier = cursor.execute(
                "SELECT door, id, received_at, expires_at, became FROM deliveries WHERE door = ? AND id = ?",
                (plain(new.source), plain(new.id)),
            ).fetchone()
            if earlier is not None:
                return Delivery(*earlier)
        if most is not None:
            (count,) = cursor.execute(
                "SELECT count(*) FROM deliveries WHERE door = ? AND received_at > ?",
                (plain(claims[-1].source), iso(now - DAY)),
            ).fetchone()
            if count >= most:
                raise DailyLimitReached(claims[-1].source)
        for new in claims:
            cursor.execute(
                "INSERT INTO deliveries(door, id, received_at, expires_at) VALUES (?, ?, ?, ?)",
                (plain(new.source), plain(new.id), iso(now), None if new.seconds is None else iso(now + new.seconds)),
            )
    return None


def record_start(store: Store, claims: Sequence[Claim], became: str) -> None:
    """Record the run or turn that a request started."""
    with store.write() as cursor:
        for claimed in claims:
            cursor.execute(
                "UPDATE deliveries SET became = ? WHERE door = ? AND id = ?",
                (plain(became), plain(claimed.source), plain(claimed.id)),
            )


def release(store: Store, claims: Sequence[Claim]) -> None:
    """Delete the claims of a request that certainly started nothing, so that it may come again with the same id."""
    with store.write() as cursor:
        for claimed in claims:
            cursor.execute(
                "DELETE FROM deliveries WHERE door = ? AND id = ? AND became = ''",
                (plain(claimed.source), plain(claimed.id)),
            )
