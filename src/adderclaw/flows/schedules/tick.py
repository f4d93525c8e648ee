"""The tick of the scheduler: claims what is due, begins it, follows the runs to their ends and records them.

The server ticks every second, `adderclaw schedule tick` once. Several processes may tick at once: each due time
has one row, and the process that wrote the row begins the run. The run's own row and its id in the schedule's row are
written in one transaction. A killed process leaves rows without a living ticker. The next tick recovers them: a row
without a run is due again; a run is resumed, repeated or left, as its schedule says.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import ExitStack
from functools import partial
from sqlite3 import Cursor
from typing import Any, Literal, Protocol

from adderclaw.agent.conversation.watched import Full
from adderclaw.agent.run.driver import RESUMABLE, Driver
from adderclaw.config.legacy.options import Options
from adderclaw.core.decode import thaw
from adderclaw.core.errors import AdderClawError, AlreadyCompleted, SessionInUse, Stopped, UsageError
from adderclaw.core.types import Clock, Json
from adderclaw.flows.schedules import files, work
from adderclaw.flows.schedules import when as times
from adderclaw.flows.schedules.claims import Claimed, Claiming, claim, reserve
from adderclaw.flows.schedules.due import due, missed_text
from adderclaw.flows.schedules.terms import Terms
from adderclaw.flows.schedules.when import When
from adderclaw.flows.sop import waiting
from adderclaw.storage import Store, locks, runs, transcript, workflows
from adderclaw.storage import schedules as rows
from adderclaw.storage.schedules import Schedule, ScheduleRun
from adderclaw.storage.text import iso

FILE_CHECK_SECONDS = 5.0
"""Seconds between two checks of the files that a schedule watches."""
TICK_NOTE_SECONDS = 60.0
"""Seconds between two records of a tick."""
ANSWER_GRACE_SECONDS = 5.0
"""Seconds after an answer in which the answering command may resume the run itself."""
ROW_CHANGED = "another program changed its row; remove the schedule and add it again"

MAX_BEGINS = 3
"""How often a run is begun if its process is killed each time; then it is left to the operator."""
KILLED = "the process that was about to begin it was killed"

type NoticeKind = Literal["held", "missed", "budget", "failed", "stuck", "interrupted"]
"""stuck: a SOP cannot continue although its question was answered."""


class Begun(Protocol):
    """A run that was begun: `hosted.HostedRun` is one."""

    id: str

    async def ended(self) -> Json:
        """How it ended: outcome, reason, cost."""
        ...


type Link = Callable[[Cursor, str], None]
"""Records the id of a run in the transaction that writes the run's own row."""
type Begin = Callable[[Driver, Schedule, Link], Awaitable[Begun]]
type Notify = Callable[[NoticeKind, Schedule, str], None]


def silent(_kind: NoticeKind, _schedule: Schedule, _text: str) -> None:
    """Sends no notice."""


class NotBegun(AdderClawError):
    """A requested run did not begin: the schedule is paused, held, busy or over its budget."""


