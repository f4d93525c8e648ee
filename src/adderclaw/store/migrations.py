"""Brings a database file to the schema of this program: the specified tables, then our own, each step once, by name."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from importlib import import_module

from adderclaw import __version__
from adderclaw.errors import StoreError

SCHEMA_VERSION = "1"
DISK = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR})


MIGRATIONS = {
    "m001_model_calls": "sessions",
    "m002_runs": "runs",
    "m003_receipts": "runs",
    "m004_opaque_blocks": "sessions",
    "m005_transcript_search": "sessions",
    "m006_lookups": "sessions",
    "m007_cost": "runs",
    "m008_approvals": "questions",
    "m009_mcp_pins": "questions",
    "m010_subagents": "work",
    "m011_approval_mac": "questions",
    "m012_background_tasks": "work",
    "m013_checkpoints": "work",
    "m014_lists": "work",
    "m015_task_results": "work",
    "m020_workflows": "work",
    "m030_tape": "runs",
    "m031_used": "runs",
    "m032_config": "work",
    "m032_said": "work",
    "m033_receipts_of_runs": "runs",
    "m034_imprints": "runs",
    "m036_later": "questions",
    "m037_questions": "questions",
    "m038_replies": "questions",
    "m039_traces": "runs",
    "m040_sure": "work",
    "m041_turns": "sessions",
    "m042_began": "runs",
    "m043_notes": "sessions",
    "m047_checks": "checks",
    "m050_plans": "sdlc",
    "m051_generated_tests": "sdlc",
    "m060_unconfirmed": "sessions",
    "m061_clients": "clients",
    "m070_stays": "questions",
    "m071_schedules": "schedules",
    "m072_deliveries": "deliveries",
    "m073_notices": "notices",
    "m074_kinds": "questions",
    "m075_begins": "schedules",
}
"""Step → the module of `steps` that has it, in their order. It is imported where the step is still to be done."""


def pending(cursor: sqlite3.Cursor, path: str) -> list[str]:
    """The steps that the file still lacks; a file that is not ours, or newer than this program, is an error."""
    tables = {row[0] for row in cursor.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        return list(MIGRATIONS)
    if "schema_meta" not in tables:
        raise StoreError(
            f"{path} is a database of another program (it has the table {min(tables)} and no schema_meta): "
            "set [memory] path to another file"
        )
    row = cursor.execute("SELECT value FROM schema_meta WHERE key = 'schema_version'").fetchone()
    if row is not None and row[0] != SCHEMA_VERSION:
        raise _newer(cursor, path, f"schema version {row[0]}, and this program knows {SCHEMA_VERSION}")
    if "schema_migrations" not in tables:
        return list(MIGRATIONS)
    done = {row[0] for row in cursor.execute("SELECT name FROM schema_migrations")}
    if unknown := done - MIGRATIONS.keys():
        raise _newer(cursor, path, f"migration {min(unknown)}")
    return [name for name in MIGRATIONS if name not in done]


def apply(cursor: sqlite3.Cursor, path: str) -> None:
    """Inside the caller's transaction: whoever comes second finds nothing left to do."""
    if not (missing := pending(cursor, path)):
        return
    if cursor.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
        by_steps(cursor, missing)
    else:
        _at_once(cursor)
    cursor.execute("INSERT OR REPLACE INTO schema_meta(key, value) VALUES ('written_by', ?)", (__version__,))


def by_steps(cursor: sqlite3.Cursor, missing: list[str]) -> None:
    """The specified tables where they are not there, then each step that is missing."""
    for statement in _statements(_script("schema.sql")):
        cursor.execute(statement)
    cursor.execute(
        "CREATE TABLE IF NOT EXISTS schema_migrations"
        "(name TEXT PRIMARY KEY, applied_at TEXT NOT NULL DEFAULT (datetime('now')))"
    )
    for name in missing:
        step(cursor, name)


def _at_once(cursor: sqlite3.Cursor) -> None:
    """All tables of a new database; `generate` writes what the steps make of one, and a test compares the two."""
    for statement in _script("new.sql").split("\n\n"):
        cursor.execute(statement)
    cursor.execute("INSERT INTO schema_meta(key, value) VALUES ('schema_version', ?)", (SCHEMA_VERSION,))
    cursor.executemany("INSERT INTO schema_migrations(name) VALUES (?)", [(name,) for name in MIGRATIONS])


def _script(name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()


def step(cursor: sqlite3.Cursor, name: str) -> None:
    """Do one step, and note that it is done."""
    getattr(import_module(f"adderclaw.store.steps.{MIGRATIONS[name]}"), name)(cursor)
    cursor.execute("INSERT INTO schema_migrations(name) VALUES (?)", (name,))


def backed_up(cursor: sqlite3.Cursor, path: str) -> str:
    """Copy a database that is about to be changed; where the copy is, or nothing for one that is new or up to date.

    The caller holds the write lock, so that nobody changes it meanwhile.
    """
    missing = pending(cursor, path)
    if not missing or len(missing) == len(MIGRATIONS):
        return ""
    from adderclaw.store import damage

    copy = f"{path}.before-{missing[0]}"
    unfinished = f"{copy}.unfinished"
    try:
        with suppress(FileNotFoundError):
            os.unlink(unfinished)  # of a process that was killed here
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(unfinished)) as target:
            source.backup(target)
            if why := damage.found_in(target):
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


def apply_or_restore(cursor: sqlite3.Cursor, path: str, copy: str) -> None:
    """All steps, committed, or none of them: what a step that fails has changed is rolled back."""
    try:
        apply(cursor, path)
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


def _statements(script: str) -> Iterator[str]:
    # executescript would commit first, and the whole of it has to be one transaction.
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _newer(cursor: sqlite3.Cursor, path: str, what: str) -> StoreError:
    row = cursor.execute("SELECT value FROM schema_meta WHERE key = 'written_by'").fetchone()
    version = f" {row[0]}" if row is not None else ""
    return StoreError(
        f"{path} was written by a newer adderclaw{version} ({what}), and this is adderclaw {__version__}: nothing was "
        f"changed. Upgrade this one (`adderclaw update` says how), or set [memory] path to another file{_copies(path)}"
    )


def _copies(path: str) -> str:
    """The copies that were made before an update, which this version may be able to open."""
    folder, name = os.path.split(os.path.abspath(path))
    with suppress(OSError):
        found = sorted(
            one for one in os.listdir(folder) if one.startswith(f"{name}.before-") and not one.endswith(".unfinished")
        )
        if found:
            return f"; copies of before an update: {', '.join(found)}"
    return ""
