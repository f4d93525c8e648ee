"""Where the time of a run went: a lane for each of its sessions, made of the events and receipts in the store."""

import calendar
import time
from collections.abc import Callable
from typing import Any

from adderclaw.agent.view.timeline import Lane, Span
from adderclaw.storage import Store, runs
from adderclaw.storage.queries.runs import receipt_times, subagent_names
from adderclaw.storage.runs import Event, Run

MOST_EVENTS = 50_000
"""Of one run; what comes after is in its trace."""


def moment(text: str | None) -> float | None:
    """Seconds since 1970 of a time as rows and receipts write it."""
    if not text:
        return None
    whole, _, part = text.removesuffix("Z").replace("T", " ").partition(".")
    try:
        return calendar.timegm(time.strptime(whole, "%Y-%m-%d %H:%M:%S")) + (
            float(f"0.{part}") if part.isdigit() else 0.0
        )
    except ValueError:
        return None


def lanes(store: Store, run: Run, clean: Callable[[Any], Any], now: float) -> list[Lane]:
    """What is under way lasts until `now`."""
    drawn = _Drawn(moment(run.started_at) or 0.0, _returned(store, run.run_id))
    for event in runs.events_of_types(store, run, TYPES, MOST_EVENTS):
        drawn.hear(event)
    if run.status == "running":
        drawn.go_on(now)
    names = _names(store, [*drawn.sessions])
    own = "this session" if len(drawn.sessions) < 2 else "the run's own session"
    return [
        Lane(own if id == run.session_id else clean(names.get(id, id)), clean_spans(lane.spans, clean))
        for id, lane in drawn.sessions.items()
        if lane.spans
    ]


def clean_spans(spans: list[Span], clean: Callable[[Any], Any]) -> list[Span]:
    return [span._replace(label=clean(span.label)) for span in sorted(spans)]


TYPES = (
    *("llm_request_sent", "llm_response_received", "llm_request_failed"),
    *("tool_requested", "tool_approved", "tool_denied", "tool_completed", "tool_failed"),
    *("approval_requested", "approval_answered", "approval_expired"),
)


class _Lane:
    """One session: the clock of its rows counts whole seconds, so that what came one after the other is put so."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.free = 0.0
        """Until here its time is drawn."""
        self.replied = 0.0
        """When the last reply came: its calls begin after it."""
        self.asks: tuple[float, str] | None = None
        """A request under way."""
        self.open: dict[str, tuple[float, str]] = {}
        """Calls that run, and questions that wait (with a `?` in front)."""


class _Drawn:
    def __init__(self, began: float, returned: dict[str, float]) -> None:
        self.began, self._returned = began, returned
        self.sessions: dict[str, _Lane] = {}

    def hear(self, event: Event) -> None:
        lane = self.sessions.setdefault(event.session_id, _Lane())
        at = max(0.0, (moment(event.timestamp) or self.began) - self.began)
        payload, use = event.payload, str(event.payload.get("tool_use_id", ""))
        match event.event_type:
            case "llm_request_sent":
                lane.asks = (at, str(payload.get("model", "")))
            case "llm_response_received":
                lane.asks = None
                self._model(lane, at, _seconds(payload, "latency_ms"), _reply(payload))
            case "llm_request_failed":
                lane.asks = None
                _put(lane, at, 0.0, f"{payload.get('model', '')}: {payload.get('error', '')}", "failed")
            case "tool_approved":
                lane.open[use] = (max(at, lane.replied), str(payload.get("tool", "")))
            case "approval_requested":
                lane.open[f"?{use}"] = (max(at, lane.free), f"{payload.get('tool', '')} was asked about")
            case "approval_answered" | "approval_expired":
                began, label = lane.open.pop(f"?{use}", (at, str(payload.get("tool", ""))))
                _put(lane, began, max(0.0, at - began), label, "asked")
            case "tool_denied":
                lane.open.pop(use, None)
                _put(lane, max(at, lane.free), 0.0, f"{payload.get('tool', '')} denied", "failed")
            case "tool_completed" | "tool_failed":
                lane.open.pop(use, None)
                self._tool(lane, at, event, use)
            case _:
                pass

    def _model(self, lane: _Lane, at: float, took: float, label: str) -> None:
        start = max(lane.free, at - took)
        lane.spans.append(Span(start, start + took, "model", label))
        lane.free = lane.replied = start + took

    def _tool(self, lane: _Lane, at: float, event: Event, use: str) -> None:
        """A receipt has the moment to the millisecond."""
        took = _seconds(event.payload, "duration_ms")
        ended = self._returned.get(f"{event.session_id} {use}")
        ended = at if ended is None else ended - self.began
        start = max(lane.replied, ended - took)
        kind = "tool" if event.event_type == "tool_completed" else "failed"
        lane.spans.append(Span(start, start + took, kind, str(event.payload.get("tool", ""))))
        lane.free = max(lane.free, start + took)

    def go_on(self, now: float) -> None:
        until = max(0.0, now - self.began)
        for lane in self.sessions.values():
            if lane.asks is not None:
                start = max(lane.free, lane.asks[0])
                lane.spans.append(Span(start, max(start, until), "model", f"{lane.asks[1]} (still)"))
            for key, (start, label) in lane.open.items():
                kind = "asked" if key.startswith("?") else "tool"
                lane.spans.append(Span(start, max(start, until), kind, f"{label} (still)"))


def _put(lane: _Lane, start: float, took: float, label: str, kind: Any) -> None:
    lane.spans.append(Span(start, start + took, kind, label))
    lane.free = max(lane.free, start + took)


def _seconds(payload: Any, name: str) -> float:
    value = payload.get(name)
    return max(0.0, float(value) / 1000) if isinstance(value, int | float) else 0.0


def _reply(payload: Any) -> str:
    called = ", ".join(str(name) for name in list[object](payload.get("called") or ())[:6])
    return f"{payload.get('model', '')}" + (f" → {called}" if called else "")


def _returned(store: Store, run_id: str) -> dict[str, float]:
    """Session and call → when its receipt was written."""
    rows = receipt_times(store, run_id, MOST_EVENTS)
    return {f"{row[0]} {row[1]}": at for row in rows if (at := moment(row[2])) is not None}


def _names(store: Store, sessions: list[str]) -> dict[str, str]:
    rows = subagent_names(store, sessions)
    return {row[0]: f"{row[1]}: {row[2]}" if row[2] else row[1] for row in rows}
