"""The tables of the work itself: child sessions, background tasks, checkpoints, lists, workflows."""

import sqlite3


def m010_subagents(cursor: sqlite3.Cursor) -> None:
    """Child sessions: whose they are, how each ended, and whether its parent has been told."""
    cursor.execute("""
        CREATE TABLE subagents (
            session_id  TEXT PRIMARY KEY,
            parent_id   TEXT NOT NULL,
            tool_use_id TEXT NOT NULL,
            agent_type  TEXT NOT NULL,
            description TEXT NOT NULL,
            background  INTEGER NOT NULL,
            pid         INTEGER NOT NULL,
            started_at  TEXT NOT NULL DEFAULT (datetime('now')),
            finished_at TEXT,
            outcome     TEXT,
            answer      TEXT,
            reason      TEXT,
            told        INTEGER NOT NULL DEFAULT 0
        )""")
    cursor.execute("CREATE INDEX idx_subagents_parent ON subagents(parent_id, tool_use_id)")


def m012_background_tasks(cursor: sqlite3.Cursor) -> None:
    """What a session started beside its turns, so that a resumed one knows what ended without a word."""
    cursor.execute("""
        CREATE TABLE background_tasks (
            id         TEXT PRIMARY KEY,
            session_id TEXT NOT NULL,
            kind       TEXT NOT NULL,
            title      TEXT NOT NULL,
            status     TEXT NOT NULL DEFAULT 'running',
            summary    TEXT,
            told       INTEGER NOT NULL DEFAULT 0,
            began_at   TEXT NOT NULL DEFAULT (datetime('now')),
            ended_at   TEXT
        )""")
    cursor.execute("CREATE INDEX idx_background_tasks_untold ON background_tasks(session_id) WHERE told = 0")


def m013_checkpoints(cursor: sqlite3.Cursor) -> None:
    """What tools changed on disk, path by path, and where the bytes of each content are kept."""
    cursor.execute("""
        CREATE TABLE checkpoints (
            id              INTEGER PRIMARY KEY AUTOINCREMENT,
            root            BLOB NOT NULL,
            conversation_id TEXT NOT NULL,
            session_id      TEXT NOT NULL,
            turn_session    TEXT NOT NULL,
            turn            INTEGER NOT NULL,
            kind            TEXT NOT NULL CHECK (kind IN ('call', 'other', 'restore')),
            tool            TEXT NOT NULL,
            tool_use_id     TEXT NOT NULL,
            note            TEXT NOT NULL,
            status          TEXT NOT NULL CHECK (status IN ('done', 'pending')),
            created_at      TEXT NOT NULL DEFAULT (datetime('now'))
        )""")
    cursor.execute("CREATE INDEX idx_checkpoints_conversation ON checkpoints(conversation_id, id)")
    cursor.execute("""
        CREATE TABLE checkpoint_changes (
            checkpoint_id INTEGER NOT NULL REFERENCES checkpoints(id),
            path          BLOB NOT NULL,
            before_json   TEXT,
            after_json    TEXT,
            PRIMARY KEY (checkpoint_id, path)
        ) WITHOUT ROWID""")
    cursor.execute("""
        CREATE TABLE checkpoint_blobs (
            digest TEXT PRIMARY KEY,
            pack   TEXT NOT NULL,
            start  INTEGER NOT NULL,
            size   INTEGER NOT NULL
        ) WITHOUT ROWID""")


def m014_lists(cursor: sqlite3.Cursor) -> None:
    """What is to be done: a session's todo list, and a conversation's tasks with what blocks what."""
    cursor.execute("""
        CREATE TABLE todos (
            session_id  TEXT NOT NULL,
            position    INTEGER NOT NULL,
            content     TEXT NOT NULL,
            status      TEXT NOT NULL,
            active_form TEXT NOT NULL,
            PRIMARY KEY (session_id, position)
        )""")
    cursor.execute("""
        CREATE TABLE todo_tasks (
            conversation_id TEXT NOT NULL,
            number          INTEGER NOT NULL,
            subject         TEXT NOT NULL,
            description     TEXT NOT NULL,
            active_form     TEXT NOT NULL,
            status          TEXT NOT NULL DEFAULT 'pending',
            owner           TEXT NOT NULL DEFAULT '',
            metadata_json   TEXT NOT NULL,
            created_at      TEXT NOT NULL DEFAULT (datetime('now')),
            updated_at      TEXT NOT NULL DEFAULT (datetime('now')),
            PRIMARY KEY (conversation_id, number)
        )""")
    cursor.execute("""
        CREATE TABLE todo_links (
            conversation_id TEXT NOT NULL,
            blocker         INTEGER NOT NULL,
            blocked         INTEGER NOT NULL,
            PRIMARY KEY (conversation_id, blocker, blocked)
        )""")


def m015_task_results(cursor: sqlite3.Cursor) -> None:
    """What a background task has to say with its end, so that a crash before it was told loses nothing."""
    cursor.execute("ALTER TABLE background_tasks ADD COLUMN result TEXT")
    cursor.execute("ALTER TABLE subagents DROP COLUMN told")


def m020_workflows(cursor: sqlite3.Cursor) -> None:
    """What a run of an Agentfile began with, and the result of each goal and persona that is finished."""
    cursor.execute("""
        CREATE TABLE workflows (
            run_id      TEXT PRIMARY KEY,
            file        TEXT NOT NULL,
            name        TEXT NOT NULL,
            digest      TEXT NOT NULL,
            inputs_json TEXT NOT NULL
        )""")
    cursor.execute("""
        CREATE TABLE workflow_results (
            run_id      TEXT NOT NULL,
            place       TEXT NOT NULL,
            agent       TEXT NOT NULL,
            goal        TEXT NOT NULL,
            session_id  TEXT NOT NULL,
            result_json TEXT NOT NULL,
            created_at  TEXT NOT NULL DEFAULT (datetime('now')),
            PRIMARY KEY (run_id, place, agent)
        )""")


def m032_config(cursor: sqlite3.Cursor) -> None:
    """The configuration that a run of an Agentfile was begun with, where one was named; `said_json` has it by now."""
    cursor.execute("ALTER TABLE workflows ADD COLUMN config TEXT NOT NULL DEFAULT ''")


def m032_said(cursor: sqlite3.Cursor) -> None:
    """The options that a run of an Agentfile was begun with: configuration, profile, provider, model."""
    cursor.execute("ALTER TABLE workflows ADD COLUMN said_json TEXT NOT NULL DEFAULT '{}'")
    cursor.execute("UPDATE workflows SET said_json = json_object('config_file', config) WHERE config != ''")


def m040_sure(cursor: sqlite3.Cursor) -> None:
    """Whether a change was the call's for sure: what commands changed before this was known may be anybody's."""
    cursor.execute("ALTER TABLE checkpoint_changes ADD COLUMN sure INTEGER NOT NULL DEFAULT 0")
    cursor.execute("""
        UPDATE checkpoint_changes SET sure = 1 WHERE checkpoint_id IN (
            SELECT id FROM checkpoints WHERE kind = 'restore' OR tool IN ('Write', 'Edit', 'NotebookEdit', 'Delete')
        )""")
