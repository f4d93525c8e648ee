"""Which process a number means: its start time tells it from a later one that was given the same number."""

import os
import signal
import sys

from adderclaw.record import NamedTuple


class Process(NamedTuple):
    """A process, by its number and when it was started."""

    pid: int
    started: str


def found(pid: int) -> Process | None:
    """The process that has this number now; None without one, and where it has ended and nobody took notice yet."""
    if pid <= 0:
        return None
    started = _of_linux(pid) if sys.platform == "linux" else _of_ps(pid)
    return Process(pid, started) if started else None


def lives(process: Process) -> bool:
    return found(process.pid) == process


def send(process: Process, number: int) -> bool:
    """Send a signal to exactly this process; False where it has ended, whatever has its number now."""
    if sys.platform != "linux":
        if not lives(process):
            return False
        os.kill(process.pid, number)
        return True
    try:
        fd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        if not lives(process):  # looked at after the descriptor was opened: what it names cannot change any more
            return False
        signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)
    return True


def _of_linux(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            words = file.read().rpartition(b")")[2].split()
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
    except OSError:
        return ""
    if len(words) < 20 or words[0] in (b"Z", b"X"):
        return ""
    return f"{boot}:{words[19].decode()}"  # proc(5): starttime, in ticks since the boot


def _of_ps(pid: int) -> str:
    import subprocess

    command = ["/bin/ps", "-o", "state=,lstart=", "-p", str(pid)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, env={"LC_ALL": "C"}, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    state, _, started = done.stdout.strip().partition(" ")
    return "" if state.startswith("Z") else started.strip()
