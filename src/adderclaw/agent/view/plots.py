"""Figures as pictures: columns and lines over time, a sparkline, shares of a whole; each with the same as a table.

Colours come from the page's stylesheet by class, so that a plot is right in light and dark and needs no inline style.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from adderclaw.agent.view.html import Child, Html, el
from adderclaw.core.record import NamedTuple

type Unit = Literal["count", "tokens", "usd", "seconds", "share"]

WIDTH, HEIGHT = 480, 190
LEFT, RIGHT, TOP, BOTTOM = 46, 6, 12, 22
COLOURS = 6
"""Classes s1 … s6; what comes after them has the last."""
WIDEST = 26.0
"""Of a column."""


class Series(NamedTuple):
    name: str
    values: Sequence[float | None]
    """One for each label; None where nothing is known."""


class Plot(NamedTuple):
    title: str
    unit: Unit
    labels: Sequence[str]
    """Of the places on the way, the earliest first."""
    series: Sequence[Series]


class Share(NamedTuple):
    """A part of a whole."""

    name: str
    value: float
    colour: str
    """A class."""


# ------------------------------------------------------------------ numbers


def short(value: float | None, unit: Unit = "count") -> str:
    """A number for a person, in few letters."""
    if value is None:
        return "–"
    match unit:
        case "usd":
            return (
                f"${value:,.0f}" if value >= 1_000 else f"${value:.2f}" if value >= 0.1 or not value else _cents(value)
            )
        case "share":
            return f"{value * 100:.0f} %"
        case "seconds":
            return duration(value)
        case "count" | "tokens":
            return _counted(value)


def _cents(value: float) -> str:
    return f"${value:.4f}".rstrip("0") if value >= 0.0001 else "<$0.0001"


def _counted(value: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            scaled = value / (1e3 if letter == "k" else size)
            return f"{scaled:.1f}".removesuffix(".0") + letter
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def duration(seconds: float) -> str:
    """Milliseconds, seconds, minutes or hours, whichever is read at once."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds else "0 s"
    if seconds < 60:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def ticks(top: float, *, whole: bool = False) -> list[float]:
    """From 0 to the first round number that is not below `top`, in two to five steps."""
    if not 1e-12 < top < 1e300:
        top = 1.0
    step = 10.0 ** math.floor(math.log10(top / 3))
    step *= next(factor for factor in (1, 2, 5, 10) if top / (step * factor) <= 5)
    step = max(step, 1.0) if whole else step
    return [step * number for number in range(math.ceil(top / step - 1e-9) + 1)]


# ------------------------------------------------------------------ plots


def columns(plot: Plot) -> Html:
    """The series one upon the other, a column for each label."""
    sums = [sum(one.values[at] or 0.0 for one in plot.series) for at in range(len(plot.labels))]
    scale = _Scale(max(sums, default=0.0), len(plot.labels), plot.unit)
    return _figure(plot, _svg(plot, scale.grid(), _columns(plot, scale), scale.labels(plot.labels)))


def lines(plot: Plot) -> Html:
    """A line for each series; where nothing is known, it has a gap."""
    known = [value for one in plot.series for value in one.values if value is not None]
    scale = _Scale(max(known, default=0.0), len(plot.labels), plot.unit)
    drawn = [_line(plot, number, one, scale) for number, one in enumerate(plot.series)]
    return _figure(plot, _svg(plot, scale.grid(), drawn, scale.labels(plot.labels)))


def spark(values: Sequence[float], title: str) -> Html:
    """A line without axes, for a cell of a table or a tile."""
    width, height, top = 120.0, 28.0, max([*values, 1e-12])
    step = width / max(1, len(values) - 1)
    points = [f"{at * step:.1f},{height - 2 - value / top * (height - 4):.1f}" for at, value in enumerate(values)]
    if len(points) == 1:
        points.append(f"{width:.1f},{points[0].partition(',')[2]}")
    line = el("polyline", class_="ln s1", points=" ".join(points)) if points else None
    size = f"0 0 {width:g} {height:g}"
    return el("svg", line, class_="spark", viewBox=size, role="img", aria_label=title, preserveAspectRatio="none")


def shares(title: str, parts: Sequence[Share]) -> Html:
    """A bar that is divided, with its parts named under it."""
    total = sum(part.value for part in parts)
    at, drawn = 0.0, list[Html]()
    for part in parts:
        if part.value > 0:
            width = part.value / total * 100
            drawn.append(_rect(part.colour, at, 0, max(width - 0.4, 0.3), 8, f"{part.name}: {short(part.value)}"))
            at += width
    told = ", ".join(f"{part.name} {short(part.value)}" for part in parts if part.value) or "nothing yet"
    bed = el("rect", class_="bed", width=100, height=8)
    label = f"{title}: {told}"
    bar = el("svg", bed, drawn, viewBox="0 0 100 8", role="img", aria_label=label, preserveAspectRatio="none")
    return el("div", bar, keys((part.colour, part.name, short(part.value)) for part in parts), class_="shares")


