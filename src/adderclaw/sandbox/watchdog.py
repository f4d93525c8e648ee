"""What outlives us, for a moment: a shell that kills what we have started when we are killed ourselves."""

import contextlib
import os
import signal
import threading
import time
import zlib

from adderclaw.config.places import home
from adderclaw.sandbox.memory import memory_file

CALL_MARK = "ADDERCLAW_CALL"
"""The variable by which what a call has started is known, wherever it went."""

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
"""Waits until nobody holds the other end of its input; kills the groups that descriptor 1 lists, then the marked."""

_SLOT = 11
_PAUSES = (0.0, 0.001, 0.002, 0.004, 0.008)
"""Seconds before each look at what a call has left: who is in the middle of an exec has no environment to look at."""

type _Process = tuple[str, int]
"""Its number, and the inode of its folder: by that, it is another one than the one that had the number before."""


def home_tag(folder: str = "") -> str:
    """By which the mark of a call names the home of its agent."""
    return f"{zlib.crc32(os.fsencode(os.path.realpath(folder or home()))):08x}"


class Watchdog:
    """A shell that waits for our death, however we die, and the list of what it is to kill then.

    The list is a file in memory that both hold, so that a call costs two small writes and wakes nobody.
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
        """Start the shell, unless it runs."""
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
                stdout=self._groups,  # it says nothing; a plain shell can only read from descriptors of one digit
                stderr=DEVNULL,
                cwd="/",
                env={"PATH": "/usr/bin:/bin"},
                start_new_session=True,
            )
        finally:
            os.close(ours)
        self._pid = shell.pid
        shell.returncode = 0  # it outlives us by design: nobody is to wait for it, or to warn that nobody did

    def new_mark(self) -> str:
        """A new call's mark; it is alive until `kill_marked`."""
        self._calls += 1
        mark = f"{self._nonce}.{self._calls}"
        self._live.add(mark)
        return mark

    def watch_group(self, group: int) -> int:
        """Put a group on the list; the slot that it stands in is given back with `release`."""
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
        """A call is over, and somebody else has ended what it started."""
        self._live.discard(mark)

    def kill_marked(self, mark: str) -> None:
        """A call is over: kill what it started and what then left its process group (`setsid`, daemons)."""
        self._live.discard(mark)
        unsure: set[_Process] = set()
        for pause in _PAUSES:
            time.sleep(pause)
            leftovers, unsure = self._leftovers()
            for pid in leftovers:
                # Its group too, if it leads one: what it started may have cleared its environment.
                for kill in (os.killpg, os.kill):
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        kill(pid, signal.SIGKILL)
            if not leftovers and not unsure:
                return
        self._foreign |= unsure  # by now an exec is over: they have no environment

    def _leftovers(self) -> "tuple[list[int], set[_Process]]":
        """Processes that bear the mark of a call that is over, and those that may: in the middle of their exec."""
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
                self._foreign.add(process)  # not looked at again, so that a call costs one listing of /proc
        return leftovers, unsure


_dogs: list[Watchdog] = []
_starting = threading.Lock()


def watchdog() -> Watchdog:
    """The one of this process, running."""
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
    """Not so a thread of the kernel, one that has ended, and one of somebody else."""
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
