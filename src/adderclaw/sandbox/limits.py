"""What a session's commands may use up: processes, memory, space."""

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
"""How often those in a group are killed whose children are made meanwhile."""


def memory_bytes() -> int:
    """What a session may take of this machine's memory: three quarters."""
    return max(MIN_BYTES, _physical() * 3 // 4)


def scratch_bytes() -> int:
    """The size of a session's /tmp, of its home and of its shared memory: each an eighth of the memory they lie in."""
    return max(MIN_BYTES, _physical() // 8)


def _physical() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def process_limits(*, own_users: bool) -> dict[str, int]:
    """Limits that every process inside has, by their names in `resource`.

    `own_users`: it is in a user namespace, in which recent kernels count its processes apart from all others of
    the user. Elsewhere those count too, so that there must be room for them.
    """
    others = 0 if own_users and _release() >= (5, 14) else _process_count()
    # Not RLIMIT_AS: node, go and java reserve far more addresses than they ever use. Nor does RLIMIT_NPROC bind root.
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
    """A control group for one sandbox, where we may make one: the only thing that bounds root's processes."""

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
        """End whoever is in it: nobody has to be found by what it is called or descends from."""
        for path in self._made:
            if _write(os.path.join(path, "cgroup.kill"), 1):
                continue
            for _ in range(KILL_ROUNDS):  # where the kernel cannot do it at once, until nobody comes after
                pids = [int(pid) for pid in _read_words(os.path.join(path, "cgroup.procs"))]
                for pid in pids:
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
                if not pids:
                    break

    def close(self) -> None:
        """Remove it; whoever was in it is dead, or dying for a moment longer: then `sweep` removes it."""
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
    """Where this process may make groups: beneath its own where version 2 has the controller there, or at the top."""
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
    """Remove the groups of programs that were killed before they could, and our own that were in use a moment ago."""
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
