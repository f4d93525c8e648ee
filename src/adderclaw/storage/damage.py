"""Detects damage to a database, and words the messages about it with the last good backup."""

import contextlib
import os
import sqlite3
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adderclaw.storage import Store

_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def find_damage(connection: sqlite3.Connection) -> str:
    """The first damage that SQLite's full integrity check finds, or nothing. It reads the whole file."""
    try:
        result = str(connection.execute("PRAGMA integrity_check(1)").fetchone()[0])
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        return str(error)
    return "" if result == "ok" else " ".join(result.removeprefix("*** in database main ***").split())


def is_damage(error: sqlite3.Error) -> bool:
    """Whether this error of SQLite means that the file is damaged, including text that is not UTF-8."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in _CODES or str(error).startswith("Could not decode to UTF-8")


def message(path: str, why: object) -> str:
    return f"{path} is damaged ({why}): run `adderclaw doctor`; {last_backup(path)}"


def last_backup(path: str) -> str:
    """The end of a message: how to restore the last good backup of this database."""
    try:
        with open(_backup_record_path(path), encoding="utf-8") as file:
            when, _, backup = file.read(8192).strip().partition(" ")
    except (OSError, ValueError):
        when = backup = ""
    if not backup:
        return "no backup of it is known"
    if not os.path.isfile(backup):
        return f"its last good backup, {backup} of {when}, does not exist any more"
    import shlex

    return f"its last good backup is of {when}: `adderclaw restore {shlex.quote(backup)} --replace`"


def record_backup(path: str, backup: str) -> None:
    """Write the name of a checked backup next to the database. The backup is valid without this note."""
    with contextlib.suppress(OSError), open(_backup_record_path(path), "w", encoding="utf-8") as file:
        file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {backup}\n")


def _backup_record_path(path: str) -> str:
    return f"{path}.last-backup"


def is_explained_by_crash(store: "Store", missing: int, conversation_id: str) -> bool:
    """Whether a crash explains that so many receipts have no row: it leaves at most one, of a known conversation."""
    sql = "SELECT 1 FROM conversations WHERE id = ?"
    return missing == 0 or (missing == 1 and bool(store.read(sql, (conversation_id,))))


def wal_message(path: str) -> str:
    return (
        f"{path}-wal was removed. It held the last changes of a process that was killed, so they are lost. "
        f"Run `adderclaw doctor`; {last_backup(path)}"
    )


def lost_message(path: str, log: str) -> str:
    state = "is empty" if os.path.exists(path) else "is missing"
    return (
        f"{path} {state}, but {log} has receipts of its calls, so no new database is created. Restore it "
        f"({last_backup(path)}), or start without its conversations: `adderclaw receipt archive --yes`"
    )


def is_own_database(path: str) -> bool:
    """Whether an SQLite file has AdderClaw's tables; raises sqlite3.DatabaseError if it cannot be read."""
    from urllib.parse import quote

    with contextlib.closing(sqlite3.connect(f"file:{quote(path)}?mode=ro&immutable=1", uri=True)) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    return {"conversations", "transcript_entries", "schema_meta"} <= tables
