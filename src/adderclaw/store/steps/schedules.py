"""The tables of work that begins by itself."""

import sqlite3


def m071_schedules(cursor: sqlite3.Cursor) -> None:
    """What begins when, how far each was looked at, and one row for every due time that was dealt with."""
    cursor.execute("""
        CREATE TABLE schedules (
            id          TEXT PRIMARY KEY,
            name        TEXT NOT NULL UNIQUE,
            workspace   TEXT NOT NULL,
            when_json   TEXT NOT NULL,
            what_json   TEXT NOT NULL,
            terms_json  TEXT NOT NULL,
            pin         TEXT NOT NULL DEFAULT '',
            created_at  TEXT NOT NULL,
            created_by  TEXT NOT NULL,
            mac         TEXT NOT NULL,
            paused_at   TEXT,
            until       REAL NOT NULL,
            next_at     REAL,
            seen_json   TEXT
        )""")
    cursor.execute("""
        CREATE TABLE schedule_runs (
            id          INTEGER PRIMARY KEY AUTOINCREMENT,
            schedule_id TEXT NOT NULL,
            due         TEXT NOT NULL,
            cause       TEXT NOT NULL,
            state       TEXT NOT NULL,
            reason      TEXT NOT NULL DEFAULT '',
            inputs_json TEXT NOT NULL DEFAULT '',
            ticker      TEXT NOT NULL DEFAULT '',
            reserved    REAL NOT NULL DEFAULT 0,
            run_id      TEXT,
            outcome     TEXT,
            cost        REAL,
            claimed_at  REAL NOT NULL,
            ended_at    REAL,
            UNIQUE (schedule_id, due)
        )""")
    cursor.execute("""
        CREATE INDEX idx_schedule_runs_open ON schedule_runs(schedule_id)
        WHERE state IN ('queued', 'claimed', 'running')""")
    cursor.execute("CREATE TABLE schedule_ticks (ticker TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID")


def m075_begins(cursor: sqlite3.Cursor) -> None:
    """How many times the run of a due time was begun, so that one that is killed repeatedly is left in the end."""
    cursor.execute("ALTER TABLE schedule_runs ADD COLUMN begins INTEGER NOT NULL DEFAULT 0")
