"""Times in a page: in words for a person, exact for a program."""

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markupsafe import Markup

UNITS = ((60, 1, "second"), (3600, 60, "minute"), (86_400, 3600, "hour"), (864_000, 86_400, "day"))


def moment(seconds: float | None) -> "Markup | str":
    """A time element; the script adds the local time. Empty where no time is known."""
    from markupsafe import Markup

    if seconds is None:
        return ""
    at = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    return Markup('<time datetime="{}" data-when>{}</time>').format(at, ago(seconds))


def ago(seconds: float, now: float | None = None) -> str:
    past = (time.time() if now is None else now) - seconds
    for limit, size, unit in UNITS:
        if past < limit:
            count = max(int(past // size), 0)
            return "now" if unit == "second" and count < 5 else f"{count} {unit}{'' if count == 1 else 's'} ago"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def iso_seconds(text: str) -> float | None:
    """The time of a row in seconds; None where the text is not a time."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
