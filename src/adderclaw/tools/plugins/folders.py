"""Copies plugins into AdderClaw's own folder, completely or not at all, by descriptor, without running them."""

import os
import secrets
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from adderclaw.config.paths import followed
from adderclaw.config.plugins import installed
from adderclaw.config.plugins.tree import MOST_BYTES, NOT_COPIED, survey, unfit, walked
from adderclaw.config.safe_open import ANCHOR, READ, open_real, opener
from adderclaw.core.errors import AdderClawError, ConfigError, SessionInUse
from adderclaw.core.types import Json

NEW_PREFIX, BACKUP_PREFIX = ".new-", ".before-"
"""Name prefixes of the folders that an installation creates: the new copy, and the backup of the old version."""
NOTHING_BEFORE = "nothing"
"""A file in the backup folder that says that there was no old version."""
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
BUSY = "another `adderclaw plugin` command is running; wait until it has finished"


class Source(Protocol):
    """Where a plugin comes from: a folder, or a repository."""

    def read(self, path: str) -> bytes | None:
        """Reads one small file; None if it does not exist."""
        ...

    def copy(self, inside: str, to: int) -> None:
        """Copies the content of one of its folders into an open, empty folder; raises ConfigError."""
        ...

    @property
    def origin(self) -> Json:
        """What the registry stores about it."""
        ...


# ------------------------------------------------------------------ lock and recovery


@contextmanager
def plugins_locked(home: str) -> Generator[None]:
    """Keeps other processes from changing plugins, and first repairs what a killed process left behind.

    Raises SessionInUse.
    """
    folder = installed.folder(home)
    lock = _lock(folder)
    try:
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            if name.startswith(NEW_PREFIX):
                remove_folder(path)
            elif name.startswith(BACKUP_PREFIX):
                _settle(home, name[len(BACKUP_PREFIX) :].rpartition("-")[0], path)
        yield
    finally:
        with suppress(OSError):  # removes the folder if it is empty
            os.rmdir(folder)
        os.close(lock)


def _lock(folder: str) -> int:
    """Locks the folder itself; if another process removes the folder meanwhile, creates it again."""
    import fcntl

    while True:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(lock)
                raise SessionInUse(BUSY) from None
            if os.fstat(lock).st_nlink:
                return lock
            os.close(lock)


def clean_up(home: str) -> None:
    """Repairs what a killed process left behind, unless another process holds the lock."""
    with suppress(OSError):
        if any(name.startswith((NEW_PREFIX, BACKUP_PREFIX)) for name in os.listdir(installed.folder(home))):
            with suppress(SessionInUse), plugins_locked(home):
                pass


def _settle(home: str, name: str, before: str) -> None:
    """Finishes an interrupted installation if the registry recorded it; otherwise restores the old version."""
    target, previous = installed.folder(home, name), os.path.join(before, name)
    if not _is_recorded(home, name, target):
        if os.path.lexists(previous):
            remove_folder(target)
            os.rename(previous, target)
        elif os.path.lexists(os.path.join(before, NOTHING_BEFORE)):
            remove_folder(target)
    remove_folder(before)


def _is_recorded(home: str, name: str, path: str) -> bool:
    trusted = installed.registry(home).get(name, {}).get("sha256")
    try:
        return bool(trusted) and survey(path).sha256 == trusted
    except ConfigError:
        return False


# ------------------------------------------------------------------ copying


@contextmanager
def temporary_copy(home: str, source: Source, inside: str) -> Generator[str]:
    """Copies a folder of a source to a temporary folder, which is removed afterwards unless it was installed."""
    path = os.path.join(installed.folder(home), f"{NEW_PREFIX}{secrets.token_hex(6)}")
    os.mkdir(path, 0o700)
    try:
        fd = open_real(followed(path), ANCHOR)
        try:
            source.copy(inside, fd)
        finally:
            os.close(fd)
        yield path
    finally:
        remove_folder(path)


def add_file(copy: str, path: str, data: bytes) -> None:
    """Adds a file to a copy without following the plugin's links."""
    fd = open_real(followed(copy), ANCHOR)
    try:
        write_file(fd, path, iter((data,)), runs=False, left=MOST_BYTES)
    except OSError as error:
        raise unfit(path, f"cannot be written: {error.strerror}") from None
    finally:
        os.close(fd)