class Scheduler:
    """Begins the work of all schedules of one store."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        begin: Begin,
        stopped: Callable[[], bool],
        *,
        key: bytes,
        options: Options | None = None,
        notify: Notify = silent,
        ticker: Literal["server", "command"] = "command",
    ) -> None:
        """`begin` opens a run of a driver; `stopped` tells whether the emergency stop is set; `key` signs schedules."""
        self._store, self._clock, self._begin, self._stopped = store, clock, begin, stopped
        self._key, self._options, self._notify = key, options or Options(), notify
        self._kind: Literal["server", "command"] = ticker
        self._id = f"ticker-{os.urandom(6).hex()}"
        self._stack: ExitStack | None = None
        self._following: set[asyncio.Task[None]] = set()
        self._own_rows: set[int] = set()
        """Rows that are begun here, or whose run is followed here."""
        self._checked_at: dict[str, float] = {}
        self._noted_at: float | None = None
        self._closed = False

    # -------------------------------------------------------------- what callers do

    async def tick(self) -> list[ScheduleRun]:
        """Begins everything that is due, and returns the handled rows. Does nothing while the stop is set."""
        if self._closed or self._stopped():
            return []
        now = self._clock.now()
        touched = await self._recover()
        await self._resume_answered(now)
        if not rows.is_any(self._store):
            return self._existing_rows(touched)
        self._note_tick()
        for schedule in rows.possibly_due(self._store, now):
            if self._closed or self._stopped():
                break
            try:
                row_ids = await self._claim_work(schedule, now)
                touched += row_ids
                for row in self._existing_rows(row_ids):
                    if row.state == "claimed":
                        await self._start(row.id)
            except (AdderClawError, ValueError, LookupError) as error:  # the other schedules must still begin
                touched += self._report_daily(schedule, now, "broken", "failed", str(error))
        touched += await self._begin_queued()
        return self._existing_rows(touched)

    def _existing_rows(self, ids: Sequence[int]) -> list[ScheduleRun]:
        """The rows with these ids, except those whose schedule was removed meanwhile."""
        return [row for id in ids if (row := rows.find_run(self._store, id)) is not None]

    async def _claim_work(self, schedule: Schedule, now: float) -> list[int]:
        if not schedule.is_genuine(self._key):
            return self._report_daily(schedule, now, "changed-row", "held", ROW_CHANGED)
        if thaw(When, schedule.when).kind == "changed":
            return await self._check_files(schedule, now)
        return await self._claim_due(schedule, now)

    async def run(self, schedule: Schedule) -> ScheduleRun:
        """Begins a schedule's run now, even if it is paused."""
        return await self._run_now(schedule, f"hand-{os.urandom(6).hex()}", "hand", {})

    async def request(self, id: str, delivery_id: str, inputs: Json) -> str:
        """Begins a `webhook` schedule; returns the id of its run, or "" if it waits for the previous run.

        The caller has authenticated the request. Raises NotBegun or another AdderClawError if no run begins.
        """
        schedule = rows.get(self._store, id)
        if thaw(When, schedule.when).kind != "webhook":
            raise UsageError(f"schedule {schedule.name} cannot be started by requests, because it has no webhook")
        if schedule.paused_at is not None:
            raise NotBegun(f"schedule {schedule.name} is paused")
        return (await self._run_now(schedule, f"delivery-{delivery_id}", "webhook", inputs)).run_id or ""

    async def settled(self) -> None:
        """Waits until all runs that this scheduler began have ended."""
        while self._following:
            await asyncio.wait({*self._following})

    async def close(self) -> None:
        """Begins nothing more and waits for the runs, which the caller must have closed first."""
        self._closed = True
        await self.settled()
        if self._stack is not None:
            self._stack.close()
            self._stack = None

    # -------------------------------------------------------------- claiming

    @property
    def _ticker(self) -> str:
        """This process's name in rows. The lock with that name is released when the process ends, even if killed."""
        if self._stack is None:
            self._stack = ExitStack()
            self._stack.enter_context(locks.session_lock(self._store.path, self._id, self._kind))
        return self._id

    async def _claim_due(self, schedule: Schedule, now: float) -> list[int]:
        when, terms = thaw(When, schedule.when), thaw(Terms, schedule.terms)
        if schedule.until > now:  # the clock was set back: due times that have a row must not begin again
            with self._store.write() as cursor:
                rows.advance(cursor, schedule, now, times.after(when, now))
            return []
        due_times = due(
            when,
            schedule.until,
            now,
            missed=terms.missed,
            grace=terms.grace,
            delay=lambda at: terms.delay(schedule.id, at),
        )
        cap = await self._cap(schedule) if due_times.fire else 0.0
        claiming = Claiming("time", now, self._ticker, cap, {})
        claimed: list[Claimed] = []
        with self._store.write() as cursor:
            if not rows.advance(cursor, schedule, due_times.until, times.after(when, due_times.until)):
                return []  # another process was faster
            if due_times.number:
                text, at = missed_text(when, due_times), f"missed-{iso(due_times.missed[1])}"
                missed = rows.claim(cursor, schedule.id, at, cause="time", state="missed", now=now, reason=text)
                claimed.append(Claimed(missed))
            for index, at in enumerate(due_times.fire):
                claimed.append(claim(cursor, schedule, iso(at), claiming, queue=index > 0))
        if due_times.number:
            self._notify("missed", schedule, missed_text(when, due_times))
        return self._claimed_ids(schedule, claimed)

    async def _cap(self, schedule: Schedule) -> float:
        if thaw(Terms, schedule.terms).budget is None:
            return 0.0
        try:
            return await asyncio.to_thread(work.cost_cap, schedule, self._options)
        except AdderClawError:  # an invalid configuration: the run reports it when it begins
            return 0.0

    def _claimed_ids(self, schedule: Schedule, claimed: Sequence[Claimed]) -> list[int]:
        """The ids of the rows that this process claimed; notifies of those that are over budget."""
        for row in claimed:
            if row.id is not None and row.over_budget:
                self._notify("budget", schedule, row.over_budget)
        return [row.id for row in claimed if row.id is not None]

    def _report_daily(
        self, schedule: Schedule, now: float, key: str, state: Literal["held", "failed"], why: str
    ) -> list[int]:
        """Records and reports, at most once a day, why a schedule cannot be handled."""
        with self._store.write() as cursor:
            due_key = f"{key}-{iso(now)[:10]}"
            row_id = rows.claim(cursor, schedule.id, due_key, cause="time", state=state, now=now, reason=why)
        if row_id is None:
            return []
        self._notify(state, schedule, why)
        return [row_id]

    async def _begin_queued(self) -> list[int]:
        """Takes and begins the oldest waiting row of each schedule without a run under way."""
        taken: list[int] = []
        open_rows = rows.open_rows(self._store)
        busy = {row.schedule_id for row in open_rows if row.state != "queued"}
        for row in open_rows:
            if row.state != "queued" or row.schedule_id in busy or self._closed or self._stopped():
                continue
            busy.add(row.schedule_id)
            schedule = rows.by_id(self._store, row.schedule_id)
            if schedule is None or schedule.paused_at is not None:
                continue
            if (id := await self._take(schedule, row)) is not None:
                taken.append(id)
                await self._start(id)
        return taken

    async def _take(self, schedule: Schedule, row: ScheduleRun) -> int | None:
        cap, ticker = await self._cap(schedule), self._ticker
        now = self._clock.now()
        with self._store.write() as cursor:
            if any(state != "queued" for state in rows.open_states(cursor, schedule.id)):
                return None
            reserved = reserve(cursor, schedule, now, cap)
            if not reserved.why and rows.claim_queued(
                cursor, row.id, ticker=ticker, now=now, reserved=reserved.dollars
            ):
                return row.id
        if reserved.why:
            rows.settle(self._store, row.id, "skipped", now, reason=reserved.why)
            self._notify("budget", schedule, reserved.why)
        return None

    # -------------------------------------------------------------- files

    async def _check_files(self, schedule: Schedule, now: float) -> list[int]:
        """Claims a run if watched files have changed, and then not again for the settle time."""
        last, ticks = self._checked_at.get(schedule.id), self._clock.monotonic()
        if (last is not None and ticks - last < FILE_CHECK_SECONDS) or rows.open_rows(self._store, schedule.id):
            return []
        self._checked_at[schedule.id] = ticks
        when = thaw(When, schedule.when)
        before = rows.seen_files(self._store, schedule.id)
        try:
            seen = await asyncio.to_thread(files.snapshot, schedule.workspace, when.globs)
        except UsageError as error:
            return self._report_daily(schedule, now, "broken", "failed", str(error))
        known: files.Seen = before.get("files", {})
        differing = files.differing(known, seen)
        sign, since = files.signature(seen), float(before.get("since", now))
        settled = before.get("sign") == sign and 0 <= now - since >= when.seconds
        if not differing or not settled:
            since = since if before.get("sign") == sign and since <= now else now
            after: Json = {"files": known, "sign": sign, "since": since} if differing else {"files": known}
            if after != before:
                with self._store.write() as cursor:
                    rows.record_seen_files(cursor, schedule.id, after, before)
            return []
        inputs: Json = {"changed": files.listed(differing), "count": len(differing)}
        claiming = Claiming("changed", now, self._ticker, await self._cap(schedule), inputs)
        with self._store.write() as cursor:
            if not rows.record_seen_files(cursor, schedule.id, {"files": seen}, before):
                return []
            at = f"changed-{iso(since)}-{sign[:8]}"
            claimed = claim(cursor, schedule, at, claiming)
        return self._claimed_ids(schedule, [claimed])

    async def _remember_files(self, schedule: Schedule) -> None:
        """Stores the state of the files after a run, so that files that it wrote itself do not begin another."""
        when = thaw(When, schedule.when)
        if when.kind != "changed":
            return
        try:
            seen = await asyncio.to_thread(files.snapshot, schedule.workspace, when.globs)
        except UsageError:
            return
        with self._store.write() as cursor:
            rows.record_seen_files(cursor, schedule.id, {"files": seen})

    # -------------------------------------------------------------- beginning and ending

    async def _run_now(self, schedule: Schedule, at: str, cause: str, inputs: Json) -> ScheduleRun:
        if self._stopped():
            raise Stopped("the emergency stop is set and no run begins; `adderclaw estop --clear` removes it")
        if self._closed:
            raise NotBegun("the server is shutting down and begins no new runs")
        if not schedule.is_genuine(self._key):
            raise NotBegun(f"schedule {schedule.name}: {ROW_CHANGED}")
        await self._recover(schedule.id)
        claiming = Claiming(cause, self._clock.now(), self._ticker, await self._cap(schedule), inputs)
        with self._store.write() as cursor:
            rows.free_due_key(cursor, schedule.id, at)
            id = claim(cursor, schedule, at, claiming).id
        if id is None:
            raise NotBegun(f"schedule {schedule.name} has already begun for {at}")
        row = rows.require_run(self._store, id)
        if row.state == "claimed":
            await self._start(id)
            row = rows.require_run(self._store, id)
        if row.state in ("skipped", "held", "failed"):
            raise NotBegun(f"schedule {schedule.name}: {row.reason}")
        return row

    async def _start(self, id: int) -> None:
        """Begins a claimed row, or resumes its run; stores the reason in a row that cannot begin."""
        row = rows.find_run(self._store, id)
        schedule = rows.by_id(self._store, row.schedule_id) if row is not None else None
        if row is not None and schedule is not None:  # else it was removed meanwhile
            await self._carry_out(
                schedule, row, partial(self._make_driver, schedule, row), partial(self._fail, schedule, row)
            )

    def _make_driver(self, schedule: Schedule, row: ScheduleRun) -> Driver:
        limited = thaw(Terms, schedule.terms).budget is not None
        driver = work.make_driver(schedule, self._options, row.inputs, row.reserved if limited else None)
        if row.run_id is None:
            return driver
        begun = workflows.get(self._store, row.run_id)
        if begun is None:
            raise UsageError("the inputs of its run are no longer in the database")
        return work.continuing(driver, begun)

    async def _carry_out(
        self, schedule: Schedule, row: ScheduleRun, make: Callable[[], Driver], fails: Callable[[str], None]
    ) -> None:
        """Makes a driver, begins or resumes its run, and follows it; calls `fails` with the reason if that fails."""
        if schedule.id and not schedule.is_genuine(self._key):  # also for rows that another program queued
            self._settle(row.id, "held", ROW_CHANGED)
            self._notify("held", schedule, ROW_CHANGED)
            return
        self._own_rows.add(row.id)
        run: Begun | None = None
        try:
            run = await self._open_run(schedule, row, make, fails)
        finally:
            if run is None:
                self._own_rows.discard(row.id)
        if run is not None:
            self._follow(self._follow_run(schedule, row.id, run))

    async def _open_run(
        self, schedule: Schedule, row: ScheduleRun, make: Callable[[], Driver], fails: Callable[[str], None]
    ) -> Begun | None:
        """Begins or resumes the run; None if that is not possible now."""

        def link(cursor: Cursor, run_id: str) -> None:
            if not rows.record_start(cursor, row.id, self._id, run_id):
                raise NotBegun("its schedule was removed, or another process began it")

        try:
            driver = await asyncio.to_thread(make)
            if self._closed or self._stopped():
                self._put_back(row, "the emergency stop was set, or the process ended")
                return None
            run = await self._begin(driver, schedule, link)
        except NotBegun:
            return None
        except (Full, SessionInUse, AlreadyCompleted) as error:  # a later tick tries again, or sees that it has ended
            self._put_back(row, str(error))
        except work.Held as error:
            self._settle(row.id, "held", str(error))
            self._notify("held", schedule, str(error))
        except (AdderClawError, OSError, ValueError, LookupError) as error:
            if row.run_id is None:
                fails(str(error))
            else:
                self._leave_interrupted(schedule, row, str(error))
        else:
            if row.run_id is not None:
                killed = f"the process of run {row.run_id} was killed"
                self._notify(
                    "interrupted", schedule, f"{killed}; the run was resumed (begun {row.begins + 1} times so far)"
                )
            return run
        return None

    def _put_back(self, row: ScheduleRun, why: str) -> None:
        if row.schedule_id == rows.ANSWERS and row.run_id is None:
            rows.delete_claim(self._store, row.id)
        else:
            rows.release(self._store, row.id, self._id, why)

    def _fail(self, schedule: Schedule, row: ScheduleRun, why: str) -> None:
        self._settle(row.id, "failed", why)
        self._notify("failed", schedule, why)

    async def _resume_answered(self, now: float) -> None:
        """Resumes SOPs whose question has been answered since they ended; acts on each answer once."""
        for run_id in waiting.answered_runs(self._store, now):
            run = runs.get(self._store, run_id)
            asked = waiting.open_question(self._store, run) if run is not None else None
            if run is None or asked is None or (asked.answered_at or "") > iso(now - ANSWER_GRACE_SECONDS):
                continue
            with self._store.write() as cursor:
                claimed = rows.claim(
                    cursor,
                    rows.ANSWERS,
                    rows.answer_key(run_id, asked.id),
                    cause="answer",
                    state="claimed",
                    now=now,
                    ticker=self._ticker,
                )
            if claimed is not None:
                await self._resume_run(claimed, run)

    async def _resume_run(self, id: int, run: runs.Run) -> None:
        row, folder = rows.require_run(self._store, id), transcript.workspace_of(self._store, run.conversation_id)
        schedule = rows.schedule_of_run(self._store, run.run_id) or _NONE._replace(workspace=folder)

        def stuck(why: str) -> None:
            self._settle(id, "failed", why)
            fix = f"correct that, then run `adderclaw sop resume {run.run_id}`"
            self._notify("stuck", schedule, f"{why}\n{fix}")

        limits = self._limits(schedule, run.run_id)
        make = partial(work.resumed, run.run_id, folder, self._options, limits)
        await self._carry_out(schedule, row, make, stuck)

    def _limits(self, schedule: Schedule, run_id: str) -> dict[str, float]:
        """The limits that the run began with, and of the budget at most what is left: an answer must not extend it."""
        limits: dict[str, float] = dict(schedule.what.get("limits") or {})
        began = rows.first_row_of_run(self._store, run_id)
        if began is None or thaw(Terms, schedule.terms).budget is None:
            return limits
        used = rows.cost_of(self._store, run_id) or 0.0
        with self._store.write() as cursor:
            left = reserve(cursor, schedule, self._clock.now(), max(0.0, began.reserved - used))
        most = used + left.dollars
        return {**limits, "cost_usd": min(most, limits.get("cost_usd", most))}

    def _follow(self, end: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(end)
        self._following.add(task)
        task.add_done_callback(self._following.discard)

    async def _follow_run(self, schedule: Schedule, id: int, run: Begun) -> None:
        try:
            report = await run.ended()
            cost = rows.cost_of(self._store, run.id)
            rows.settle(
                self._store,
                id,
                "ended",
                self._clock.now(),
                outcome=str(report.get("outcome", "error")),
                cost=cost if cost is not None else report.get("cost"),
                reason=str(report.get("reason") or ""),
            )
        finally:
            self._own_rows.discard(id)
        await self._remember_files(schedule)
        await self._begin_queued()

    def _settle(self, id: int, state: rows.State, reason: str) -> None:
        rows.settle(self._store, id, state, self._clock.now(), reason=reason)

    # -------------------------------------------------------------- rows of processes that are gone

    async def _recover(self, schedule_id: str = "") -> list[int]:
        """Handles the rows of processes that are gone; returns the ids of those that were handled."""
        abandoned = [row for row in rows.open_rows(self._store, schedule_id) if self._is_left(row)]
        return [row.id for row in abandoned if await self._recover_row(row)]

    def _is_left(self, row: ScheduleRun) -> bool:
        if row.state == "queued" or row.id in self._own_rows:
            return False
        return row.ticker == self._id or not locks.run_in_session(self._store.path, row.ticker)

    async def _recover_row(self, row: ScheduleRun) -> bool:
        if row.schedule_id == rows.ANSWERS and row.run_id is None:
            rows.delete_claim(self._store, row.id)  # nothing was done with the answer
            return False
        run = runs.get(self._store, row.run_id) if row.run_id is not None else None
        schedule = self._schedule_of(row, run)
        if schedule is None:
            return False  # it was removed meanwhile
        has_ended = run is not None and run.outcome is not None
        if not has_ended and schedule.paused_at is not None:
            return False
        if run is not None and not has_ended and locks.run_in_session(self._store.path, run.session_id):
            return False  # another process is using its session
        if not rows.take_over(self._store, row, self._ticker):
            return False
        if run is not None and run.outcome is not None:
            why, now = run.reason or "", self._clock.now()
            rows.settle(self._store, row.id, "ended", now, outcome=run.outcome, cost=run.cost, reason=why)
            self._follow(self._remember_files(schedule))
        elif schedule.id and not schedule.is_genuine(self._key):
            self._settle(row.id, "held", ROW_CHANGED)
            self._notify("held", schedule, ROW_CHANGED)
        elif row.run_id is None:
            self._make_due_again(schedule, row)
        elif run is not None:
            await self._interrupted(schedule, row, run)
        else:
            self._settle(row.id, "interrupted", "its process was killed, and its run is no longer in the database")
        return not has_ended

    def _schedule_of(self, row: ScheduleRun, run: runs.Run | None) -> Schedule | None:
        """The schedule of a row; for an answer, the schedule that began the SOP, if one did."""
        if row.schedule_id != rows.ANSWERS or run is None:
            return rows.by_id(self._store, row.schedule_id)
        folder = transcript.workspace_of(self._store, run.conversation_id)
        return rows.schedule_of_run(self._store, run.run_id) or _NONE._replace(workspace=folder)

    def _make_due_again(self, schedule: Schedule, row: ScheduleRun) -> None:
        """Returns a row to the queue if its run never began, or marks it as missed."""
        terms = thaw(Terms, schedule.terms)
        late = self._clock.now() - row.claimed_at > terms.grace
        if row.cause == "time" and terms.missed == "skip" and late:
            self._settle(row.id, "missed", KILLED)
            self._notify("missed", schedule, f"due {row.due}: {KILLED}, and nothing ticked in time")
        else:
            self._put_back(row, KILLED)
            self._notify("interrupted", schedule, f"due {row.due}: {KILLED}; it is due again")

    async def _interrupted(self, schedule: Schedule, row: ScheduleRun, run: runs.Run) -> None:
        """Handles a row whose run had begun, according to the schedule's `interrupted`."""
        how = thaw(Terms, schedule.terms).interrupted
        is_answer = row.schedule_id == rows.ANSWERS
        if how != "leave" and row.begins >= MAX_BEGINS:
            self._leave_interrupted(schedule, row, f"its process was killed {row.begins} times")
        elif how == "again" and not is_answer:
            why = f"the process of run {run.run_id} was killed; it begins again"
            rows.requeue_interrupted(self._store, row, self._clock.now(), why)
            self._notify("interrupted", schedule, f"{why} (begun {row.begins + 1} times so far)")
        elif how == "leave" or run.kind not in RESUMABLE:
            self._leave_interrupted(schedule, row, "the process that it ran in was killed")
        elif is_answer:
            await self._resume_run(row.id, run)
        else:
            await self._start(row.id)

    def _leave_interrupted(self, schedule: Schedule, row: ScheduleRun, why: str) -> None:
        """Leaves the run of a row for the operator to resume."""
        cost = rows.cost_of(self._store, row.run_id or "")
        rows.settle(self._store, row.id, "interrupted", self._clock.now(), cost=cost, reason=why)
        run = runs.get(self._store, row.run_id or "")
        if run is not None:
            begun = transcript.has_messages(self._store, run.session_id)
            why = f"{why}\n{work.resume_hint(schedule, run.run_id, run.kind, begun=begun)}"
        self._notify("interrupted", schedule, f"run {row.run_id}: {why}")
        self._follow(self._remember_files(schedule))

    def _note_tick(self) -> None:
        now = self._clock.monotonic()
        if self._noted_at is None or now - self._noted_at >= TICK_NOTE_SECONDS:
            self._noted_at = now
            rows.note_tick(self._store, self._kind, self._clock.now())


def client_of(schedule: Schedule) -> str:
    """The name of a schedule as the client of its runs, in rows and receipts."""
    return f"schedule {schedule.name}"


_NONE = Schedule("", "sop", "", {"kind": "webhook", "zone": "UTC"}, {}, {}, "", "", "", "")
"""Stands for the schedule of a SOP that no schedule began."""
