"""Session locks: lock files next to the database, released by the system however their process ends."""

import errno
import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress

from adderclaw.core.errors import SessionInUse

NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})
"""Errors of a file system without locks, such as some network mounts."""
PAUSE = 0.001
"""Seconds between attempts while another process only checks the lock."""


def locks_work(folder: str) -> bool:
    """Whether SQLite can lock files in this folder; True if that cannot be tried."""
    import fcntl
    import tempfile

    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in NO_LOCKS
    return True


def no_locks_message(folder: str) -> tuple[str, str]:
    """Why SQLite cannot use a folder without locks, and what to do."""
    return (
        f"the file system of {folder} has no working locks, and SQLite needs them",
        "set ADDERCLAW_HOME to a folder on a "
        'local disk, or use the file store, for one process at a time: `[session]` with `store = "file"`',
    )


def run_in_session(store_path: str, session_id: str) -> str:
    """The run that works in a session now; empty if none does. Uses locks, because process ids are reused."""
    import fcntl

    try:
        descriptor = os.open(_lock_path(store_path, session_id), os.O_RDWR | os.O_CLOEXEC)
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
def session_lock(store_path: str, session_id: str, run_id: str) -> Generator[None]:
    """Ensures that only one run at a time works in a session."""
    import fcntl

    path = _lock_path(store_path, session_id)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            is_only_checked = _is_only_read_locked(descriptor)
            os.close(descriptor)
            if is_only_checked:
                time.sleep(PAUSE)
                continue
            fix = "wait for it, or end it"
            raise SessionInUse(f"session {session_id} is in use by another process; {fix}") from error
        except OSError as error:
            if error.errno not in NO_LOCKS:  # without locks there is only a file store, which one process uses
                os.close(descriptor)
                raise
        try:
            if os.path.samestat(os.stat(path), os.fstat(descriptor)):
                break
        except FileNotFoundError:
            pass
        os.close(descriptor)  # its holder has just removed it: retry with the new file
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, run_id.encode(), 0)
        yield
    finally:
        with suppress(FileNotFoundError):  # already removed
            os.unlink(path)
        os.close(descriptor)


def _is_only_read_locked(descriptor: int) -> bool:
    """Whether no run works in the session: at most another process is checking it (`run_in_session`)."""
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def locks_folder(store_path: str) -> str:
    """The folder of the locks, next to the database, so that all processes that share it share the locks."""
    folder, name = os.path.split(os.path.abspath(store_path))
    return os.path.join(folder, f".{name}.locks")


def _lock_path(store_path: str, session_id: str) -> str:
    return os.path.join(locks_folder(store_path), f"{session_id}.lock")


def is_alive(pid: int) -> bool:
    """Whether a process with this id exists, which may not be the original one."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
