"""The page of model usage: tokens, cost, cache hits and latency over time, by model and project."""

import os
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from adderclaw.agent.queries import usage
from adderclaw.agent.queries.usage import DayRow
from adderclaw.agent.view.plots import COLOURS, Plot, Series, columns, lines, spark
from adderclaw.core.record import NamedTuple
from adderclaw.server.client_scope import visible_folders
from adderclaw.server.endpoint import ApiRequest
from adderclaw.server.pages.page import Entry, in_thread, page, query_text
from adderclaw.storage.model_calls import UsageSum

if TYPE_CHECKING:
    from markupsafe import Markup

RANGES = {"7d": (7, "7 days"), "30d": (30, "30 days"), "13w": (91, "13 weeks"), "52w": (364, "a year")}
DEFAULT = "30d"
WEEKLY = 60
"""The most days that are plotted by day; longer ranges are plotted by week."""


class Row(NamedTuple):
    name: str
    key: str
    spark: "Markup"
    used: UsageSum


class Output(NamedTuple):
    ranges: dict[str, tuple[int, str]]
    chosen: str
    total: UsageSum
    plots: "list[Markup]"
    tables: list[tuple[str, str, list[Row]]]
    """Title, name of the first column, and rows."""
    read: int
    """Input tokens that came from a cache."""
    fresh: int

    @property
    def hits(self) -> float | None:
        return self.read / (self.read + self.fresh) if self.read + self.fresh else None


class _Figures(NamedTuple):
    days: list[DayRow]
    by_model: list[DayRow]
    by_project: list[DayRow]
    models: list[UsageSum]
    projects: list[UsageSum]
    total: UsageSum


async def _read(request: ApiRequest) -> Output:
    chosen = query_text(request, "range", list(RANGES), DEFAULT)
    options, seen = request.state.options, visible_folders(request)

    def read() -> _Figures:
        models = usage.usage(options, "model", chosen, seen)
        return _Figures(
            usage.series(options, None, chosen, seen),
            usage.series(options, "model", chosen, seen),
            usage.series(options, "project", chosen, seen),
            models["rows"],
            usage.usage(options, "project", chosen, seen)["rows"],
            models["total"],
        )

    figures = await in_thread(read)
    total, axis = figures.total, _Axis(RANGES[chosen][0])
    tables = [
        ("By model", "Model", _rows(figures.models, figures.by_model, axis)),
        ("By project", "Project", _rows(figures.projects, figures.by_project, axis)),
    ]
    read_tokens, fresh = total["cache_read_tokens"], total["input_tokens"] + total["cache_write_tokens"]
    plots = list(_plots(figures, axis)) if total["calls"] else []
    return Output(RANGES, chosen, total, plots, tables, read_tokens, fresh)


class _Axis:
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
        """The rows of each day or week; with a key, only its rows."""
        buckets: list[list[DayRow]] = [[] for _ in range(self.count)]
        for row in rows:
            at = (datetime.fromisoformat(row["day"]).date() - self._first).days // self.width
            if key in (None, row["key"]):
                buckets[min(max(at, 0), self.count - 1)].append(row)
        return buckets


def _plots(figures: _Figures, axis: _Axis) -> "Iterator[Markup]":
    days, labels = axis.of(figures.days), axis.labels
    models = [row["key"] for row in sorted(figures.models, key=lambda row: -(row["cost"] or 0.0))]
    named, others = models[: COLOURS - 1], models[COLOURS - 1 :]

    def cost(key: str) -> list[float]:
        return [sum(row["cost"] or 0.0 for row in rows) for rows in axis.of(figures.by_model, key)]

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
    mean = Series("mean", [_weighted_mean(rows, "latency_ms_mean") for rows in days])
    slow = Series("95th percentile", [_maximum(rows, "latency_ms_p95") for rows in days])
    yield lines(Plot("Time of a call", "seconds", labels, [mean, slow]))


def _sum(rows: Sequence[DayRow], name: str) -> float:
    return float(sum(row[name] or 0 for row in rows))  # pyright: ignore[reportGeneralTypeIssues, reportUnknownArgumentType]


def _hits(rows: Sequence[DayRow]) -> float | None:
    read = _sum(rows, "cache_read_tokens")
    whole = read + _sum(rows, "input_tokens") + _sum(rows, "cache_write_tokens")
    return read / whole if whole else None


def _weighted_mean(rows: Sequence[DayRow], name: str) -> float | None:
    calls = sum(row["calls"] for row in rows)
    return sum(row[name] * row["calls"] for row in rows) / calls / 1000 if calls else None  # pyright: ignore


def _maximum(rows: Sequence[DayRow], name: str) -> float | None:
    return max((row[name] / 1000 for row in rows), default=None)  # pyright: ignore


def _rows(rows: Sequence[UsageSum], days: Sequence[DayRow], axis: _Axis) -> list[Row]:
    def row(used: UsageSum) -> Row:
        key = used["key"]
        name = os.path.basename(key) if key.startswith("/") else key or "unknown"
        return Row(
            name, key, spark([_sum(at, "calls") for at in axis.of(days, key)], f"Calls of {key} over time"), used
        )

    return [row(used) for used in sorted(rows, key=lambda used: -used["calls"])[:100]]


ENTRY = Entry(30, "/ui/usage", "Usage", "u")
ENDPOINTS = (page(ENTRY.path, _read, "usage.html", "What model calls took."),)
