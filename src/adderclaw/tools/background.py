"""The background tasks of a session: one registry for commands and subagents that run in the background.

A task writes to an output that the model can read at any time. It ends by itself, by `stop`, at its time limit, by the
emergency stop, or with the session. Each end is reported to the model exactly once.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from adderclaw.core.host import ToolContext
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Clock, Ids, TaskEnd
from adderclaw.sandbox.capture import Capture
from adderclaw.storage import tasks as rows
from adderclaw.tools import long_outputs
from adderclaw.tools.long_outputs import LongOutputs

if TYPE_CHECKING:
    from adderclaw.core.events.calls import TaskEnded
    from adderclaw.storage import Store

type Status = Literal["running", "completed", "failed", "stopped"]
type Work = Callable[["Output"], Awaitable["TaskOutcome"]]

MAX_RUNNING = 16
"""Most tasks that run at the same time, unless the caller sets another limit."""
OUTPUT_BYTES = 64 << 20
"""How much of one task's output is stored. The rest is dropped, and the output is marked as truncated."""
SHOWN = long_outputs.MOST_SHOWN - 2_000
"""Characters of new output that are shown at once: its head and its tail."""
POLL = 0.25
"""Seconds between checks of the emergency stop while a task runs."""


class TaskOutcome(NamedTuple):
    """How a piece of work ended."""

    status: Literal["completed", "failed"]
    summary: str
    """One line: "exit code 0"."""
    result: str = ""
    """What the model receives with the notice: a subagent's answer. A command's output is read with TaskOutput."""


class TooManyTasks(ValueError):
    """Too many tasks are running; the message names the limit and the fix."""


# ------------------------------------------------------------------ output


