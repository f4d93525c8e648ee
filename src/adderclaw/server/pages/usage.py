"""The page of what model calls take: tokens, cost, cache hits and latency over time, by model and project."""

import os
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from adderclaw.agent.queries import usage
from adderclaw.agent.queries.usage import DayRow
from adderclaw.agent.view.html import Html, el
from adderclaw.agent.view.plots import COLOURS, Plot, Series, columns, lines, short, spark
from adderclaw.core.errors import AdderClawError
from adderclaw.core.record import NamedTuple
from adderclaw.server.client_scope import places
from adderclaw.server.endpoint import Called, Endpoint
from adderclaw.server.pages.asked import failed, found, one_of
from adderclaw.server.pages.layout import layout
from adderclaw.server.pages.parts import empty, figure, part, table
from adderclaw.storage.model_calls import Used

if TYPE_CHECKING:
    from starlette.responses import HTMLResponse

HERE = "/ui/usage"
RANGES = {"7d": (7, "7 days"), "30d": (30, "30 days"), "13w": (91, "13 weeks"), "52w": (364, "a year")}
DEFAULT = "30d"
WEEKLY = 60
"""With more days than these, a place on the way is a week."""


class _Found(NamedTuple):
    days: list[DayRow]
    by_model: list[DayRow]
    by_project: list[DayRow]
    models: list[Used]
    projects: list[Used]
    total: Used


async def _answer(called: Called) -> "HTMLResponse":
    chosen = one_of(called, "range", list(RANGES), DEFAULT)
    options = called.house.options

    def look() -> _Found:
        seen = places(called)
        models = usage.usage(options, "model", chosen, seen)
        return _Found(
            usage.series(options, None, chosen, seen),
            usage.series(options, "model", chosen, seen),
            usage.series(options, "project", chosen, seen),
            models["rows"],
            usage.usage(options, "project", chosen, seen)["rows"],
            models["total"],
        )

    try:
        shown = await found(look)
    except AdderClawError as error:
        return failed(called, "Usage", error, "/")
    content = _content(shown, RANGES[chosen][0]) if shown.total["calls"] else [_none(chosen)]
    region = el("div", content, id="usage", data_region=True, data_refresh="30")
    lead = "What model calls took. Days are those of UTC."
    return layout(called, "Usage", region, here=HERE, lead=lead, actions=_ranges(chosen), wide=True)


def _ranges(chosen: str) -> Html:
    made = [
        el("a", words, href=f"{HERE}?range={key}", class_="button", aria_current="true" if key == chosen else None)
        for key, (_, words) in RANGES.items()
    ]
    return el("div", made, class_="segments", role="group", aria_label="Range")


def _none(chosen: str) -> Html:
    words = el("p", "A model call is counted here as soon as it was answered.")
    return empty(f"No model was called in the last {RANGES[chosen][1]}.", words)


# ------------------------------------------------------------------ the figures


def _content(shown: _Found, days: int) -> Iterator[Html]:
    total = shown.total
    read, fresh = total["cache_read_tokens"], total["input_tokens"] + total["cache_write_tokens"]
    hits = read / (read + fresh) if read + fresh else None
    unpriced = f", {total['unpriced']:,} calls without a price" if total["unpriced"] else ""
    estimated = f", estimated in {total['estimated']:,} calls" if total["estimated"] else ""
    yield el(
        "div",
        figure(short(total["cost"], "usd"), f"cost{unpriced}"),
        figure(short(read + fresh, "tokens"), f"tokens in, {short(total['output_tokens'], 'tokens')} out{estimated}"),
        figure(short(hits, "share"), "of the input came from a cache"),
        figure(short(total["calls"]), f"calls, {total['failed']:,} failed"),
        figure(short(total["latency_ms_p95"] / 1000, "seconds"), "95 of 100 calls took less"),
        class_="tiles part",
    )
    axis = _Places(days)
    yield el("div", [el("div", one, class_="card") for one in _plots(shown, axis)], class_="plots part")
    yield _rows("By model", "Model", shown.models, shown.by_model, axis)
    yield _rows("By project", "Project", shown.projects, shown.by_project, axis)


