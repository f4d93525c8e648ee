"""Who works in a session: a lock beside the database, which goes with its process however that ends."""

import errno
import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress

from adderclaw.core.errors import SessionInUse

NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})
"""Errors of a file system without locks, such as some network mounts."""
PAUSE = 0.001
"""Seconds after which a lock that somebody only looks at is tried again."""


def work_in(folder: str) -> bool:
    """Whether SQLite can lock files in this folder; True if that cannot be tried."""
    import fcntl
    import tempfile

    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in NO_LOCKS
    return True


def without(folder: str) -> tuple[str, str]:
    """Why SQLite cannot use a folder without locks, and what to do."""
    return (
        f"the file system of {folder} has no working locks, and SQLite needs them",
        "set ADDERCLAW_HOME to a folder on a "
        'local disk, or use the file store, for one process at a time: `[session]` with `store = "file"`',
    )


def holder(store_path: str, session_id: str) -> str:
    """The run that works in a session now; empty: none. A process id would not say so, for it is used again."""
    import fcntl

    try:
        descriptor = os.open(_place(store_path, session_id), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(descriptor, 200, 0).decode("utf-8", "replace")
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
    finally:
        os.close(descriptor)
    return ""


@contextmanager
def held(store_path: str, session_id: str, run_id: str) -> Generator[None]:
    """One run at a time works in a session."""
    import fcntl

    path = _place(store_path, session_id)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            only_looked_at = _shared(descriptor)
            os.close(descriptor)
            if only_looked_at:
                time.sleep(PAUSE)
                continue
            fix = "wait for it, or end it"
            raise SessionInUse(f"session {session_id} is in use by another process; {fix}") from error
        except OSError as error:
            if error.errno not in NO_LOCKS:  # without locks the store is one of files, which one process uses
                os.close(descriptor)
                raise
        try:
            if os.path.samestat(os.stat(path), os.fstat(descriptor)):
                break
        except FileNotFoundError:
            pass
        os.close(descriptor)  # whoever held it has just removed it: what we locked is no longer the lock
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, run_id.encode(), 0)
        yield
    finally:
        with suppress(FileNotFoundError):  # somebody cleared it away: the run has ended all the same
            os.unlink(path)
        os.close(descriptor)


def _shared(descriptor: int) -> bool:
    """Whether nobody works in the session: at most somebody looks whether one does (`holder`)."""
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def folder(store_path: str) -> str:
    """Beside the database, so that whoever shares it shares its locks."""
    beside, name = os.path.split(os.path.abspath(store_path))
    return os.path.join(beside, f".{name}.locks")


def _place(store_path: str, session_id: str) -> str:
    return os.path.join(folder(store_path), f"{session_id}.lock")


def is_alive(pid: int) -> bool:
    """Whether a process has this number now, which may be another one than had it before."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
