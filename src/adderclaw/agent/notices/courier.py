"""Delivers stored notices in a background thread, with a task for each target so that none delays another.

It has its own connection to the store. What is not delivered when the process ends is left for the next process.
"""

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from adderclaw.agent.notices import letter as letters
from adderclaw.agent.notices.letter import Letter, Undelivered
from adderclaw.agent.notices.notice import Notice
from adderclaw.agent.notices.subscriptions import FULL, cut, send
from adderclaw.config.schema import Auth, Config, NoticeTarget
from adderclaw.core.errors import AdderClawError
from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import Secrets, visible
from adderclaw.models.http import own_server
from adderclaw.storage import Store, runs, transcript
from adderclaw.storage import notices as rows

BACK_OFF = (1.0, 5.0, 30.0, 120.0, 600.0, 1_800.0, 3_600.0, 3_600.0)
"""Seconds between attempts; after the last one, delivery has failed."""
LEASE = 75.0
"""The maximum number of seconds for one attempt, including its overhead."""
POLL = 5.0
"""Seconds between checks for notices that other processes stored."""
GRACE = 1.0
"""Seconds before a question is sent, because one that nobody can answer is denied at once."""
INTERRUPTED_EVERY = 60.0
"""Seconds between checks for runs whose process was killed."""
LAST_WORDS = 5.0
"""Seconds that a run's end waits for pending deliveries."""


class Place(NamedTuple):
    """What a courier works with."""

    path: str
    """The store's file."""
    home: str
    settings: Callable[[], Config]
    """Returns the operator's current configuration."""
    complain: Callable[[str], None]
    """Called from the courier's thread when a notice's first attempt fails, and when its delivery has failed."""
    store: Store | None = None
    """The store to use if a second connection is impossible; None: open one."""


