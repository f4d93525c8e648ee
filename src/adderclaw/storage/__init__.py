"""One SQLite file: one writer connection, short transactions, safe with several processes at once."""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from adderclaw.core import home_names
from adderclaw.core.errors import NotMigrated, StoreError
from adderclaw.storage import locks
from adderclaw.storage.migrations import MIGRATIONS, Migrations, apply, apply_or_restore, back_up, pending

if TYPE_CHECKING:
    from adderclaw.storage.files import Image

BUSY_MS = 30_000
TRY_MS = 200
"""Milliseconds that one attempt to open waits before the store checks whether file locks work."""
BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
QUEUE_LIMIT = 512
CHECKPOINT_PAGES = 4_000
"""Pages (16 MB) that the WAL may grow to before it is copied into the database, which waits for the disk twice."""


class Store:
    """An open database. Create it with `Store.open`; change rows only through the cursor that `write` yields."""

    def __init__(
        self, path: str, connection: sqlite3.Connection, *, read_only: bool, image: "Image | None" = None
    ) -> None:
        self.path = path
        self.image = image
        """Stores the rows if SQLite cannot write its own file."""
        self.notice = ""
        """A warning for the operator about this store."""
        self.read_only = read_only
        self._connection = connection
        self._lock = threading.RLock()
        self._queue: list[tuple[str, tuple[Any, ...]]] = []
        self._soon: list[Callable[[sqlite3.Cursor], None]] = []
        self._file = None if read_only or image is not None else _DatabaseFile(path, connection)

    @staticmethod
    def open(
        path: str,
        *,
        read_only: bool = False,
        in_files: bool = False,
        replaces_lost: bool = False,
        migrations: Migrations = MIGRATIONS,
    ) -> "Store":
        """Create and migrate the file; with `read_only` it must exist and be up to date.

        If SQLite cannot write its file, or with `in_files`, the rows are stored in a folder next to it from then on.
        A lost database is created again only with `replaces_lost`.
        """
        path = os.path.abspath(path)
        if not replaces_lost and not Store.exists(path):
            _require_not_lost(path)
        if os.path.isdir(path):
            raise StoreError(f"{path} cannot be opened, it is a folder: set [memory] path to a file")
        if in_files:
            return _open_files(path, migrations, read_only=read_only)
        if os.path.isdir(f"{path}.files"):
            files = _open_files(path, migrations, read_only=read_only)
            return _with_notice(files, "SQLite could not write its file when this store was created")
        if read_only:
            if not os.path.exists(path):
                raise StoreError(f"there is no database at {path}: run `adderclaw init`")
            return _retry_while_busy(path, lambda: _connect_to_read(path, migrations))
        lost = wal_is_lost(path)
        try:
            store = _open_to_write(path, migrations, replaces_lost=replaces_lost)
        except Unwritable as error:
            # The rows are stored in files, unless the database has rows that would no longer be visible.
            if os.path.exists(path) and os.path.getsize(path) > 0:
                raise error
            return _with_notice(_open_files(path, migrations, read_only=False), str(error))
        if lost:
            from adderclaw.storage import damage

            store.notice = damage.wal_message(path)
        return store

    @staticmethod
    def exists(path: str) -> bool:
        """Whether there is a store at this path: a database or a file store."""
        for file in (path, os.path.join(f"{path}.files", "store.image")):
            with suppress(OSError):
                if os.path.getsize(file):
                    return True
        return False

    def write(self) -> AbstractContextManager[sqlite3.Cursor]:
        """Open a transaction. It must be as short as possible: never await inside it."""
        if self.read_only:
            raise StoreError(f"{self.path} is open for reading only")
        return _Transaction(self.path, self._connection, self._lock, self._queue, self._soon, self._file, self.image)

    def wait(self, milliseconds: int = BUSY_MS) -> None:
        """Set how long to wait for a lock of another process."""
        self._connection.execute(f"PRAGMA busy_timeout = {milliseconds}")

    def read(self, sql: str, params: Sequence[Any] | Mapping[str, Any] = ()) -> list[sqlite3.Row]:
        with self._lock:
            try:
                return self._connection.execute(sql, params).fetchall()
            except sqlite3.Error as error:
                raise explained(self.path, error) from error

    def version(self) -> tuple[int, int]:
        """A value that changes when any process has written something."""
        with self._lock:
            return int(self.read("PRAGMA data_version")[0][0]), self._connection.total_changes

    @contextmanager
    def snapshot(self) -> Generator[sqlite3.Cursor]:
        """A cursor that sees one state of the database; its changes are rolled back."""
        with self._lock:
            try:
                cursor = self._connection.cursor()
                cursor.execute("BEGIN")
                try:
                    yield cursor
                finally:
                    cursor.execute("ROLLBACK")
            except sqlite3.Error as error:
                raise explained(self.path, error) from error

    def write_later(self, sql: str, params: tuple[Any, ...]) -> None:
        """Queue a row that is not worth its own transaction: it is written with the next one, or by close()."""
        self._queue.append((sql, params))
        if len(self._queue) >= QUEUE_LIMIT and not self._connection.in_transaction:
            with self.write():
                pass

    def write_next(self, rows: Callable[[sqlite3.Cursor], None]) -> None:
        """Queue rows for the start of the next transaction. Call `flush` before waiting or relying on them."""
        self._soon.append(rows)

    def flush(self) -> None:
        if self._soon:
            with self.write():
                pass

    def close(self) -> None:
        with self._lock:
            if (self._queue or self._soon) and not self.read_only:
                # Queued rows are not essential, and the program is ending: do not fail.
                with suppress(StoreError), self.write():
                    pass
            self._connection.close()
            if self.image is not None:
                self.image.close()


