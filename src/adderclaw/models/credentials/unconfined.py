"""Runs a trusted program outside of every sandbox and ends it with all its processes, however its block is left.

asyncio starts a program over several iterations of its loop. If it is cancelled in between, it ends only the first
process, and the children keep running. `with Unconfined(...) as process` starts a program in one step instead.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from typing import IO, Final

DEVNULL: Final = -3
PIPE: Final = -1
"""The same values as in `subprocess`, which is imported only when a program starts."""
KILL_WAIT = 2.0
"""Seconds to wait for a killed process, which may be stuck in the kernel."""


class Unconfined:
    """One running program. With `leads`, it has its own session; otherwise it stays in the terminal's process group."""

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
        """Kill the program if it still runs. After a normal end, its background processes keep running."""
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
        """Send a signal to the program, but not to its group."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the program and its process group."""
        if not self._leads:
            self._process.kill()
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def write(self, data: bytes) -> None:
        """Write to stdin, which stays open; blocks if the data exceeds the pipe's buffer."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(data)
            self._process.stdin.flush()

    async def head(self, most: int) -> bytes:
        """The first bytes of stdout; the rest is read and discarded, so that the program does not block."""
        head = b""
        while chunk := await _read(self._process.stdout):
            head = (head + chunk)[:most]
        return head

    async def complaint(self, most: int) -> bytes:
        """The last bytes of stderr."""
        tail = b""
        while chunk := await _read(self._process.stderr):
            tail = (tail + chunk)[-most:]
        return tail

    async def wait(self) -> int:
        """The exit code; a negative one is the signal that ended the program."""
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
    except (AttributeError, OSError):  # missing on this system, or forbidden by a container's filter
        return None