class _Places:
    """The days (or weeks) of a range, each with its label."""

    def __init__(self, days: int) -> None:
        today = datetime.fromtimestamp(time.time(), UTC).date()
        self.width = 7 if days > WEEKLY else 1
        self.count = -(-days // self.width)
        self._first = today - timedelta(days=self.count * self.width - 1)

    @property
    def labels(self) -> list[str]:
        return [f"{self._first + timedelta(days=at * self.width):%d %b}" for at in range(self.count)]

    def of(self, rows: Sequence[DayRow], key: str | None = None) -> list[list[DayRow]]:
        """The rows of each place; with a key, of that alone."""
        made: list[list[DayRow]] = [[] for _ in range(self.count)]
        for row in rows:
            at = (datetime.fromisoformat(row["day"]).date() - self._first).days // self.width
            if key in (None, row["key"]):
                made[min(max(at, 0), self.count - 1)].append(row)
        return made


def _plots(shown: _Found, axis: _Places) -> Iterator[Html]:
    days, labels = axis.of(shown.days), axis.labels
    models = [row["key"] for row in sorted(shown.models, key=lambda row: -(row["cost"] or 0.0))]
    named, others = models[: COLOURS - 1], models[COLOURS - 1 :]

    def cost(key: str) -> list[float]:
        return [sum(row["cost"] or 0.0 for row in rows) for rows in axis.of(shown.by_model, key)]

    series = [Series(key or "unknown", cost(key)) for key in named if any(cost(key))]
    if others:
        series.append(Series("others", [sum(at) for at in zip(*map(cost, others), strict=True)]))
    if series:
        yield columns(Plot("Cost by model", "usd", labels, series))
    yield columns(
        Plot(
            "Tokens",
            "tokens",
            labels,
            [
                Series("from a cache", [_sum(rows, "cache_read_tokens") for rows in days]),
                Series("new", [_sum(rows, "input_tokens") + _sum(rows, "cache_write_tokens") for rows in days]),
                Series("out", [_sum(rows, "output_tokens") for rows in days]),
            ],
        )
    )
    yield lines(
        Plot("Input that came from a cache", "share", labels, [Series("share", [_hits(rows) for rows in days])])
    )
    mean = Series("mean", [_weighted(rows, "latency_ms_mean") for rows in days])
    slow = Series("95th percentile", [_most(rows, "latency_ms_p95") for rows in days])
    yield lines(Plot("Time of a call", "seconds", labels, [mean, slow]))


def _sum(rows: Sequence[DayRow], name: str) -> float:
    return float(sum(row[name] or 0 for row in rows))  # pyright: ignore[reportGeneralTypeIssues, reportUnknownArgumentType]


def _hits(rows: Sequence[DayRow]) -> float | None:
    read = _sum(rows, "cache_read_tokens")
    whole = read + _sum(rows, "input_tokens") + _sum(rows, "cache_write_tokens")
    return read / whole if whole else None


def _weighted(rows: Sequence[DayRow], name: str) -> float | None:
    calls = sum(row["calls"] for row in rows)
    return sum(row[name] * row["calls"] for row in rows) / calls / 1000 if calls else None  # pyright: ignore


def _most(rows: Sequence[DayRow], name: str) -> float | None:
    return max((row[name] / 1000 for row in rows), default=None)  # pyright: ignore


def _rows(title: str, what: str, rows: Sequence[Used], days: Sequence[DayRow], axis: _Places) -> Html:
    made = [
        (
            el("span", _named(row["key"]), title=row["key"] or None),
            spark([_sum(at, "calls") for at in axis.of(days, row["key"])], f"Calls of {row['key']} over time"),
            f"{row['calls']:,}",
            short(row["input_tokens"] + row["cache_write_tokens"], "tokens"),
            short(row["cache_read_tokens"], "tokens"),
            short(row["output_tokens"], "tokens"),
            short(row["latency_ms_mean"] / 1000, "seconds"),
            short(row["cost"], "usd"),
        )
        for row in sorted(rows, key=lambda row: -row["calls"])[:100]
    ]
    head = (what, "Calls over time", "Calls", "New in", "Cached", "Out", "Mean time", "Cost")
    shown = table(head, made, caption=title, numbers=frozenset(range(2, 8)))
    return part(title, el("div", shown, class_="card flush"))


def _named(key: str) -> str:
    return os.path.basename(key) if key.startswith("/") else key or "unknown"


ENDPOINTS = (
    Endpoint("GET", HERE, "read", _answer, "The page of what model calls took.", is_page=True, reach="filtered"),
)
