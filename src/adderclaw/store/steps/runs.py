"""The tables of runs and of what proves them: costs, receipts, tapes, traces."""

import sqlite3


def m002_runs(cursor: sqlite3.Cursor) -> None:
    cursor.execute("""
        CREATE TABLE runs (
            run_id          TEXT PRIMARY KEY,
            kind            TEXT NOT NULL,
            conversation_id TEXT NOT NULL,
            session_id      TEXT NOT NULL,
            pid             INTEGER NOT NULL,
            started_at      TEXT NOT NULL DEFAULT (datetime('now')),
            finished_at     TEXT,
            outcome         TEXT,
            exit_code       INTEGER,
            answer          TEXT,
            usage_json      TEXT,
            reason          TEXT
        )""")


def m003_receipts(cursor: sqlite3.Cursor) -> None:
    """The mirror of the receipt log. `archive` is '' for the chain in use, else the name of the archived log."""
    cursor.execute("""
        CREATE TABLE receipts (
            archive      TEXT NOT NULL DEFAULT '',
            seq          INTEGER NOT NULL,
            receipt_hash TEXT NOT NULL,
            line         TEXT NOT NULL,
            end_offset   INTEGER NOT NULL,
            session_id   TEXT,
            tool_use_id  TEXT,
            PRIMARY KEY (archive, seq)
        ) WITHOUT ROWID""")


def m007_cost(cursor: sqlite3.Cursor) -> None:
    """US dollars of a call and of a run, NULL where no price is known; and which run a call belongs to."""
    cursor.execute("ALTER TABLE model_calls ADD COLUMN cost REAL")
    cursor.execute("ALTER TABLE model_calls ADD COLUMN run_id TEXT")
    cursor.execute("ALTER TABLE runs ADD COLUMN cost REAL")


def m030_tape(cursor: sqlite3.Cursor) -> None:
    """What a replay needs of a session and no other table has; each row is sealed with all before it."""
    cursor.execute("""
        CREATE TABLE tape (
            run_id     TEXT NOT NULL,
            session_id TEXT NOT NULL,
            seq        INTEGER NOT NULL,
            items_json TEXT NOT NULL,
            seal       TEXT NOT NULL,
            PRIMARY KEY (run_id, session_id, seq)
        )""")
    cursor.execute("CREATE TABLE tape_texts (digest TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID")


def m031_used(cursor: sqlite3.Cursor) -> None:
    """What a run has used up of its limits, written as it goes on: whoever resumes it goes on counting from there."""
    cursor.execute("ALTER TABLE runs ADD COLUMN used_json TEXT")
    cursor.execute("ALTER TABLE runs ADD COLUMN rounds INTEGER NOT NULL DEFAULT 0")


def m033_receipts_of_runs(cursor: sqlite3.Cursor) -> None:
    """Which run a receipt belongs to. Of those that were written before, the time says it as well as it can."""
    cursor.execute("ALTER TABLE receipts ADD COLUMN run_id TEXT")
    cursor.execute("CREATE INDEX idx_runs_session ON runs(session_id)")
    cursor.execute("""
        UPDATE receipts SET run_id = coalesce(
            (SELECT run_id FROM runs WHERE runs.session_id = receipts.session_id
             AND julianday(started_at) <= julianday(json_extract(line, '$.timestamp')) ORDER BY rowid DESC LIMIT 1),
            (SELECT run_id FROM tape WHERE tape.session_id = receipts.session_id LIMIT 1))
        WHERE json_valid(line)""")
    cursor.execute("CREATE INDEX idx_receipts_run ON receipts(run_id)")


def m034_imprints(cursor: sqlite3.Cursor) -> None:
    """Digests of the rows that each run left."""
    cursor.execute("CREATE TABLE imprints (run_id TEXT PRIMARY KEY, rows_json TEXT NOT NULL)")


def m039_traces(cursor: sqlite3.Cursor) -> None:
    """What each process wrote to the trace of a run: from where to where, and a digest of exactly that."""
    cursor.execute("""
        CREATE TABLE traces (
            run_id TEXT NOT NULL,
            root   BLOB NOT NULL,
            way    BLOB NOT NULL,
            start  INTEGER NOT NULL,
            until  INTEGER NOT NULL,
            digest TEXT NOT NULL,
            PRIMARY KEY (run_id, root, way, start)
        ) WITHOUT ROWID""")


def m042_began(cursor: sqlite3.Cursor) -> None:
    """Where the tables of its session stood when a run began: what came before belongs to the runs before it."""
    cursor.execute("ALTER TABLE runs ADD COLUMN began_json TEXT")
