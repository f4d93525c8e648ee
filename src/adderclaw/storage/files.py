"""The store where SQLite cannot write its file: the tables in memory, a whole image of them on disk after each commit.

It needs nothing of the file system but a rename: no locks, no shared memory, no second file. One process at a time.
"""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from urllib.parse import quote

from adderclaw.core.errors import StoreError
from adderclaw.storage import locks
from adderclaw.storage.migrations import Migrations, apply, pending

IMAGE = "store.image"


def folder_of(path: str) -> str:
    return f"{path}.files"


class Image:
    """The file that holds the tables between two runs."""

    def __init__(self, path: str, *, read_only: bool) -> None:
        self.folder = folder_of(path)
        self._lock, self._owned = -1, ""
        if not read_only:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            self._lock = self._lock_folder()

    def _lock_folder(self) -> int:
        import fcntl

        descriptor = os.open(os.path.join(self.folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise StoreError(
                f"{self.folder} is in use by another process, and files take one at a time: wait for it to end"
            ) from error
        except OSError as error:
            if error.errno not in locks.NO_LOCKS:
                os.close(descriptor)
                raise
            self._owned = _claim_folder(self.folder)
        return descriptor

    def read(self) -> bytes:
        try:
            with open(os.path.join(self.folder, IMAGE), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return b""

    def write(self, data: bytes) -> None:
        """Whole or not at all."""
        path, fresh = os.path.join(self.folder, IMAGE), os.path.join(self.folder, f"{IMAGE}.new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)

    def close(self) -> None:
        if self._owned:
            os.unlink(self._owned)
            self._owned = ""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _claim_folder(folder: str) -> str:
    """Claim the folder with a file that only one process can create, because the file system has no locks."""
    path, me = os.path.join(folder, "owner"), f"{os.uname().nodename} {os.getpid()}"
    host = pid = ""
    for _ in range(2):
        try:
            with open(path, "x", encoding="utf-8") as file:
                file.write(me)
        except FileExistsError:
            with open(path, encoding="utf-8") as file:
                host, _, pid = file.read().partition(" ")
            if host != os.uname().nodename or (pid.isdigit() and locks.is_alive(int(pid))):
                break
            os.unlink(path)  # its process has ended without removing it
        else:
            return path
    raise StoreError(
        f"{folder} is in use by another process ({pid or 'unknown'} of the machine {host}), and a file store allows "
        f"one at a time: wait until it ends. If it has ended, remove {path}"
    )


def _serialized_database(path: str) -> bytes:
    """An image of a database, read without a lock where its own file has all the rows."""
    if not os.path.exists(path) or not os.path.getsize(path):
        return b""
    wal = f"{path}-wal"
    is_whole = not os.path.exists(wal) or not os.path.getsize(wal)
    mode = "mode=ro&immutable=1" if is_whole else "mode=ro"
    with closing(sqlite3.connect(f"file:{quote(path)}?{mode}", uri=True)) as database:
        data = bytearray(database.serialize())
    data[18:20] = b"\1\1"  # without a WAL, which a database in memory cannot have
    return bytes(data)


def open_image(
    path: str, connect: Callable[[str], sqlite3.Connection], migrations: Migrations, *, read_only: bool
) -> tuple[sqlite3.Connection, Image]:
    """The tables of the image, in memory; a damaged image is an error, never an empty store.

    A new file store begins with the rows of the database that it replaces; one that lost its image does not.
    """
    is_new = not os.path.isdir(folder_of(path))
    image = Image(path, read_only=read_only)
    connection = connect(":memory:")
    try:
        data = image.read()
        copied = _serialized_database(path) if is_new and not read_only else b""
        if data or copied:
            connection.deserialize(data or copied)
            connection.execute("PRAGMA foreign_keys = ON")
        cursor = connection.cursor()
        is_current = pending(cursor, image.folder, migrations) == []
        if not is_current and read_only:
            raise StoreError(f"{image.folder} has not been set up by this version: run `adderclaw init`")
        if not is_current:
            cursor.execute("BEGIN IMMEDIATE")
            apply(cursor, image.folder, migrations)
            cursor.execute("COMMIT")
        if not is_current or copied:
            image.write(connection.serialize())
    except BaseException:
        connection.close()
        image.close()
        raise
    return connection, image
