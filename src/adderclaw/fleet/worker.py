"""A worker: an executor of DBOS with slots that renews its leases, handles stops, and takes over from dead workers."""

import contextlib
import logging
import math
import os
import signal
import socket
import sys
import threading
import time
import uuid

import psycopg

from adderclaw import __version__
from adderclaw.core.errors import AdderClawError
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json
from adderclaw.fleet import controls, engine, identities, leases, queue, versions
from adderclaw.fleet.attempt import GRACE, Attempt, Means
from adderclaw.fleet.controls import Stop
from adderclaw.fleet.database import careful
from adderclaw.fleet.link import now
from adderclaw.fleet.state import WorkerFolder
from adderclaw.fleet.work import Work

LOOK = 1.0
"""Seconds between two polls of the stops and the queue if there are no notifications."""
REST, LONGEST = 5.0, 300.0
"""Seconds for which a worker takes no runs after a fault of its machine, at first and at most, because paid work would
be lost again."""
MOST = 10_000
"""The limit of the queue for each worker, above every number of slots (see `engine.limit_per_worker`)."""
WAITING = 8
"""Processes per slot that may wait for an answer without taking a slot. Limited because each needs memory."""


class Settings(NamedTuple):
    slots: int
    labels: tuple[str, ...]
    lease: float
    """Seconds after which other workers take the runs of a silent worker."""
    until_idle: bool = False
    """End when nothing is queued any more, for batches and tests."""


