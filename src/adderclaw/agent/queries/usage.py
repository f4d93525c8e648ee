"""Usage of model calls: tokens, cost, cache hits and time, grouped by day, model and others."""

import re
import time
from collections.abc import Sequence
from typing import TypedDict

from adderclaw.agent.queries import clean, reading
from adderclaw.config.legacy.options import Options
from adderclaw.core.errors import UsageError
from adderclaw.storage import model_calls
from adderclaw.storage.model_calls import By, UsageSum

UNITS = {"h": 3600, "d": 86_400, "w": 604_800}


class Usage(TypedDict):
    by: By
    since: str | None
    """In UTC."""
    rows: list[UsageSum]
    """Latest first."""
    total: UsageSum


class DayRow(UsageSum):
    day: str


def usage(options: Options, by: By = "day", since: str | None = None, places: Sequence[str] = ()) -> Usage:
    """`since`: a date, a time in UTC, or how long ago (12h, 7d, 4w). `places`: only these workspaces."""
    start = moment(since, time.time()) if since else None
    with reading(options) as store:
        rows = model_calls.usage_sums(store, by, start, workspaces=places)
        total = next(iter(model_calls.usage_sums(store, None, start, workspaces=places)), model_calls.NO_USAGE)
    return {"by": by, "since": start, "rows": [_row(row) for row in rows], "total": _row(total)}


def series(
    options: Options, by: By | None = None, since: str | None = None, places: Sequence[str] = ()
) -> list[DayRow]:
    """Usage per day, earliest first; with `by`, per day and key."""
    start = moment(since, time.time()) if since else None
    with reading(options) as store:
        rows = model_calls.usage_sums(store, by, start, daily=True, workspaces=places)
    split = [(row["key"].partition(" "), row) for row in rows]
    days: list[DayRow] = [{"day": day, **_row({**row, "key": key})} for (day, _, key), row in split]
    return sorted(days, key=lambda row: (row["day"], row["key"]))


def moment(text: str, now: float) -> str:
    """A point in time in the database's format."""
    if ago := re.fullmatch(r"([0-9]{1,5})([hdw])", text):
        return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(max(0.0, now - int(ago[1]) * UNITS[ago[2]])))
    for form in ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"):
        try:
            return time.strftime("%Y-%m-%d %H:%M:%S", time.strptime(text.removesuffix("Z"), form))
        except ValueError:
            continue
    raise UsageError(f"--since {text!r} is not a time; use a date such as 2026-05-01, or how long ago: 12h, 7d, 4w")


def _row(row: UsageSum) -> UsageSum:
    cost = None if row["cost"] is None else round(row["cost"], 6)
    mean, slow = round(row["latency_ms_mean"], 1), round(row["latency_ms_p95"], 1)
    return {**row, "key": str(clean(row["key"])), "cost": cost, "latency_ms_mean": mean, "latency_ms_p95": slow}
