"""Signed requests that were received, as rows: each is claimed before anything begins, and counts once, for ever.

A claim is one transaction, so of two servers that get the same request one begins something. A process that is killed
between the claim and the beginning leaves a row that became nothing: the sender is told to send anew, under another id.
"""

from collections.abc import Sequence

from adderclaw.core.record import NamedTuple
from adderclaw.storage import Store
from adderclaw.storage.text import iso, plain

KEEP_SECONDS = 30 * 86_400.0
"""Seconds for which an id is kept: the time in a signature is refused long before, even if a clock is set back."""
DAY = 86_400.0


class Claim(NamedTuple):
    source: str
    """Where it came: `trigger:NAME`, `channel:NAME`, `channel:NAME:SENDER`."""
    id: str
    seconds: float | None = KEEP_SECONDS
    """None: kept for ever, since nothing in the request says when it was signed."""


class Delivery(NamedTuple):
    source: str
    id: str
    received_at: str
    expires_at: str | None
    became: str
    """What began with it: the id of a run or turn. Empty: nothing yet, or the process was killed before that."""


class DailyLimitReached(Exception):
    """The door took as many requests as it may within a day; nothing was claimed."""


def claim(store: Store, claims: Sequence[Claim], now: float, *, most: int | None = None) -> Delivery | None:
    """None: all of them are ours, from now on; else the earlier delivery that has one of the ids, and nothing changes.

    `most`: how many requests the door of the last claim takes within a day; raises TooMany.
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
    """Note what began with a request."""
    with store.write() as cursor:
        for claimed in claims:
            cursor.execute(
                "UPDATE deliveries SET became = ? WHERE door = ? AND id = ?",
                (plain(became), plain(claimed.source), plain(claimed.id)),
            )


def release(store: Store, claims: Sequence[Claim]) -> None:
    """Nothing began with a request, and that is sure: it may come again under the same id."""
    with store.write() as cursor:
        for claimed in claims:
            cursor.execute(
                "DELETE FROM deliveries WHERE door = ? AND id = ? AND became = ''",
                (plain(claimed.source), plain(claimed.id)),
            )
