"""Looking at places: opening, reading, listing and walking, always from the root's descriptor and through no link."""

import errno
import os
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager

from adderclaw.config.safe_open import ANCHOR, READ, opener
from adderclaw.core.errors import PathRefused
from adderclaw.core.record import NamedTuple
from adderclaw.sandbox.workspace.place import Place, shown

MAX_BYTES = 16 * 1024 * 1024
"""The largest file that is held in memory whole: to be hashed, edited or replaced."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_PART = 1 << 20


class Old(NamedTuple):
    """What a write would replace."""

    data: bytes
    stat: os.stat_result


class Entry(NamedTuple):
    """One name in a folder, with what it is; a link is a link."""

    place: Place
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


def opened(place: Place, flags: int) -> int:
    """A descriptor, reached from the root through no link. Raises Refused for a link, or OSError as open does."""
    anchor = os.open(place.root, ANCHOR)
    try:
        return opener()(anchor, place.way, flags)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EXDEV):
            raise PathRefused(f"{shown(place.text)} is reached through a link that leads elsewhere") from None
        error.filename = place.text
        raise
    finally:
        os.close(anchor)


@contextmanager
def held(fd: int) -> Generator[int]:
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def parent_of(place: Place) -> Generator[int]:
    """The folder that a place lies in."""
    if place.is_root:
        raise PathRefused(f"{shown(place.root)} is the root of the workspace itself")
    with held(opened(place.parent, FOLDER)) as fd:
        yield fd


def open_folder(place: Place) -> int:
    """A folder for listing, and for calls that take `dir_fd`. The caller closes it."""
    return opened(place, FOLDER)


def open_file(place: Place) -> int:
    """A regular file for reading. A folder raises IsADirectoryError; links, pipes, sockets and devices are refused."""
    fd = opened(place, READ)
    try:
        regular(os.fstat(fd), place)
    except BaseException:
        os.close(fd)
        raise
    return fd


def regular(found: os.stat_result, place: Place) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), place.text)
    if not stat.S_ISREG(found.st_mode):
        raise PathRefused(f"{shown(place.text)} is not a regular file but {_kind(found.st_mode)}")


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


def read(place: Place, most: int = MAX_BYTES) -> bytes:
    """A regular file's content; raises EFBIG where it is larger than `most`."""
    with held(open_file(place)) as fd:
        return read_all(fd, place.text, most)


def start(place: Place, most: int) -> tuple[bytes, int]:
    """The first bytes of a regular file, at most so many, and its size."""
    with held(open_file(place)) as fd:
        size = os.fstat(fd).st_size
        parts: list[bytes] = []
        while most > 0 and (part := os.read(fd, min(most, _PART))):
            parts.append(part)
            most -= len(part)
        return b"".join(parts), size


def current(place: Place, most: int = MAX_BYTES) -> Old | None:
    """What a write would replace, or None. Refuses links, hard links and what is no regular file."""
    try:
        with parent_of(place) as parent:
            replaceable(os.stat(place.name, dir_fd=parent, follow_symlinks=False), place)
            with held(os.open(place.name, READ | os.O_NOFOLLOW, dir_fd=parent)) as fd:
                found = os.fstat(fd)
                replaceable(found, place)
                return Old(read_all(fd, place.text, most), found)
    except FileNotFoundError:
        return None


def replaceable(found: os.stat_result, place: Place) -> None:
    """Raises Refused for what must not be written over."""
    if stat.S_ISLNK(found.st_mode):
        raise PathRefused(f"{shown(place.text)} is a symbolic link: name the file itself")
    regular(found, place)
    if found.st_nlink > 1:
        raise PathRefused(
            f"{shown(place.text)} has {found.st_nlink} names (hard links), so other files would change too"
        )


# ------------------------------------------------------------------ what is there


def status(place: Place) -> os.stat_result:
    """What is there, a link as a link. Raises OSError as lstat does, Refused where a link leads there."""
    if place.is_root:
        with held(opened(place, ANCHOR)) as fd:
            return os.fstat(fd)
    with parent_of(place) as parent:
        return os.stat(place.name, dir_fd=parent, follow_symlinks=False)


def _has(place: Place, test: Callable[[int], bool]) -> bool:
    try:
        return test(status(place).st_mode)
    except (OSError, PathRefused):
        return False


def exists(place: Place) -> bool:
    """Whether something is there, were it a link that leads nowhere."""
    return _has(place, lambda _mode: True)


def is_file(place: Place) -> bool:
    return _has(place, stat.S_ISREG)


def is_folder(place: Place) -> bool:
    return _has(place, stat.S_ISDIR)


def readlink(place: Place) -> str:
    """Where a link says that it leads. Raises OSError where there is none."""
    with parent_of(place) as parent:
        return os.readlink(place.name, dir_fd=parent)


# ------------------------------------------------------------------ folders


def entries(place: Place) -> list[Entry]:
    """What a folder holds, by name; what vanishes meanwhile is left out."""
    with held(open_folder(place)) as fd:
        return sorted(_listed(fd, place), key=lambda entry: entry.place.way)


def scan(fd: int) -> AbstractContextManager[Iterator["os.DirEntry[str]"]]:
    """What an open folder holds; its caller looks at no entry with its links followed."""
    return os.scandir(fd)


def _listed(fd: int, place: Place) -> Iterator[Entry]:
    with os.scandir(fd) as found:
        for entry in found:
            try:
                yield Entry(place.child(entry.name), entry.stat(follow_symlinks=False))
            except OSError:
                continue


def walk(place: Place, *, into: Callable[[Entry], bool] = lambda _folder: True) -> Iterator[Entry]:
    """All that lies beneath, folder after folder; `into` says which folders are entered. No link is followed.

    A folder that cannot be opened, or is exchanged for a link meanwhile, has nothing in it.
    """
    waiting = [place]
    while waiting:
        folder = waiting.pop()
        try:
            fd = open_folder(folder)
        except (OSError, PathRefused):
            continue
        with held(fd):
            for entry in _listed(fd, folder):
                if entry.is_folder and into(entry):
                    waiting.append(entry.place)
                yield entry
