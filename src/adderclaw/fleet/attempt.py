"""One attempt at a run, with its own folder and process, whose requests the worker serves."""

import contextlib
import os
import socket
import sqlite3
import threading
import zlib
from typing import Any

from adderclaw.core.errors import EXIT_CODES, AdderClawError
from adderclaw.core.overseer import ModelCallEstimate
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json
from adderclaw.fleet import asking, budgets, progress
from adderclaw.fleet.controls import Stop
from adderclaw.fleet.database import Database, Unreachable
from adderclaw.fleet.identities import Identity
from adderclaw.fleet.keys import Key
from adderclaw.fleet.leases import Fenced, Lease
from adderclaw.fleet.link import Link, now
from adderclaw.fleet.objects import Objects
from adderclaw.fleet.progress import Saved
from adderclaw.fleet.state import AttemptFolder
from adderclaw.fleet.tracing import Span, Tracing
from adderclaw.fleet.warm import RunForker, RunProcess

GRACE = 1.0
"""Seconds that a run's process may take to end after it was stopped or sent its report."""
STOPPED = EXIT_CODES["stopped"]


class Means(NamedTuple):
    """What attempts use of their worker."""

    database: Database
    objects: Objects
    key: Key
    identity: Identity
    warm: RunForker
    home: str
    root: str
    """The folder for the folders of runs."""
    tracing: Tracing
    save_every: int
    """Tool calls after which a state is saved within a unit; 0: only after units."""
    local_repos: bool = False
    """Whether repositories may be local paths."""


class OutcomeStored(NamedTuple):
    """The outcome of the run is stored."""

    outcome: str


class Unit(NamedTuple):
    number: int


class Died(NamedTuple):
    """The process ended without an outcome of the run."""

    why: str
    blameless: bool = False


