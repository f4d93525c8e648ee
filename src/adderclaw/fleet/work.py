"""One run while a worker holds it: claims it, attempts it until it ends, or gives it back."""

import contextlib
import errno
import sqlite3
import time
import zlib
from typing import TYPE_CHECKING, Any

from adderclaw.core.errors import EXIT_CODES, AdderClawError
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json
from adderclaw.fleet import leases, progress, queue, versions
from adderclaw.fleet.attempt import Attempt, Died, OutcomeStored, Unit
from adderclaw.fleet.controls import Stop
from adderclaw.fleet.database import Cursor, Unreachable
from adderclaw.fleet.leases import Fenced
from adderclaw.fleet.link import now
from adderclaw.fleet.requests import Refused
from adderclaw.fleet.warm import CannotStart

if TYPE_CHECKING:
    from adderclaw.fleet.worker import Worker

POLL = 0.5
"""Seconds between two queries of a run that another worker has or that is held."""
OWN = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
"""Errors that are the fault of the machine, not of the run."""


class Work:
    """A run while this worker holds it, with one attempt after another."""

    def __init__(self, worker: "Worker", run: str) -> None:
        self._worker, self.run = worker, run
        self._attempt: Attempt | None = None
        self._token = 0
        """The token of the last claim."""
        self.busy = True
        """Whether it takes a slot; not while another worker has the run."""

    def step(self, number: int) -> Json:
        """Works until this unit is finished or the run ends."""
        while True:
            try:
                came = self._try_step(number)
            except (AdderClawError, OSError, sqlite3.Error, zlib.error, ValueError) as error:
                came = self._failed(error)
            if came is not None:
                return came
            if self._worker.closing:
                time.sleep(60)  # the process ends
            time.sleep(POLL)

    def _try_step(self, number: int) -> Json | None:
        if self._attempt is None:
            row = self._claim()
            if not isinstance(row, _Claim):
                return row
            attempt = self._attempt = Attempt(self._worker.means, row.row, row.deadline)
            self._worker.hold(attempt)
            if (reason := leases.set_aside(row.row)) is not None:
                self._end({"outcome": "error", "reason": reason})
                return {"outcome": "error"}
            if row.row.seconds_left is not None and row.row.seconds_left <= 0:
                self._end(
                    {
                        "outcome": "limit",
                        "reason": "its deadline passed before it could start",
                        "exit_code": EXIT_CODES["limit"],
                    }
                )
                return {"outcome": "limit"}
            if (stop := self._worker.stop_of(attempt.run, attempt.label)) is not None:
                attempt.stop(stop)
            if row.row.units >= number:
                return {"unit": number}
        attempt = self._attempt
        ended = None if attempt.started else attempt.start()
        match ended or attempt.serve():
            case Unit(done):
                self._worker.works()
                return {"unit": done}
            case OutcomeStored(outcome):
                self._worker.works()
                self._drop(release=False)
                return {"outcome": outcome}
            case Died(why, blameless):
                if not blameless:
                    leases.strike(self._worker.database, attempt.lease)
                elif attempt.trouble or not attempt.up:
                    begun = f"the process of run {self.run} ended before it started working ({why})"
                    self._worker.rest(attempt.trouble or begun)
                self._drop(release=False)
                return None

    def _claim(self) -> "_Claim | Json | None":
        """The run's row, or its outcome; None if it may not start yet."""
        worker = self._worker
        row = worker.database.one("SELECT * FROM fleet.runs WHERE id = %s", self.run)
        if row is None or row.state == "ended":
            return {"outcome": row.outcome if row is not None else "gone"}
        if row.state in ("held", "waiting"):
            return {"state": row.state}
        if row.label not in ("", *worker.settings.labels):
            worker.database.do(lambda cursor: queue.enqueue_again(cursor, self.run))
            return {"state": row.state}
        if worker.draining or worker.closing:
            return None
        if (stop := worker.stop_of(row.id, row.label)) is not None:
            return None if stop.scope == "fleet" else self._held(stop)
        if worker.is_paused:
            return None
        if row.schema > versions.SCHEMA:
            return {"state": "held"} if versions.hold(worker.database, row) else None
        began = now()
        try:
            claimed = leases.claim(
                worker.database,
                self.run,
                worker.id,
                worker.settings.lease,
                self._token,
                local_repos=worker.means.local_repos,
            )
        except Refused as error:
            return self._refuse(str(error))
        if claimed is None and row.state == "running":  # another worker has it, or this one in another thread
            return self._ended_elsewhere()
        self._token = self._token if claimed is None else int(claimed.token)
        return None if claimed is None else _Claim(claimed, began + worker.settings.lease)

    def _refuse(self, reason: str) -> Json:
        """Ends a run whose request no enrolled submitter signed. It was never claimed."""

        def work(cursor: Cursor) -> None:
            mine = "(state = 'queued' OR (state = 'running' AND worker = %s))"
            sql = f"SELECT * FROM fleet.runs WHERE id = %s AND {mine} FOR UPDATE"  # noqa: S608 - constant
            if (row := cursor.execute(sql.encode(), (self.run, self._worker.id)).fetchone()) is not None:
                progress.end_unworked(cursor, row, "error", f"this run was refused: {reason}")

        self._worker.database.do(work)
        return {"outcome": "error"}

    def _held(self, stop: Stop) -> Json | None:
        """Holds a run outside of the queue because of a stop for its label or itself."""
        held = self._worker.database.one(
            "UPDATE fleet.runs SET state = 'held', stopped_by = %s WHERE id = %s AND state = 'queued' RETURNING id",
            stop.id,
            self.run,
        )
        return None if held is None else {"state": "held"}

    def _failed(self, error: Exception) -> Json | None:
        """Handles an error: it ends the run, unless the fleet or the machine caused it; then the run is tried again."""
        try:
            if isinstance(error, Fenced):
                raise error
            if _is_machine_fault(error):
                self._worker.rest(error)
            elif self._attempt is not None and not isinstance(error, Unreachable):
                self._end({"outcome": "error", "reason": str(error)})
                return {"outcome": "error"}
        except Fenced:
            self._drop(release=False)
            return self._ended_elsewhere()
        except Unreachable:
            pass
        self._drop(release=False)  # this worker keeps the run until its lease expires
        return None

    def _end(self, report: Json) -> None:
        assert self._attempt is not None
        means = self._worker.means
        progress.keep_end(means.database, self._attempt.lease, {"exit_code": 1, **report}, None, means.identity)
        self._drop(release=False)

    def _ended_elsewhere(self) -> Json:
        """Waits until the run has ended on another worker, whose result DBOS keeps."""
        self.busy = False
        while True:
            with contextlib.suppress(AdderClawError):
                row = self._worker.database.one("SELECT state, outcome FROM fleet.runs WHERE id = %s", self.run)
                if row is None or row.state in ("ended", "waiting", "held"):
                    return {"outcome": row.outcome if row is not None else "gone"}
            time.sleep(POLL)

    def _drop(self, *, release: bool) -> None:
        attempt, self._attempt = self._attempt, None
        if attempt is None:
            return
        attempt.end_span()
        self._worker.drop(attempt)
        attempt.close()
        if release:
            with contextlib.suppress(AdderClawError):
                leases.release(self._worker.database, attempt.lease)

    def close(self) -> None:
        """Gives the run back. The next worker starts at the last unit."""
        self._drop(release=True)


class _Claim(NamedTuple):
    row: Any
    deadline: float


def _is_machine_fault(error: Exception) -> bool:
    if isinstance(error, sqlite3.Error):
        return "full" in str(error) or "I/O" in str(error)
    return isinstance(error, CannotStart) or (isinstance(error, OSError) and error.errno in OWN)
