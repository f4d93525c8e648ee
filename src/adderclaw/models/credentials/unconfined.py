"""A program that is ours or the operator's, started outside of every sandbox: it ends whole, however its block is left.

asyncio starts a program over several turns of its loop. Cancelled in between, it ends the first process alone, and what
that one started goes on. Here a program is started in one step, by `with Unconfined(...) as process`.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from typing import IO, Final

DEVNULL: Final = -3
PIPE: Final = -1
"""As in `subprocess`, which is imported where a program starts."""
KILL_WAIT = 2.0
"""Seconds after which a killed process that does not die (stuck in the kernel) is left alone."""


class Unconfined:
    """One running program. It leads a process group of its own, unless it is to stay at the terminal (`leads`)."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str] | None = None,
        stdin: int | None = DEVNULL,
        stdout: int | None = DEVNULL,
        stderr: int | None = DEVNULL,
        leads: bool = True,
    ) -> None:
        from subprocess import Popen

        self._process = Popen(
            argv, cwd=cwd, env=env, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=leads
        )
        self._leads = leads
        self._ended_fd = pidfd(self._process.pid)

    def __enter__(self) -> "Unconfined":
        return self

    def __exit__(self, *_: object) -> None:
        """What came to its end is left as it is, also what it put into the background; all else ends now."""
        from subprocess import TimeoutExpired

        if self._process.poll() is None:
            self.kill()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        if self._ended_fd is not None:
            os.close(self._ended_fd)
        with contextlib.suppress(TimeoutExpired):
            self._process.wait(KILL_WAIT)

    def signal(self, number: int) -> None:
        """To it alone."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """It, and all of its group."""
        if not self._leads:
            self._process.kill()
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def write(self, data: bytes) -> None:
        """A few words for its stdin, which stays open: no more than a pipe holds."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(data)
            self._process.stdin.flush()

    async def head(self, most: int) -> bytes:
        """The first of its stdout; the rest is read and dropped, so that it does not block."""
        head = b""
        while chunk := await _read(self._process.stdout):
            head = (head + chunk)[:most]
        return head

    async def complaint(self, most: int) -> bytes:
        """The last of its stderr."""
        tail = b""
        while chunk := await _read(self._process.stderr):
            tail = (tail + chunk)[-most:]
        return tail

    async def wait(self) -> int:
        """Its exit code; a negative one is the signal that ended it."""
        delay = 0.002
        while (code := self._process.poll()) is None:
            if self._ended_fd is not None:
                await _readable(self._ended_fd)
            else:
                await asyncio.sleep(delay)
                delay = min(delay * 1.5, 0.05)
        return code


async def _read(stream: IO[bytes] | None) -> bytes:
    assert stream is not None
    await _readable(stream.fileno())
    return os.read(stream.fileno(), 65536)


async def _readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(fd, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(fd)


def pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # not on this system, or forbidden by a container's filter
        return None
