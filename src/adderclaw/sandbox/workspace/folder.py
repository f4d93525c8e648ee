"""An open folder: all that is done to its names goes by its descriptor, wherever the folder is moved meanwhile."""

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress

from adderclaw.config.safe_open import READ
from adderclaw.sandbox.workspace.place import WorkspacePath
from adderclaw.sandbox.workspace.reading import FOLDER, closing_fd, open_path
from adderclaw.sandbox.workspace.writing import NEW, open_or_make_folder

_STEP = 1 << 20


class Folder:
    """What `folder` yields. A name is one in this folder; no link is followed."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def entries(self) -> list[tuple[str, os.stat_result | None]]:
        """Every name with what it is; None for what has gone meanwhile. Raises OSError."""
        with os.scandir(self.fd) as entries:
            return [(entry.name, _status(entry)) for entry in entries]

    def status(self, name: str) -> os.stat_result:
        return os.stat(name, dir_fd=self.fd, follow_symlinks=False)

    def readlink(self, name: str) -> str:
        return os.readlink(name, dir_fd=self.fd)

    def read(self, name: str, most: int) -> bytes | None:
        """A regular file's content; None where it is none, cannot be read or is larger than that."""
        try:
            fd = os.open(name, READ | os.O_NOFOLLOW, dir_fd=self.fd)
        except OSError:
            return None
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_size > most:
                return None
            return _read_content(fd, status.st_size, most)
        except OSError:
            return None
        finally:
            os.close(fd)

    # -------------------------------------------------------------- changing

    def remove(self, name: str) -> None:
        """A file, a link or an empty folder; nothing where nothing is there."""
        with suppress(FileNotFoundError):
            if stat.S_ISDIR(self.status(name).st_mode):
                os.rmdir(name, dir_fd=self.fd)
            else:
                os.unlink(name, dir_fd=self.fd)

    def make_folder(self, name: str, new: int, mode: int) -> None:
        """A folder of that mode; one that is made has the mode `new` until it is given its own."""
        with suppress(FileExistsError):
            os.mkdir(name, new, dir_fd=self.fd)
        with closing_fd(os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=self.fd)) as inner:
            os.fchmod(inner, mode & 0o3777)

    def put_file(self, name: str, data: bytes, mode: int, beside: str) -> None:
        """Written under another name and renamed, so that the file is at every moment the one or the other."""
        self._drop(beside)
        try:
            with closing_fd(os.open(beside, NEW, 0o600, dir_fd=self.fd)) as fd:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(fd, rest) :]
                os.fchmod(fd, mode & 0o1777)
            os.rename(beside, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except BaseException:
            self._drop(beside)
            raise

    def put_link(self, name: str, target: str, beside: str) -> None:
        self._drop(beside)
        os.symlink(target, beside, dir_fd=self.fd)
        try:
            os.rename(beside, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except BaseException:
            self._drop(beside)
            raise

    def _drop(self, name: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.fd)


@contextmanager
def folder(path: WorkspacePath, *, make: int | None = None) -> Generator[Folder]:
    """The folder at a place, made with that mode where it is missing. Raises Refused for a link, or OSError."""
    fd = open_path(path, FOLDER) if make is None else open_or_make_folder(path, make)
    try:
        yield Folder(fd)
    finally:
        os.close(fd)


def _status(entry: "os.DirEntry[str]") -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False)
    except OSError:
        return None


def _read_content(fd: int, size: int, most: int) -> bytes | None:
    data = os.read(fd, size + 1)
    if len(data) == size:
        return data
    parts, total = [data], len(data)
    while part := os.read(fd, _STEP):
        parts.append(part)
        total += len(part)
        if total > most:
            return None
    return b"".join(parts)
