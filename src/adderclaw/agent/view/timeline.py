"""Where the time of a run went, as a picture: a lane for each session, a bar for each time of model, tool or answer."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from adderclaw.agent.view.plots import duration
from adderclaw.core.record import NamedTuple

if TYPE_CHECKING:
    from markupsafe import Markup

type Kind = Literal["model", "tool", "asked", "failed"]
NAMES: dict[Kind, str] = {
    "model": "model",
    "tool": "tools",
    "asked": "waiting for an answer",
    "failed": "failed or denied",
}

WIDTH, LANE, TOP, AXIS = 960, 36, 4, 24
MOST_LANES = 24
ROWS = 400
"""Of the table."""


class Span(NamedTuple):
    start: float
    """Seconds from the beginning of the run."""
    end: float
    kind: Kind
    label: str


class Lane(NamedTuple):
    name: str
    spans: Sequence[Span]


class Drawn(NamedTuple):
    """A timeline as `plots.html` draws it."""

    title: str
    lanes: list[tuple[str, list[tuple[Span, float, float]]]]
    """Name, and each bar with its left edge and width."""
    axis: list[tuple[float, str]]
    height: int
    left_out: int
    sums: dict[Kind, float]
    rows: list[tuple[str, str, str, str, str]]
    """The same as a table."""


def timeline(title: str, lanes: Sequence[Lane]) -> "Markup":
    from adderclaw.agent.view.markup import macro

    total = max([*(span.end for lane in lanes for span in lane.spans), 0.001])
    shown = lanes[:MOST_LANES]
    sums: dict[Kind, float] = {}
    for span in (span for lane in lanes for span in lane.spans):
        sums[span.kind] = sums.get(span.kind, 0.0) + span.end - span.start
    bars = [(lane.name[:90], [_bar(span, total) for span in merged(lane.spans, total / WIDTH)]) for lane in shown]
    height = TOP + LANE * len(shown) + AXIS
    drawn = Drawn(title, bars, _axis(total), height, len(lanes) - len(shown), sums, _rows(lanes))
    return macro("plots", "timeline", drawn, NAMES)


def _bar(span: Span, total: float) -> tuple[Span, float, float]:
    x = span.start / total * WIDTH
    return span, x, min(max(1.2, (span.end - span.start) / total * WIDTH - 0.5), max(1.2, WIDTH - x))


def merged(spans: Sequence[Span], pixel: float) -> list[Span]:
    """What would be drawn in one place is one bar: a picture has its width, however long the run was."""
    bars: list[Span] = []
    count = 1
    for span in spans:
        last = bars[-1] if bars else None
        close = last is not None and span.start - last.end < pixel and span.kind == last.kind
        if last is not None and close and (span.end - span.start < 2 * pixel or last.end - last.start < 2 * pixel):
            count += 1
            bars[-1] = Span(last.start, max(last.end, span.end), span.kind, f"{count} × {NAMES[span.kind]}")
        else:
            bars.append(span)
            count = 1
    return bars


def _axis(total: float) -> list[tuple[float, str]]:
    step = next((tick for tick in _STEPS if total / tick <= 8), total / 8)
    return [(number * step / total * WIDTH, duration(number * step)) for number in range(math.floor(total / step) + 1)]


_STEPS = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400),
)


def _rows(lanes: Sequence[Lane]) -> list[tuple[str, str, str, str, str]]:
    spans = sorted((span, lane.name) for lane in lanes for span in lane.spans)
    rows = [
        (duration(span.start), name, NAMES[span.kind], span.label, duration(span.end - span.start))
        for span, name in spans[:ROWS]
    ]
    return rows if len(spans) <= ROWS else [*rows, ("…", f"{len(spans) - ROWS} more", "", "", "")]
