"""Steps for what is checked of a specification's scenarios."""

import sqlite3


def m047_checks(cursor: sqlite3.Cursor) -> None:
    """Each claim that a scenario passes, and what a session apart found: without a verdict it is still to be checked.

    `project` is the workspace; `evidence_json` names what was cited, each with the digest of what is kept of it.
    """
    cursor.execute("""
        CREATE TABLE scenario_checks (
            id            INTEGER PRIMARY KEY,
            project       TEXT NOT NULL,
            scenario_id   TEXT NOT NULL,
            name          TEXT NOT NULL,
            run_id        TEXT NOT NULL,
            claimed_by    TEXT NOT NULL,
            claimed_at    TEXT NOT NULL DEFAULT (datetime('now')),
            checked_in    TEXT NOT NULL DEFAULT '',
            checked_by    TEXT NOT NULL DEFAULT '',
            verdict       TEXT NOT NULL DEFAULT '' CHECK (verdict IN ('', 'passed', 'failed', 'unproven', 'withdrawn')),
            reason        TEXT NOT NULL DEFAULT '',
            evidence_json TEXT NOT NULL DEFAULT '[]',
            tokens        INTEGER NOT NULL DEFAULT 0,
            cost          REAL,
            seconds       REAL NOT NULL DEFAULT 0,
            checked_at    TEXT
        )""")
    cursor.execute("CREATE INDEX scenario_checks_of ON scenario_checks(project, scenario_id)")
