"""A shell that outlives us for a moment: when our process is killed, it kills everything that we have started."""

import contextlib
import os
import signal
import threading
import time
import zlib

from adderclaw.config.places import home
from adderclaw.sandbox.memory import memory_file

CALL_MARK = "ADDERCLAW_CALL"
"""The environment variable that marks every process that a call has started."""

_WATCH = """
trap '' HUP INT QUIT TERM
read -r _
while read -r group; do
  [ "$group" -gt 1 ] && kill -9 "-$group"
done <&1
for round in 1 2 3 4 5; do
  found=
  for file in $(grep -lsaF -- "$1" /proc/[0-9]*/environ); do
    found=${file#/proc/}
    found=${found%/environ}
    kill -9 "-$found"
    kill -9 "$found"
  done
  [ "$found" ] || break
done
"""
"""Waits until the other end of its input is closed, then kills the process groups listed on descriptor 1 and all
processes with the mark."""

_SLOT = 11
_PAUSES = (0.0, 0.001, 0.002, 0.004, 0.008)
"""Seconds before each check for leftover processes. A process in the middle of an exec has no readable environment."""

type _Process = tuple[str, int]
"""The pid and the inode of its /proc folder, which distinguishes processes that reuse a pid."""


def home_tag(folder: str = "") -> str:
    """A short hash of the home, which is part of the mark of each call."""
    return f"{zlib.crc32(os.fsencode(os.path.realpath(folder or home()))):08x}"


class Watchdog:
    """A shell that waits for the end of our process, and the list of process groups that it kills then.

    The list is a file in memory that both share, so that a call costs two small writes and wakes no process.
    """

    def __init__(self) -> None:
        self._nonce = f"{os.getpid()}-{time.time_ns():x}-{home_tag()}"
        self._calls = 0
        self._groups = memory_file(b"")
        self._slots = 0
        self._free: list[int] = []
        self._live: set[str] = set()
        self._foreign: set[_Process] = set()
        self._pid = 0
        self._pipe = -1

    def start(self) -> None:
        """Starts the shell unless it is running."""
        if self._pid and _is_running(self._pid):
            return
        from subprocess import DEVNULL, Popen

        if self._pipe >= 0:
            os.close(self._pipe)
        ours, self._pipe = os.pipe()
        try:
            shell = Popen(
                ["/bin/sh", "-c", _WATCH, "watchdog", f"{CALL_MARK}={self._nonce}."],
                stdin=ours,
                stdout=self._groups,  # it prints nothing; a plain shell can only read from single-digit descriptors
                stderr=DEVNULL,
                cwd="/",
                env={"PATH": "/usr/bin:/bin"},
                start_new_session=True,
            )
        finally:
            os.close(ours)
        self._pid = shell.pid
        shell.returncode = 0  # it outlives us by design, so prevents the warning that nobody waited for it

    def new_mark(self) -> str:
        """The mark of a new call; the call is active until `kill_marked` or `forget_call`."""
        self._calls += 1
        mark = f"{self._nonce}.{self._calls}"
        self._live.add(mark)
        return mark

    def watch_group(self, group: int) -> int:
        """Adds a process group to the list and returns its slot, which `release_group` frees."""
        if not self._free:
            self._free.append(self._slots)
            self._slots += 1
        slot = self._free.pop()
        os.pwrite(self._groups, b"%10d\n" % group, slot * _SLOT)
        return slot

    def release_group(self, slot: int) -> None:
        os.pwrite(self._groups, b"%10d\n" % 0, slot * _SLOT)
        self._free.append(slot)

    def forget_call(self, mark: str) -> None:
        """Ends a call whose processes have already been ended."""
        self._live.discard(mark)

    def kill_marked(self, mark: str) -> None:
        """Ends a call: kills the processes it started, including those that left its group (`setsid`, daemons)."""
        self._live.discard(mark)
        unsure: set[_Process] = set()
        for pause in _PAUSES:
            time.sleep(pause)
            leftovers, unsure = self._leftovers()
            for pid in leftovers:
                # Also its group, if it leads one: its children may have cleared their environment.
                for kill in (os.killpg, os.kill):
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        kill(pid, signal.SIGKILL)
            if not leftovers and not unsure:
                return
        self._foreign |= unsure  # an exec would be over by now, so these have no environment

    def _leftovers(self) -> "tuple[list[int], set[_Process]]":
        """Processes with the mark of an ended call, and processes in the middle of an exec, which may have it."""
        try:
            with os.scandir("/proc") as entries:
                running = {(entry.name, entry.inode()) for entry in entries if entry.name.isdigit()}
        except FileNotFoundError:
            return [], set()
        leftovers: list[int] = []
        unsure: set[_Process] = set()
        self._foreign &= running
        for process in running - self._foreign:
            pid, _ = process
            environ = _environ(pid)
            mark = environ.partition(f"\0{CALL_MARK}={self._nonce}.".encode())[2].partition(b"\0")[0].decode()
            if mark and f"{self._nonce}.{mark}" not in self._live:
                leftovers.append(int(pid))
            elif len(environ) == 1 and _has_program(pid):
                unsure.add(process)
            elif not mark:
                self._foreign.add(process)  # not checked again, so that a call costs one listing of /proc
        return leftovers, unsure


_dogs: list[Watchdog] = []
_starting = threading.Lock()


def watchdog() -> Watchdog:
    """The watchdog of this process, started if necessary."""
    with _starting:
        if not _dogs:
            _dogs.append(Watchdog())
        _dogs[0].start()
        return _dogs[0]


def _is_running(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG) == (0, 0)
    except ChildProcessError:
        return False


def _has_program(pid: str) -> bool:
    """False for a kernel thread, a process that has ended, and a process of another user."""
    try:
        return bool(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return False


def _environ(pid: str) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
            return b"\0" + file.read()
    except OSError:
        return b"\0"
