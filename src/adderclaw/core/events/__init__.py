"""The event bus, which delivers every event of the closed catalogue to every sink.

An event is a TypedDict with an `event_type`; its other keys are the payload. A sink that fails is removed with one
warning and never fails the turn. Events are notifications only: what resume or audit needs is stored as rows.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Clock, Ids, Json

if TYPE_CHECKING:
    from adderclaw.core.events import catalogue

type Body = catalogue.Body
"""An event of the catalogue."""

type RedactionMode = Literal["summary", "full"]


class EventRecord(NamedTuple):
    """An event with its context and time. A JSONL line has exactly these fields."""

    run_id: str
    trace_id: str
    span_id: str
    timestamp: float
    event_type: str
    payload: Json
    redaction_mode: RedactionMode
    conversation_id: str
    session_id: str


type Sink = Callable[[EventRecord], None]
type Clean = Callable[[Any], Any]
"""Removes secrets and control characters from a payload."""


class _Waiting:
    """Records not delivered yet, in order; shared by a bus and all its views."""

    def __init__(self) -> None:
        self.records: list[EventRecord] = []
        self.handing = False


class Bus:
    """Delivers every event, cleaned once, to every sink in order."""

    def __init__(self, clock: Clock, ids: Ids, clean: Clean, *, full_bodies: bool = False) -> None:
        self._clock, self._clean = clock, clean
        self._mode: RedactionMode = "full" if full_bodies else "summary"
        self._sinks: list[tuple[str, Sink]] = []
        self._early: list[EventRecord] | None = []
        self._waiting = _Waiting()
        self._ids = ids
        self.run_id = ids("run")
        self.trace_id = ids("trace")
        self.span_id = ""
        self.conversation_id = ""
        self.session_id = ""

    def for_session(self, session_id: str) -> "Bus":
        """A view for a child session: the same run and sinks, but its own session id and spans."""
        view = object.__new__(Bus)
        view.__dict__.update(self.__dict__)
        view.session_id, view.span_id = session_id, ""
        return view

    def add_sink(self, name: str, sink: Sink) -> None:
        """Add a sink. It also receives the events that were published before the first turn."""
        self._sinks.append((name, sink))
        for record in tuple(self._early or ()):  # a copy, because a failing sink adds a warning
            if not any(listener is sink for _, listener in self._sinks):
                return
            self._deliver_to(name, sink, record)

    def remove_sink(self, name: str) -> None:
        """Remove a sink."""
        self._sinks[:] = [entry for entry in self._sinks if entry[0] != name]

    def continue_run(self, run_id: str) -> None:
        """Continue an earlier run: the events so far count as part of it for sinks added from now on."""
        self.run_id = run_id
        self._early = [record._replace(run_id=run_id) for record in self._early or ()]

    def stop_buffering(self) -> None:
        """Stop buffering events, because all sinks are added."""
        self._early = None

    def begin_span(self) -> None:
        """Begin the span of a new step."""
        self.span_id = self._ids("span")

    def publish(self, body: Body) -> None:
        """Deliver an event to every sink now, after all earlier events."""
        self._waiting.records.append(self._record(body))
        self.deliver()

    def publish_soon(self, body: Body) -> None:
        """Deliver an event as soon as the event loop is free, so that the turn does not wait for the sinks."""
        self._waiting.records.append(self._record(body))
        if len(self._waiting.records) > 1:
            return
        try:
            asyncio.get_running_loop().call_soon(self.deliver)
        except RuntimeError:  # no event loop is running
            self.deliver()

    def deliver(self) -> None:
        """Deliver waiting events. Events that a sink publishes meanwhile follow them."""
        if self._waiting.handing:
            return
        self._waiting.handing = True
        try:
            while self._waiting.records:
                self._deliver_record(self._waiting.records.pop(0))
        finally:
            self._waiting.handing = False

    def _record(self, body: Body) -> EventRecord:
        return EventRecord(
            self.run_id,
            self.trace_id,
            self.span_id,
            self._clock.now(),
            body["event_type"],
            {key: value for key, value in body.items() if key != "event_type"},
            self._mode,
            self.conversation_id,
            self.session_id,
        )

    def _deliver_record(self, record: EventRecord) -> None:
        record = record._replace(payload=self._clean(record.payload))
        if self._early is not None:
            self._early.append(record)
        for name, sink in tuple(self._sinks):
            self._deliver_to(name, sink, record)

    def _deliver_to(self, name: str, sink: Sink, record: EventRecord) -> None:
        try:
            sink(record)
        except Exception as error:  # noqa: BLE001 - a failing sink must not end the turn
            self.remove_sink(name)
            self.publish({"event_type": "warning", "message": f"the {name} sink failed and was removed: {error}"})
