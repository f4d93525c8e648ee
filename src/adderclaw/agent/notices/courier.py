"""Delivers what waits in the outbox: a thread beside the work, a task for each target, so that none waits for another.

It has a connection of its own to the store. What it has not delivered when the process ends waits there for the next.
"""

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from adderclaw.agent.notices import Notice, send
from adderclaw.agent.notices import letter as letters
from adderclaw.agent.notices.letter import Letter, Undelivered
from adderclaw.agent.notices.wanted import FULL, cut
from adderclaw.config.schema.settings import Auth, Config, NoticeTarget
from adderclaw.core.errors import AdderClawError
from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import Secrets, visible
from adderclaw.models.http import own_server
from adderclaw.storage import Store, runs, transcript
from adderclaw.storage import notices as rows

BACK_OFF = (1.0, 5.0, 30.0, 120.0, 600.0, 1_800.0, 3_600.0, 3_600.0)
"""Seconds between one attempt and the next; after as many it is given up."""
LEASE = 75.0
"""Seconds that one attempt can take at most, with all around it."""
POLL = 5.0
"""Seconds after which we look for what other processes have written."""
GRACE = 1.0
"""Seconds that a question waits before it is sent: one to which nobody is there gets its no at once."""
INTERRUPTED_EVERY = 60.0
"""Seconds between two looks for runs whose process was killed."""
LAST_WORDS = 5.0
"""Seconds that the end of a run waits for what is left."""


class Place(NamedTuple):
    """Where a courier works."""

    path: str
    """The store's file."""
    home: str
    settings: Callable[[], Config]
    """The operator's configuration, as it is now."""
    complain: Callable[[str], None]
    """Called from the courier's thread, once for each notice that did not arrive, and once more if it is given up."""
    store: Store | None = None
    """Where no second connection can be had: this one, until the courier is closed."""


