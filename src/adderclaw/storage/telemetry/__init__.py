"""Telemetry: what a run did, told to another service; off unless configured, and never in the run's way.

Events are put into a bounded queue and sent by a thread of its own. A service that is slow or gone costs events,
which are counted, and nothing else.
"""

import os
import queue
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from adderclaw.core.errors import UsageError
from adderclaw.core.events import EventRecord, Sink

if TYPE_CHECKING:
    from adderclaw.config.installation import MissingExtra
    from adderclaw.config.schema.settings import Config

MOST_WAITING = 2_048
"""Events that wait to be sent."""
EXTRA = "opentelemetry.sdk"
"""What the extra `telemetry` brings, and only `otlp` needs."""
LOGIN = ("_HEADERS", "_CERTIFICATE", "_CLIENT_KEY")
"""How variables of OpenTelemetry's end that let a program in at the service."""
LITTLE_HOPE = 0.25
"""Seconds that the end of a run waits for what is left, where the service has failed already."""


type OpenFile = Callable[[str], int]
"""Takes the path of a file as the settings name it; returns a descriptor that appends to it."""


class Exporter(Protocol):
    """Where events go. It is called from one thread only, and may take its time."""

    def send(self, events: list[EventRecord]) -> None: ...
    def close(self) -> None: ...


def sink(
    config: "Config", session: str, complain: Callable[[str], None], open_file: OpenFile, *, managed: bool = False
) -> tuple[Sink, Callable[[], None]] | None:
    """The sink and what closes it, where telemetry is on; `complain` is told once when a service does not answer.
    `open_file` opens the file of the protocol `file` to append to it.

    `managed`: an administrator wants it, and variables of OpenTelemetry's own say only how to log in at the service.
    """
    wanted = config.telemetry
    if not wanted.enabled or wanted.protocol == "noop":
        return None
    if why := lacking(wanted.protocol):
        raise UsageError(str(why))
    for name in [name for name in os.environ if managed and name.startswith("OTEL_") and not name.endswith(LOGIN)]:
        del os.environ[name]

    def exporter(say: Callable[[str], None]) -> Exporter:
        return _exporter(config, session, say, open_file, managed=managed)

    outbox = Outbox(exporter, complain, wanted.flush_seconds)
    return outbox.put, outbox.close


def lacking(protocol: str) -> "MissingExtra | None":
    """Why this protocol cannot be spoken here, with what mends it; None where it can."""
    if protocol != "otlp":
        return None
    from importlib.util import find_spec

    try:
        if find_spec(EXTRA):
            return None
    except ModuleNotFoundError:  # not even what it is a part of
        pass
    from adderclaw.config import installation

    why, fix = installation.missing_extra("telemetry", EXTRA)
    return installation.MissingExtra(f'{why}, and telemetry.protocol is "otlp"', f'{fix}; "http" and "file" need none')


def _exporter(
    config: "Config", session: str, say: Callable[[str], None], open_file: OpenFile, *, managed: bool
) -> Exporter:
    wanted = config.telemetry
    if wanted.protocol == "otlp":
        from adderclaw.storage.telemetry.otlp import Otlp

        providers = {name: entry.kind for name, entry in config.providers.models.items()}
        return Otlp(
            wanted.endpoint or "",
            config.agent_id,
            providers,
            say,
            include_content=wanted.include_content,
            keep_all=managed,
        )
    from adderclaw.storage.telemetry.records import File, Http, Records

    made = Records(config.agent_id, session, include_content=wanted.include_content)
    if wanted.protocol == "http":
        return Http(wanted.endpoint or "", made)
    return File(open_file(wanted.path or "telemetry.jsonl"), made)


class Outbox:
    """A queue with a bound, and the thread that empties it."""

    def __init__(
        self, make: Callable[[Callable[[str], None]], Exporter], complain: Callable[[str], None], last_words: float
    ) -> None:
        """`last_words`: seconds that the end of a run waits for what is left to be sent."""
        self._make, self._complain, self._last_words = make, complain, last_words
        self._queue: queue.Queue[EventRecord | None] = queue.Queue(MOST_WAITING)
        self.dropped = 0
        self._waiting = 0
        self._voice = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        self._thread.start()

    def put(self, record: EventRecord) -> None:
        try:
            self._queue.put_nowait(record)
        except queue.Full:
            self.dropped += 1

    def close(self) -> None:
        """Wait a little for what is left; what a service does not take by then is lost, and that is said."""
        ends = time.monotonic() + (min(LITTLE_HOPE, self._last_words) if self._voice.locked() else self._last_words)
        try:
            self._queue.put(None, timeout=max(ends - time.monotonic(), 0))
        except queue.Full:
            pass
        self._thread.join(max(ends - time.monotonic(), 0))
        lost = self.dropped + (self._waiting + self._queue.qsize() if self._thread.is_alive() else 0)
        if lost or self._thread.is_alive():
            what = f"{lost} events" if lost else "the last spans"
            self._say(f"the service did not take {what} in time")

    def _run(self) -> None:
        exporter: Exporter | None = None
        ended = False
        while not ended:
            batch = self._batch()
            ended = batch[-1] is None
            events = [one for one in batch if one is not None]
            try:
                self._waiting = len(events)
                exporter = exporter or self._make(self._say)
                if events:
                    exporter.send(events)
            except Exception as error:  # noqa: BLE001 - whatever it is, the run goes on
                self.dropped += len(events)
                self._say(f"{type(error).__name__}: {error}")
            self._waiting = 0
        if exporter is not None:
            try:
                exporter.close()
            except Exception as error:  # noqa: BLE001
                self._say(f"{type(error).__name__}: {error}")

    def _batch(self) -> list[EventRecord | None]:
        batch = [self._queue.get()]
        while batch[-1] is not None and len(batch) < 256:
            try:
                batch.append(self._queue.get_nowait())
            except queue.Empty:
                break
        return batch

    def _say(self, message: str) -> None:
        if self._voice.acquire(blocking=False):  # once, whichever thread has something to say
            self._complain(f"telemetry: {message[:300].rstrip('.')}; what it does not take is lost, and nothing else")
