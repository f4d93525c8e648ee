"""The table of notices that are sent to the operator."""

import sqlite3


def m073_notices(cursor: sqlite3.Cursor) -> None:
    """One row for each notice and target: written with what it reports, marked when it was delivered."""
    cursor.execute("""
        CREATE TABLE notices (
            id          TEXT NOT NULL,
            target      TEXT NOT NULL,
            kind        TEXT NOT NULL,
            about       TEXT NOT NULL,
            run_id      TEXT NOT NULL,
            workspace   TEXT NOT NULL,
            body_json   TEXT NOT NULL,
            created_at  REAL NOT NULL,
            due_at      REAL NOT NULL,
            state       TEXT NOT NULL DEFAULT 'waiting'
                        CHECK (state IN ('waiting', 'sent', 'failed', 'moot')),
            attempts    INTEGER NOT NULL DEFAULT 0,
            taken_by    INTEGER NOT NULL DEFAULT 0,
            taken_until REAL NOT NULL DEFAULT 0,
            ended_at    REAL,
            error       TEXT NOT NULL DEFAULT '',
            PRIMARY KEY (id, target)
        )""")
    cursor.execute("CREATE INDEX idx_notices_waiting ON notices(due_at) WHERE state = 'waiting'")
