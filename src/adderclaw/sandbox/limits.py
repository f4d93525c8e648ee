"""Limits of a session's commands: processes, memory, space."""

import contextlib
import os
import signal
from collections.abc import Iterator

PROCESSES = 1024
"""Processes and threads of one session at a time."""
FILE_BYTES = 8 << 30
"""The size of one file."""
MIN_BYTES = 256 << 20
GROUP = "adderclaw"
KILL_ROUNDS = 100
"""How often a group is killed while its processes start new children."""


def memory_bytes() -> int:
    """The memory that a session may use: three quarters of the machine's."""
    return max(MIN_BYTES, _physical() * 3 // 4)


def scratch_bytes() -> int:
    """The size of a session's /tmp, home and shared memory: an eighth of the machine's memory each."""
    return max(MIN_BYTES, _physical() // 8)


def _physical() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def process_limits(*, own_users: bool) -> dict[str, int]:
    """Limits that every process inside has, by their names in `resource`.

    `own_users`: the process is in a user namespace, in which recent kernels count its processes separately. Elsewhere
    all processes of the user count, so the limit is raised by their number.
    """
    others = 0 if own_users and _release() >= (5, 14) else _process_count()
    # No RLIMIT_AS: node, go and java reserve far more addresses than they use. RLIMIT_NPROC does not apply to root.
    return {
        "RLIMIT_CORE": 0,
        "RLIMIT_NPROC": PROCESSES + others,
        "RLIMIT_FSIZE": FILE_BYTES,
        "RLIMIT_DATA": memory_bytes(),
    }


def _release() -> tuple[int, ...]:
    return tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2] if part.isdigit())


def _process_count() -> int:
    """Processes and threads of the whole machine."""
    return int(_read_words("/proc/loadavg")[3].partition("/")[2])


class Group:
    """A control group for one sandbox, if we may create one: only this limits root's processes."""

    def __init__(self, pid: int) -> None:
        self._made: list[str] = []
        self._join(pid)

    def _join(self, pid: int) -> None:
        sweep()
        settings = {"pids.max": PROCESSES, "memory.max": memory_bytes()}
        for parent in _parents():
            path = os.path.join(parent, f"{GROUP}-{os.getpid()}-{pid}")
            try:
                os.mkdir(path)
            except OSError:
                continue
            self._made.append(path)
            for name, value in settings.items():
                _write(os.path.join(path, name), value)
            if _write(os.path.join(path, "cgroup.procs"), pid):
                return
            self.close()

    def kill(self) -> None:
        """Kill all processes of the group, without searching for them by name or ancestor."""
        for path in self._made:
            if _write(os.path.join(path, "cgroup.kill"), 1):
                continue
            for _ in range(KILL_ROUNDS):  # the kernel cannot do it at once: repeat until the group is empty
                pids = [int(pid) for pid in _read_words(os.path.join(path, "cgroup.procs"))]
                for pid in pids:
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
                if not pids:
                    break

    def close(self) -> None:
        """Remove the group; if processes are still dying, `sweep` removes it later."""
        for path in self._made:
            with contextlib.suppress(OSError):
                os.rmdir(path)
        self._made.clear()


def can_group() -> bool:
    """Whether a control group can be made here."""
    for parent in _parents():
        path = os.path.join(parent, f"{GROUP}-{os.getpid()}-trial")
        with contextlib.suppress(OSError):
            os.mkdir(path)
            os.rmdir(path)
            return True
    return False


def _parents() -> Iterator[str]:
    """Where this process may create groups: beneath its own group or at the top."""
    top = "/sys/fs/cgroup"
    for line in _read_lines("/proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if "pids" in controllers.split(","):
            yield os.path.join(top, "pids") + path.rstrip("/")
        if not controllers:
            folders = dict.fromkeys((top + path.rstrip("/"), top))
            offers = (
                folder for folder in folders if "pids" in _read_words(os.path.join(folder, "cgroup.subtree_control"))
            )
            yield from (folder for folder in offers if os.access(folder, os.W_OK))


def sweep() -> None:
    """Remove the groups of killed processes, and our own that could not be removed earlier."""
    for parent in _parents():
        with contextlib.suppress(OSError):
            for name in os.listdir(parent):
                kind, _, rest = name.partition("-")
                owner = rest.partition("-")[0]
                if kind == GROUP and (owner == str(os.getpid()) or not os.path.exists(f"/proc/{owner}")):
                    with contextlib.suppress(OSError):
                        os.rmdir(os.path.join(parent, name))


def _write(path: str, value: int) -> bool:
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(str(value))
    except OSError:
        return False
    return True


def _read_lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().splitlines()
    except OSError:
        return []


def _read_words(path: str) -> list[str]:
    return " ".join(_read_lines(path)).split()