def replace_plugin(home: str, name: str, copy: str, record: Callable[[], None]) -> None:
    """Installs a copy; `record` writes it to the registry. If the process is killed, all is done or nothing is."""
    target, mark = installed.folder(home, name), secrets.token_hex(6)
    before = os.path.join(installed.folder(home), f"{BACKUP_PREFIX}{name}-{mark}")
    making = os.path.join(installed.folder(home), f"{NEW_PREFIX}{mark}")
    was_there = os.path.lexists(target)
    os.mkdir(making, 0o700)
    if not was_there:
        os.close(os.open(os.path.join(making, NOTHING_BEFORE), NEW_FILE, 0o600))
    os.rename(making, before)
    try:
        if was_there:
            os.rename(target, os.path.join(before, name))
        os.rename(copy, target)
        record()
    finally:
        _settle(home, name, before)


def remove_folder(path: str) -> None:
    """Removes one of our folders with its content, without following links; does nothing if it does not exist."""
    try:
        status = os.lstat(path)
    except OSError:
        return
    if not stat.S_ISDIR(status.st_mode):
        os.unlink(path)
        return
    import shutil

    def again(call: Callable[[str], object], what: str, _error: BaseException) -> None:
        """A folder without the right to write in it is still ours to remove."""
        with suppress(OSError):
            os.chmod(os.path.dirname(what), 0o700)
            os.chmod(what, 0o700, follow_symlinks=os.chmod not in os.supports_follow_symlinks)
        call(what)

    try:
        shutil.rmtree(path, onexc=again)
    except OSError as error:
        raise AdderClawError(f"{path} cannot be removed: {error.strerror}") from None


# ------------------------------------------------------------------ from a folder


class Folder:
    """A local folder."""

    def __init__(self, path: str) -> None:
        self.path = followed(os.path.abspath(os.path.expanduser(path)))
        self.origin: Json = {"kind": "path", "path": self.path}

    def read(self, path: str) -> bytes | None:
        from adderclaw.config.places import read

        return read(os.path.join(self.path, path), self.path)

    def copy(self, inside: str, to: int) -> None:
        path = os.path.normpath(os.path.join(self.path, inside))
        try:
            root = open_real(path, ANCHOR)
        except OSError as error:
            raise unfit(path, f"cannot be read: {error.strerror}") from None
        try:
            left = MOST_BYTES
            for entry in walked(root, path, NOT_COPIED):
                if entry.target:
                    write_link(to, entry.path, entry.target)
                    continue
                with open(opener()(root, entry.path, READ), "rb", buffering=0) as file:
                    runs = bool(os.fstat(file.fileno()).st_mode & 0o111)
                    left = write_file(to, entry.path, iter(lambda: file.read(1 << 20), b""), runs=runs, left=left)
        except OSError as error:
            raise unfit(path, f"cannot be copied: {error.strerror}") from None
        finally:
            os.close(root)


def write_file(to: int, path: str, parts: Iterator[bytes], *, runs: bool, left: int) -> int:
    """Writes a new file of a copy and returns how many more bytes may be copied."""
    fd = _parent(to, path)
    try:
        file_descriptor = os.open(os.path.basename(path), NEW_FILE, 0o700 if runs else 0o600, dir_fd=fd)
    except FileExistsError:
        raise unfit(path, "is there twice, perhaps in another case") from None
    finally:
        os.close(fd)
    with open(file_descriptor, "wb") as file:
        for part in parts:
            left -= len(part)
            if left < 0:
                raise unfit(path, f"brings the copied files to more than {MOST_BYTES >> 20} MiB")
            file.write(part)
    return left


def write_link(to: int, path: str, target: str) -> None:
    fd = _parent(to, path)
    try:
        os.symlink(target, os.path.basename(path), dir_fd=fd)
    except FileExistsError:
        raise unfit(path, "is there twice, perhaps in another case") from None
    finally:
        os.close(fd)


def _parent(to: int, path: str) -> int:
    """Opens the folder of a new file without following links, and creates it if it is missing."""
    here = os.dup(to)
    try:
        for name in path.split("/")[:-1]:
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=here)
            below = os.open(name, ANCHOR | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = below
    except BaseException:
        os.close(here)
        raise
    return here