class Output:
    """What a task has printed so far, in a file that Read can open, and how much of it was shown."""

    def __init__(self, task_id: str, outputs: LongOutputs) -> None:
        created = outputs.create(f"{task_id}.txt")
        self.path = created[1] if created else ""
        self._fd = created[0] if created else _anonymous_file(task_id)
        self._kept = outputs
        self._rest = b""
        self._shown = 0
        self.size = 0
        self.cut = False
        self._over = Capture(0, SHOWN)
        """New output since the last read that exceeded the storage limit."""

    def write(self, data: bytes) -> None:
        """Stores whole lines, so that no secret is split before it is redacted."""
        data = self._rest + data
        end = data.rfind(b"\n") + 1 if len(data) < 65536 else len(data)
        self._rest = data[end:]
        self._store(data[:end])

    def _store(self, data: bytes) -> None:
        if not data or self._fd < 0:
            return
        self.cut = self.cut or self._kept.full or self.size + len(data) > OUTPUT_BYTES
        if self.cut:
            self._over.add(data)
            return
        clean = self._kept.scrub(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        try:
            self._kept.write(self._fd, clean)
        except OSError:  # a full disk loses the output but does not end the task
            self.cut = True
            self._over.add(data)
        self.size = os.lseek(self._fd, 0, os.SEEK_CUR)

    def flush(self) -> None:
        self._store(self._rest)
        self._rest = b""

    def read_new(self) -> str:
        """The output since the last call. A long text loses its middle."""
        self.flush()
        begin, self._shown = self._shown, self.size
        text = self._read_range(begin, self.size)
        if not self.cut:
            return text
        over, self._over = self._over, Capture(0, SHOWN)
        end = self._kept.scrub(over.data.decode("utf-8", "replace"))
        return f"{text}{end}\n[SDLC_TRUNCATED]"

    def _read_range(self, begin: int, end: int) -> str:
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


def _anonymous_file(task_id: str) -> int:
    """An anonymous file for output that cannot be stored; it ends with the process."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(task_id)
    import tempfile

    fd, path = tempfile.mkstemp()
    os.unlink(path)
    return fd


# ------------------------------------------------------------------ tasks


class Task:
    """One background task."""

    def __init__(self, task_id: str, kind: str, title: str, output: Output, *, awaited: bool) -> None:
        self.id, self.kind, self.title, self.output = task_id, kind, title, output
        self.awaited = awaited
        self.status: Status = "running"
        self.summary = ""
        self.result = ""
        self.is_reported = False
        self.over = asyncio.Event()
        self.runner: asyncio.Task[TaskOutcome] | None = None

    @property
    def running(self) -> bool:
        return self.status == "running"


class Tasks:
    """The background tasks of one session, which end with it."""

    def __init__(
        self,
        clock: Clock,
        ids: Ids,
        outputs: LongOutputs,
        store: "Store | None" = None,
        stopped: Callable[[], bool] = lambda: False,
        tell: "Callable[[TaskEnded], None]" = lambda _end: None,
    ) -> None:
        self._clock, self._ids, self._kept, self._store, self._stopped = clock, ids, outputs, store, stopped
        self._tell = tell
        self._tasks: dict[str, Task] = {}
        self._watcher: asyncio.Task[None] | None = None

    def for_child(self) -> "Tasks":
        """A separate registry for a child session, whose tasks report to it and end with it (`close`)."""
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
        most: int = MAX_RUNNING,
    ) -> Task:
        """Starts a task. With `awaited` the turn does not end before the task. Raises TooManyTasks."""
        running = [task for task in self._tasks.values() if task.running and task.kind == kind]
        if len(running) >= most:
            names = ", ".join(task.id for task in running)
            raise TooManyTasks(f"{len(running)} background tasks are already running. Stop one with TaskStop ({names})")
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

    async def _run(self, task: Task, work: Work, seconds: float | None) -> TaskOutcome:
        try:
            async with asyncio.timeout(seconds):
                return await work(task.output)
        except TimeoutError:
            return TaskOutcome("failed", f"stopped after {seconds:g} s, its time limit")
        except Exception as error:  # noqa: BLE001 - a failing task is reported to the model and must not end the session
            return TaskOutcome("failed", f"{type(error).__name__}: {error}")

    def _ended(self, task: Task, runner: "asyncio.Task[TaskOutcome]") -> None:
        """Records the end of a task, also of one that was cancelled before it started."""
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
        """Ends all tasks when the emergency stop is set."""
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
        """Waits at most `seconds` for the task to end; returns whether it did."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await task.over.wait()
        return not task.running

    async def stop(self, task: Task) -> None:
        """Ends a task and every process that it started."""
        if task.runner is not None and task.running:
            task.runner.cancel()
            await task.over.wait()

    def mark_reported(self, task: Task) -> None:
        """Marks a task's end as reported to the model, so that the loop does not report it again."""
        if task.running or task.is_reported:
            return
        task.is_reported = True
        if self._store is not None:
            with self._store.write() as cursor:
                rows.mark_reported(cursor, task.id)

    # ------------------------------------------------------------------ for the loop

    def finished(self) -> list[TaskEnd]:
        """The ended tasks that were not reported to the model yet. Each is returned exactly once."""
        ended = [task for task in self._tasks.values() if not task.running and not task.is_reported]
        for task in ended:
            task.is_reported = True
        return [TaskEnd(task.id, task.status, end_message(task), task.result) for task in ended]

    async def wait_for_needed(self) -> bool:
        """Waits for the next awaited task to end; False if there is none."""
        waiting = [task for task in self._tasks.values() if task.awaited and not task.is_reported]
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
        """Ends all tasks."""
        for task in self.listed():
            await self.stop(task)
        watcher, self._watcher = self._watcher, None
        if watcher is not None and watcher is not asyncio.current_task():
            watcher.cancel()

    def release(self) -> None:
        """Closes the outputs of all tasks."""
        for task in self._tasks.values():
            task.output.close()


def end_message(task: Task) -> str:
    """The notice to the model that a task ended."""
    where = f" Its output: TaskOutput, or Read {task.output.path}." if task.output.size and task.output.path else ""
    return f"[Background task {task.id} ({task.title[:200]}) {task.status}: {task.summary}.{where}]"
