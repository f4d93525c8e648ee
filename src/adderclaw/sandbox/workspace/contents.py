"""Fingerprints of files in a workspace. Files are opened by descriptor without following links, and read only if they
changed."""

import os
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager
from hashlib import sha256
from typing import Literal

from adderclaw.core.record import NamedTuple

MAX_BYTES = 1 << 20
"""This much of a file is hashed; for a longer file, its size and times are added."""
MAX_FILES = 2_000
"""This many files of one tree get a fingerprint; a folder beyond that is represented by its size and times."""
JUST_NOW = 100_000_000
"""Nanoseconds. A file that changed this shortly before it was read is read again next time."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

type Kind = Literal["file", "folder", "link", "other"]
type Stamp = tuple[int, int, int, int, int, int]


class Tree(NamedTuple):
    kind: Kind
    inode: int
    items: dict[str, str]
    """Path of each file or link in it → its fingerprint."""


class Fingerprints:
    """Reads each file once per change."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Stamp, str, bytes]] = {}
        self._seen: dict[str, tuple[Stamp, str, bytes]] = {}
        self._now = 0

    def begin(self) -> None:
        self._seen, self._now = {}, time.time_ns()

    def end(self) -> None:
        """Forgets files that were not seen since `begin`."""
        self._known = self._seen

    def tree(self, parent: int, name: str, path: str) -> Tree | None:
        """The fingerprints of a file, a link, or a folder with its content; None if it does not exist."""
        try:
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        except OSError:
            return None
        items: dict[str, str] = {}
        if not stat.S_ISDIR(status.st_mode):
            kind: Kind = "file" if stat.S_ISREG(status.st_mode) else "link" if stat.S_ISLNK(status.st_mode) else "other"
            items[path] = self.mark(parent, name, path)
            return Tree(kind, status.st_ino, items)
        self._add_folder(parent, name, path, items)
        return Tree("folder", status.st_ino, items)

    def _add_folder(self, parent: int, name: str, path: str, items: dict[str, str]) -> None:
        """Walks level by level, so that one deep or large folder does not use up the limit for the others."""
        waiting: list[tuple[str, tuple[str, ...]]] = [(path, (name,))]
        while waiting:
            folder, parts = waiting.pop(0)
            try:
                with folder_at(parent, parts) as fd, os.scandir(fd) as entries:
                    for entry in entries:
                        inner = f"{folder}/{entry.name}"
                        if len(items) + len(waiting) >= MAX_FILES:
                            items[folder] = _size_and_times(os.fstat(fd))
                            break
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append((inner, (*parts, entry.name)))
                        elif not entry.name.endswith(".sample"):
                            items[inner] = self.mark(fd, entry.name, inner)
            except OSError as error:
                items[folder] = f"unread {error.errno}"

    def mark(self, parent: int, name: str, path: str) -> str:
        """The fingerprint of one file or link."""
        return self._read(parent, name, path)[0]

    def text(self, parent: int, name: str, path: str) -> bytes | None:
        """The beginning of a regular file; None for anything else."""
        mark, data = self._read(parent, name, path)
        return data if mark.startswith("file ") else None

    def _read(self, parent: int, name: str, path: str) -> tuple[str, bytes]:
        try:
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                return f"link {os.readlink(name, dir_fd=parent)}", b""
            if not stat.S_ISREG(status.st_mode):
                return f"other {stat.S_IFMT(status.st_mode):o}", b""
            known = self._known.get(path)
            stamp = _stamp(status)
            if known is None or known[0] != stamp:
                known = self._read_file(parent, name)
            if self._now - max(known[0][3:5]) > JUST_NOW:
                self._seen[path] = known
            return known[1], known[2]
        except OSError as error:
            return f"unread {error.errno}", b""

    def _read_file(self, parent: int, name: str) -> tuple[Stamp, str, bytes]:
        fd = os.open(name, FILE, dir_fd=parent)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(40, "replaced meanwhile")
            parts: list[bytes] = []
            left = MAX_BYTES
            while left > 0 and (part := os.read(fd, left)):
                parts.append(part)
                left -= len(part)
        finally:
            os.close(fd)
        data = b"".join(parts)
        runs = "x" if status.st_mode & 0o111 else "-"
        rest = "" if status.st_size <= MAX_BYTES else f" {_size_and_times(status)}"
        return (
            _stamp(status),
            f"file {runs} {sha256(data).hexdigest()}{rest}",
            data if len(data) <= 65_536 else data[:65_536],
        )


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode


def _size_and_times(status: os.stat_result) -> str:
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


@contextmanager
def folder_at(top: int, parts: tuple[str, ...]) -> Generator[int]:
    """Opens a folder beneath another, name by name; a link on the way is an error."""
    fd = os.dup(top)
    try:
        for part in parts:
            inner = os.open(part, FOLDER, dir_fd=fd)
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)
