"""What goes on beside the turns of a session: one registry for background commands and background subagents.

A task is begun with a piece of work, prints to an output that the model may read at any time, and ends by itself, by
`stop`, at its time limit, by the emergency stop, or with the session. The model hears of each end exactly once.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Clock, Ids, TaskEnd, ToolContext
from adderclaw.sandbox.capture import Capture
from adderclaw.storage import tasks as rows
from adderclaw.tools import long_outputs
from adderclaw.tools.long_outputs import LongOutputs

if TYPE_CHECKING:
    from adderclaw.core.events.calls import TaskEnded
    from adderclaw.storage import Store

type Status = Literal["running", "completed", "failed", "stopped"]
type Work = Callable[["Output"], Awaitable["End"]]

MOST = 16
"""Tasks that run at the same time, unless the caller says otherwise."""
OUTPUT_BYTES = 64 << 20
"""What is kept of one task's output; what comes after it is dropped, and said to be."""
SHOWN = long_outputs.MOST_SHOWN - 2_000
"""Characters of new output that are shown at once: the head and the tail of it."""
POLL = 0.25
"""Seconds between looks at the emergency stop while a task runs."""


class End(NamedTuple):
    """How a piece of work ended."""

    status: Literal["completed", "failed"]
    summary: str
    """One line: "exit code 0"."""
    result: str = ""
    """What the model is handed with the news: an agent's answer. What a command printed it reads when it wants to."""


class TooMany(ValueError):
    """No further task may be begun now; says why, and the fix."""


# ------------------------------------------------------------------ what a task prints