class _Transaction:
    """Runs BEGIN IMMEDIATE, the queued rows, the body and COMMIT; rolls back on any error."""

    def __init__(
        self,
        path: str,
        connection: sqlite3.Connection,
        lock: threading.RLock,
        queue: list[tuple[str, tuple[Any, ...]]],
        soon: list[Callable[[sqlite3.Cursor], None]],
        file: "_DatabaseFile | None" = None,
        image: "Image | None" = None,
    ) -> None:
        self._file, self._image = file, image
        self._path, self._connection, self._lock, self._queue, self._soon = path, connection, lock, queue, soon
        self._flushed = self._opened = 0

    def __enter__(self) -> sqlite3.Cursor:
        self._lock.acquire()
        try:
            cursor = self._connection.cursor()
            if self._connection.in_transaction:
                raise _Nested(f"{self._path}: a transaction is open already, and transactions do not nest")
            cursor.execute("BEGIN IMMEDIATE")
            if self._file is not None:
                self._file.wait_again()
            self._flush(cursor)
            self._opened = len(self._soon)
            for rows in self._soon[: self._opened]:
                rows(cursor)
        except BaseException as error:
            self._roll_back(error)
            raise
        return cursor

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            try:
                if self._file is not None:
                    self._file.require_same()
                self._connection.execute("COMMIT")
                if self._image is not None:
                    self._write_image(self._image)
            except BaseException as failure:
                self._roll_back(failure)
                raise
            del self._queue[: self._flushed]
            del self._soon[: self._opened]
            self._lock.release()
        else:
            self._roll_back(error)

    def _write_image(self, image: "Image") -> None:
        try:
            image.write(self._connection.serialize())
        except OSError as error:
            raise StoreError(
                f"{image.folder} cannot be written ({error.strerror}): the last change is not stored. Make it writable"
            ) from error

    def _flush(self, cursor: sqlite3.Cursor) -> None:
        self._flushed = len(self._queue)
        for sql, params in self._queue[: self._flushed]:
            # A queued row must never fail the transaction that it is written with.
            with suppress(sqlite3.IntegrityError, sqlite3.ProgrammingError, UnicodeEncodeError):
                cursor.execute(sql, params)

    def _roll_back(self, error: BaseException) -> None:
        try:
            if self._connection.in_transaction and not isinstance(error, _Nested):
                self._connection.execute("ROLLBACK")
            if self._file is not None and isinstance(error, sqlite3.Error) and _primary_code(error) in BUSY:
                self._file.wait_no_more()
        finally:
            self._lock.release()
        if isinstance(error, sqlite3.Error):
            raise explained(self._path, error) from error


