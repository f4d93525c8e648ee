"""Opens, reads, lists and walks workspace paths, always from the root's descriptor and without following links."""

import errno
import os
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager

from adderclaw.config.paths import followed
from adderclaw.config.safe_open import ANCHOR, READ, opener
from adderclaw.core.errors import PathRefused
from adderclaw.core.record import NamedTuple
from adderclaw.sandbox.workspace.path import WorkspacePath, printable, resolved_path

MAX_BYTES = 16 * 1024 * 1024
"""The largest file that is loaded into memory, to be hashed, edited or replaced."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_PART = 1 << 20


class OldFile(NamedTuple):
    """The file that a write would replace."""

    data: bytes
    stat: os.stat_result


class Entry(NamedTuple):
    """One entry of a folder with its status; links are not followed."""

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
    """Opens a path from the root without following links. Raises PathRefused for a link, or OSError as open does."""
    anchor = os.open(path.root, ANCHOR)
    try:
        return opener()(anchor, path.relative, flags)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EXDEV):
            raise PathRefused(f"{printable(path.text)} leads through a symbolic link, which is not followed") from None
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
    """Opens the folder that contains a path."""
    if path.is_root:
        raise PathRefused(f"{printable(path.root)} is the root of the workspace itself")
    with closing_fd(open_path(path.parent, FOLDER)) as fd:
        yield fd


def open_folder(path: WorkspacePath) -> int:
    """Opens a folder for listing and for calls that take `dir_fd`. The caller closes it."""
    return open_path(path, FOLDER)


def open_file(path: WorkspacePath) -> int:
    """Opens a regular file for reading. Raises IsADirectoryError for a folder, PathRefused for links, pipes, sockets
    and devices. The caller closes it."""
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
        kinds = ((stat.S_ISLNK, "a symbolic link"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
        kind = next((name for test, name in kinds if test(status.st_mode)), "a device")
        raise PathRefused(f"{printable(path.text)} is not a regular file but {kind}")


# ------------------------------------------------------------------ contents


def read_all(fd: int, name: str, most: int = MAX_BYTES) -> bytes:
    """The content of an open file; raises EFBIG with that name if it is larger than `most`."""
    parts: list[bytes] = []
    total = 0
    while part := os.read(fd, _PART):
        parts.append(part)
        total += len(part)
        if total > most:
            raise OSError(errno.EFBIG, f"larger than {most >> 20} MiB" if most >> 20 else "too large", name)
    return b"".join(parts)


def read(path: WorkspacePath, most: int = MAX_BYTES) -> bytes:
    """The content of a regular file; raises EFBIG if it is larger than `most`."""
    with closing_fd(open_file(path)) as fd:
        return read_all(fd, path.text, most)


def read_head(path: WorkspacePath, most: int) -> tuple[bytes, int]:
    """The first `most` bytes of a regular file, and its size."""
    with closing_fd(open_file(path)) as fd:
        size = os.fstat(fd).st_size
        parts: list[bytes] = []
        while most > 0 and (part := os.read(fd, min(most, _PART))):
            parts.append(part)
            most -= len(part)
        return b"".join(parts), size


def read_replaceable(path: WorkspacePath, most: int = MAX_BYTES) -> OldFile | None:
    """The file that a write would replace, or None. Refuses links, hard links and anything but regular files."""
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
    """Raises PathRefused for anything that must not be overwritten."""
    if stat.S_ISLNK(status.st_mode):
        raise PathRefused(f"{printable(path.text)} is a symbolic link; use the path of the file itself")
    require_regular(status, path)
    if status.st_nlink > 1:
        raise PathRefused(
            f"{printable(path.text)} has {status.st_nlink} names (hard links), so other files would change too"
        )


# ------------------------------------------------------------------ status


def status(path: WorkspacePath) -> os.stat_result:
    """The status of a path; a link at its end is not followed. Raises OSError as lstat does, or PathRefused."""
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
    """Whether the path exists, even as a dangling link."""
    return _has(path, lambda _mode: True)


def is_file(path: WorkspacePath) -> bool:
    return _has(path, stat.S_ISREG)


def is_folder(path: WorkspacePath) -> bool:
    return _has(path, stat.S_ISDIR)


def readlink(path: WorkspacePath) -> str:
    """The target of a link as written. Raises OSError if the path is not a link."""
    with parent_of(path) as parent:
        return os.readlink(path.name, dir_fd=parent)


# ------------------------------------------------------------------ folders


def entries(folder: WorkspacePath) -> list[Entry]:
    """The entries of a folder, ordered by name; entries that disappear meanwhile are left out."""
    with closing_fd(open_folder(folder)) as fd:
        return sorted(_list_folder(fd, folder), key=lambda entry: entry.path.relative)


def scan(fd: int) -> AbstractContextManager[Iterator["os.DirEntry[str]"]]:
    """The entries of an open folder. The caller must not follow the links among them."""
    return os.scandir(fd)


def _list_folder(fd: int, folder: WorkspacePath) -> Iterator[Entry]:
    with os.scandir(fd) as entries:
        for entry in entries:
            try:
                yield Entry(folder.child(entry.name), entry.stat(follow_symlinks=False))
            except OSError:
                continue


def walk(top: WorkspacePath, *, into: Callable[[Entry], bool] = lambda _folder: True) -> Iterator[Entry]:
    """Everything beneath a folder, folder by folder; `into` decides which folders to enter. No link is followed.

    A folder that cannot be opened, or that was replaced by a link meanwhile, counts as empty.
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


# ------------------------------------------------------------------ paths as somebody wrote them


def stat_target(path: str) -> os.stat_result | None:
    """The status of what an absolute path leads to; None if it does not exist or is replaced by a link meanwhile."""
    try:
        if "/.." not in path:
            return os.stat(path)  # nearly always enough: nothing is opened
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        pass  # a folder that cannot be searched, or a name that is too long
    try:
        return status(resolved_path(followed(path)))
    except (OSError, PathRefused):
        return None


def is_directory(path: str) -> bool:
    target = stat_target(path)
    return target is not None and stat.S_ISDIR(target.st_mode)


def is_regular(path: str) -> bool:
    target = stat_target(path)
    return target is not None and stat.S_ISREG(target.st_mode)


def is_named(path: str) -> bool:
    """Whether a path as written exists, even as a dangling link."""
    normal = os.path.normpath(path)
    try:
        os.lstat(normal)
        return True
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        pass
    folder, name = os.path.split(normal)
    try:
        return exists(resolved_path(os.path.join(followed(folder), name)))
    except PathRefused:
        return False
