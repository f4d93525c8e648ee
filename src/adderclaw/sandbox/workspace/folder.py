"""An open folder. All operations on its entries use its descriptor, so moving the folder meanwhile has no effect."""

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress

from adderclaw.config.safe_open import READ
from adderclaw.sandbox.workspace.path import WorkspacePath
from adderclaw.sandbox.workspace.reading import FOLDER, closing_fd, open_path, read_all
from adderclaw.sandbox.workspace.writing import NEW, open_or_make_folder


class Folder:
    """An open folder, as yielded by `folder`. Names are names in this folder; links are not followed."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def entries(self) -> list[tuple[str, os.stat_result | None]]:
        """Every name with its status; None for an entry that has disappeared. Raises OSError."""
        with os.scandir(self.fd) as entries:
            return [(entry.name, _status(entry)) for entry in entries]

    def status(self, name: str) -> os.stat_result:
        return os.stat(name, dir_fd=self.fd, follow_symlinks=False)

    def readlink(self, name: str) -> str:
        return os.readlink(name, dir_fd=self.fd)

    def read(self, name: str, most: int) -> bytes | None:
        """The content of a regular file; None if it is not regular, cannot be read or is larger than `most`."""
        try:
            with closing_fd(os.open(name, READ | os.O_NOFOLLOW, dir_fd=self.fd)) as fd:
                status = os.fstat(fd)
                if not stat.S_ISREG(status.st_mode) or status.st_size > most:
                    return None
                data = os.read(fd, status.st_size + 1)
                # usually one call; the file may be changing
                return data if len(data) == status.st_size else (data + read_all(fd, name, most - len(data)))
        except OSError:
            return None

    # -------------------------------------------------------------- changing

    def remove(self, name: str) -> None:
        """Removes a file, a link or an empty folder; does nothing if the name does not exist."""
        with suppress(FileNotFoundError):
            if stat.S_ISDIR(self.status(name).st_mode):
                os.rmdir(name, dir_fd=self.fd)
            else:
                os.unlink(name, dir_fd=self.fd)

    def make_folder(self, name: str, new: int, mode: int) -> None:
        """Creates a folder, or changes the mode of an existing one; a new folder has the mode `new` until then."""
        with suppress(FileExistsError):
            os.mkdir(name, new, dir_fd=self.fd)
        with closing_fd(os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=self.fd)) as inner:
            os.fchmod(inner, mode & 0o3777)

    def put_file(self, name: str, data: bytes, mode: int, beside: str) -> None:
        """Writes a file under the name `beside` and renames it, so that the name always has the old or the new file."""
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
    """Opens a folder; if it is missing, creates it with the mode `make`. Raises PathRefused for a link, or OSError."""
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
