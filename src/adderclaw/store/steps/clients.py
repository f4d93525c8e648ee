"""The table of clients that may come to the server."""

import sqlite3


def m061_clients(cursor: sqlite3.Cursor) -> None:
    """Who may come to the server, with which scopes; the token itself is in no row."""
    cursor.execute("""
        CREATE TABLE clients (
            id          TEXT PRIMARY KEY,
            name        TEXT NOT NULL,
            scopes_json TEXT NOT NULL,
            folders_json TEXT NOT NULL,
            created_at  TEXT NOT NULL,
            expires_at  TEXT,
            parent      TEXT NOT NULL DEFAULT '',
            mac         TEXT NOT NULL,
            used_at     TEXT,
            revoked_at  TEXT
        )""")
