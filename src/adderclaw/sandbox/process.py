"""Starts the children of tools, and makes sure that they end.

A child leads its own session and process group. Processes that it leaves behind are found by that group, or, after a
move to another group, by a mark in their environment. If AdderClaw itself is killed, a watchdog does the same.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

from adderclaw.core.record import NamedTuple
from adderclaw.models.credentials.unconfined import pidfd
from adderclaw.sandbox.capture import Capture
from adderclaw.sandbox.memory import memory_file
from adderclaw.sandbox.programs import search_path
from adderclaw.sandbox.watchdog import CALL_MARK, watchdog

MAX_BYTES = 1 << 20
"""Bytes stored of each stream; the rest is read and dropped, so that the child does not block."""
FLOOD_BYTES = 64 << 20
"""A child whose output is only stored is killed when it writes more than this to one stream."""
DRAIN_BYTES = 2 << 20
"""Most bytes read from a pipe after its child's end: more than a pipe holds."""
TERM_GRACE = 0.3
"""Seconds between asking a group to end and killing it."""
LINGER_GRACE = 0.2
"""Seconds that a finished command's background children may go on writing."""
KILL_WAIT = 2.0
"""Seconds after which a killed child that does not die (stuck in the kernel) is left to the watchdog."""

_PASSED_VARIABLES = ("HOME", "LANG", "LANGUAGE", "LOGNAME", "NO_COLOR", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
GIT_FIXED = {
    "safe.bareRepository": "explicit",
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.pager": "cat",
    "core.sshCommand": "ssh",
    "protocol.ext.allow": "never",
    "gpg.program": "gpg",
    "gpg.ssh.program": "ssh-keygen",
    "gpg.x509.program": "gpgsm",
    "gpg.openpgp.program": "gpg",
    "commit.gpgSign": "false",
    "tag.gpgSign": "false",
    "log.showSignature": "false",
    "merge.verifySignatures": "false",
    "credential.helper": "",
    "core.askPass": "",
    "core.alternateRefsCommand": "true",
    "interactive.diffFilter": "cat",
    "init.templateDir": "",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "core.gitProxy": "none",
    "advice.ignoredHook": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
}
"""Settings with which a repository could make git run a program, with their fixed values."""
_FIXED_VARIABLES = {
    "PAGER": "cat",
    "DEBIAN_FRONTEND": "noninteractive",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": str(len(GIT_FIXED)),
    **{f"GIT_CONFIG_KEY_{number}": key for number, key in enumerate(GIT_FIXED)},
    **{f"GIT_CONFIG_VALUE_{number}": value for number, value in enumerate(GIT_FIXED.values())},
}


class StartFailed(OSError):
    """A command did not start at all. Any other error may come after its start."""


def _start_failed(error: OSError) -> StartFailed:
    return StartFailed(error.errno, error.strerror, error.filename)


class Finished(NamedTuple):
    """How a child ended; a negative return code is the signal that ended it."""

    returncode: int
    stdout: bytes
    stderr: bytes
    stdout_cut: bool = False
    stderr_cut: bool = False
    timed_out: bool = False
    flooded: bool = False

    @property
    def truncated(self) -> bool:
        return self.stdout_cut or self.stderr_cut


def environment(extra: Mapping[str, str] | None = None, *, workspace_roots: Sequence[str]) -> dict[str, str]:
    """The environment of a tool's child: an allowlist without secrets and without variables that load code."""
    host = os.environ
    env = {name: value for name in _PASSED_VARIABLES if (value := host.get(name)) is not None}
    env |= {name: host[name] for name in host if name.startswith("LC_")}
    if not any(name in env for name in ("LANG", "LC_ALL", "LC_CTYPE")):
        env["LANG"] = "C.UTF-8"
    env["PATH"] = os.pathsep.join(search_path(workspace_roots))
    return env | _FIXED_VARIABLES | dict(extra or {})


type View = Literal["all", "git", "server", "read_only", "offline"]
"""The view of a command in a sandbox.

all: the usual one. git: for git alone, which may change protected files. server: for a server that stays; it sees only
its own processes, and commands do not see it. read_only: nothing can be written, and there is no network. offline: as
server, without a network.
"""


class ProcessRequest(NamedTuple):
    """A process to start, with its streams and its view."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    streams: tuple[int, int, int]
    pass_fds: tuple[int, ...]
    view: View = "all"


class RunningProcess(Protocol):
    """A running command, unconfined or in a sandbox."""

    @property
    def fd(self) -> int | None:
        """Readable when it may have ended; None where the system has no such descriptor."""
        ...

    def has_ended(self) -> bool:
        """Whether it has ended. Raises OSError if only now it turns out that it could not be started."""
        ...

    def signal(self, number: int) -> None:
        """Send a signal to its whole process group."""
        ...

    def kill(self) -> None:
        """Kill it, its group, and processes that have left its group."""
        ...

    def close(self) -> int:
        """Kill what is left and reap it; returns the return code."""
        ...

    @property
    def note(self) -> str:
        """A note to append to its output, once it is closed; usually empty."""
        ...


type Starter = Callable[[ProcessRequest], RunningProcess]
"""Starts a process: unconfined, or in a sandbox."""


def in_view(start: Starter | None, view: View) -> Starter | None:
    """The same starter with another view."""
    return None if start is None else lambda order: start(order._replace(view=view))


async def run(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    timeout: float,
    max_bytes: int = MAX_BYTES,
    stdin: bytes = b"",
    pass_fds: Sequence[int] = (),
    start: Starter | None = None,
    sink: Callable[[bytes], None] | None = None,
    into: tuple[Capture, Capture] | None = None,
    on_output: Callable[[bytes], None] | None = None,
) -> Finished:
    """Run a program to its end. However this call ends, no process that it started keeps running.

    `sink` receives the output of both streams while it is printed. `into` receives stdout and stderr after what it
    holds already. With either of them the output has no limit. `on_output` is also called with each piece of stdout.
    Raises StartFailed.
    """
    captures = into or (Capture(max_bytes), Capture(max_bytes))
    most = FLOOD_BYTES if sink is None and into is None else None
    child = _Child(start or start_unconfined, argv, cwd, env, captures, most, stdin, pass_fds, sink)
    if on_output is not None:
        child.out.listeners.append(on_output)
    timed_out = False
    try:
        timed_out = not await _wait_for(child.done, timeout)
        if timed_out or child.flooded:
            await child.stop()
        else:
            await child.settle()
    except asyncio.CancelledError:
        await child.stop()
        raise
    finally:
        # A second cancellation during the await above ends here as well.
        returncode = child.close()
    if child.failure is not None:
        raise child.failure
    out, err = captures
    err.note(child.note.encode())
    return Finished(returncode, out.data, err.data, out.cut, err.cut, timed_out, child.flooded)


def start_unconfined(order: ProcessRequest) -> RunningProcess:
    """Start without any confinement."""
    return UnconfinedProcess(order)


async def _wait_for(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event at most so long; returns whether it happened."""
    if event.is_set():
        return True
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


class _Stream:
    """One pipe from a child, with the receivers of its output."""

    __slots__ = ("deliver", "fd", "listeners", "theirs", "total")

    def __init__(self, give: Callable[[bytes], None]) -> None:
        self.fd, self.theirs = os.pipe()
        self.deliver, self.total = give, 0
        self.listeners: list[Callable[[bytes], None]] = []
        os.set_blocking(self.fd, False)

    def read(self) -> bool:
        """Read what is available; False at the end of the stream."""
        try:
            chunk = os.read(self.fd, 65536)
        except BlockingIOError:
            return True
        if not chunk:
            return False
        self.total += len(chunk)
        self.deliver(chunk)
        for listener in self.listeners:
            listener(chunk)
        return True


class _Child:
    """One running command: its two pipes, and its end."""

    def __init__(
        self,
        start: Starter,
        argv: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        captures: tuple[Capture, Capture],
        most: int | None,
        stdin: bytes,
        pass_fds: Sequence[int],
        sink: Callable[[bytes], None] | None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.ended, self.quiet, self.done = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.flooded, self._most = False, most
        self.failure: OSError | None = None
        self._poll: asyncio.TimerHandle | None = None
        self.out, self.err = _Stream(sink or captures[0].add), _Stream(sink or captures[1].add)
        self._open = {self.out, self.err}
        stdin_fd = memory_file(stdin) if stdin else os.open(os.devnull, os.O_RDONLY)
        try:
            streams = (stdin_fd, self.out.theirs, self.out.theirs if sink is not None else self.err.theirs)
            self._started = start(ProcessRequest(tuple(argv), cwd, env, streams, tuple(pass_fds)))
        except BaseException as error:
            os.close(self.out.fd)
            os.close(self.err.fd)
            if isinstance(error, OSError):
                raise _start_failed(error) from error
            raise
        finally:
            for fd in (stdin_fd, self.out.theirs, self.err.theirs):
                os.close(fd)
        self._listen()

    def _listen(self) -> None:
        for stream in self._open:
            self._loop.add_reader(stream.fd, self._read, stream)
        if self._started.fd is not None:
            self._loop.add_reader(self._started.fd, self._check_ended)
        else:
            self._check_ended_later(0.002)

    def _check_ended(self) -> None:
        try:
            if not self._started.has_ended():
                return
        except OSError as error:
            self.failure = _start_failed(error)
        self._end()

    def _check_ended_later(self, delay: float) -> None:
        """Without pidfds: check repeatedly, at growing intervals."""
        self._check_ended()
        if not self.ended.is_set():
            self._poll = self._loop.call_later(delay, self._check_ended_later, min(delay * 1.5, 0.05))

    def _end(self) -> None:
        if self._started.fd is not None:
            self._loop.remove_reader(self._started.fd)
        self.ended.set()
        self.done.set()

    def _read(self, stream: _Stream) -> None:
        if not stream.read():
            self._loop.remove_reader(stream.fd)
            self._open.discard(stream)
            if not self._open:
                self.quiet.set()
        elif self._most is not None and stream.total > self._most:
            self.flooded = True
            self.done.set()

    def _drain(self) -> None:
        """Read what the pipes still hold: a child's last output may arrive together with its end."""
        for stream in tuple(self._open):
            before, end = -1, stream.total + DRAIN_BYTES
            while stream in self._open and stream.total != before and stream.total <= end:
                before = stream.total
                self._read(stream)

    async def settle(self) -> None:
        """The command has ended: give its background children a moment to finish writing, then end them."""
        self._drain()
        if self._open and not await _wait_for(self.quiet, LINGER_GRACE):
            self._started.kill()
            self._drain()

    async def stop(self) -> None:
        """Ask the whole group to end, then make it end."""
        self._started.signal(signal.SIGTERM)
        deadline = time.monotonic() + TERM_GRACE
        if await _wait_for(self.ended, TERM_GRACE):
            await _wait_for(self.quiet, deadline - time.monotonic())
        self._started.kill()
        await _wait_for(self.ended, KILL_WAIT)
        self._drain()

    @property
    def note(self) -> str:
        return self._started.note

    def close(self) -> int:
        """Kill what is left, reap the child, close every descriptor."""
        if self._poll is not None:
            self._poll.cancel()
        if self._started.fd is not None and not self.ended.is_set():
            self._loop.remove_reader(self._started.fd)
        code = self._started.close()
        for stream in self._open:
            self._loop.remove_reader(stream.fd)
        for stream in (self.out, self.err):
            os.close(stream.fd)
        return code


class UnconfinedProcess:
    """A command without any confinement, in its own process group."""

    note = ""

    def __init__(self, order: ProcessRequest) -> None:
        from subprocess import Popen

        self._dog = watchdog()
        self._mark = self._dog.new_mark()
        stdin, out, err = order.streams
        try:
            # Without preexec_fn the child is created by vfork, whose cost does not grow with our memory.
            self._process = Popen(
                list(order.argv),
                cwd=order.cwd,
                env={**order.env, CALL_MARK: self._mark},
                stdin=stdin,
                stdout=out,
                stderr=err,
                pass_fds=order.pass_fds,
                start_new_session=True,
            )
        except BaseException:
            self._dog.kill_marked(self._mark)
            raise
        # If AdderClaw is killed here, the watchdog does not know the group yet, but finds it by its leader's mark.
        self._slot = self._dog.watch_group(self._process.pid)
        self.fd = pidfd(self._process.pid)

    def has_ended(self) -> bool:
        return self.fd is not None or self._process.poll() is not None

    def signal(self, number: int) -> None:
        # The leader is not reaped yet, so its id cannot belong to another process.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self._dog.kill_marked(self._mark)

    def close(self) -> int:
        from subprocess import TimeoutExpired

        self.kill()
        if self.fd is not None:
            os.close(self.fd)
        with contextlib.suppress(TimeoutExpired):
            self._process.wait(KILL_WAIT)
        self._dog.release_group(self._slot)
        code = self._process.returncode
        return -signal.SIGKILL if code is None else code