def _columns(plot: Plot, scale: "_Scale") -> Iterator[Html]:
    width = min(WIDEST, scale.step * 0.74)
    for at, label in enumerate(plot.labels):
        told = ", ".join(f"{one.name} {short(one.values[at], plot.unit)}" for one in plot.series)
        left, base, parts = scale.middle(at) - width / 2, 0.0, list[Html]()
        for number, one in enumerate(plot.series):
            value = one.values[at] or 0.0
            if value > 0:
                y = scale.y(base + value)
                parts.append(_rect(colour(number), left, y, width, max(0.8, scale.y(base) - y)))
                base += value
        hit = _rect("hit", scale.middle(at) - scale.step / 2, TOP, scale.step, HEIGHT - TOP - BOTTOM)
        yield el("g", el("title", f"{label}: {told}"), hit, parts, class_="col")


def _line(plot: Plot, number: int, one: Series, scale: "_Scale") -> Iterator[Html]:
    runs: list[list[str]] = [[]]
    dots: list[Html] = []
    for at, value in enumerate(one.values):
        if value is None:
            runs.append([])
            continue
        x, y = f"{scale.middle(at):.1f}", f"{scale.y(value):.1f}"
        runs[-1].append(f"{x},{y}")
        told = el("title", f"{plot.labels[at]}: {one.name} {short(value, plot.unit)}")
        dots.append(el("circle", told, class_=f"dot {colour(number)}", cx=x, cy=y, r="2.4"))
    yield from (el("polyline", class_=f"ln {colour(number)}", points=" ".join(run)) for run in runs if len(run) > 1)
    yield from dots


class _Scale:
    """Where a value lies."""

    def __init__(self, top: float, places: int, unit: Unit) -> None:
        self.unit: Unit = unit
        self._ticks = ticks(top, whole=unit in ("count", "tokens")) if unit != "share" else [0.0, 0.25, 0.5, 0.75, 1.0]
        self.step = (WIDTH - LEFT - RIGHT) / max(1, places)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - min(1.0, value / self._ticks[-1]) * (HEIGHT - TOP - BOTTOM)

    def middle(self, at: int) -> float:
        return LEFT + self.step * (at + 0.5)

    def grid(self) -> Iterator[Html]:
        for value in self._ticks:
            y = self.y(value)
            yield el("line", class_="rule", x1=LEFT, x2=WIDTH - RIGHT, y1=f"{y:.1f}", y2=f"{y:.1f}")
            yield el("text", short(value, self.unit), class_="tick end", x=LEFT - 6, y=f"{y + 3.5:.1f}")

    def labels(self, names: Sequence[str]) -> Iterator[Html]:
        """As many as have room."""
        every = max(1, math.ceil(len(names) / 6))
        for at in range(0, len(names), every):
            yield el("text", names[at], class_="tick mid", x=f"{self.middle(at):.1f}", y=HEIGHT - 6)


# ------------------------------------------------------------------ around a picture


def colour(number: int) -> str:
    return f"s{min(number, COLOURS - 1) + 1}"


def keys(named: Iterable[tuple[str, str, str]]) -> Html:
    """Class, name and figure of each colour."""
    return el(
        "ul",
        [
            el("li", el("span", class_=f"key {colour}"), name, el("b", told) if told else None)
            for colour, name, told in named
        ],
        class_="legend",
    )


def _svg(plot: Plot, *parts: Child) -> Html:
    return el("svg", *parts, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=plot.title)


def _figure(plot: Plot, drawn: Html) -> Html:
    named = [(colour(number), one.name, "") for number, one in enumerate(plot.series)]
    rows = [[label, *(short(one.values[at], plot.unit) for one in plot.series)] for at, label in enumerate(plot.labels)]
    told = as_table(["", *(one.name for one in plot.series)], rows, plot.title)
    legend = keys(named) if len(named) > 1 else None
    return el("figure", el("figcaption", plot.title), drawn, legend, told, class_="plot")


def as_table(head: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> Html:
    """The same in words, folded."""
    top = el("tr", [el("th", one, scope="col") if one else el("td") for one in head])
    body = [el("tr", el("th", row[0], scope="row"), [el("td", cell) for cell in row[1:]]) for row in rows]
    table = el("table", el("thead", top), el("tbody", body))
    scrolled = el("div", table, class_="scroll", tabindex=0, role="region", aria_label=f"{title}, as a table")
    return el("details", el("summary", "As a table"), scrolled, class_="fold told")


def _rect(name: str, x: float, y: float, width: float, height: float, told: str = "") -> Html:
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "width": f"{width:.1f}", "height": f"{height:.1f}"}
    return el("rect", el("title", told) if told else None, class_=name, rx=1, **place)