class Attempt:
    def __init__(self, means: Means, row: Any, deadline: float) -> None:
        self._means, self.run, self.label = means, str(row.id), str(row.label)
        self.lease = Lease(str(row.id), int(row.token), str(row.worker))
        self._row: Json = row._asdict()
        self.deadline = deadline
        self.folder = AttemptFolder(os.path.join(means.root, self.run, str(row.token)))
        self._saver: Any = None
        self._link: Link | None = None
        self._process: RunProcess | None = None
        self.up = False
        """Whether the process has started working. What ends it before is not the run's fault."""
        self._events: list[Json] = []
        self._tickets: dict[str, list[str]] = {}
        self._telling = threading.Lock()
        self._questions: dict[str, Json] = {}
        """Questions whose answers the process waits for."""
        self._span = Span(None, "")
        self.stopped: Stop | None = None
        self.fenced = False
        self.trouble = ""
        """Why requests of the process could not be stored, if that happened."""

    @property
    def started(self) -> bool:
        return self._process is not None

    @property
    def waits(self) -> bool:
        """Whether the process waits for an answer. Another run may use its slot meanwhile."""
        return bool(self._questions)

    def start(self) -> OutcomeStored | None:
        """Fills the folder and starts the process, which is told about calls that an earlier attempt left open."""
        means = self._means
        about = {"adderclaw.run.id": self.run, "adderclaw.fleet.worker": self.lease.worker}
        self._span = means.tracing.begin("fleet attempt", self._row["trace"], {**about, "token": self.lease.token})
        lost = progress.begin(means.database, self.lease, int(self._row["saved_call"]))
        self._saver = self.folder.fill(
            means.objects, self._row, means.key, means.home, lambda: self._is_cancelled, local_repos=means.local_repos
        )
        asking.take_answers(means.database, means.key, self.run, self.folder.home)
        ours, theirs = socket.socketpair()
        with open(os.path.join(self.folder.root, "child.log"), "ab") as log, theirs:
            if self._is_cancelled:
                ours.close()
                return self._stopped_end(None)
            self._process = means.warm.child(theirs, log.fileno(), self.folder.home, self.folder.workspace)
        if self._is_cancelled:  # cancelled while the process started
            self.kill()
        self._link = Link(ours)
        order: Json = {
            "run": self.run,
            "wanted": self._row["wanted"],
            "workspace": self.folder.workspace,
            "lease": self.deadline,
            "lost": lost,
            "save_every": means.save_every,
            "seconds": self._row["seconds_left"],
            "trace": self._span.parent,
        }
        with contextlib.suppress(OSError):
            self._link.send(order)
        return None

    @property
    def _is_cancelled(self) -> bool:
        return self.stopped is not None or self.fenced

    def serve(self) -> Unit | OutcomeStored | Died:
        """Serves the process until it has finished a unit or ends."""
        link = self._link
        assert link is not None
        while (message := link.receive()) is not None:
            answer: Json
            came: Unit | OutcomeStored | Died | None = None
            try:
                answer, came = self._answered(message)
            except Fenced as error:
                self.fenced = True
                answer = {"fenced": str(error)}
            except Unreachable as error:
                if now() < self.deadline and "ask" not in message:
                    continue
                self.trouble = str(error)
                answer = {"fenced": str(error)}
            if "ask" in message:
                with contextlib.suppress(OSError):
                    link.send({**answer, "reply": message["ask"]})
            if came is not None:
                return came
        code = self._waited()
        if self.fenced or self._taken():
            raise Fenced(f"run {self.run} belongs to another worker now")
        if self.stopped is not None:
            return self._stopped_end(self._saved_if_possible())
        return Died(f"signal {-code}" if code < 0 else f"exit code {code}", blameless=not self.up)

    def _answered(self, message: Json) -> tuple[Json, Unit | OutcomeStored | Died | None]:
        database, lease = self._means.database, self.lease
        match message["do"]:
            case "up":
                self.up = True
            case "event":
                self._events.append(message["event"])
            case "pause":
                turn = budgets.turn(database, lease, message["model"])
                if turn.ticket:
                    self._tickets.setdefault(message["model"], []).append(turn.ticket)
                return {"seconds": turn.seconds}, None
            case "slow":
                budgets.slow(database, message["model"], message["seconds"])
            case "reserve":
                return self._reserve(message), None
            case "settle":
                budgets.settle(database, message["held"], int(message["tokens"]), float(message["price"] or 0))
            case "begins":
                self.tell_events()
                progress.calls_begin(database, lease, message["calls"])
            case "called":
                progress.call_ended(database, lease, message["call"])
            case "question":
                self.tell_events()
                self._open_question(message["id"])
            case "answered":
                asked = self._questions.get(message["id"])
                answer = asking.given(database, self._means.key, lease, message["id"], asked)
                if answer is not None:
                    self._questions.pop(message["id"], None)
                return {"answer": answer}, None
            case "save":
                progress.keep_state(database, lease, self._save(), self._means.identity)
            case "unit":
                self.tell_events()
                number = progress.keep_unit(database, lease, message["place"], self._save(), self._means.identity)
                return {}, Unit(number)
            case "ended":
                self._waited()
                self.tell_events()
                if message["halted"]:
                    return {}, Died(message["halted"], blameless=True)
                return {}, self._ended(message["report"])
            case other:
                raise AssertionError(other)
        return {}, None

    def _open_question(self, id: str) -> None:
        question = asking.question(self.folder.home, id)
        if question is not None:
            asking.ask(self._means.database, self._means.key, self.lease, question)
            self._questions[id] = question

    def _reserve(self, message: Json) -> Json:
        waiting = self._tickets.get(message["model"])
        call = ModelCallEstimate(**{name: message[name] for name in ModelCallEstimate._fields})
        granted = budgets.reserve(self._means.database, self.lease, call, waiting[-1] if waiting else "")
        if isinstance(granted, budgets.Refused):
            return {"limit": granted.reason, "by": granted.by} if granted.reason else {}
        if waiting:
            waiting.pop()
        return {"held": granted.held, "answer": granted.answer}

    def _save(self) -> Saved:
        name = self.folder.save(self._saver)
        return Saved(name, *self.folder.head())

    def _ended(self, report: Json) -> OutcomeStored:
        """Stores the last state with the outcome, after the process has ended."""
        stop = self.stopped
        if stop is not None and report["outcome"] == "stopped":
            report = {**report, "reason": stop.said, "stopped_by": stop.id}
        saved, means = self._save(), self._means
        if report["outcome"] == "needs_input" and (question := asking.open_question(self.folder.home)) is not None:
            progress.keep_waiting(means.database, means.key, self.lease, saved, question, means.identity)
        else:
            progress.keep_end(means.database, self.lease, report, saved, means.identity)
        return OutcomeStored(report["outcome"])

    def _stopped_end(self, saved: Saved | None) -> OutcomeStored:
        """Stores the outcome of a run that a stop ended. The outcome of calls in progress is unknown."""
        if self.stopped is None:
            raise Fenced(f"run {self.run} belongs to another worker now")
        report: Json = {"outcome": "stopped", "reason": self.stopped.said, "stopped_by": self.stopped.id}
        progress.keep_end(
            self._means.database, self.lease, {**report, "exit_code": STOPPED}, saved, self._means.identity
        )
        return OutcomeStored("stopped")

    def _saved_if_possible(self) -> Saved | None:
        """Saves the state of a killed process; None if that fails."""
        with contextlib.suppress(AdderClawError, OSError, sqlite3.Error, zlib.error):
            return self._save()
        return None

    def tell_events(self) -> None:
        with self._telling:
            events, self._events = self._events, []
        progress.keep_events(self._means.database, self.lease, events)

    # -------------------------------------------------------------- from other threads of the worker

    def renewed(self, deadline: float) -> None:
        self.deadline = deadline
        if self._link is not None:
            with contextlib.suppress(OSError):
                self._link.send({"lease": deadline})

    def stop(self, stop: Stop) -> None:
        """Stops the run without waiting. `start` ends a process that is just starting."""
        if self.stopped is None:
            self.stopped = stop
            if self._process is not None:
                self.folder.stop()

    def take_away(self) -> None:
        """Kills the process after the lease was lost. Nothing more is stored."""
        self.fenced = True
        self.kill()

    def kill(self) -> None:
        """Kills the process and its group. Its sandboxes end with it."""
        if self._process is not None:
            self._process.kill()

    def gone(self, timeout: float) -> bool:
        """Whether the process has ended, waiting at most so many seconds."""
        return self._process is None or self._process.wait(timeout) is not None

    def close(self) -> None:
        self.kill()
        self._waited()
        if self._link is not None:
            self._link.close()
        self.folder.remove()
        self.end_span()

    def end_span(self) -> None:
        """Ends the span before the attempt is dropped, because a worker that leaves sends ended spans."""
        self._span.end({"adderclaw.fleet.taken_away": self.fenced})

    def _waited(self) -> int:
        process = self._process
        if process is None:
            return 0
        code = process.wait(GRACE)
        if code is None:
            process.kill()
            code = process.wait()
        return code or 0

    def _taken(self) -> bool:
        row = self._means.database.one("SELECT token, worker FROM fleet.runs WHERE id = %s", self.run)
        return row is None or (row.token, row.worker) != (self.lease.token, self.lease.worker)
