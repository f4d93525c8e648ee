"""A store with schedules, a clock that is set by hand, and runs that end when a test says so."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from adderclaw.agent.conversation.watched import Full
from adderclaw.agent.run.driver import Driver
from adderclaw.core.errors import SessionInUse
from adderclaw.core.json_text import to_json
from adderclaw.core.types import Json
from adderclaw.flows.schedules import when, work
from adderclaw.flows.schedules.terms import Terms
from adderclaw.flows.schedules.tick import Link, NoticeKind, Scheduler
from adderclaw.flows.schedules.when import When
from adderclaw.storage import Store, runs, workflows
from adderclaw.storage import schedules as rows
from adderclaw.storage.schedules import Schedule, ScheduleRun
from adderclaw.storage.text import iso

KEY = b"k" * 32


class SetClock:
    """Shows what it is set to."""

    def __init__(self, at: float) -> None:
        self.at = self.up = at

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.up

    async def sleep(self, seconds: float) -> None:
        self.go(seconds)

    def go(self, seconds: float) -> None:
        self.at += seconds
        self.up += max(seconds, 0.0)


class ScriptedRun:
    """A run that ends when it is let go."""

    def __init__(self, id: str, driver: Driver, schedule: Schedule, *, ends: bool) -> None:
        self.id, self.driver, self.schedule = id, driver, schedule
        self.report: Json = {"outcome": "completed", "reason": "", "cost": None}
        self._over = asyncio.Event()
        if ends:
            self._over.set()

    def end(self, **report: Any) -> None:
        self.report |= report
        self._over.set()

    async def ended(self) -> Json:
        await self._over.wait()
        return self.report


class Place:
    """One store on disk, and as many schedulers of it as a test wants."""

    def __init__(self, folder: Path, at: float) -> None:
        self.folder, self.clock, self.stopped = folder, SetClock(at), False
        self.path = str(folder / "memory.sqlite")
        self.store = Store.open(self.path)
        self.begun: list[ScriptedRun] = []
        self.told: list[tuple[NoticeKind, str, str]] = []
        self.ends = True
        self.dies = False
        """This process is killed when a run is about to begin."""
        self.dies_after = 0
        """This process is killed when so many runs have begun; 0: it is not."""
        self.busy = False
        """Another process works in the session of the run."""
        self.removes = False
        """The schedule is removed when its run is about to begin."""
        self.full = False
        """There is no room for another run."""

    def _fresh(self) -> str:
        return f"run-{self.store.read('SELECT count(*) FROM runs')[0][0] + 1}"

    def _write(self, one: ScriptedRun, link: Link) -> None:
        """The rows that a run stands on, and what a schedule adds to them, in one transaction."""
        kind, id = one.driver.opening.kind, one.id
        with self.store.write() as cursor:
            cursor.execute("INSERT OR IGNORE INTO conversations(id, project_dir) VALUES (?, ?)", (id, str(self.folder)))
            cursor.execute("INSERT OR IGNORE INTO sessions(session_id, conversation_id) VALUES (?, ?)", (id, id))
            runs.begin(cursor, run_id=id, kind=kind, conversation_id=id, session_id=id, pid=1)
            workflows.begin(cursor, workflows.WorkflowStart(id, "", "", work.pin(one.driver), {}))
            link(cursor, id)

    def scheduler(self, store: Store | None = None) -> Scheduler:
        async def begin(driver: Driver, schedule: Schedule, link: Link) -> ScriptedRun:
            if self.dies:
                os.kill(os.getpid(), signal.SIGKILL)
            if self.full:
                raise Full("no room")
            if self.busy:
                raise SessionInUse("the session is in use")
            if self.removes:
                rows.remove(self.store, schedule)
            one = ScriptedRun(driver.opening.again or self._fresh(), driver, schedule, ends=self.ends)
            self._write(one, link)
            self.begun.append(one)
            if len(self.begun) == self.dies_after:
                os.kill(os.getpid(), signal.SIGKILL)
            return one

        return Scheduler(
            store or self.store,
            self.clock,
            begin,
            lambda: self.stopped,
            key=KEY,
            notify=lambda kind, schedule, text: self.told.append((kind, schedule.name, text)),
        )

    def add(self, name: str, begins: When, terms: Terms | None = None, **what: Any) -> Schedule:
        now = self.clock.now()
        made = rows.sign(
            Schedule(
                rows.fresh_id(),
                name,
                str(self.folder),
                to_json(begins, omit=when.UNSET),
                what or {"message": "say hello"},
                to_json(terms or Terms(), omit=(None,)),
                "",
                iso(now),
                "test",
                "",
                None,
                now,
                when.after(begins, now),
            ),
            KEY,
        )
        rows.add(self.store, made)
        return made

    def history(self, schedule: Schedule, limit: int = 1_000) -> list[ScheduleRun]:
        return list(reversed(rows.history(self.store, [schedule.id], limit)))

    def states(self, schedule: Schedule) -> list[str]:
        return [row.state for row in self.history(schedule)]
