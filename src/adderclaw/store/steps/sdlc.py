"""Plans with their success criteria, and the workspace as it was when each plan was approved."""

import sqlite3


def m050_plans(cursor: sqlite3.Cursor) -> None:
    cursor.execute("""
        CREATE TABLE plan_criteria (
            plan_id   INTEGER NOT NULL REFERENCES plans(id),
            criterion TEXT NOT NULL,
            position  INTEGER NOT NULL,
            line      INTEGER NOT NULL,
            text      TEXT NOT NULL,
            keeps     INTEGER NOT NULL CHECK (keeps IN (0, 1)),
            fault     TEXT NOT NULL,
            PRIMARY KEY (plan_id, criterion)
        ) WITHOUT ROWID""")
    cursor.execute("""
        CREATE TABLE plan_baselines (
            plan_id    INTEGER PRIMARY KEY REFERENCES plans(id),
            root       BLOB NOT NULL,
            digest     TEXT NOT NULL,
            tree       BLOB NOT NULL,
            left_out   TEXT NOT NULL,
            created_at TEXT NOT NULL DEFAULT (datetime('now'))
        )""")
    cursor.execute("CREATE INDEX idx_plans_conversation ON plans(conversation_id, id)")
