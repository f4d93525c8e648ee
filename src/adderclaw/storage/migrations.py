"""Creates the tables of `schema.sql` and brings a database up to date by migrations, each applied once, by name."""

import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing, suppress

from adderclaw import __version__
from adderclaw.core.errors import StoreError

SCHEMA_VERSION = "1"
DISK = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR})

type Migrations = Mapping[str, Callable[[sqlite3.Cursor], None]]

MIGRATIONS: Migrations = {}
"""Name → what changes the tables of `schema.sql`, in this order. A released migration is never edited or removed."""


def pending(cursor: sqlite3.Cursor, path: str, migrations: Migrations) -> list[str] | None:
    """The migrations that the file lacks, or None if it lacks the tables themselves.

    StoreError if another program or another version of this one wrote the file.
    """
    tables = {row[0] for row in cursor.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        return None
    if "schema_meta" not in tables:
        raise StoreError(
            f"{path} is a database of another program (it has the table {min(tables)} and no schema_meta): "
            "set [memory] path to another file"
        )
    row = cursor.execute("SELECT value FROM schema_meta WHERE key = 'schema_version'").fetchone()
    if row is not None and row[0] != SCHEMA_VERSION:
        raise _foreign(cursor, path, f"its schema version is {row[0]}, not {SCHEMA_VERSION}")
    if "schema_migrations" not in tables:  # it has only the specified tables
        return None
    done = {row[0] for row in cursor.execute("SELECT name FROM schema_migrations")}
    if unknown := done - migrations.keys():
        raise _foreign(cursor, path, f"it has the unknown migration {min(unknown)}")
    return [name for name in migrations if name not in done]


def apply(cursor: sqlite3.Cursor, path: str, migrations: Migrations) -> None:
    """Create the tables that are missing and apply the missing migrations, inside the caller's transaction.

    A second process that waited for the transaction has nothing left to do.
    """
    missing = pending(cursor, path, migrations)
    if missing is None:
        is_new = not cursor.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        with open(os.path.join(os.path.dirname(__file__), "schema.sql"), encoding="utf-8") as file:
            # executescript would commit first, and this has to be one transaction.
            for statement in file.read().split("\n\n"):
                cursor.execute(statement)
        if not is_new:
            _index_specified_rows(cursor)
        missing = list(migrations)
    elif not missing:
        return
    for name in missing:
        migrations[name](cursor)
        cursor.execute("INSERT INTO schema_migrations(name) VALUES (?)", (name,))
    cursor.execute("INSERT OR REPLACE INTO schema_meta(key, value) VALUES ('written_by', ?)", (__version__,))


def _index_specified_rows(cursor: sqlite3.Cursor) -> None:
    """Fill our own tables from rows that another program wrote to the specified ones."""
    cursor.execute("DELETE FROM memories_fts")
    cursor.execute(
        "INSERT INTO memories_fts(rowid, title, content, keywords, anticipated_queries)"
        " SELECT rowid, title, content, keywords, anticipated_queries FROM memories"
    )
    cursor.execute("""
        INSERT OR IGNORE INTO turns
        SELECT 'turn-' || coalesce(substr(json_extract(payload_json, '$.uuid'), 7), id), session_id, sequence
        FROM transcript_entries WHERE entry_type = 'user'""")


def back_up(path: str, first: str) -> str:
    """Copy a database before its first migration; returns the path of the copy.

    The caller holds the write lock, so nobody changes the database meanwhile.
    """
    from adderclaw.storage import damage

    copy = f"{path}.before-{first}"
    unfinished = f"{copy}.unfinished"
    try:
        with suppress(FileNotFoundError):
            os.unlink(unfinished)  # of a process that was killed here
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(unfinished)) as target:
            source.backup(target)
            if why := damage.find_damage(target):
                raise StoreError(f"{damage.message(path, why)}; nothing was changed")
        os.replace(unfinished, copy)
    except (OSError, sqlite3.Error) as error:
        with suppress(OSError):
            os.unlink(unfinished)
        raise StoreError(
            f"{path} has to be brought up to date, and cannot be copied before that ({error}): "
            "free some space, or make its folder writable; nothing was changed"
        ) from error
    return copy


def apply_or_restore(cursor: sqlite3.Cursor, path: str, copy: str, migrations: Migrations) -> None:
    """Apply and commit all migrations, or roll back all of them if one fails."""
    try:
        apply(cursor, path, migrations)
        cursor.execute("COMMIT")
    except (sqlite3.Error, OSError, ValueError, TypeError, KeyError) as error:
        if cursor.connection.in_transaction:  # on a full disk SQLite has rolled it back already
            cursor.execute("ROLLBACK")
        full = isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF in DISK
        fix = (
            "free some space, and try again" if full else "use the version of adderclaw that wrote it, and report this"
        )
        raise StoreError(
            f"{path} could not be brought up to date ({error}) and is as it was; a copy is in {copy}: {fix}"
        ) from error


def _foreign(cursor: sqlite3.Cursor, path: str, why: str) -> StoreError:
    row = cursor.execute("SELECT value FROM schema_meta WHERE key = 'written_by'").fetchone()
    version = f", {row[0]}" if row is not None else ""
    return StoreError(
        f"{path} was written by another version of adderclaw{version} ({why}), and this is {__version__}. Nothing was "
        "changed. Run `adderclaw update` if that version is newer, or export what matters with it (`adderclaw memory "
        f"export`, `adderclaw receipt export`) and set [memory] path to a new file{_copies(path)}"
    )


def _copies(path: str) -> str:
    """The copies from before migrations, which this version may be able to open."""
    folder, name = os.path.split(os.path.abspath(path))
    with suppress(OSError):
        copies = sorted(
            file
            for file in os.listdir(folder)
            if file.startswith(f"{name}.before-") and not file.endswith(".unfinished")
        )
        if copies:
            return f"; copies from before an update: {', '.join(copies)}"
    return ""