class Worker:
    def __init__(self, means: Means, settings: Settings) -> None:
        self.means, self.settings = means, settings
        self._room = WorkerFolder(means.root)
        self.id = f"{means.identity.name}-{uuid.uuid4().hex[:8]}"
        self.database = means.database
        self.draining = False
        self._attempts: dict[str, Attempt] = {}
        self._lock = threading.Lock()
        self._stops: list[Stop] = []
        self._reported: set[int] = set()
        """Stops that this worker has acknowledged in PostgreSQL."""
        self._works: set[Work] = set()
        self._taken: dict[str, float] = {}
        """Workflow from the queue that has not started yet → since when."""
        self._wake, self._reaping = threading.Event(), threading.Event()
        self._queues = [queue.name(label) for label in ("", *settings.labels)]
        self._roused: set[str] = set()
        """Queues that may have runs."""
        self._looked: dict[str, float] = {}
        self._resting, self._rests = 0.0, REST
        self._outage = -math.inf
        """When the database was last unreachable. For one lease after that, other workers may still renew theirs."""
        self._closing = False
        self._idle_since = time.monotonic()

    # -------------------------------------------------------------- start and end

    def run(self) -> None:
        """Works until a signal ends it or it is drained."""
        versions.require_tables(self.database)
        identities.require_enrolled(self.database, self.means.identity)
        self.means = self.means._replace(root=self._room.take(self.id))
        warming = threading.Thread(target=self.means.warm.start, daemon=True)
        warming.start()
        self._register()
        self._stops = controls.active(self.database)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._signalled)
        threading.Thread(target=self._listen, name="listen", daemon=True).start()
        self._import_engine()
        warming.join()
        self._launch()
        threading.Thread(target=self._reap, name="reaper", daemon=True).start()
        print(f"worker {self.id}: {self.settings.slots} slots, lease {self.settings.lease:g} s", flush=True)
        while not self._closing:
            try:
                self._tick()
            except AdderClawError as error:
                self.say(error)
                self._outage = time.monotonic()
            self._end_expired()
            self._wake.wait(self.settings.lease / 5)
            self._wake.clear()
        self._leave()

    def say(self, what: object) -> None:
        print(f"worker {self.id}: {what}", file=sys.stderr, flush=True)

    def _register(self) -> None:
        self.database.run(
            "INSERT INTO fleet.workers (id, name, host, pid, version, schema, slots, labels)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
            self.id,
            self.means.identity.name,
            socket.gethostname(),
            os.getpid(),
            __version__,
            versions.SCHEMA,
            self.settings.slots,
            list(self.settings.labels),
        )

    def _import_engine(self) -> None:
        """Imports DBOS, which takes more than a second, before the first lease starts."""
        import dbos

        del dbos

    def _launch(self) -> None:
        from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer

        logging.getLogger("dbos").setLevel(logging.ERROR)
        config: DBOSConfig = {
            "name": queue.APPLICATION,
            "system_database_url": self.database.url.replace("postgres://", "postgresql://", 1),
            "executor_id": self.id,
            "application_version": queue.VERSION,
            "serializer": DBOSPortableJSONSerializer(),
            "sys_db_pool_size": 5,
            "db_engine_kwargs": {"connect_args": {"application_name": "adderclaw", **careful(self.database.url)}},
            "run_migrations": False,
            "log_level": "ERROR",
        }
        DBOS(config=config)

        @DBOS.workflow(name=queue.WORKFLOW)
        def carried(run_id: str) -> Json:
            return self._workflow(run_id)

        del carried  # DBOS knows it by its name
        DBOS.listen_queues(self._queues)
        engine.limit_per_worker(self)
        engine.refuse_pickles()
        DBOS.launch()
        for name in self._queues:
            DBOS.register_queue(name, worker_concurrency=MOST, polling_interval_sec=0.1)

    def room(self, queue_name: str) -> int:
        """How many more runs may start here now; 0 if the queue was just polled and nothing was announced."""
        at = time.monotonic()
        if queue_name not in self._queues:
            return 0
        if self.draining or self._closing or at < self._resting or any(stop.scope == "fleet" for stop in self._stops):
            return 0
        with self._lock:
            if queue_name not in self._roused and at - self._looked.get(queue_name, 0.0) < LOOK:
                return 0
        return self._free()

    def _free(self) -> int:
        """Free slots. Runs that wait for an answer take none."""
        with self._lock:
            busy = sum(work.busy for work in self._works) + len(self._taken)
            busy -= min(WAITING * self.settings.slots, sum(attempt.waits for attempt in self._attempts.values()))
        return max(0, self.settings.slots - busy)

    def asks(self, queue_name: str) -> None:
        """Records that the queue is being polled."""
        with self._lock:
            self._roused.discard(queue_name)
            self._looked[queue_name] = time.monotonic()

    def took(self, queue_name: str, workflows: list[str]) -> None:
        """Records what the queue returned. After a result it is polled again at once."""
        if workflows:
            with self._lock:
                self._roused.add(queue_name)
                self._taken.update(dict.fromkeys(workflows, time.monotonic()))

    def check_queues(self) -> None:
        with self._lock:
            self._roused.update(self._queues)

    def rest(self, why: object) -> None:
        """Pauses after a fault of this machine, so that others take the runs."""
        with self._lock:
            if self.is_paused:
                return
            self._resting = time.monotonic() + self._rests
            self.say(f"takes no runs for {self._rests:g} s: {why}")
            self._rests = min(LONGEST, self._rests * 2)

    def works(self) -> None:
        """Resets the pause after finished work."""
        self._rests = REST

    def _signalled(self, _number: int, _frame: object) -> None:
        self._closing = True
        self._wake.set()

    def _leave(self) -> None:
        """Gives its runs back, so that other workers continue them at once from the last unit."""
        with self._lock:
            attempts = list(self._attempts.values())
            unbegun = [queue.run_id(workflow) for workflow in self._taken] + [
                work.run for work in self._works if work.busy
            ]
        for attempt in attempts:
            attempt.take_away()
            with contextlib.suppress(AdderClawError):
                leases.release(self.database, attempt.lease)
        with contextlib.suppress(AdderClawError):
            leases.mark_due(self.database, unbegun)
            self.database.run("UPDATE fleet.workers SET ended = now(), seen = now() WHERE id = %s", self.id)
            self.database.run("SELECT pg_notify('fleet', 'left')")
        for attempt in attempts:
            attempt.close()
        self._room.leave()
        self.means.warm.close()
        self.means.tracing.close()
        print(f"worker {self.id}: ended", flush=True)
        sys.stdout.flush()
        os._exit(0)  # threads of DBOS still wait for runs that were given back

    # -------------------------------------------------------------- periodically and on notifications

    def _tick(self) -> None:
        with self._lock:
            attempts = list(self._attempts.values())
        began = now()
        renewed = leases.renew(self.database, self.id, [held.lease for held in attempts], self.settings.lease)
        for attempt in attempts:
            if attempt.run in renewed.kept:
                attempt.renewed(began + self.settings.lease)
            elif attempt.run in renewed.lost and self._attempts.get(attempt.run) is attempt and not attempt.fenced:
                attempt.take_away()
                leases.take_back_strike(self.database, attempt.lease)
        self.draining = renewed.draining
        self._end_where_idle(attempts)

    def _end_where_idle(self, attempts: list[Attempt]) -> None:
        if attempts or self._attempts:
            self._idle_since = time.monotonic()
        elif self.draining:
            self._closing = True
        elif self.settings.until_idle and time.monotonic() - self._idle_since > 2:
            left = self.database.one("SELECT 1 FROM fleet.runs WHERE state IN ('queued', 'running') LIMIT 1")
            self._closing = left is None

    def _reap(self) -> None:
        """Takes over runs, in a separate thread so that waiting for locks does not delay leases and stops.

        The first time is at the start, for runs that were left before.
        """
        self._reaping.set()
        while not self._closing:
            self._reaping.wait(self.settings.lease / 5)
            self._reaping.clear()
            if time.monotonic() - self._outage < self.settings.lease:
                continue
            try:
                self._take_over()
            except AdderClawError as error:
                self.say(error)
            except Exception as error:  # noqa: BLE001 - the engine raises anything while the database is unreachable
                self.say(f"cannot take over runs of other workers for now: {error}")

    def _take_over(self) -> None:
        """Queues the runs of silent workers again, with a new token and from the last unit."""
        from dbos import DBOS

        with self._lock:
            late = [
                workflow
                for workflow, since in self._taken.items()
                if time.monotonic() - since > 2 * self.settings.lease
            ]
            for workflow in late:  # the engine could not start them
                del self._taken[workflow]
        if late:
            leases.mark_due(self.database, [queue.run_id(workflow) for workflow in late])
        controls.resume_cleared(self.database)
        versions.release(self.database, ["", *self.settings.labels], self._free())
        for run in leases.reap(self.database, self.settings.lease):
            if self.database.do(lambda cursor, run=run: queue.replace_ended_workflow(cursor, run)):
                continue
            DBOS.resume_workflow(queue.workflow_id(run), queue_name=queue.name(run.label))
            self.database.run(
                "WITH said AS (SELECT pg_notify('fleet', 'queued'))"
                " UPDATE fleet.runs SET resume_due = false FROM said WHERE id = %s AND token = %s",
                run.id,
                run.token,
            )

    def _end_expired(self) -> None:
        """Ends processes whose lease has expired, even if the database is unreachable."""
        with self._lock:
            late = [held for held in self._attempts.values() if now() > held.deadline + 1]
        for attempt in late:
            attempt.take_away()

    def _listen(self) -> None:
        """Handles notifications at once, and polls the stops in case a notification was lost."""
        while not self._closing:
            try:
                with self.database.listening() as connection:
                    at = 0.0
                    while not self._closing:
                        if time.monotonic() - at >= LOOK:
                            at = time.monotonic()
                            self._apply_stops(controls.active_on(connection))
                        for notification in connection.notifies(
                            timeout=max(0.0, at + LOOK - time.monotonic()), stop_after=1
                        ):
                            at = 0.0 if self._handle_notification(notification.payload) else at
            except (psycopg.Error, OSError, AdderClawError):
                time.sleep(LOOK / 2)

    def _handle_notification(self, message: str) -> bool:
        """Handles a notification. Returns whether the stops must be read."""
        match message.split():
            case ["left"]:
                self._reaping.set()
            case ["queued"]:
                self.check_queues()
            case ["ended", run] if run in self._attempts:
                self._wake.set()  # perhaps it was cancelled
            case _:
                return message in ("stop", "resume")
        return False

    def _apply_stops(self, stops: list[Stop]) -> None:
        standing = {stop.id for stop in stops}
        if {stop.id for stop in self._stops} - standing:
            self.check_queues()
        self._stops = stops
        with self._lock:
            attempts = list(self._attempts.values())
        for stop in stops:
            held = [
                running for running in attempts if stop.holds(running.run, running.label) and running.stopped is None
            ]
            for attempt in held:
                attempt.stop(stop)
            if held or stop.id not in self._reported:
                threading.Thread(target=self._end_stopped, args=(stop, held), daemon=True).start()
        self._reported = standing

    def _end_stopped(self, stop: Stop, attempts: list[Attempt]) -> None:
        """Kills stopped processes that do not end in time, and records when all have ended."""
        limit = time.monotonic() + GRACE
        with contextlib.suppress(AdderClawError):
            controls.heard(self.database, stop, self.id, len(attempts))
        for attempt in attempts:
            if not attempt.gone(max(0.0, limit - time.monotonic())):
                attempt.kill()
        for attempt in attempts:
            attempt.gone(GRACE)
        with contextlib.suppress(AdderClawError):
            controls.record_ended(self.database, stop, self.id)
        self.database.close()

    # -------------------------------------------------------------- one run

    def _workflow(self, run_id: str) -> Json:
        """The workflow of a run in DBOS, with one durable step for each unit."""
        from dbos import DBOS

        work = Work(self, run_id)
        with self._lock:
            self._taken.pop(str(DBOS.workflow_id), None)
            self._works.add(work)
        try:
            number = 0
            while True:
                number += 1
                came: Json = DBOS.run_step({"name": f"unit {number}"}, work.step, number)
                if "unit" not in came:
                    return came
        finally:
            work.close()
            with self._lock:
                self._works.discard(work)
            self.check_queues()
            self.database.close()

    def stop_of(self, run: str, label: str) -> Stop | None:
        return next((stop for stop in self._stops if stop.holds(run, label)), None)

    def hold(self, attempt: Attempt) -> None:
        with self._lock:
            self._attempts[attempt.run] = attempt

    def drop(self, attempt: Attempt) -> None:
        with self._lock:
            if self._attempts.get(attempt.run) is attempt:
                del self._attempts[attempt.run]

    @property
    def closing(self) -> bool:
        return self._closing

    @property
    def is_paused(self) -> bool:
        return time.monotonic() < self._resting
