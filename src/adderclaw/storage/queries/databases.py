"""Queries on a database file through a plain connection, for backups and for removing a home."""

import os
import sqlite3

from adderclaw.storage import Store


def tables(connection: sqlite3.Connection) -> set[str]:
    """The names of all tables and indexes."""
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}


def begin_snapshot(connection: sqlite3.Connection) -> None:
    """Begins a transaction that sees the database as it is now. SQLite takes the snapshot at the first read."""
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()


def run_folders(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """Each run id with the folder of its trace."""
    if "traces" not in tables(connection):
        return []
    rows = connection.execute("SELECT DISTINCT run_id, root, way FROM traces ORDER BY run_id")
    return [(run_id, _folder(root, way)) for run_id, root, way in rows]


def trace_folders(store: Store) -> set[str]:
    """The folders of all traces."""
    return {_folder(root, way) for root, way in store.read("SELECT DISTINCT root, way FROM traces")}


def _folder(root: bytes, way: bytes) -> str:
    return os.path.dirname(os.path.join(os.fsdecode(root), os.fsdecode(way)))