class _Daemons(ThreadPoolExecutor):
    """Threads that the end of the process does not wait for: a name that is never resolved, a server that hangs."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - whoever waits for it gets it
                future.set_exception(error)

        threading.Thread(target=work, daemon=True).start()
        return future


class Courier:
    """`poke` it when there is something new; `close` waits a little for what is left."""

    def __init__(self, context: Place) -> None:
        self._place = context
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news = asyncio.Event()
        self._ends: float | None = None
        """The monotonic time until which it goes on; None: it goes on."""
        self._looked = -INTERRUPTED_EVERY
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._thread = threading.Thread(target=self._run, name="notices", daemon=True)
        self._thread.start()

    def poke(self) -> None:
        """What was written before this is seen, also by a thread that has only begun."""
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(self._news.set)
            except RuntimeError:  # it has ended
                pass

    def end(self, seconds: float = LAST_WORDS) -> None:
        """Go on for at most so long, and take nothing new after that; nobody waits for it here."""
        self._ends = time.monotonic() + seconds
        self.poke()

    def close(self, seconds: float = LAST_WORDS) -> bool:
        """Wait for what is left; whether it ended in time."""
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
        except AdderClawError as error:  # the store is gone, or was never there
            self._place.complain(f"notices are not sent: {error}")
        finally:
            with contextlib.suppress(RuntimeError):  # the process ends: it can start no thread, and closing wants one
                runner.close()

    async def _work(self) -> None:
        store = self._place.store or Store.open(self._place.path)
        try:
            for row in rows.delete_old(store, time.time()):
                self._gave_up(row, row.error or "it could not be delivered in time")
            while not self._over():
                self._report_interrupted(store)
                self._news.clear()
                self._look(store)
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
        """Whether nothing is left to be done before the end."""
        return self._ends is not None and (self._left() <= 0 or not self._tasks_running())

    def _tasks_running(self) -> bool:
        return self._fresh or any(not task.done() for task in self._tasks.values())

    _fresh = True
    """It has not looked yet since it was told to end."""

    def _look(self, store: Store) -> None:
        """Let a task empty each target that has something due."""
        self._fresh = self._ends is None
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
        """A process that was killed cannot say so: who comes after it does."""
        if self._looked + INTERRUPTED_EVERY > time.monotonic():
            return
        self._looked = time.monotonic()
        for run in rows.unreported_runs(store, time.time()):
            folder = transcript.workspace_of(store, run.conversation_id)
            name = os.path.basename(folder.rstrip("/")) or "/"
            notice = Notice(
                "done",
                f"A run in {name} was interrupted",
                f"Its process ended before it was done.\nadderclaw runs show {run.run_id}",
                about=f"interrupted-{run.run_id}",
                workspace=folder,
                run_id=run.run_id,
                conversation_id=run.conversation_id,
                facts={"outcome": "interrupted", "reason": "its process ended", "mode": run.kind},
                page=f"/ui/runs/{run.run_id}",
            )
            send(self._place.settings().notices, store, notice, now=time.time())

    async def _rest(self, store: Store) -> None:
        """Until there is news, or the next one is due, or another process may have written something."""
        if self._ends is not None:
            running = [task for task in self._tasks.values() if not task.done()]
            if running:
                await asyncio.wait(running, timeout=self._left(), return_when=asyncio.FIRST_COMPLETED)
            return
        wait = (rows.next_due(store) or 0.0) - time.time()
        seconds = min(wait, POLL) if wait > 0 else POLL  # what is due is in a task's hands, or cannot be sent now
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            pass

    # ------------------------------------------------------------------ one target

    async def _empty(self, store: Store, name: str, target: NoticeTarget, auth: Auth) -> None:
        """One after the other, the oldest first."""
        while True:
            early = GRACE if self._ends is not None else 0.0
            row = rows.claim_due(store, name, time.time(), LEASE, early=early)
            if row is None:
                if not await self._soon(store, name):
                    return
                continue
            await self._try(store, row, target, auth)

    async def _soon(self, store: Store, name: str) -> bool:
        """While we end: wait for an attempt that still fits into the time that is left."""
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
                self._place.complain(f"a notice was not delivered to {row.target!r} and is tried again: {why}")
        else:
            rows.mark_failed(store, row, time.time(), why)
            self._gave_up(row, why)

    def _gave_up(self, row: rows.Row, why: str) -> None:
        self._place.complain(f"a notice ({row.kind}) was not delivered to {row.target!r}: {why}")


def reason(error: Undelivered) -> str:
    """In one line, as it may be shown."""
    return visible(Secrets().redact(str(error)), keep_newlines=False)[:400]


async def attempt(context: Place, store: Store, row: rows.Row, target: NoticeTarget, auth: Auth) -> None:
    """Deliver one, once; raises Undelivered, whatever went wrong."""
    try:
        letter = await _made(context, store, row, target, auth)
        async with asyncio.timeout(target.timeout_seconds + 5):
            await letters.deliverer(target.kind)(letter)
    except Undelivered:
        raise
    except TimeoutError:
        raise Undelivered("it took too long") from None
    except Exception as error:
        raise Undelivered(f"{type(error).__name__}: {error}") from error


async def _made(context: Place, store: Store, row: rows.Row, target: NoticeTarget, auth: Auth) -> Letter:
    parts = await asyncio.to_thread(secrets_of, row.target, target, auth, context.home)
    body = dict(row.body)
    if target.detail == "full" and row.kind == "done" and row.run_id and (run := runs.get(store, row.run_id)):
        answer = cut(visible(str(Secrets().clean(run.answer or ""))), FULL)
        body["text"] = f"{body.get('text', '')}\n\n{answer}".rstrip()
    page = str(body.get("page", ""))
    link = f"{server}{page}" if page and (server := _server()) else ""
    return Letter(row.id, body, target, parts, link, time.time())


def secrets_of(name: str, target: NoticeTarget, auth: Auth, home: str) -> Mapping[str, str]:
    """The target's secrets, from variables and from where `notices secret` keeps them. Nobody is asked for a word."""
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
    """The address of the server of this home, where one runs."""
    running = own_server.found()
    if running is None:
        return ""
    try:
        os.kill(running.pid, 0)
    except OSError:
        return ""
    return running.address


# ------------------------------------------------------------------ one for the whole process

_here: dict[str, Courier] = {}
"""The courier of a process that lives on, such as a server: by its store's file."""


def keep(path: str, courier: Courier | None) -> None:
    """From now on runs of this process leave their notices to this one; None: no longer."""
    if courier is None:
        _here.pop(path, None)
    else:
        _here[path] = courier


def of_process(path: str) -> Courier | None:
    return _here.get(path)


def flush(context: Place) -> None:
    """Deliver what waits, for a command that ends right after it. In a loop nobody waits for that."""
    courier = Courier(context)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        courier.close()
    else:
        courier.end()
