"""Telemetry: sends the events of a run to another service; off unless configured, and never delays the run.

Events are put into a bounded queue, and a separate thread sends them. If the service is slow or unreachable, events are
dropped and counted, and the run is not affected.
"""

import os
import queue
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from adderclaw.core.events import EventRecord, Sink

if TYPE_CHECKING:
    from adderclaw.config.schema import Config

MAX_WAITING = 2_048
"""Most events that wait to be sent."""
LOGIN_VARIABLES = ("_HEADERS", "_CERTIFICATE", "_CLIENT_KEY")
"""Suffixes of OpenTelemetry variables that authenticate a program at the service."""
FAILED_SERVICE_SECONDS = 0.25
"""Seconds that the end of a run waits for the remaining events if the service has failed already."""


type OpenFile = Callable[[str], int]
"""Takes the path of a file from the settings; returns a descriptor that appends to it."""


class Exporter(Protocol):
    """Sends events to a service or file. Called from one thread only, and may block."""

    def send(self, events: list[EventRecord]) -> None: ...
    def close(self) -> None: ...


def sink(
    config: "Config", session: str, complain: Callable[[str], None], open_file: OpenFile, *, managed: bool = False
) -> tuple[Sink, Callable[[], None]] | None:
    """The sink and the function that closes it, if telemetry is on; `complain` is called once if a service fails.

    `open_file` opens the file of the protocol `file` for appending.
    `managed`: an administrator requires telemetry, so OpenTelemetry's variables may only authenticate.
    """
    settings = config.telemetry
    if not settings.enabled or settings.protocol == "noop":
        return None
    for name in [
        name for name in os.environ if managed and name.startswith("OTEL_") and not name.endswith(LOGIN_VARIABLES)
    ]:
        del os.environ[name]

    def exporter(say: Callable[[str], None]) -> Exporter:
        settings = config.telemetry
        if settings.protocol == "otlp":
            from adderclaw.storage.telemetry.otlp import Otlp

            providers = {name: entry.kind for name, entry in config.providers.models.items()}
            return Otlp(
                settings.endpoint or "",
                config.agent_id,
                providers,
                say,
                include_content=settings.include_content,
                keep_all=managed,
            )
        from adderclaw.storage.telemetry.records import File, Http, Records

        records = Records(config.agent_id, session, include_content=settings.include_content)
        if settings.protocol == "http":
            return Http(settings.endpoint or "", records)
        return File(open_file(settings.path or "telemetry.jsonl"), records)

    outbox = Outbox(exporter, complain, settings.flush_seconds)
    return outbox.put, outbox.close


class Outbox:
    """A bounded queue, and the thread that sends its events."""

    def __init__(
        self, make: Callable[[Callable[[str], None]], Exporter], complain: Callable[[str], None], flush_seconds: float
    ) -> None:
        """`flush_seconds`: how long the end of a run waits for the remaining events to be sent."""
        self._make, self._complain, self._flush_seconds = make, complain, flush_seconds
        self._queue: queue.Queue[EventRecord | None] = queue.Queue(MAX_WAITING)
        self.dropped = 0
        self._waiting = 0
        self._complained = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        self._thread.start()

    def put(self, record: EventRecord) -> None:
        try:
            self._queue.put_nowait(record)
        except queue.Full:
            self.dropped += 1

    def close(self) -> None:
        """Wait briefly until the queue is sent; report events that are lost."""
        ends = time.monotonic() + (
            min(FAILED_SERVICE_SECONDS, self._flush_seconds) if self._complained.locked() else self._flush_seconds
        )
        try:
            self._queue.put(None, timeout=max(ends - time.monotonic(), 0))
        except queue.Full:
            pass
        self._thread.join(max(ends - time.monotonic(), 0))
        lost = self.dropped + (self._waiting + self._queue.qsize() if self._thread.is_alive() else 0)
        if lost or self._thread.is_alive():
            what = f"{lost} events" if lost else "the last spans"
            self._complain_once(f"the service did not take {what} in time")

    def _run(self) -> None:
        exporter: Exporter | None = None
        ended = False
        while not ended:
            batch = self._batch()
            ended = batch[-1] is None
            events = [record for record in batch if record is not None]
            try:
                self._waiting = len(events)
                exporter = exporter or self._make(self._complain_once)
                if events:
                    exporter.send(events)
            except Exception as error:  # noqa: BLE001 - telemetry must not end the run
                self.dropped += len(events)
                self._complain_once(f"{type(error).__name__}: {error}")
            self._waiting = 0
        if exporter is not None:
            try:
                exporter.close()
            except Exception as error:  # noqa: BLE001
                self._complain_once(f"{type(error).__name__}: {error}")

    def _batch(self) -> list[EventRecord | None]:
        batch = [self._queue.get()]
        while batch[-1] is not None and len(batch) < 256:
            try:
                batch.append(self._queue.get_nowait())
            except queue.Empty:
                break
        return batch

    def _complain_once(self, message: str) -> None:
        if self._complained.acquire(blocking=False):  # once, from any thread
            self._complain(f"telemetry: {message[:300].rstrip('.')}; what it does not take is lost, and nothing else")
