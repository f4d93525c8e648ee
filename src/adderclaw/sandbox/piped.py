"""A child that stays and is used over pipes: for MCP servers over stdio and for plugins.

It runs in the session's sandbox with the same /tmp, home and network as other commands, but with its own process
namespace, until `stop` or the end of the session.
"""

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from io import FileIO

from adderclaw.sandbox.process import (
    DRAIN_BYTES,
    KILL_WAIT,
    TERM_GRACE,
    ProcessRequest,
    RunningProcess,
    Starter,
    start_unconfined,
)

LINE_BYTES = 16 << 20
"""The buffer of a reader; also the longest line that `readline` accepts."""
KEPT_ERRORS = 65_536
"""How many bytes of stderr are stored, counted from its end."""
LEAVE_SECONDS = 2.0
"""Seconds that a child that has closed a pipe has to end by itself, with its own exit code and last output."""


class PipedProcess:
    """A running child. Write to `stdin` (then `await stdin.drain()`), read from `stdout`."""

    def __init__(self, started: RunningProcess, stdin: asyncio.StreamWriter, stdout: asyncio.StreamReader) -> None:
        self.stdin, self.stdout = stdin, stdout
        self.returncode: int | None = None
        """None while it runs."""
        self._started = started
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._complaints: FileIO | None = None
        self.on_first_output: Callable[[], object] = lambda: None
        """Called at its first output."""
        self._errors: deque[bytes] = deque()
        self._poll: asyncio.TimerHandle | None = None
        self._open: list[asyncio.BaseTransport] = [stdin.transport]

    def report_first_output(self) -> None:
        """Call `on_first_output`, once."""
        first, self.on_first_output = self.on_first_output, lambda: None
        first()

    @property
    def errors(self) -> str:
        """The end of its output on stderr."""
        return b"".join(self._errors).decode("utf-8", "replace")[-KEPT_ERRORS:]

    async def wait_ended(self) -> int:
        """Wait for its end: the return code, negative for a signal."""
        await self._ended.wait()
        return -signal.SIGKILL if self.returncode is None else self.returncode

    async def stop(self, grace: float = TERM_GRACE) -> int:
        """Close its input, ask it to end, then kill it with all its children. May be called again."""
        leaves = self.stdout.at_eof() or self.stdin.is_closing()
        self.stdin.close()
        if leaves:
            await self._wait(LEAVE_SECONDS)
        if not self._ended.is_set():
            self._started.signal(signal.SIGTERM)
            await self._wait(grace)
        if not self._ended.is_set():
            self._started.kill()
            await self._wait(KILL_WAIT)
        if not self._ended.is_set():
            self._finish()
        return await self.wait_ended()

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), seconds)

    def watch(self, readers: Sequence[asyncio.BaseTransport], complaints: FileIO) -> None:
        self._open += readers
        self._complaints = complaints
        if self._started.fd is not None:
            self._loop.add_reader(self._started.fd, self._check_ended)
        else:
            self._check_ended_later(0.01)

    def add_error_output(self, part: bytes) -> None:
        self._errors.append(part[-KEPT_ERRORS:])
        while sum(map(len, self._errors)) > 2 * KEPT_ERRORS:
            self._errors.popleft()

    def _check_ended(self) -> None:
        try:
            over = self._started.has_ended()
        except OSError as error:
            self.add_error_output(f"it could not be started: {error}\n".encode())
            over = True
        if over:
            self._finish()

    def _check_ended_later(self, delay: float) -> None:
        self._check_ended()
        if not self._ended.is_set():
            self._poll = self._loop.call_later(delay, self._check_ended_later, min(delay * 1.5, 0.1))

    def _finish(self) -> None:
        """Process its end. Its last output is still in the pipe: the reader gets it before the end."""
        if self._ended.is_set():
            return
        if self._started.fd is not None:
            self._loop.remove_reader(self._started.fd)
        self.returncode = self._started.close()
        self._read_remaining_errors()
        if self._started.note:
            self.add_error_output(self._started.note.encode())
        self._ended.set()

    def _read_remaining_errors(self) -> None:
        """Read the rest of stderr, so that `errors` is complete when its end is reported."""
        left = DRAIN_BYTES
        while left > 0 and self._complaints is not None and not self._complaints.closed:
            if not (part := self._complaints.read(KEPT_ERRORS)):
                return
            self.add_error_output(part)
            left -= len(part)

    def abandon(self) -> None:
        """Kill it without waiting and close every descriptor."""
        if self._poll is not None:
            self._poll.cancel()
        self._finish()
        for transport in self._open:
            with contextlib.suppress(RuntimeError):  # its loop is over already
                transport.close()


class _Errors(asyncio.Protocol):
    def __init__(self) -> None:
        self.child: PipedProcess | None = None
        self._early: list[bytes] = []

    def data_received(self, data: bytes) -> None:
        if self.child is None:
            self._early.append(data)
        else:
            self.child.add_error_output(data)

    def attach(self, child: PipedProcess) -> None:
        self.child = child
        for part in self._early:
            child.add_error_output(part)


async def start_piped(
    argv: Sequence[str], *, cwd: str, env: Mapping[str, str], start: Starter | None = None
) -> PipedProcess:
    """Start a child with three pipes. `start` is `Kit.start`; without it the child is unconfined.

    Raises OSError if it cannot be started. A sandbox may notice that only later: then the child ends at once, and
    `errors` says why.
    """
    theirs_in, ours_in = os.pipe()
    ours_out, theirs_out = os.pipe()
    ours_err, theirs_err = os.pipe()
    ours = [ours_in, ours_out, ours_err]
    try:
        order = ProcessRequest(tuple(argv), cwd, env, (theirs_in, theirs_out, theirs_err), (), "server")
        started = (start or start_unconfined)(order)
    except BaseException:
        for fd in ours:
            os.close(fd)
        raise
    finally:
        for fd in (theirs_in, theirs_out, theirs_err):
            os.close(fd)
    try:
        return await _connect_pipes(started, ours)
    except BaseException:
        started.close()
        raise


async def _connect_pipes(started: RunningProcess, ours: list[int]) -> PipedProcess:
    loop = asyncio.get_running_loop()
    into, out, err = (os.fdopen(fd, mode, buffering=0) for fd, mode in zip(ours, ("wb", "rb", "rb"), strict=True))
    reader = asyncio.StreamReader(LINE_BYTES, loop)
    reading, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), out)
    errors = _Errors()
    complaining, _ = await loop.connect_read_pipe(lambda: errors, err)
    writing, flow = await loop.connect_write_pipe(lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), into)
    child = PipedProcess(started, asyncio.StreamWriter(writing, flow, None, loop), reader)
    errors.attach(child)
    child.watch((reading, complaining), err)
    return child
