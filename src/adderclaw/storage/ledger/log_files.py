"""The files of the ledger (the log, its lock and its key), opened so that they cannot be swapped for others."""

import errno
import fcntl
import os
import stat
import threading
import time
from contextlib import suppress

from adderclaw.core.errors import LedgerError
from adderclaw.storage.locks import NO_LOCKS, no_locks_message

LOCK_SECONDS = 30.0
KEY_BYTES = 32
RESERVE = 256 * 1024
"""Disk space in bytes that is reserved after the log, so that the next receipts cannot fail for lack of space."""
_KEEP_SIZE = 1


def open_log(path: str, flags: int) -> int:
    """Opens a regular file without following links. Raises FileNotFoundError if there is none."""
    try:
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise LedgerError(f"{path} is a symbolic link, which is not allowed for a ledger; remove it") from error
        raise LedgerError(
            f"{path} cannot be opened: {error.strerror}. Make it readable and writable for this user"
        ) from error
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        os.close(fd)
        raise LedgerError(f"{path} is not a regular file; move it away")
    if status.st_mode & 0o077:
        with suppress(OSError):
            os.fchmod(fd, 0o600)
    return fd


def create(path: str, content: bytes = b"") -> int:
    """Creates a file with mode 0600 and syncs it and its folder to disk."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        if content:
            os.write(fd, content)
        os.fsync(fd)
        folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        os.fsync(folder)
        os.close(folder)
    except OSError as error:
        raise LedgerError(
            f"{path} cannot be created: {error.strerror}. Make its folder writable for this user"
        ) from error
    return fd


def read_key(path: str) -> bytes | None:
    """The key; None if the file is missing, or empty after a crash."""
    try:
        fd = open_log(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        key = os.read(fd, KEY_BYTES + 1)
    finally:
        os.close(fd)
    if key and len(key) != KEY_BYTES:
        raise LedgerError(f"{path} is not the key of a ledger, which has {KEY_BYTES} bytes; restore the key")
    return key or None


def read_or_create_key(path: str) -> bytes:
    """The key in the home, created if there is none. Nothing in the sandbox can read it."""
    return read_key(path) or create_key(path)


def create_key(path: str) -> bytes:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with suppress(FileNotFoundError):
        os.unlink(path)
    key = os.urandom(KEY_BYTES)
    os.close(create(path, key))
    return key


class Lock:
    """Allows one writer of a log at a time, across processes and threads. The lock of a dead process is released."""

    def __init__(self, log_path: str, *, shared: bool = False, alone: bool = False) -> None:
        """`alone`: no other process can use the store, so locks are not needed."""
        self._needed = not (shared or alone)
        self._path = f"{log_path}.lock"
        self._mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        self._flags = os.O_RDONLY if shared else os.O_RDWR | os.O_CREAT
        self._threads = threading.Lock()
        self._fd = open_log(self._path, self._flags)

    def __enter__(self) -> None:
        self._threads.acquire()
        try:
            self._wait()
        except BaseException:
            self._threads.release()
            raise

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            fcntl.flock(self._fd, fcntl.LOCK_UN)
        self._threads.release()

    def _wait(self) -> None:
        deadline = time.monotonic() + LOCK_SECONDS
        pause = 0.0002
        while True:
            try:
                fcntl.flock(self._fd, self._mode | fcntl.LOCK_NB)
                if os.fstat(self._fd).st_nlink:
                    return
                # The file was removed, so other processes will lock a new one.
                self.close()
                self._fd = open_log(self._path, self._flags)
                continue
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise LedgerError(
                        f"{self._path} has been locked by another process for {LOCK_SECONDS:.0f} s; end that process"
                    ) from error
            except OSError as error:
                if error.errno not in NO_LOCKS:
                    raise
                if self._needed:
                    raise LedgerError(no_locks_message(os.path.dirname(self._path))) from error
                return
            time.sleep(pause)
            pause = min(pause * 2, 0.01)

    def knows_database(self, database: str) -> bool:
        """Whether this database was used with the log before; adds it to the list. The caller holds the lock."""
        known = os.pread(self._fd, 1 << 16, 0)
        line = os.fsencode(database) + b"\n"
        if line in known.splitlines(keepends=True):
            return True
        with suppress(OSError):  # a full disk must not end the run here; the space for the log is checked separately
            os.pwrite(self._fd, line, len(known))
        return False

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def reserve(fd: int, offset: int, path: str) -> None:
    """Reserves disk space after the end of a file without growing it. Raises LedgerError if the disk is full."""
    try:
        _fallocate(fd, offset)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.ENOSYS):
            raise _no_space(path, error.strerror or str(error)) from error
    require_space(path, RESERVE)


def require_space(path: str, size: int) -> None:
    status = os.statvfs(os.path.dirname(path))
    if status.f_flag & os.ST_RDONLY:
        raise LedgerError(f"{path} is on a read-only file system; no tool runs until it is writable")
    if status.f_bavail * status.f_frsize < size:
        raise _no_space(path, "No space left on device")


def _no_space(path: str, why: str) -> LedgerError:
    return LedgerError(f"{path} cannot grow: {why}. No tool runs until there is space for its receipt")


def _fallocate(fd: int, offset: int) -> None:
    import ctypes

    try:
        call = ctypes.CDLL(None, use_errno=True).fallocate
    except AttributeError as error:  # not Linux
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from error
    call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    if call(fd, _KEEP_SIZE, offset, RESERVE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
