"""Where the time of a run went, from stored events: a lane for each session, with bars for model, tools and answers."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from adderclaw.agent.view.markup import iso_seconds
from adderclaw.agent.view.numbers import duration
from adderclaw.core.record import NamedTuple
from adderclaw.storage import Store, runs
from adderclaw.storage.queries.runs import receipt_times, subagent_names
from adderclaw.storage.runs import Event, Run

if TYPE_CHECKING:
    from markupsafe import Markup

type Kind = Literal["model", "tool", "asked", "failed"]
NAMES: dict[Kind, str] = {
    "model": "model",
    "tool": "tools",
    "asked": "waiting for an answer",
    "failed": "failed or denied",
}

MOST_EVENTS = 50_000
"""The maximum number of events read for one run; its trace has the rest."""
WIDTH, LANE, TOP, AXIS = 960, 36, 4, 24
MOST_LANES = 24
ROWS = 400
"""The maximum number of rows in the table."""


class Span(NamedTuple):
    start: float
    """Seconds since the run began."""
    end: float
    kind: Kind
    label: str


class Lane(NamedTuple):
    name: str
    spans: Sequence[Span]


# ------------------------------------------------------------------ from events and receipts


def lanes(store: Store, run: Run, clean: Callable[[Any], Any], now: float) -> list[Lane]:
    """The lanes of a run. Work in progress extends to `now`."""
    reader = _EventReader(iso_seconds(run.started_at) or 0.0, _receipt_seconds(store, run.run_id))
    for event in runs.events_of_types(store, run, TYPES, MOST_EVENTS):
        reader.add(event)
    if run.status == "running":
        reader.extend_open_spans(now)
    rows = subagent_names(store, [*reader.sessions])
    names = {row[0]: f"{row[1]}: {row[2]}" if row[2] else row[1] for row in rows}
    own = "this session" if len(reader.sessions) < 2 else "the run's own session"
    return [
        Lane(
            own if id == run.session_id else clean(names.get(id, id)),
            [span._replace(label=clean(span.label)) for span in sorted(lane.spans)],
        )
        for id, lane in reader.sessions.items()
        if lane.spans
    ]


TYPES = (
    *("llm_request_sent", "llm_response_received", "llm_request_failed"),
    *("tool_requested", "tool_approved", "tool_denied", "tool_completed", "tool_failed"),
    *("approval_requested", "approval_answered", "approval_expired"),
)


class _SessionLane:
    """The lane of one session. Event times are whole seconds, so consecutive spans are placed after one another."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.free = 0.0
        """The end of the last span."""
        self.replied = 0.0
        """When the last reply arrived; its calls begin after it."""
        self.asks: tuple[float, str] | None = None
        """The model request in progress."""
        self.open: dict[str, tuple[float, str]] = {}
        """Running calls, and open questions under their call's id with a `?` in front."""

    def put(self, start: float, took: float, label: str, kind: Kind) -> None:
        self.spans.append(Span(start, start + took, kind, label))
        self.free = max(self.free, start + took)


class _EventReader:
    """Builds the lanes from the events of a run, in order."""

    def __init__(self, began: float, receipt_seconds: dict[str, float]) -> None:
        self.began, self._receipt_seconds = began, receipt_seconds
        self.sessions: dict[str, _SessionLane] = {}

    def add(self, event: Event) -> None:
        lane = self.sessions.setdefault(event.session_id, _SessionLane())
        at = max(0.0, (iso_seconds(event.timestamp) or self.began) - self.began)
        payload, use = event.payload, str(event.payload.get("tool_use_id", ""))
        tool, model = str(payload.get("tool", "")), str(payload.get("model", ""))
        match event.event_type:
            case "llm_request_sent":
                lane.asks = (at, model)
            case "llm_response_received":
                lane.asks = None
                called = ", ".join(str(name) for name in list[object](payload.get("called") or ())[:6])
                took = _seconds(payload, "latency_ms")
                start = max(lane.free, at - took)
                lane.put(start, took, model + (f" → {called}" if called else ""), "model")
                lane.replied = start + took
            case "llm_request_failed":
                lane.asks = None
                lane.put(at, 0.0, f"{model}: {payload.get('error', '')}", "failed")
            case "tool_approved":
                lane.open[use] = (max(at, lane.replied), tool)
            case "approval_requested":
                lane.open[f"?{use}"] = (max(at, lane.free), f"{tool} was asked about")
            case "approval_answered" | "approval_expired":
                began, label = lane.open.pop(f"?{use}", (at, tool))
                lane.put(began, max(0.0, at - began), label, "asked")
            case "tool_denied":
                lane.open.pop(use, None)
                lane.put(max(at, lane.free), 0.0, f"{tool} denied", "failed")
            case "tool_completed" | "tool_failed":
                lane.open.pop(use, None)
                took = _seconds(payload, "duration_ms")
                receipt = self._receipt_seconds.get(f"{event.session_id} {use}")  # exact to the millisecond
                ended = at if receipt is None else receipt - self.began
                kind: Kind = "tool" if event.event_type == "tool_completed" else "failed"
                lane.put(max(lane.replied, ended - took), took, tool, kind)
            case _:
                pass

    def extend_open_spans(self, now: float) -> None:
        until = max(0.0, now - self.began)
        for lane in self.sessions.values():
            if lane.asks is not None:
                start = max(lane.free, lane.asks[0])
                lane.spans.append(Span(start, max(start, until), "model", f"{lane.asks[1]} (still)"))
            for key, (start, label) in lane.open.items():
                kind = "asked" if key.startswith("?") else "tool"
                lane.spans.append(Span(start, max(start, until), kind, f"{label} (still)"))


def _seconds(payload: Any, name: str) -> float:
    value = payload.get(name)
    return max(0.0, float(value) / 1000) if isinstance(value, int | float) else 0.0


def _receipt_seconds(store: Store, run_id: str) -> dict[str, float]:
    """Session and call → when its receipt was written."""
    rows = receipt_times(store, run_id, MOST_EVENTS)
    return {f"{row[0]} {row[1]}": at for row in rows if (at := iso_seconds(row[2])) is not None}


# ------------------------------------------------------------------ as a picture


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
    """The same data as a table."""


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
    """Merge spans that would overlap on the screen, so that the picture's size does not depend on the run's length."""
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


_STEPS = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400),
)


def _axis(total: float) -> list[tuple[float, str]]:
    step = next((tick for tick in _STEPS if total / tick <= 8), total / 8)
    return [(number * step / total * WIDTH, duration(number * step)) for number in range(math.floor(total / step) + 1)]


def _rows(lanes: Sequence[Lane]) -> list[tuple[str, str, str, str, str]]:
    spans = sorted((span, lane.name) for lane in lanes for span in lane.spans)
    rows = [
        (duration(span.start), name, NAMES[span.kind], span.label, duration(span.end - span.start))
        for span, name in spans[:ROWS]
    ]
    return rows if len(spans) <= ROWS else [*rows, ("…", f"{len(spans) - ROWS} more", "", "", "")]
