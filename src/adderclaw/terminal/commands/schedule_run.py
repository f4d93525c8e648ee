"""`adderclaw schedule run` and `tick`: runs due schedules in this process and waits for them."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable

from adderclaw import config as configuration
from adderclaw.agent import queries
from adderclaw.agent.conversation import questions
from adderclaw.agent.conversation.runs import HostedRun, Runs
from adderclaw.agent.run import Runtime
from adderclaw.agent.run.signals import ending
from adderclaw.agent.session.clock import SystemClock
from adderclaw.agent.tool_call.approvals import NoOperator
from adderclaw.config.legacy.options import Options
from adderclaw.core import home_names
from adderclaw.core.errors import EXIT_CODES, AdderClawError, Stopped
from adderclaw.core.json_text import to_json
from adderclaw.core.questions import Operator
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json
from adderclaw.flows.queries import schedules as shown
from adderclaw.flows.schedules import ticking
from adderclaw.flows.schedules.tick import Scheduler
from adderclaw.storage import Store, runs
from adderclaw.storage import schedules as rows
from adderclaw.storage.schedules import ScheduleRun
from adderclaw.terminal.commands.common import print_result
from adderclaw.terminal.output import print_json

STOPPED = "the emergency stop is set, so nothing starts; clear it with `adderclaw estop --clear`"
SERVER_TICKS = "the server at {address} ticks these schedules: nothing to do here"
SUCCESSFUL = ("completed", "needs_input")
"""Outcomes that a tick does not report as problems: notices and lists show a pending question."""


def _no_operator(runtime: Runtime) -> Operator:
    """Denies what would be asked, unless another process has time to answer."""
    return NoOperator(waits=runtime.config.security.approval_timeout_seconds > 0)


class _LocalScheduler:
    """A scheduler whose runs live in this process; a signal ends them at a safe point."""

    def __init__(self, config: str | None) -> None:
        self.options = Options(config_file=config)
        self.store = Store.open(questions.store_path(config))
        self.runs = Runs("schedule", _no_operator)
        self.scheduler = ticking.scheduler(self.store, SystemClock(), self.runs, self.options, "command")
        self.got = 0

    async def wait(self, work: Callable[[Scheduler], Awaitable[list[ScheduleRun]]]) -> list[ScheduleRun]:
        """Waits for the runs that the work started; returns its rows and those still waiting."""
        loop, closing = asyncio.get_running_loop(), list[asyncio.Future[None]]()

        def stop(number: int) -> None:
            if self.got:
                os._exit(128 + number)
            self.got = number
            closing.append(asyncio.ensure_future(self.runs.close(f"ended by {signal.Signals(number).name}")))

        for number in ending():
            loop.add_signal_handler(number, stop, number)
        try:
            first = await work(self.scheduler)
            await self.scheduler.settled()
        finally:
            await asyncio.gather(*closing)
            await self.scheduler.close()
        ids = {row.id for row in first}
        later = [row for run in self.runs.kept() if (row := self._row_of(run)) is not None and row.id not in ids]
        return [rows.require_run(self.store, row.id) for row in (*first, *later)]

    def _row_of(self, run: HostedRun) -> ScheduleRun | None:
        return rows.last_row_of_run(self.store, run.id)


def tick_once(config: str | None, output_format: str) -> int:
    """Runs what is due, prints the outcomes, and returns the exit code."""
    here = _LocalScheduler(config)
    try:
        if address := ticking.server_that_ticks(here.store):
            print_result({"server": address, "due": []}, SERVER_TICKS.format(address=address), output_format)
            return 0
        if os.path.lexists(os.path.join(configuration.home(), home_names.ESTOP)):
            raise Stopped(STOPPED)
        fired_rows = asyncio.run(here.wait(lambda scheduler: scheduler.tick()))
        names = {known.id: known for known in rows.listing(here.store)}
        lines: list[Json] = []
        for row in fired_rows:
            schedule = names.get(row.schedule_id)
            fired = shown.fired(row)
            name = schedule.name if schedule is not None else "sop"
            lines.append({"schedule": name, **to_json(fired)})
            if output_format != "json":
                zone = str(schedule.when["zone"]) if schedule is not None else "UTC"
                word = fired.outcome if fired.state == "ended" and fired.outcome else fired.state
                why = f": {fired.reason}" if fired.reason and word != "completed" else ""
                run_id = f"  {fired.run_id}" if fired.run_id else ""
                print(visible(f"{name}  {shown.due_text(fired, zone)}  {word}{why}{run_id}", keep_newlines=False))
        if output_format == "json":
            print_json({"server": None, "due": lines})
        elif not lines:
            print("nothing is due")
    finally:
        here.store.close()
        _deliver(config)
    if here.got:
        return 128 + here.got
    return 0 if all(_is_fine(row) for row in fired_rows) else 1


def _is_fine(row: ScheduleRun) -> bool:
    if row.state == "ended":
        return row.outcome in SUCCESSFUL
    return row.state in ("queued", "skipped", "missed", "running")


def run_now(name: str, config: str | None, output_format: str) -> int:
    """Runs one schedule now, prints its answer, and returns the exit code of its outcome."""
    here = _LocalScheduler(config)
    try:
        schedule = rows.get(here.store, name)

        async def begun(scheduler: Scheduler) -> list[ScheduleRun]:
            return [await scheduler.run(schedule)]

        row = asyncio.run(here.wait(begun))[0]
        run = runs.get(here.store, row.run_id) if row.run_id is not None else None
    finally:
        here.store.close()
        _deliver(config)
    fired = shown.fired(row)
    if output_format == "json":
        answer = queries.clean(run.answer or "") if run is not None else ""
        print_json({"schedule": schedule.name, **to_json(fired), "answer": answer})
    else:
        if run is not None and run.answer:
            print(visible(queries.clean(run.answer)))
        if fired.outcome != "completed":
            print(visible(f"adderclaw: {fired.outcome or fired.state}: {fired.reason}"), file=sys.stderr)
    if here.got:
        return 128 + here.got
    known: dict[str, int] = {**EXIT_CODES}
    return known.get(fired.outcome or "", 0 if fired.state == "queued" else 1)


def _deliver(config: str | None) -> None:
    """Sends the notices of held, missed and unpaid work before this process ends."""
    try:
        loaded = configuration.load(config_file=config)
    except AdderClawError:
        return
    if loaded.config.notices.targets:
        from adderclaw.agent.queries.notices import deliver

        deliver(Options(config_file=config))