class _DatabaseFile:
    """The open database file: checks that its path still refers to it, and sets how long to wait for its lock."""

    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        self._path, self._connection = path, connection
        self._identity = self._current_identity()
        self._waits = True

    def _current_identity(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self._path)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def require_same(self) -> None:
        """Raise StoreError if the file was deleted or replaced: SQLite would lose a commit without an error."""
        identity = self._current_identity()
        if identity != self._identity or identity is None:
            what = "deleted" if identity is None else "replaced by another file"
            raise StoreError(
                f"{self._path} was {what} while it was in use: nothing more can be stored in it. Put the file back, "
                "or create a new one with `adderclaw init`"
            )

    def wait_no_more(self) -> None:
        """Stop waiting for the lock after a timeout, so that later rows do not wait as long again."""
        if self._waits:
            self._waits = False
            self._connection.execute("PRAGMA busy_timeout = 0")

    def wait_again(self) -> None:
        if not self._waits:
            self._waits = True
            self._connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")


class _Nested(StoreError):
    """A transaction is already open, and transactions do not nest."""


# ------------------------------------------------------------------ opening


class Unwritable(StoreError):
    """SQLite cannot open its file for writing, although the folder is writable."""


UNWRITABLE = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_NOLFS})
"""SQLite's errors on a file system without locks or shared memory."""


def _with_notice(store: Store, why: str) -> Store:
    store.notice = (
        f"rows are stored as files in {store.path}.files and not in the database ({why}): "
        "this is slower, and only one process at a time can use it"
    )
    return store


def _open_files(path: str, migrations: Migrations, *, read_only: bool) -> Store:
    from adderclaw.storage import files

    try:
        connection, image = files.open_image(path, _connect, migrations, read_only=read_only)
    except OSError as error:
        raise StoreError(f"cannot write {path}.files: {error.strerror}: make its folder writable") from error
    except sqlite3.Error as error:
        raise explained(f"{path}.files", error) from error
    return Store(path, connection, read_only=read_only, image=image)


def _open_to_write(path: str, migrations: Migrations, *, replaces_lost: bool) -> Store:
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        # SQLite gives -wal and -shm the mode of this file.
        # Never open an existing database file by hand: closing it would drop this process's SQLite locks on it.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StoreError(
            f"cannot create {path}: {error.strerror}: make {folder} writable, or set [memory] path to another file"
        ) from error
    if not os.access(path, os.W_OK) or not os.access(folder, os.W_OK):
        raise StoreError(f"{path} cannot be written: make the file and {folder} writable for this user")
    return _retry_while_busy(path, lambda: _connect_and_migrate(path, migrations, replaces_lost=replaces_lost))


def _connect_and_migrate(path: str, migrations: Migrations, *, replaces_lost: bool) -> Store:
    connection = _connect(path)
    try:
        cursor = connection.cursor()
        missing = pending(cursor, path, migrations)  # checked first, so that another program's file is not changed
        if missing is None and not replaces_lost:
            _require_tables(cursor, path)
        for name in (path, f"{path}-wal", f"{path}-shm"):
            with suppress(OSError):
                if os.stat(name).st_mode & 0o077:
                    os.chmod(name, 0o600)
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = NORMAL")
        cursor.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        if missing != []:
            cursor.execute("BEGIN IMMEDIATE")
            missing = pending(cursor, path, migrations)  # another process may have been first
            if missing:
                apply_or_restore(cursor, path, back_up(path, missing[0]), migrations)
            else:
                apply(cursor, path, migrations)
                cursor.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return Store(path, connection, read_only=False)


def _require_tables(cursor: sqlite3.Cursor, path: str) -> None:
    """Raise StoreError for a database without tables if receipts show that it had some."""
    if not cursor.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
        _require_not_lost(path)


