"""The process that keeps a server running where no manager of the system does: it starts it, restarts it, ends it.

It lives as long as its lock file is there, and the server as long as it: nothing of either is left when one is killed.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from typing import NoReturn

from adderclaw.channels.service import process_identity, sealed, supervised
from adderclaw.channels.service.log_files import LogFiles
from adderclaw.channels.service.process_identity import Process
from adderclaw.channels.service.supervised import Phase, Said, Unit
from adderclaw.errors import AdderClawError

LOOKS = 1.0
"""Seconds between two looks at the lock file."""
ENDED_WELL = (0, 130, 143)
"""Exit codes of a server that was asked to end."""
NO_USE = 2
"""Exit code of a server whose command line, configuration or port is wrong: the next one would end the same way."""
DEATHSIG = 1
"""PR_SET_PDEATHSIG"""


def detach(unit: Unit, log: LogFiles, lock: int) -> None:
    """Let a supervisor begin, in a session of its own, without a terminal, and hand the lock over to it."""
    sys.stdout.flush()
    sys.stderr.flush()
    first = os.fork()
    if first:
        os.waitpid(first, 0)
        return
    try:
        os.setsid()
        if os.fork():  # who leads no session never gets a terminal
            os._exit(0)
        _daemon(unit, log, lock)
    finally:
        os._exit(1)


def _daemon(unit: Unit, log: LogFiles, lock: int) -> NoReturn:
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    keep = {lock, log.fileno()}
    for number in range(3, max(keep) + 1):
        if number not in keep:
            with contextlib.suppress(OSError):
                os.close(number)
    os.closerange(max(keep) + 1, 65_536)
    try:
        Supervisor(unit, log, lock).run()
    except BaseException as error:  # noqa: BLE001 - nobody else would ever hear of it
        log.line(f"supervisor: it failed: {error!r}".encode())
        os._exit(1)
    os._exit(0)


class Supervisor:
    """Runs one server after another until it is told to stop, or there is no use."""

    def __init__(self, unit: Unit, log: LogFiles, lock: int) -> None:
        self._unit, self._log, self._lock = unit, log, lock
        self._me = process_identity.found(os.getpid())
        self._before = self._left_over()
        self._said = Said("starting", supervisor=list(self._me) if self._me else None)
        self._stopping = False
        self._unstarted = ""
        """Why the last start came to nothing."""
        self._failures: list[float] = []
        self._libc = ctypes.CDLL(None)
        self._woken, self._wake = os.pipe()
        for end in (self._woken, self._wake):
            os.set_blocking(end, False)

    def run(self) -> None:
        if self._me is not None:
            supervised.sign(self._lock, self._me)
        self._listen()
        if self._before is not None:
            self._end_left_over(self._before)
        while not self._stopping:
            try:
                code = self._serve()
            except (OSError, AdderClawError) as error:  # the program is gone, no memory, keys that others can read
                self._unstarted = f"cannot start {self._unit.command[0]}: {getattr(error, 'strerror', None) or error}"
                self._note(self._unstarted)
                code = 127
            if self._is_over(code):
                return
        self._say("stopped", "it was stopped")

    # -------------------------------------------------------------- one server

    def _serve(self) -> int:
        """Start a server and wait for its end; its exit code."""
        self._say("starting")
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        try:
            server = self._started(writer)
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        self._unstarted = ""
        who = process_identity.found(server.pid)
        self._said = replace(self._said, server=list(who) if who else None, since=_now())
        self._say("running")
        self._note(f"started process {server.pid}: {' '.join(self._unit.command)}")
        try:
            self._attend(server, reader)
        finally:
            os.close(reader)
        self._log.end_line()
        code = server.returncode
        self._said = replace(self._said, server=None, last_exit=exit_text(code))
        self._note(f"process {server.pid} ended: {exit_text(code)}")
        return code

    def _started(self, writer: int) -> "subprocess.Popen[bytes]":
        parent = os.getpid()

        def dies_with_us() -> None:  # between fork and exec: calls of the system alone
            self._libc.prctl(DEATHSIG, signal.SIGTERM, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)

        unit = self._unit
        env = {**os.environ, **unit.environment, **supervised.variables(unit.environment_file)}
        return subprocess.Popen(
            unit.command,
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=writer,
            env=env,
            cwd=os.path.expanduser("~"),
            start_new_session=True,
            preexec_fn=dies_with_us if sys.platform == "linux" else None,
        )

    def _attend(self, server: "subprocess.Popen[bytes]", reader: int) -> None:
        """Write down what it prints until it has ended; end it where we are told to."""
        kill_at = float("inf")
        while server.poll() is None:
            if self._stopping and kill_at == float("inf"):
                self._say("stopping")
                kill_at = time.monotonic() + self._unit.stop_seconds
                server.terminate()
            if time.monotonic() >= kill_at:
                self._note(f"it did not end within {self._unit.stop_seconds:g} s and is killed")
                server.kill()
                server.wait()
                break
            self._wait(min(LOOKS, kill_at - time.monotonic()), reader)
        self._drain(reader)

    def _drain(self, reader: int) -> bool:
        """What was printed so far; False once nobody will print any more."""
        while True:
            try:
                data = os.read(reader, 65_536)
            except BlockingIOError:
                return True
            if not data:
                return False
            self._log.feed(data)

    # -------------------------------------------------------------- what comes next

    def _is_over(self, code: int) -> bool:
        """Whether nothing is started any more; else the pause before the next start is over."""
        if self._stopping:
            self._say("stopped", "it was stopped")
            return True
        if code in ENDED_WELL:
            self._say("stopped", "the server was ended by somebody else")
            return True
        if code == NO_USE:
            self._say("failed", f"the server refused to start: {self._log.last_said}")
            return True
        now = time.monotonic()
        self._failures = [one for one in self._failures if now - one < self._unit.within_seconds] + [now]
        if len(self._failures) >= self._unit.most_failures:
            within = f"{self._unit.most_failures} times within {self._unit.within_seconds:g} s"
            why = self._unstarted or f"{exit_text(code)}; {self._log.last_said}"
            self._say("failed", f"it failed {within} and is left alone: {why}")
            return True
        pause = min(self._unit.longest_delay_seconds, self._unit.delay_seconds * 2 ** (len(self._failures) - 1))
        self._said = replace(self._said, restarts=self._said.restarts + 1)
        self._say("waiting", f"{self._unstarted or exit_text(code)}; the next start is in {pause:g} s")
        end = time.monotonic() + pause
        while not self._stopping and (left := end - time.monotonic()) > 0:
            self._wait(min(LOOKS, left))
        return False

    def _left_over(self) -> Process | None:
        """The server of a supervisor that was killed."""
        try:
            before = supervised.said()
        except AdderClawError:
            return None
        return supervised.process(before.server) if before is not None else None

    def _end_left_over(self, server: Process) -> None:
        """It was told to end when its supervisor died, where the system can do that: a second signal cuts it off."""
        if not process_identity.lives(server):
            return
        self._note(f"process {server.pid} is left of a supervisor that was killed: waiting for its end")
        self._said = replace(self._said, server=list(server))
        self._say("starting", "waiting for the end of the server before")
        try:
            process_identity.send(server, 0 if sys.platform == "linux" else signal.SIGTERM)
        except PermissionError:
            self._note(f"process {server.pid} is another user's: it is left alone")
            return
        end = time.monotonic() + self._unit.stop_seconds
        while process_identity.lives(server) and not self._stopping:
            if time.monotonic() > end:
                self._note(f"process {server.pid} did not end and is killed")
                process_identity.send(server, signal.SIGKILL)
                end += 5
            self._wait(0.05)

    # -------------------------------------------------------------- signals, state, log

    def _listen(self) -> None:
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGCHLD, self._awake)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the server, too, then outlives every terminal
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD})

    def _stop(self, _number: int, _frame: object) -> None:
        self._stopping = True

    def _awake(self, _number: int, _frame: object) -> None:
        """A handler is there so that the signal ends a wait."""

    def _wait(self, seconds: float, reader: int = -1) -> None:
        """Until a signal comes, the server prints something or the time is over; a lock file that is gone ends us."""
        watched = [self._woken, *([reader] if reader >= 0 else [])]
        ready, _, _ = select.select(watched, [], [], max(0.0, seconds))
        if self._woken in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._woken, 4_096)
        if reader in ready and not self._drain(reader):
            time.sleep(0.01)  # it closed what it prints to, and lives: not a busy loop
        if not self._stopping and not supervised.is_at_its_path(self._lock):
            self._note(f"{supervised.lock_path()} is gone or another one: nobody could stop us any more, so we stop")
            self._stopping = True

    def _say(self, phase: Phase, reason: str = "") -> None:
        self._said = replace(self._said, phase=phase, reason=reason)
        if not supervised.is_at_its_path(self._lock):
            return  # the folder is gone, or somebody else's by now
        try:
            sealed.write(supervised.state_path(), json.dumps(asdict(self._said)))
        except AdderClawError as error:
            self._note(str(error))

    def _note(self, text: str) -> None:
        self._log.line(f"supervisor: {text}".encode(errors="backslashreplace"))


def exit_text(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
