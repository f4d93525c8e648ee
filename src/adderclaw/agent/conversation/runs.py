"""Runs of any driver in this process: started by one client, watched by many, cancelled by their operator."""

import asyncio
from collections.abc import Callable, Sequence

from adderclaw.agent.conversation.asking import Cancelling
from adderclaw.agent.conversation.watched import END, Full, State, Watched
from adderclaw.agent.run import Runtime, open_run, resume_of_run, start
from adderclaw.agent.run.drive import drive
from adderclaw.agent.run.driver import Driver, Rows
from adderclaw.core.events import EventRecord
from adderclaw.core.questions import Operator
from adderclaw.core.types import Json
from adderclaw.storage import transcript
from adderclaw.storage.telemetry.log import fields

MOST_RUNS = 32
"""The maximum number of runs at the same time."""
MOST_ENDED = 50
"""The number of ended runs that are kept for followers; all others are only in the store."""


class HostedRun(Watched):
    """One hosted run. Its client is its operator; a client that disconnects does not affect it."""

    def __init__(
        self,
        driver: Driver,
        client: str,
        channel: str,
        operator: "Callable[[Runtime], Operator] | None" = None,
        rows: Sequence[Rows] = (),
    ) -> None:
        """`operator`: the operator, by default the clients that follow. `rows` are written with the run's own row."""
        super().__init__("", client, channel)
        self._driver, self._work, self._operator, self._more = driver, Cancelling(), operator, rows
        self.kind = driver.opening.kind
        self.conversation_id = ""
        self.workspace = ""
        self.report: Json | None = None
        """The report, once the run has ended."""
        self._life: asyncio.Task[None] | None = None

    @property
    def state(self) -> State:
        if self._life is not None and self._life.done():
            return "ended"
        return "asking" if self._asking.open else "working"

    async def begin(self) -> None:
        """Open the run and let it continue in the background."""
        loop = asyncio.get_running_loop()
        opened: asyncio.Future[None] = loop.create_future()
        task = self._life = loop.create_task(self._lived(opened))
        task.add_done_callback(self._ended)
        await asyncio.wait({task, opened}, return_when=asyncio.FIRST_COMPLETED)
        if not opened.done():
            task.result()  # raises the error that prevented the start

    def cancel(self, client: str, reason: str, *, granted: bool = False) -> bool:
        """Cancel the run; False if it has ended."""
        self.require(client, granted=granted)
        if self.state == "ended":
            return False
        self._work.cancel(reason)
        return True

    async def ended(self) -> Json:
        assert self._life is not None
        await asyncio.wait({self._life})
        return self.report or {}

    async def close(self, why: str) -> None:
        self._work.cancel(why)
        await self.ended()

    async def _lived(self, opened: "asyncio.Future[None]") -> None:
        opening = self._driver.opening
        runtime = start(opening.options)
        again = resume_of_run(runtime, opening.again) if opening.again is not None else None
        kind, channel = opening.kind, self.channel
        who = self._asking if self._operator is None else self._operator(runtime)
        more = (*opening.rows, *self._more)
        with open_run(runtime, who, kind=kind, channel=channel, again=again, task=opening.task, more=more) as run:
            session = run.session
            self.id, self.conversation_id = run.run_id, session.conversation_id
            self.workspace = session.environment.context.workspace.root
            if again is None:
                with session.store.write() as cursor:
                    transcript.set_client(cursor, session.conversation_id, self.client)
            self._attach(run)
            self._changed()
            opened.set_result(None)
            work = self._work.done(self._driver.run(session))
            report = await drive(run, work, mode=opening.mode, resume=opening.resume(run.run_id))
            self._say(END)
            self.report = {**report.as_json(), "exit_code": report.exit_code}

    def _ended(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        self._detach()
        if self.report is None:
            self.report = {"run_id": self.id, "outcome": "error", "answer": "", "reason": str(error or "cancelled")}
        self.updates.publish("ended", self.report)
        self._changed()
        self.updates.end()

    def _hear(self, record: EventRecord) -> None:
        super()._hear(record)
        self.updates.publish("event", fields(record))


class Runs:
    """The runs of this process."""

    def __init__(self, channel: str, operator: "Callable[[Runtime], Operator] | None" = None) -> None:
        """`operator`: the operator of all runs, by default the clients that follow."""
        self.channel, self._operator = channel, operator
        self._kept: dict[str, HostedRun] = {}
        self._opening = 0
        self._closed = False

    def get(self, id: str) -> HostedRun | None:
        return self._kept.get(id)

    def all(self) -> list[HostedRun]:
        """The runs that have not ended."""
        return [run for run in self._kept.values() if run.state != "ended"]

    def kept(self) -> list[HostedRun]:
        """The runs that have not ended, and the last ones that have."""
        return list(self._kept.values())

    async def start(self, client: str, driver: Driver, channel: str = "", rows: Sequence[Rows] = ()) -> HostedRun:
        """Start a run. `channel`: the channel's name in rows and receipts, if it is another one.

        `rows` are written with the run's own row.
        """
        if self._closed:
            raise Full("the server is shutting down and begins no new runs")
        if len(self.all()) + self._opening >= MOST_RUNS:
            raise Full(f"{MOST_RUNS} runs are active in this server; wait for one of them")
        run = HostedRun(driver, client, channel or self.channel, self._operator, rows)
        self._opening += 1
        try:
            await run.begin()
        finally:
            self._opening -= 1
        self._kept[run.id] = run
        self._forget()
        return run

    def _forget(self) -> None:
        over = [id for id, run in self._kept.items() if run.state == "ended" and not run.updates.followers]
        for id in over[: max(0, len(self._kept) - MOST_ENDED)]:
            del self._kept[id]

    async def close(self, why: str = "the server ends") -> None:
        """End all runs at a safe point, each with its outcome."""
        self._closed = True
        await asyncio.gather(*(run.close(why) for run in self.all()))