def _require_not_lost(path: str) -> None:
    """Raise StoreError if the database is missing or empty, but receipts of its calls are in the same folder."""
    folder, name = os.path.split(path)
    log = os.path.join(folder, home_names.RECEIPTS)
    if name == home_names.DATABASE and os.path.exists(log) and os.path.getsize(log):
        from adderclaw.storage import damage

        raise StoreError(damage.lost_message(path, log))


def wal_is_lost(path: str) -> bool:
    """Whether the -wal file of a killed process was removed: SQLite itself removes the -shm file first."""
    wal = f"{path}-wal"
    return not os.path.exists(wal) and os.path.exists(f"{path}-shm") and not os.path.exists(wal)


def _connect_to_read(path: str, migrations: Migrations) -> Store:
    # A normal open would create an empty -wal file, which would hide the loss from `doctor` and the next run.
    how = "mode=ro&immutable=1" if wal_is_lost(path) else "mode=ro"
    connection, missing = _open_read_only(path, how, migrations)
    if missing is None:
        with closing(connection):
            _require_tables(connection.cursor(), path)
        raise NotMigrated(f"{path} has no tables yet: `adderclaw init` creates them")
    if missing:
        connection.close()
        raise NotMigrated(
            f"{path} is of an earlier version (it lacks {missing[0]}): `adderclaw init` brings it up to date"
        )
    return Store(path, connection, read_only=True)


def _open_read_only(path: str, how: str, migrations: Migrations) -> tuple[sqlite3.Connection, list[str] | None]:
    from urllib.parse import quote

    connection = _connect(f"file:{quote(path)}?{how}", uri=True)
    try:
        return connection, pending(connection.cursor(), path, migrations)
    except BaseException as error:
        connection.close()
        # Reading in WAL mode creates a -shm file. If that is forbidden and no process writes, read without one.
        closed = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
        if (
            isinstance(error, sqlite3.Error)
            and _primary_code(error) in closed
            and how == "mode=ro"
            and not os.path.exists(f"{path}-wal")
        ):
            return _open_read_only(path, "mode=ro&immutable=1", migrations)
        raise


def _connect(name: str, *, uri: bool = False) -> sqlite3.Connection:
    connection = sqlite3.connect(
        name, timeout=TRY_MS / 1000, isolation_level=None, check_same_thread=False, cached_statements=256, uri=uri
    )
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA busy_timeout = {TRY_MS}")
    return connection


def _retry_while_busy(path: str, attempt: Callable[[], Store]) -> Store:
    """Retry while busy: SQLite's busy handler does not cover two processes switching a new file to WAL."""
    deadline = time.monotonic() + BUSY_MS / 1000
    while True:
        try:
            store = attempt()
        except sqlite3.Error as error:
            if _primary_code(error) in UNWRITABLE:
                raise Unwritable(str(explained(path, error))) from error
            if _primary_code(error) not in BUSY or time.monotonic() > deadline:
                raise explained(path, error) from error
            if not locks.locks_work(folder := os.path.dirname(path)):
                raise Unwritable(": ".join(locks.no_locks_message(folder))) from error
            time.sleep(0.01)
        else:
            store.wait()
            return store


# ------------------------------------------------------------------ errors


_FIXES = {
    sqlite3.SQLITE_BUSY: "is locked by another process for more than 30 s: end that process, then try again",
    sqlite3.SQLITE_LOCKED: "is locked by another process for more than 30 s: end that process, then try again",
    sqlite3.SQLITE_FULL: "cannot grow, the disk is full: free some space, then try again",
    sqlite3.SQLITE_READONLY: "cannot be written: make the file and its folder writable for this user",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: check that it is a file, and that it and its folder are yours",
    sqlite3.SQLITE_IOERR: "cannot be read or written: check the disk",
}


def explained(path: str, error: sqlite3.Error) -> StoreError:
    from adderclaw.storage import damage

    if damage.is_damage(error):
        return StoreError(damage.message(path, error))
    fix = _FIXES.get(_primary_code(error))
    return StoreError(f"{path} {fix} ({error})" if fix else f"{path}: {error}")


def _primary_code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
