"""Part of the program inside a sandbox: starts processes and lists them."""

import fcntl
import posix

from adderclaw.sandbox.inside_mounts import PROC, libc

RESET = (13, 25)
"""SIGPIPE and SIGXFSZ: Python ignores them, its children must not."""
STOP, CONTINUE = 19, 18


def spawn(request: list[bytes], fds: list[int]) -> int:
    """Start a command. The request has counts and targets, directory, arguments, environment; the mark is last."""
    count, *targets = map(int, request[0].split())
    argv, env = request[2 : 2 + count], dict(pair.split(b"=", 1) for pair in request[2 + count :])
    numbers = [0, 1, 2, *targets]
    # Move them above every target number, so that no descriptor is overwritten before it is copied.
    most, above = max(numbers), list[int]()
    if min(fds) <= most:
        fds = above = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, most + 1) for fd in fds]
    actions = [(posix.POSIX_SPAWN_DUP2, fd, number) for fd, number in zip(fds, numbers, strict=True)]
    try:
        posix.chdir(request[1])
        return posix.posix_spawn(argv[0], argv, env, file_actions=actions, setsid=True, setsigmask=(), setsigdef=RESET)
    finally:
        posix.chdir("/")
        for fd in above:
            posix.close(fd)


def exit_code(status: int) -> int:
    return -posix.WTERMSIG(status) if posix.WIFSIGNALED(status) else posix.WEXITSTATUS(status)


def signal(pid: int, number: int) -> None:
    try:
        posix.kill(pid, number)
    except OSError:
        pass


def let_children_start(parents: set[int]) -> None:
    """Continue children of these processes: a parent in vfork cannot stop before its child has called exec."""
    for pid, (parent, _, _) in processes().items():
        if parent in parents:
            signal(pid, CONTINUE)


def processes() -> dict[int, tuple[int, int, int]]:
    """Process id → parent, process group, session."""
    table: dict[int, tuple[int, int, int]] = {}
    for name in posix.listdir(PROC):
        if not name.isdigit() or int(name) == posix.getpid():
            continue
        fields = stat_fields(name)
        # A process whose first thread has ended looks dead, but may have other threads.
        if fields and (fields[0] not in (b"Z", b"X") or len(threads(name)) > 1):
            table[int(name)] = (int(fields[1]), int(fields[2]), int(fields[3]))
    return table


def stat_fields(name: str) -> list[bytes]:
    return read_proc(f"{name}/stat").rpartition(b")")[2].split()


def threads(name: str) -> list[str]:
    try:
        fd = posix.open(f"{name}/task", posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC, dir_fd=PROC)
    except OSError:
        return []
    try:
        return posix.listdir(fd)
    except OSError:
        return []
    finally:
        posix.close(fd)


def is_stopped(pid: int) -> bool:
    """Whether every thread of a process is stopped or dead."""
    states = (stat_fields(f"{pid}/task/{task}")[:1] for task in threads(str(pid)))
    return all(state in ([], [b"T"], [b"t"], [b"Z"], [b"X"]) for state in states)


def descends(pid: int, ancestors: set[int], parents: dict[int, int]) -> bool:
    for _ in range(len(parents) + 1):
        if pid in ancestors:
            return True
        if pid not in parents:
            return False
        pid = parents[pid]
    return False


def environment_of(pid: int) -> list[bytes]:
    content = read_proc(f"{pid}/environ")
    others = (read_proc(f"{pid}/task/{task}/environ") for task in threads(str(pid)))
    return (content or next(filter(None, others), b"")).split(b"\0")


def read_proc(path: str) -> bytes:
    try:
        fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC, dir_fd=PROC)
    except OSError:
        return b""
    try:
        return posix.read(fd, 1 << 20)
    except OSError:
        return b""
    finally:
        posix.close(fd)


def leave_at_once() -> None:
    libc._exit(1)
