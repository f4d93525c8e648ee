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


def m051_generated_tests(cursor: sqlite3.Cursor) -> None:
    """Tests that a generator wrote from a plan, and what came of each on each tree."""
    cursor.execute("""
        CREATE TABLE generated_tests (
            id         INTEGER PRIMARY KEY,
            plan_id    INTEGER NOT NULL REFERENCES plans(id),
            plan_hash  TEXT NOT NULL,
            criterion  TEXT NOT NULL,
            language   TEXT NOT NULL CHECK (language IN ('sh', 'python')),
            content    TEXT NOT NULL,
            hash       TEXT NOT NULL,
            status     TEXT NOT NULL CHECK (status IN ('submitted', 'accepted', 'returned', 'withdrawn')),
            reason     TEXT NOT NULL DEFAULT '',
            session_id TEXT NOT NULL,
            run_id     TEXT NOT NULL,
            created_at TEXT NOT NULL DEFAULT (datetime('now'))
        )""")
    cursor.execute("CREATE INDEX idx_generated_tests_plan ON generated_tests(plan_id, criterion)")
    cursor.execute("""
        CREATE TABLE test_results (
            id          INTEGER PRIMARY KEY,
            test_id     INTEGER NOT NULL REFERENCES generated_tests(id),
            test_hash   TEXT NOT NULL,
            tree        TEXT NOT NULL CHECK (tree IN ('baseline', 'fault', 'now')),
            tree_digest TEXT NOT NULL,
            exit_code   INTEGER NOT NULL,
            stdout      TEXT NOT NULL,
            stderr      TEXT NOT NULL,
            seconds     REAL NOT NULL,
            timed_out   INTEGER NOT NULL CHECK (timed_out IN (0, 1)),
            run_id      TEXT NOT NULL,
            seal        TEXT NOT NULL,
            created_at  TEXT NOT NULL DEFAULT (datetime('now'))
        )""")
    cursor.execute("CREATE INDEX idx_test_results_test ON test_results(test_id, id)")
