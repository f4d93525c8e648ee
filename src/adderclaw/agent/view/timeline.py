"""Where the time of a run went, as a picture: a lane for each session, a bar for each time of model, tool or answer."""

import math
from collections.abc import Iterator, Sequence
from typing import Literal

from adderclaw.agent.view.html import Html, el
from adderclaw.agent.view.plots import as_table, duration, keys
from adderclaw.core.record import NamedTuple

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


def timeline(title: str, lanes: Sequence[Lane], until: float | None = None) -> Html:
    """`until`: how long the picture is, so that two can be compared; else as long as what it shows."""
    total = max([until or 0.0, *(span.end for lane in lanes for span in lane.spans), 0.001])
    shown, left = lanes[:MOST_LANES], len(lanes) - MOST_LANES
    height = TOP + LANE * len(shown) + AXIS
    drawn = [_lane(lane, TOP + LANE * number, total) for number, lane in enumerate(shown)]
    svg = el(
        "svg",
        _axis(total, height),
        drawn,
        class_="timeline",
        viewBox=f"0 0 {WIDTH} {height}",
        role="img",
        aria_label=title,
    )
    more = el("p", f"{left} more sessions are not drawn.", class_="quiet small") if left > 0 else None
    scrolled = el("div", svg, class_="scroll", tabindex=0, role="region", aria_label=title)
    return el(
        "figure", el("figcaption", title), scrolled, _legend(lanes), more, _told(title, lanes), class_="plot wide"
    )


def _legend(lanes: Sequence[Lane]) -> Html:
    sums: dict[Kind, float] = {}
    for span in (span for lane in lanes for span in lane.spans):
        sums[span.kind] = sums.get(span.kind, 0.0) + span.end - span.start
    return keys((f"k-{kind}", name, duration(sums[kind])) for kind, name in NAMES.items() if kind in sums)


def _lane(lane: Lane, top: float, total: float) -> Iterator[Html]:
    yield el("text", lane.name[:90], class_="tick", x=0, y=top + 11)
    yield el("rect", class_="bed", x=0, y=top + 16, width=WIDTH, height=14, rx=2)
    for span in merged(lane.spans, total / WIDTH):
        x = span.start / total * WIDTH
        width = min(max(1.2, (span.end - span.start) / total * WIDTH - 0.5), max(1.2, WIDTH - x))
        told = el("title", f"{span.label}: {duration(span.end - span.start)}")
        place = {"x": f"{x:.1f}", "y": top + 16, "width": f"{width:.1f}", "height": 14}
        yield el("rect", told, class_=f"k-{span.kind}", rx="1.5", **place)


def merged(spans: Sequence[Span], pixel: float) -> list[Span]:
    """What would be drawn in one place is one bar: a picture has its width, however long the run was."""
    made: list[Span] = []
    count = 1
    for span in spans:
        last = made[-1] if made else None
        close = last is not None and span.start - last.end < pixel and span.kind == last.kind
        if last is not None and close and (span.end - span.start < 2 * pixel or last.end - last.start < 2 * pixel):
            count += 1
            made[-1] = Span(last.start, max(last.end, span.end), span.kind, f"{count} × {NAMES[span.kind]}")
        else:
            made.append(span)
            count = 1
    return made


def _axis(total: float, height: float) -> Iterator[Html]:
    step = next((one for one in _STEPS if total / one <= 8), total / 8)
    for number in range(math.floor(total / step) + 1):
        x = number * step / total * WIDTH
        yield el("line", class_="rule", x1=f"{x:.1f}", x2=f"{x:.1f}", y1=TOP, y2=height - AXIS + 4)
        place = "tick" if number == 0 else "tick end" if x > WIDTH - 30 else "tick mid"
        yield el("text", duration(number * step), class_=place, x=f"{x:.1f}", y=height - 6)


_STEPS = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400),
)


def _told(title: str, lanes: Sequence[Lane]) -> Html:
    found = sorted((span, lane.name) for lane in lanes for span in lane.spans)
    rows = [
        [duration(span.start), name, NAMES[span.kind], span.label, duration(span.end - span.start)]
        for span, name in found[:ROWS]
    ]
    if len(found) > ROWS:
        rows.append(["…", f"{len(found) - ROWS} more", "", "", ""])
    return as_table(["from", "session", "what", "name", "time"], rows, title)