class _Daemons(ThreadPoolExecutor):
    """Runs functions in daemon threads, so that a hanging name lookup or server does not delay the process's end."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - passed on through the future
                future.set_exception(error)

        threading.Thread(target=work, daemon=True).start()
        return future


class Courier:
    """Call `poke` when a notice was stored; `close` waits briefly for pending deliveries."""

    def __init__(self, context: Place) -> None:
        self._place = context
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news = asyncio.Event()
        self._ends: float | None = None
        """The monotonic time at which it ends; None if no end was requested."""
        self._looked = -INTERRUPTED_EVERY
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._thread = threading.Thread(target=self._run, name="notices", daemon=True)
        self._thread.start()

    def poke(self) -> None:
        """Tell the thread that notices were stored."""
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(self._news.set)
            except RuntimeError:  # it has ended
                pass

    def end(self, seconds: float = LAST_WORDS) -> None:
        """End within this time, without waiting for the end here."""
        self._ends = time.monotonic() + seconds
        self.poke()

    def close(self, seconds: float = LAST_WORDS) -> bool:
        """End and wait for pending deliveries; returns whether they ended in time."""
        if self._ends is None:
            self.end(seconds)
        assert self._ends is not None
        self._thread.join(max(0.0, self._ends - time.monotonic()) + 0.1)
        return not self._thread.is_alive()

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        runner = asyncio.Runner()
        self._loop = runner.get_loop()
        self._loop.set_default_executor(_Daemons())
        try:
            runner.run(self._work())
        except AdderClawError as error:  # the store does not exist
            self._place.complain(f"notices are not sent: {error}")
        finally:
            with contextlib.suppress(RuntimeError):  # closing starts a thread, which fails while the process ends
                runner.close()

    async def _work(self) -> None:
        store = self._place.store or Store.open(self._place.path)
        try:
            for row in rows.delete_old(store, time.time()):
                self._gave_up(row, row.error or "it could not be delivered in time")
            while not self._over():
                self._report_interrupted(store)
                self._news.clear()
                self._start_deliveries(store)
                await self._rest(store)
            if self._tasks:
                await asyncio.wait([*self._tasks.values()], timeout=self._left())
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        finally:
            if self._place.store is None:
                store.close()

    def _left(self) -> float:
        return max(0.0, self._ends - time.monotonic()) if self._ends is not None else POLL

    def _over(self) -> bool:
        """Whether the end was requested and nothing is left to do before it."""
        if self._ends is None:
            return False
        pending = self._unchecked or any(not task.done() for task in self._tasks.values())
        return self._left() <= 0 or not pending

    _unchecked = True
    """Whether it has not looked for due notices since its end was requested."""

    def _start_deliveries(self, store: Store) -> None:
        """Start a task for each target that has a notice due."""
        self._unchecked = self._ends is None
        waiting = rows.targets_waiting(store, time.time() + (self._left() if self._ends is not None else 0.0))
        if not waiting:
            return
        settings = self._place.settings()
        for name in waiting:
            target = settings.notices.targets.get(name)
            task = self._tasks.get(name)
            if target is not None and target.enabled and (task is None or task.done()):
                self._tasks[name] = asyncio.ensure_future(self._empty(store, name, target, settings.auth))

    def _report_interrupted(self, store: Store) -> None:
        """Send a notice for each run whose process was killed."""
        if self._looked + INTERRUPTED_EVERY > time.monotonic():
            return
        self._looked = time.monotonic()
        for run in rows.unreported_runs(store, time.time()):
            folder = transcript.workspace_of(store, run.conversation_id)
            name = os.path.basename(folder.rstrip("/")) or "/"
            notice = Notice(
                "done",
                f"A run in {name} was interrupted",
                f"Its process ended before it was finished.\nadderclaw runs show {run.run_id}",
                about=f"interrupted-{run.run_id}",
                workspace=folder,
                run_id=run.run_id,
                conversation_id=run.conversation_id,
                facts={"outcome": "interrupted", "reason": "its process ended", "mode": run.kind},
                page=f"/ui/runs/{run.run_id}",
            )
            send(self._place.settings().notices, store, notice, now=time.time())

    async def _rest(self, store: Store) -> None:
        """Wait for a new notice, the next due one, or the next check for other processes' notices."""
        if self._ends is not None:
            running = [task for task in self._tasks.values() if not task.done()]
            if running:
                await asyncio.wait(running, timeout=self._left(), return_when=asyncio.FIRST_COMPLETED)
            return
        wait = (rows.next_due(store) or 0.0) - time.time()
        seconds = min(wait, POLL) if wait > 0 else POLL  # a task handles what is due, or it cannot be sent now
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            pass

    # ------------------------------------------------------------------ one target

    async def _empty(self, store: Store, name: str, target: NoticeTarget, auth: Auth) -> None:
        """Deliver the due notices of one target, oldest first."""
        while True:
            early = GRACE if self._ends is not None else 0.0
            row = rows.claim_due(store, name, time.time(), LEASE, early=early)
            if row is None:
                if not await self._soon(store, name):
                    return
                continue
            await self._try(store, row, target, auth)

    async def _soon(self, store: Store, name: str) -> bool:
        """While ending, wait for a retry that fits into the remaining time; False if there is none."""
        due = rows.next_due(store, name) if self._ends is not None else None
        if due is None or (wait := due - time.time()) > self._left():
            return False
        await asyncio.sleep(max(wait, 0.05))
        return self._left() > 0

    async def _try(self, store: Store, row: rows.Row, target: NoticeTarget, auth: Auth) -> None:
        try:
            await attempt(self._place, store, row, target, auth)
        except Undelivered as error:
            self._failed(store, row, error)
        except asyncio.CancelledError:
            rows.reschedule(store, row, time.time(), "the process ended before it was delivered")
            raise
        else:
            rows.mark_sent(store, row, time.time())
        self._news.set()

    def _failed(self, store: Store, row: rows.Row, error: Undelivered) -> None:
        why = reason(error)
        if error.again and row.attempts <= len(BACK_OFF):
            wait = max(BACK_OFF[row.attempts - 1], error.after)
            rows.reschedule(store, row, time.time() + wait, why)
            if row.attempts == 1:
                self._place.complain(f"a notice was not delivered to {row.target!r} and will be retried: {why}")
        else:
            rows.mark_failed(store, row, time.time(), why)
            self._gave_up(row, why)

    def _gave_up(self, row: rows.Row, why: str) -> None:
        self._place.complain(f"a notice ({row.kind}) was not delivered to {row.target!r}: {why}")


