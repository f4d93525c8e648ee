"""Looking at places: opening, reading, listing and walking, always from the root's descriptor and through no link."""

import errno
import os
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager

from adderclaw.config.safe_open import ANCHOR, READ, opener
from adderclaw.core.errors import PathRefused
from adderclaw.core.record import NamedTuple
from adderclaw.sandbox.workspace.place import WorkspacePath, printable

MAX_BYTES = 16 * 1024 * 1024
"""The largest file that is held in memory whole: to be hashed, edited or replaced."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_PART = 1 << 20


class OldFile(NamedTuple):
    """What a write would replace."""

    data: bytes
    stat: os.stat_result


class Entry(NamedTuple):
    """One name in a folder, with what it is; a link is a link."""

    path: WorkspacePath
    status: os.stat_result

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.status.st_mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.status.st_mode)


# ------------------------------------------------------------------ descriptors


def open_path(path: WorkspacePath, flags: int) -> int:
    """A descriptor, reached from the root through no link. Raises Refused for a link, or OSError as open does."""
    anchor = os.open(path.root, ANCHOR)
    try:
        return opener()(anchor, path.relative, flags)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EXDEV):
            raise PathRefused(f"{printable(path.text)} is reached through a link that leads elsewhere") from None
        error.filename = path.text
        raise
    finally:
        os.close(anchor)


@contextmanager
def closing_fd(fd: int) -> Generator[int]:
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def parent_of(path: WorkspacePath) -> Generator[int]:
    """The folder that a place lies in."""
    if path.is_root:
        raise PathRefused(f"{printable(path.root)} is the root of the workspace itself")
    with closing_fd(open_path(path.parent, FOLDER)) as fd:
        yield fd


def open_folder(path: WorkspacePath) -> int:
    """A folder for listing, and for calls that take `dir_fd`. The caller closes it."""
    return open_path(path, FOLDER)


def open_file(path: WorkspacePath) -> int:
    """A regular file for reading. A folder raises IsADirectoryError; links, pipes, sockets and devices are refused."""
    fd = open_path(path, READ)
    try:
        require_regular(os.fstat(fd), path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def require_regular(status: os.stat_result, path: WorkspacePath) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path.text)
    if not stat.S_ISREG(status.st_mode):
        raise PathRefused(f"{printable(path.text)} is not a regular file but {_kind(status.st_mode)}")


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISLNK, "a symbolic link"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    return next((name for test, name in kinds if test(mode)), "a device")


# ------------------------------------------------------------------ contents


def read_all(fd: int, name: str, most: int = MAX_BYTES) -> bytes:
    """What an open file holds; raises EFBIG with that name where it is more than `most`."""
    parts: list[bytes] = []
    total = 0
    while part := os.read(fd, _PART):
        parts.append(part)
        total += len(part)
        if total > most:
            raise OSError(errno.EFBIG, f"larger than {most >> 20} MiB" if most >> 20 else "too large", name)
    return b"".join(parts)


def read(path: WorkspacePath, most: int = MAX_BYTES) -> bytes:
    """A regular file's content; raises EFBIG where it is larger than `most`."""
    with closing_fd(open_file(path)) as fd:
        return read_all(fd, path.text, most)


def read_head(path: WorkspacePath, most: int) -> tuple[bytes, int]:
    """The first bytes of a regular file, at most so many, and its size."""
    with closing_fd(open_file(path)) as fd:
        size = os.fstat(fd).st_size
        parts: list[bytes] = []
        while most > 0 and (part := os.read(fd, min(most, _PART))):
            parts.append(part)
            most -= len(part)
        return b"".join(parts), size


def read_replaceable(path: WorkspacePath, most: int = MAX_BYTES) -> OldFile | None:
    """What a write would replace, or None. Refuses links, hard links and what is no regular file."""
    try:
        with parent_of(path) as parent:
            require_replaceable(os.stat(path.name, dir_fd=parent, follow_symlinks=False), path)
            with closing_fd(os.open(path.name, READ | os.O_NOFOLLOW, dir_fd=parent)) as fd:
                status = os.fstat(fd)
                require_replaceable(status, path)
                return OldFile(read_all(fd, path.text, most), status)
    except FileNotFoundError:
        return None


def require_replaceable(status: os.stat_result, path: WorkspacePath) -> None:
    """Raises Refused for what must not be written over."""
    if stat.S_ISLNK(status.st_mode):
        raise PathRefused(f"{printable(path.text)} is a symbolic link: name the file itself")
    require_regular(status, path)
    if status.st_nlink > 1:
        raise PathRefused(
            f"{printable(path.text)} has {status.st_nlink} names (hard links), so other files would change too"
        )


# ------------------------------------------------------------------ what is there


def status(path: WorkspacePath) -> os.stat_result:
    """What is there, a link as a link. Raises OSError as lstat does, Refused where a link leads there."""
    if path.is_root:
        with closing_fd(open_path(path, ANCHOR)) as fd:
            return os.fstat(fd)
    with parent_of(path) as parent:
        return os.stat(path.name, dir_fd=parent, follow_symlinks=False)


def _has(path: WorkspacePath, test: Callable[[int], bool]) -> bool:
    try:
        return test(status(path).st_mode)
    except (OSError, PathRefused):
        return False


def exists(path: WorkspacePath) -> bool:
    """Whether something is there, were it a link that leads nowhere."""
    return _has(path, lambda _mode: True)


def is_file(path: WorkspacePath) -> bool:
    return _has(path, stat.S_ISREG)


def is_folder(path: WorkspacePath) -> bool:
    return _has(path, stat.S_ISDIR)


def readlink(path: WorkspacePath) -> str:
    """Where a link says that it leads. Raises OSError where there is none."""
    with parent_of(path) as parent:
        return os.readlink(path.name, dir_fd=parent)


# ------------------------------------------------------------------ folders


def entries(folder: WorkspacePath) -> list[Entry]:
    """What a folder holds, by name; what vanishes meanwhile is left out."""
    with closing_fd(open_folder(folder)) as fd:
        return sorted(_list_folder(fd, folder), key=lambda entry: entry.path.relative)


def scan(fd: int) -> AbstractContextManager[Iterator["os.DirEntry[str]"]]:
    """What an open folder holds; its caller looks at no entry with its links followed."""
    return os.scandir(fd)


def _list_folder(fd: int, folder: WorkspacePath) -> Iterator[Entry]:
    with os.scandir(fd) as entries:
        for entry in entries:
            try:
                yield Entry(folder.child(entry.name), entry.stat(follow_symlinks=False))
            except OSError:
                continue


def walk(top: WorkspacePath, *, into: Callable[[Entry], bool] = lambda _folder: True) -> Iterator[Entry]:
    """All that lies beneath, folder after folder; `into` says which folders are entered. No link is followed.

    A folder that cannot be opened, or is exchanged for a link meanwhile, has nothing in it.
    """
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        try:
            fd = open_folder(folder)
        except (OSError, PathRefused):
            continue
        with closing_fd(fd):
            for entry in _list_folder(fd, folder):
                if entry.is_folder and into(entry):
                    waiting.append(entry.path)
                yield entry
