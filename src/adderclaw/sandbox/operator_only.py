"""Keeps an agent's own commands from giving the operator's consent.

Every child of a tool has a mark in its environment, with the home of its agent in it. A command that consents looks for
that mark in its own environment and in that of every process above it, and for the agent itself among them: the
watchdog that each agent has names its process. So `env -i`, `setsid` and `exec` do not get around it. A process that
clears its environment and outlives everything above it (a daemon) does, and so does a system without /proc beyond the
first mark.
"""

import os
from collections.abc import Iterator

from adderclaw.config.places import home
from adderclaw.core.errors import DeniedError
from adderclaw.sandbox.watchdog import CALL_MARK, home_tag

MAX_ANCESTORS = 100
"""At most this many ancestor processes are checked."""


def require_operator(what: str, database: str = "") -> None:
    """Raises DeniedError in a process that a tool of an agent of this home, or of that of the database, started."""
    if _started_by_agent(database):
        raise DeniedError(
            f"{what} is the operator's decision, and this process was started by a tool of an agent: "
            "do it in a terminal of your own"
        )


def _started_by_agent(database: str) -> bool:
    tags = {f"-{home_tag(folder)}." for folder in _homes(database)}
    if any(tag in os.environ.get(CALL_MARK, "") for tag in tags):
        return True
    above = list(_ancestors())
    return any(_has_mark(pid, tags) for pid in above) or _has_watchdog({str(pid) for pid in above}, tags)


def _homes(database: str) -> set[str]:
    """The home, and the folders that the database and every link in the home are in: those may be another home."""
    folder = home()
    try:
        inside = [os.path.join(folder, name) for name in os.listdir(folder)]
    except OSError:
        inside = []
    return {folder, *(os.path.dirname(os.path.realpath(path)) for path in (*inside, *([database] if database else [])))}


def _ancestors() -> Iterator[int]:
    pid = os.getppid()
    for _ in range(MAX_ANCESTORS):
        if pid <= 1:
            return
        yield pid
        after_name = _read(pid, "stat").rpartition(b")")[2].split()
        pid = int(after_name[1]) if len(after_name) > 1 else 0


def _has_mark(pid: int, tags: set[str]) -> bool:
    mark = (b"\0" + _read(pid, "environ")).partition(f"\0{CALL_MARK}=".encode())[2].partition(b"\0")[0]
    return any(tag.encode() in mark for tag in tags)


def _has_watchdog(above: set[str], tags: set[str]) -> bool:
    """Whether one of these processes is an agent: its watchdog is started with the mark of its calls."""
    start = f"\0{CALL_MARK}=".encode()
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return False
    marks = (_read(pid, "cmdline").partition(start)[2].partition(b"\0")[0].decode(errors="replace") for pid in pids)
    return any(mark.partition("-")[0] in above and any(tag in mark for tag in tags) for mark in marks)


def _read(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""