def reason(error: Undelivered) -> str:
    """The error in one line, without secrets."""
    return visible(Secrets().redact(str(error)), keep_newlines=False)[:400]


async def attempt(context: Place, store: Store, row: rows.Row, target: NoticeTarget, auth: Auth) -> None:
    """Try once to deliver a notice; every failure raises Undelivered."""
    try:
        letter = await _letter(context, store, row, target, auth)
        async with asyncio.timeout(target.timeout_seconds + 5):
            await letters.deliverer(target.kind)(letter)
    except Undelivered:
        raise
    except TimeoutError:
        raise Undelivered("it took too long") from None
    except Exception as error:
        raise Undelivered(f"{type(error).__name__}: {error}") from error


async def _letter(context: Place, store: Store, row: rows.Row, target: NoticeTarget, auth: Auth) -> Letter:
    parts = await asyncio.to_thread(secrets_of, row.target, target, auth, context.home)
    body = dict(row.body)
    if target.detail == "full" and row.kind == "done" and row.run_id and (run := runs.get(store, row.run_id)):
        answer = cut(visible(str(Secrets().clean(run.answer or ""))), FULL)
        body["text"] = f"{body.get('text', '')}\n\n{answer}".rstrip()
    page = str(body.get("page", ""))
    link = f"{server}{page}" if page and (server := _server()) else ""
    return Letter(row.id, body, target, parts, link, time.time())


def secrets_of(name: str, target: NoticeTarget, auth: Auth, home: str) -> Mapping[str, str]:
    """The target's secrets, from variables and from the vault that `notices secret` writes, without prompting."""
    if variable := letters.missing(target):
        raise Undelivered(f"the variable {variable} is not set", again=False)
    parts = letters.in_environment(target)
    if target.url:
        parts["url"] = target.url
    if target.stored:
        from adderclaw.models.credentials.vault import open_vault

        try:
            vault = open_vault(auth.storage, home, lambda _new: os.environ.get(auth.passphrase_env, ""))
            stored = {part: vault.get(letters.stored_name(name, part)) for part in target.stored}
        except AdderClawError as error:
            raise Undelivered(str(error)) from None
        if absent := next((part for part, text in stored.items() if not text), ""):
            fix = f"`adderclaw notices secret {name} {absent}` stores it"
            raise Undelivered(f"its {absent} is not stored: {fix}", again=False)
        parts |= {part: text.strip() for part, text in stored.items() if text}
    return parts


def _server() -> str:
    """The address of this home's server; empty if none is running."""
    running = own_server.found()
    if running is None:
        return ""
    try:
        os.kill(running.pid, 0)
    except OSError:
        return ""
    return running.address


# ------------------------------------------------------------------ the courier of a long-running process

_here: dict[str, Courier] = {}
"""Store file → the courier of a long-running process, such as a server."""


def keep(path: str, courier: Courier | None) -> None:
    """Set the courier that delivers the notices of all runs in this process; None removes it."""
    if courier is None:
        _here.pop(path, None)
    else:
        _here[path] = courier


def of_process(path: str) -> Courier | None:
    return _here.get(path)


def flush(context: Place) -> None:
    """Deliver waiting notices before a command ends. In an event loop, do not wait for the result."""
    courier = Courier(context)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        courier.close()
    else:
        courier.end()
