"""The bus that tells every sink of every event of the closed catalogue.

An event is a TypedDict with its `event_type`; its other keys are the payload. Sinks listen; one that fails is
dropped and said once, never the turn. What resume or audit needs is a row in the store: events are only told.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Clock, Ids, Json

if TYPE_CHECKING:
    from adderclaw.core.events import catalogue

type Body = catalogue.Body
"""One of the events of the catalogue."""

type RedactionMode = Literal["summary", "full"]


class EventRecord(NamedTuple):
    """One event with where and when it happened; a JSONL line has exactly these fields."""

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
"""Takes secrets and control characters out of a payload."""


class _Waiting:
    """Records that the sinks have not heard yet, in order; of a bus and all its views."""

    def __init__(self) -> None:
        self.records: list[EventRecord] = []
        self.handing = False


class Bus:
    """Tells every sink of every event, cleaned once, in order."""

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

    def of_session(self, session_id: str) -> "Bus":
        """The same run and the same sinks, for a child session: what it tells carries its own id and spans."""
        view = object.__new__(Bus)
        view.__dict__.update(self.__dict__)
        view.session_id, view.span_id = session_id, ""
        return view

    def listen(self, name: str, sink: Sink) -> None:
        """Add a sink; what was told before the first turn is told to it too."""
        self._sinks.append((name, sink))
        for record in tuple(self._early or ()):  # that it fails is told, too, and kept among them
            if not any(one is sink for _, one in self._sinks):
                return
            self._hand(name, sink, record)

    def leave(self, name: str) -> None:
        """A sink hears nothing any more."""
        self._sinks[:] = [entry for entry in self._sinks if entry[0] != name]

    def go_on_with(self, run_id: str) -> None:
        """An earlier run goes on: what was told so far is part of it, for whoever listens from here on."""
        self.run_id = run_id
        self._early = [record._replace(run_id=run_id) for record in self._early or ()]

    def settled(self) -> None:
        """All sinks are there: stop keeping what was told."""
        self._early = None

    def span(self) -> None:
        """A new step begins."""
        self.span_id = self._ids("span")

    def tell(self, body: Body) -> None:
        """Every sink hears it now, after all that was told or mentioned before."""
        self._waiting.records.append(self._record(body))
        self.catch_up()

    def mention(self, body: Body) -> None:
        """Every sink hears it as soon as the loop is free: what the turn has to do does not wait for them."""
        self._waiting.records.append(self._record(body))
        if len(self._waiting.records) > 1:
            return
        try:
            asyncio.get_running_loop().call_soon(self.catch_up)
        except RuntimeError:  # nobody would come back to it
            self.catch_up()

    def catch_up(self) -> None:
        """Hand over what waits. What a sink tells meanwhile comes after it."""
        if self._waiting.handing:
            return
        self._waiting.handing = True
        try:
            while self._waiting.records:
                self._spread(self._waiting.records.pop(0))
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

    def _spread(self, record: EventRecord) -> None:
        record = record._replace(payload=self._clean(record.payload))
        if self._early is not None:
            self._early.append(record)
        for name, sink in tuple(self._sinks):
            self._hand(name, sink, record)

    def _hand(self, name: str, sink: Sink, record: EventRecord) -> None:
        try:
            sink(record)
        except Exception as error:  # noqa: BLE001 - a sink is never worth a turn
            self.leave(name)
            self.tell({"event_type": "warning", "message": f"the {name} sink failed and was dropped: {error}"})
