"""What the supervisor and the commands that steer it share: its unit, its lock and what it says of itself."""

import contextlib
import fcntl
import json
import os
import stat
from typing import Annotated, Any, Literal, cast

from adderclaw.channels.service import restarts, sealed
from adderclaw.channels.service.backend import folder
from adderclaw.channels.service.process_identity import Process
from adderclaw.decode import Between, Invalid, decode
from adderclaw.errors import AdderClawError
from adderclaw.record import NamedTuple, record

MOST_BYTES = 16_384


def place(name: str) -> str:
    return os.path.join(folder(), name)


def unit_path() -> str:
    return place("detached.json")


def lock_path() -> str:
    """The supervisor holds its lock as long as it lives, and writes into it which process it is."""
    return place("supervisor.pid")


def state_path() -> str:
    return place("state.json")


def log_path() -> str:
    return place("serve.log")


# ------------------------------------------------------------------ the unit


@record
class Unit:
    """What is run, as `detached.json` says it."""

    written_by: str
    command: list[str]
    environment: dict[str, str]
    environment_file: str
    stop_seconds: Annotated[float, Between(0, 86_400)]
    delay_seconds: Annotated[float, Between(0, 3_600)] = restarts.DELAY
    longest_delay_seconds: Annotated[float, Between(0, 86_400)] = restarts.LONGEST_DELAY
    most_failures: Annotated[int, Between(1, 1_000)] = restarts.MOST
    within_seconds: Annotated[float, Between(1, 864_000)] = restarts.WITHIN
    log_bytes: Annotated[int, Between(1_000, 1e12)] = 5_000_000
    log_files: Annotated[int, Between(1, 1_000)] = 5


def unit() -> Unit | None:
    """The unit; None where none is installed."""
    text = sealed.read(unit_path())
    if text is None:
        return None
    try:
        found = decode(Unit, json.loads(text))
    except (ValueError, RecursionError, Invalid) as error:
        fix = "mend it, or write it anew with `adderclaw service install --force`"
        raise AdderClawError(f"{unit_path()}: {error}: {fix}") from error
    if not found.command or not os.path.isabs(found.command[0]):
        raise AdderClawError(f"{unit_path()}: command: it begins with the absolute path of the program")
    return found


def variables(path: str) -> dict[str, str]:
    """NAME=value of each line, as systemd's EnvironmentFile has it: comments, quotes, no shell."""
    text = sealed.read(path)
    if text is None:
        return {}
    if stat.S_IMODE(os.lstat(path).st_mode) & 0o077:
        raise AdderClawError(f"{path} can be read by others: `chmod 600 {path}`")
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        name, equals, value = line.partition("=")
        name, value = name.strip(), value.strip()
        if not equals or not name.isidentifier() or not name.isascii() or "\0" in value:
            raise AdderClawError(f"{path}, line {number}: it is not NAME=value")
        if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        found[name] = value
    return found


# ------------------------------------------------------------------ what it says of itself

Phase = Literal["starting", "running", "waiting", "stopping", "stopped", "failed"]


@record
class Said:
    """What the supervisor wrote down last."""

    phase: Phase
    reason: str = ""
    supervisor: list[str | int] | None = None
    server: list[str | int] | None = None
    """Its number, and when it was started: a later process with the same number is another one."""
    since: str = ""
    last_exit: str = ""
    restarts: int = 0


def said() -> Said | None:
    """None where it never said anything; what cannot be read is an error."""
    text = sealed.read(state_path())
    if text is None:
        return None
    try:
        return decode(Said, json.loads(text))
    except (ValueError, RecursionError, Invalid) as error:
        raise AdderClawError(f"{state_path()} cannot be read: remove it") from error


def process(given: list[str | int] | None) -> Process | None:
    match given:
        case [int(pid), str(started)] if pid > 1:
            return Process(pid, started)
        case _:
            return None


# ------------------------------------------------------------------ the lock


class Held(NamedTuple):
    """A supervisor that lives, as its lock file names it; `process` is None where that cannot be read."""

    process: Process | None


def opened_lock(*, create: bool) -> int | None:
    """The lock file, which has to be a file of our own; None without one."""
    path = lock_path()
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | (os.O_CREAT if create else 0)
    try:
        if create:
            os.makedirs(folder(), mode=0o700, exist_ok=True)
        fd = os.open(path, flags, 0o600)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise sealed.refused(path, error) from error
    about = os.fstat(fd)
    if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
        os.close(fd)
        raise AdderClawError(f"{path} is not a file of yours: move it away")
    return fd


def taken(fd: int) -> bool:
    """Whether the lock is ours now, and still the one at its path."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return is_at_its_path(fd)


def is_at_its_path(fd: int) -> bool:
    ours = os.fstat(fd)
    with contextlib.suppress(OSError):
        there = os.lstat(lock_path())
        return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)
    return False


def held() -> Held | None:
    """The supervisor that runs; None without one. Its number counts only while the lock is held."""
    fd = opened_lock(create=False)
    if fd is None:
        return None
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return Held(_named(os.pread(fd, MOST_BYTES, 0)))
        return None
    finally:
        os.close(fd)


def _named(data: bytes) -> Process | None:
    try:
        given: Any = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return process(cast(list[str | int], given)) if isinstance(given, list) else None


def sign(fd: int, who: Process) -> None:
    """Write into the lock file which process holds it."""
    data = json.dumps(list(who)).encode()
    os.ftruncate(fd, 0)
    os.pwrite(fd, data, 0)
