"""The tables of what an operator is asked and acknowledges: approvals, tools of servers, what runs later."""

import sqlite3


def m008_approvals(cursor: sqlite3.Cursor) -> None:
    """Questions to the operator, answered or not: another process may answer them."""
    cursor.execute("""
        CREATE TABLE approvals (
            id          TEXT PRIMARY KEY,
            session_id  TEXT NOT NULL,
            tool_use_id TEXT NOT NULL,
            tool        TEXT NOT NULL,
            risk        TEXT NOT NULL,
            reason      TEXT NOT NULL,
            shown       TEXT NOT NULL,
            plan_hash   TEXT NOT NULL,
            pid         INTEGER NOT NULL,
            created_at  TEXT NOT NULL,
            expires_at  TEXT,
            answer      TEXT CHECK (answer IN ('yes', 'no')),
            answered_by TEXT,
            answered_at TEXT,
            comment     TEXT
        )""")
    cursor.execute("CREATE INDEX idx_approvals_open ON approvals(session_id) WHERE answer IS NULL")


def m009_mcp_pins(cursor: sqlite3.Cursor) -> None:
    """What each tool of an MCP server said of itself when it was approved, and what it says now if that differs."""
    cursor.execute("""
        CREATE TABLE mcp_pins (
            scope       TEXT NOT NULL,
            server      TEXT NOT NULL,
            tool        TEXT NOT NULL,
            definition  TEXT,
            approved_by TEXT CHECK (approved_by IN ('first_sight', 'operator')),
            offered     TEXT,
            updated_at  TEXT NOT NULL DEFAULT (datetime('now')),
            PRIMARY KEY (scope, server, tool)
        )""")


def m011_approval_mac(cursor: sqlite3.Cursor) -> None:
    """Who gave a yes had the operator's key."""
    cursor.execute("ALTER TABLE approvals ADD COLUMN mac TEXT")


def m036_later(cursor: sqlite3.Cursor) -> None:
    """What programs run later: its state, the sessions that may change it, and changes until they are acknowledged."""
    cursor.execute("CREATE TABLE later_state (workspace TEXT PRIMARY KEY, items_json TEXT NOT NULL)")
    cursor.execute("""
        CREATE TABLE later_sessions (
            workspace  TEXT NOT NULL,
            session_id TEXT NOT NULL,
            PRIMARY KEY (workspace, session_id)
        )""")
    cursor.execute("""
        CREATE TABLE later_changes (
            id          INTEGER PRIMARY KEY AUTOINCREMENT,
            workspace   TEXT NOT NULL,
            path        TEXT NOT NULL,
            change      TEXT NOT NULL,
            mark        TEXT NOT NULL,
            session_id  TEXT NOT NULL,
            found_at    TEXT NOT NULL DEFAULT (datetime('now')),
            answer      TEXT,
            answered_at TEXT
        )""")
    cursor.execute("CREATE INDEX idx_later_changes ON later_changes(workspace, path)")


def m037_questions(cursor: sqlite3.Cursor) -> None:
    """Where a question was asked and by which agent, who answered it, and whether the answer was acted on."""
    cursor.execute("ALTER TABLE approvals ADD COLUMN channel TEXT NOT NULL DEFAULT ''")
    cursor.execute("ALTER TABLE approvals ADD COLUMN agent TEXT NOT NULL DEFAULT ''")
    cursor.execute("ALTER TABLE approvals ADD COLUMN answered_who TEXT")
    cursor.execute("ALTER TABLE approvals ADD COLUMN used_at TEXT")
    cursor.execute("UPDATE approvals SET used_at = answered_at WHERE answer IS NOT NULL")
    cursor.execute("DROP INDEX idx_approvals_open")
    cursor.execute("CREATE INDEX idx_approvals_open ON approvals(session_id) WHERE used_at IS NULL")


def m038_replies(cursor: sqlite3.Cursor) -> None:
    """Questions with options and the replies to them; and who may answer yes at a terminal alone."""
    cursor.execute("ALTER TABLE approvals ADD COLUMN terminal INTEGER NOT NULL DEFAULT 0")
    cursor.execute("ALTER TABLE approvals ADD COLUMN questions_json TEXT NOT NULL DEFAULT ''")
    cursor.execute("ALTER TABLE approvals ADD COLUMN replies_json TEXT NOT NULL DEFAULT ''")


def m070_stays(cursor: sqlite3.Cursor) -> None:
    """Questions that wait for an answer also when the process that asked has ended."""
    cursor.execute("ALTER TABLE approvals ADD COLUMN stays INTEGER NOT NULL DEFAULT 0")


def m074_kinds(cursor: sqlite3.Cursor) -> None:
    """Whether a tool call or a step of a SOP waits for a yes. A yes that was given before is to the old question."""
    cursor.execute("ALTER TABLE approvals ADD COLUMN kind TEXT NOT NULL DEFAULT 'call'")
    cursor.execute("UPDATE approvals SET kind = 'step' WHERE stays AND answer IS NULL AND tool GLOB 'SOP *, step *'")
