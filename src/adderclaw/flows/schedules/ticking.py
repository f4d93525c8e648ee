"""Runs the scheduler: the server ticks every second, `adderclaw schedule tick` once; and sends its notices."""

import asyncio
import os
from collections.abc import Callable
from sqlite3 import Cursor
from typing import Literal

from adderclaw import config
from adderclaw.agent.conversation.runs import HostedRun, Runs
from adderclaw.agent.run.driver import Driver
from adderclaw.agent.session.session import Session
from adderclaw.config.legacy.options import Options
from adderclaw.core import home_names
from adderclaw.core.errors import AdderClawError, SessionInUse
from adderclaw.core.types import Clock
from adderclaw.flows.schedules.tick import Link, NoticeKind, Notify, Scheduler, client_of
from adderclaw.storage import Store, locks
from adderclaw.storage.ledger.log_files import read_or_create_key
from adderclaw.storage.schedules import Schedule

EVERY = 1.0
"""Seconds between two ticks of the server."""
SERVER = "schedules-server"
"""The lock of the server that ticks; `schedule tick` reads who holds it."""
TITLES: dict[NoticeKind, str] = {
    "held": "Schedule {name} is held",
    "missed": "Schedule {name} missed its time",
    "budget": "The budget of schedule {name} is used up",
    "failed": "Schedule {name} could not begin",
    "stuck": "A SOP was answered but cannot continue",
    "interrupted": "Schedule {name} was interrupted",
}


def scheduler(
    store: Store, clock: Clock, runs: Runs, options: Options, ticker: Literal["server", "command"]
) -> Scheduler:
    """A scheduler whose runs are hosted in `runs`."""

    async def begin(driver: Driver, schedule: Schedule, link: Link) -> HostedRun:
        who = client_of(schedule)

        def row(cursor: Cursor, session: Session) -> None:
            link(cursor, session.bus.run_id)

        return await runs.start(who, driver, channel=who, rows=(row,))

    home = config.home()
    return Scheduler(
        store,
        clock,
        begin,
        lambda: os.path.lexists(os.path.join(home, home_names.ESTOP)),
        key=read_or_create_key(os.path.join(home, home_names.RECEIPT_KEY)),
        options=options,
        notify=_notices(store, clock, options),
        ticker=ticker,
    )


def server_that_ticks(store: Store) -> str:
    """The address of the server that ticks the schedules of this store; empty if there is none."""
    return locks.run_in_session(store.path, SERVER)


async def tick_forever(scheduler: Scheduler, store: Store, address: str, warn: Callable[[str], None]) -> None:
    """Ticks until cancelled. Reports a repeated error once and tries again."""
    reported = ""
    try:
        with locks.session_lock(store.path, SERVER, address):
            while True:
                try:
                    await scheduler.tick()
                    reported = ""
                except (AdderClawError, OSError, ValueError, LookupError) as error:
                    if str(error) != reported:
                        reported = str(error)
                        warn(f"schedules: {error}")
                await asyncio.sleep(EVERY)
    except SessionInUse:
        warn("schedules: another server already ticks the schedules of this database")


def _notices(store: Store, clock: Clock, options: Options) -> Notify:
    """Sends notices to the operator, if targets are configured."""

    def notify(kind: NoticeKind, schedule: Schedule, text: str) -> None:
        file = schedule.what.get("config") or options.config_file
        try:
            settings = config.load(config_file=file, workspace=schedule.workspace).config.notices
        except AdderClawError:  # an invalid configuration; the history has the event in any case
            return
        if not settings.targets:
            return
        from adderclaw.agent.notices.notice import Notice
        from adderclaw.agent.notices.subscriptions import send

        is_schedule = kind != "stuck"
        notice = Notice(
            "held" if kind in ("failed", "stuck", "interrupted") else kind,
            TITLES[kind].format(name=schedule.name),
            f"{text}\nadderclaw schedule history {schedule.name}" if is_schedule else text,
            about=f"{schedule.id} {kind} {text}",
            workspace=schedule.workspace,
            facts={"schedule": schedule.name, "reason": text} if is_schedule else {"reason": text},
            page=f"/ui/schedules/{schedule.name}" if is_schedule else "/ui/runs",
        )
        send(settings, store, notice, now=clock.now())

    return notify
