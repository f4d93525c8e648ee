"""The table of signed requests that were received."""

import sqlite3


def m072_deliveries(cursor: sqlite3.Cursor) -> None:
    """Ids of requests that were received at each door, so that none counts twice, in whatever process."""
    cursor.execute("""
        CREATE TABLE deliveries (
            door        TEXT NOT NULL,
            id          TEXT NOT NULL,
            received_at TEXT NOT NULL,
            expires_at  TEXT,
            became      TEXT NOT NULL DEFAULT '',
            PRIMARY KEY (door, id)
        ) WITHOUT ROWID""")
    cursor.execute("CREATE INDEX deliveries_expire ON deliveries(expires_at)")
