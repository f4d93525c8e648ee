"""Plots as SVG: columns and lines over time, sparklines, shares of a whole; each also as a table.

Colours are classes of the page's stylesheet, so that a plot works in light and dark mode without inline styles.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from adderclaw.agent.view.markup import macro
from adderclaw.agent.view.numbers import Unit, short
from adderclaw.core.record import NamedTuple

if TYPE_CHECKING:
    from markupsafe import Markup

WIDTH, HEIGHT = 480, 190
LEFT, RIGHT, TOP, BOTTOM = 46, 6, 12, 22
COLOURS = 6
"""Classes s1 … s6; further series use the last."""
WIDEST = 26.0
"""The maximum width of a column."""


class Series(NamedTuple):
    name: str
    values: Sequence[float | None]
    """One value for each label; None if it is unknown."""


class Plot(NamedTuple):
    title: str
    unit: Unit
    labels: Sequence[str]
    """The labels of the horizontal axis, the earliest first."""
    series: Sequence[Series]

    @property
    def head(self) -> list[str]:
        return ["", *(series.name for series in self.series)]

    @property
    def rows(self) -> list[list[str]]:
        """The values as a table."""
        return [
            [label, *(short(series.values[at], self.unit) for series in self.series)]
            for at, label in enumerate(self.labels)
        ]


class Share(NamedTuple):
    """A part of a whole."""

    name: str
    value: float
    colour: str
    """A class."""


# ------------------------------------------------------------------ numbers


def ticks(top: float, *, whole: bool = False) -> list[float]:
    """Axis values from 0 to the first round number that is at least `top`, in two to five steps."""
    if not 1e-12 < top < 1e300:
        top = 1.0
    step = 10.0 ** math.floor(math.log10(top / 3))
    step *= next(factor for factor in (1, 2, 5, 10) if top / (step * factor) <= 5)
    step = max(step, 1.0) if whole else step
    return [step * number for number in range(math.ceil(top / step - 1e-9) + 1)]


# ------------------------------------------------------------------ plots


def columns(plot: Plot) -> "Markup":
    """Stacked columns, one for each label."""
    sums = [sum(series.values[at] or 0.0 for series in plot.series) for at in range(len(plot.labels))]
    return _drawn("columns", plot, Scale(max(sums, default=0.0), len(plot.labels), plot.unit))


def lines(plot: Plot) -> "Markup":
    """A line for each series, with gaps for unknown values."""
    known = [value for series in plot.series for value in series.values if value is not None]
    return _drawn("lines", plot, Scale(max(known, default=0.0), len(plot.labels), plot.unit))


def spark(values: Sequence[float], title: str) -> "Markup":
    """A line without axes, for a table cell."""
    width, height, top = 120.0, 28.0, max([*values, 1e-12])
    step = width / max(1, len(values) - 1)
    points = [f"{at * step:.1f},{height - 2 - value / top * (height - 4):.1f}" for at, value in enumerate(values)]
    if len(points) == 1:
        points.append(f"{width:.1f},{points[0].partition(',')[2]}")
    return _drawn("spark", points, title)


def shares(title: str, parts: Sequence[Share]) -> "Markup":
    """A divided bar, with the names of its parts below."""
    total = sum(part.value for part in parts)
    at, bars = 0.0, list[tuple[Share, float, float]]()
    for part in parts:
        if part.value > 0:
            width = part.value / total * 100
            bars.append((part, at, max(width - 0.4, 0.3)))
            at += width
    words = ", ".join(f"{part.name} {short(part.value)}" for part in parts if part.value) or "nothing yet"
    return _drawn("shares", f"{title}: {words}", parts, bars)


def _drawn(name: str, *values: object) -> "Markup":
    return macro("plots", name, *values)


class Scale:
    """Converts values to coordinates."""

    def __init__(self, top: float, places: int, unit: Unit) -> None:
        self.ticks = ticks(top, whole=unit in ("count", "tokens")) if unit != "share" else [0.0, 0.25, 0.5, 0.75, 1.0]
        self.step = (WIDTH - LEFT - RIGHT) / max(1, places)
        self.every = max(1, math.ceil(places / 6))
        """Every how many labels one is written."""
        self.width = min(WIDEST, self.step * 0.74)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - min(1.0, value / self.ticks[-1]) * (HEIGHT - TOP - BOTTOM)

    def x(self, at: int) -> float:
        return LEFT + self.step * (at + 0.5)

    def column(self, plot: Plot, at: int) -> list[tuple[int, float, float]]:
        """The number, upper edge and height of each part of a column."""
        base, parts = 0.0, list[tuple[int, float, float]]()
        for number, series in enumerate(plot.series):
            if (value := series.values[at] or 0.0) > 0:
                y = self.y(base + value)
                parts.append((number, y, max(0.8, self.y(base) - y)))
                base += value
        return parts

    def runs(self, values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
        """The positions and values of each unbroken part of a line."""
        runs: list[list[tuple[int, float]]] = [[]]
        for at, value in enumerate(values):
            if value is None:
                runs.append([])
            else:
                runs[-1].append((at, value))
        return runs