class Output:
    """What a task has printed so far, in a file that Read may open, and how far it was shown."""

    def __init__(self, task_id: str, kept: LongOutputs) -> None:
        made = kept.create(f"{task_id}.txt")
        self.path = made[1] if made else ""
        self._fd = made[0] if made else _unnamed(task_id)
        self._kept = kept
        self._rest = b""
        self._shown = 0
        self.size = 0
        self.cut = False
        self._over = Capture(0, SHOWN)
        """What came since somebody asked, and was not kept any more."""

    def write(self, data: bytes) -> None:
        """Whole lines, so that no secret is cut in two before it is looked for."""
        data = self._rest + data
        end = data.rfind(b"\n") + 1 if len(data) < 65536 else len(data)
        self._rest = data[end:]
        self._put(data[:end])

    def _put(self, data: bytes) -> None:
        if not data or self._fd < 0:
            return
        self.cut = self.cut or self._kept.full or self.size + len(data) > OUTPUT_BYTES
        if self.cut:
            self._over.add(data)
            return
        clean = self._kept.scrub(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        try:
            self._kept.write(self._fd, clean)
        except OSError:  # a full disk costs the output, never the task
            self.cut = True
            self._over.add(data)
        self.size = os.lseek(self._fd, 0, os.SEEK_CUR)

    def flush(self) -> None:
        self._put(self._rest)
        self._rest = b""

    def new(self) -> str:
        """What was printed since the last time that somebody asked; a long text has its middle left out."""
        self.flush()
        begin, self._shown = self._shown, self.size
        text = self._between(begin, self.size)
        if not self.cut:
            return text
        over, self._over = self._over, Capture(0, SHOWN)
        end = self._kept.scrub(over.data.decode("utf-8", "replace"))
        return f"{text}{end}\n[SDLC_TRUNCATED]"

    def _between(self, begin: int, end: int) -> str:
        if end - begin <= SHOWN:
            return os.pread(self._fd, end - begin, begin).decode("utf-8", "replace")
        half = SHOWN // 2
        head, tail = os.pread(self._fd, half, begin), os.pread(self._fd, half, end - half)
        where = f"; Read {self.path} has them" if self.path else ""
        left = f"[… {end - begin - 2 * half} bytes left out{where} …]"
        return f"{head.decode('utf-8', 'replace')}\n{left}\n{tail.decode('utf-8', 'replace')}"

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _unnamed(task_id: str) -> int:
    """Where nothing can be kept, the output lives as long as we do."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(task_id)
    import tempfile

    fd, path = tempfile.mkstemp()
    os.unlink(path)
    return fd


# ------------------------------------------------------------------ tasks


class Task:
    """One piece of background work."""

    def __init__(self, task_id: str, kind: str, title: str, output: Output, *, awaited: bool) -> None:
        self.id, self.kind, self.title, self.output = task_id, kind, title, output
        self.awaited = awaited
        self.status: Status = "running"
        self.summary = ""
        self.result = ""
        self.told = False
        self.over = asyncio.Event()
        self.runner: asyncio.Task[End] | None = None

    @property
    def running(self) -> bool:
        return self.status == "running"


class Tasks:
    """The background tasks of one session. One registry per session: its tasks end with it."""

    def __init__(
        self,
        clock: Clock,
        ids: Ids,
        kept: LongOutputs,
        store: "Store | None" = None,
        stopped: Callable[[], bool] = lambda: False,
        tell: "Callable[[TaskEnded], None]" = lambda _end: None,
    ) -> None:
        self._clock, self._ids, self._kept, self._store, self._stopped = clock, ids, kept, store, stopped
        self._tell = tell
        self._tasks: dict[str, Task] = {}
        self._watcher: asyncio.Task[None] | None = None

    def of_child(self) -> "Tasks":
        """A registry of its own for a child session: what it begins is told to it, and ends with it (`close`)."""
        return Tasks(self._clock, self._ids, self._kept, self._store, self._stopped, self._tell)

    def begin(
        self,
        kind: str,
        title: str,
        work: Work,
        ctx: ToolContext,
        *,
        seconds: float | None = None,
        awaited: bool = False,
        most: int = MOST,
    ) -> Task:
        """Start a piece of work. With `awaited` a turn does not end before it has. Raises TooMany."""
        running = [task for task in self._tasks.values() if task.running and task.kind == kind]
        if len(running) >= most:
            names = ", ".join(task.id for task in running)
            raise TooMany(f"{len(running)} background tasks are running already: stop one with TaskStop ({names})")
        task_id = self._ids("task")
        task = Task(task_id, kind, title, Output(task_id, self._kept), awaited=awaited)
        if self._store is not None:
            with self._store.write() as cursor:
                rows.begin(cursor, task_id=task.id, session_id=ctx.session_id, kind=kind, title=title)
        self._tasks[task.id] = task
        task.runner = asyncio.ensure_future(self._run(task, work, seconds))
        task.runner.add_done_callback(lambda runner: self._ended(task, runner))
        if self._watcher is None or self._watcher.done():
            self._watcher = asyncio.ensure_future(self._watch())
        return task

    async def _run(self, task: Task, work: Work, seconds: float | None) -> End:
        try:
            async with asyncio.timeout(seconds):
                return await work(task.output)
        except TimeoutError:
            return End("failed", f"stopped after {seconds:g} s, its time limit")
        except Exception as error:  # noqa: BLE001 - work that fails is news for the model, never the end of the session
            return End("failed", f"{type(error).__name__}: {error}")

    def _ended(self, task: Task, runner: "asyncio.Task[End]") -> None:
        """Also of one that was cancelled before it began: by `stop`, the emergency stop, the end of the session."""
        task.output.flush()
        if runner.cancelled():
            task.status = task.summary = "stopped"
        else:
            task.status, task.summary, task.result = runner.result()
        if self._store is not None:
            with self._store.write() as cursor:
                rows.end(cursor, task.id, task.status, task.summary, task.result)
        self._tell(
            {
                "event_type": "task_ended",
                "task_id": task.id,
                "kind": task.kind,
                "title": task.title[:200],
                "status": task.status,
                "summary": task.summary,
            }
        )
        task.over.set()

    async def _watch(self) -> None:
        """The emergency stop ends what goes on in the background, too."""
        while any(task.running for task in self._tasks.values()):
            if self._stopped():
                await self.close()
            await asyncio.sleep(POLL)

    # ------------------------------------------------------------------ for the tools

    def find(self, task_id: str) -> Task | None:
        return self._tasks.get(task_id)

    def listed(self) -> list[Task]:
        return list(self._tasks.values())

    async def wait(self, task: Task, seconds: float) -> bool:
        """Wait for its end, but no longer than that; tells whether it came."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await task.over.wait()
        return not task.running

    async def stop(self, task: Task) -> None:
        """End it with everything that it started."""
        if task.runner is not None and task.running:
            task.runner.cancel()
            await task.over.wait()

    def tell(self, task: Task) -> None:
        """Somebody has told the model of its end: the loop does not say it again."""
        if task.running or task.told:
            return
        task.told = True
        if self._store is not None:
            with self._store.write() as cursor:
                rows.tell(cursor, task.id)

    # ------------------------------------------------------------------ for the loop

    def finished(self) -> list[TaskEnd]:
        """Those that have ended and that nobody was told of yet: each is handed over exactly once."""
        ended = [task for task in self._tasks.values() if not task.running and not task.told]
        for task in ended:
            task.told = True
        return [TaskEnd(task.id, task.status, news(task), task.result) for task in ended]

    async def wait_for_needed(self) -> bool:
        """Wait for one that the answer depends on; False where there is none."""
        waiting = [task for task in self._tasks.values() if task.awaited and not task.told]
        if not waiting:
            return False
        if not any(not task.running for task in waiting):
            ends = [asyncio.ensure_future(task.over.wait()) for task in waiting]
            try:
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for end in ends:
                    end.cancel()
        return True

    async def close(self) -> None:
        """End all of them."""
        for task in self.listed():
            await self.stop(task)
        watcher, self._watcher = self._watcher, None
        if watcher is not None and watcher is not asyncio.current_task():
            watcher.cancel()

    def release(self) -> None:
        """Give back what their outputs hold open: nobody asks for them any more."""
        for task in self._tasks.values():
            task.output.close()


def news(task: Task) -> str:
    """What the model is told of a task's end, once."""
    where = f" Its output: TaskOutput, or Read {task.output.path}." if task.output.size and task.output.path else ""
    return f"[Background task {task.id} ({task.title[:200]}) {task.status}: {task.summary}.{where}]"
