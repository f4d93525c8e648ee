"""Brings a database file to the schema of this program: the specified tables, then our own, each step once, by name."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

from adderclaw.errors import StoreError

SCHEMA_VERSION = "1"
DISK = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR})


def m001_model_calls(cursor: sqlite3.Cursor) -> None:
    cursor.execute("""
        CREATE TABLE model_calls (
            id            INTEGER PRIMARY KEY AUTOINCREMENT,
            session_id    TEXT NOT NULL,
            step          INTEGER NOT NULL,
            provider      TEXT NOT NULL,
            model         TEXT NOT NULL,
            request_hash  TEXT NOT NULL,
            response_json TEXT,
            usage_json    TEXT NOT NULL,
            attempts      INTEGER NOT NULL,
            latency_ms    REAL NOT NULL,
            status        TEXT NOT NULL,
            error         TEXT,
            created_at    TEXT NOT NULL DEFAULT (datetime('now'))
        )""")
    cursor.execute("CREATE INDEX idx_model_calls_session ON model_calls(session_id, id)")


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


def m004_opaque_blocks(cursor: sqlite3.Cursor) -> None:
    """What only its own provider understands, kept beside the assistant entry that it came with."""
    cursor.execute("""
        CREATE TABLE opaque_blocks (
            entry_id    INTEGER PRIMARY KEY REFERENCES transcript_entries(id),
            blocks_json TEXT NOT NULL
        )""")


def m005_transcript_search(cursor: sqlite3.Cursor) -> None:
    """Contentless: the text stands once, in payload_json. Entries are never changed, and only deleted all together."""
    cursor.execute("CREATE VIRTUAL TABLE transcript_fts USING fts5(body, content='', tokenize='unicode61')")


def m006_lookups(cursor: sqlite3.Cursor) -> None:
    cursor.execute("CREATE INDEX idx_sessions_conversation ON sessions(conversation_id)")
    # Without it, deleting n entries costs n² through the foreign key on parent_entry_id.
    cursor.execute(
        "CREATE INDEX idx_transcript_parent ON transcript_entries(parent_entry_id) WHERE parent_entry_id IS NOT NULL"
    )


def m007_cost(cursor: sqlite3.Cursor) -> None:
    """US dollars of a call and of a run, NULL where no price is known; and which run a call belongs to."""
    cursor.execute("ALTER TABLE model_calls ADD COLUMN cost REAL")
    cursor.execute("ALTER TABLE model_calls ADD COLUMN run_id TEXT")
    cursor.execute("ALTER TABLE runs ADD COLUMN cost REAL")


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


def m011_approval_mac(cursor: sqlite3.Cursor) -> None:
    """Who gave a yes had the operator's key."""
    cursor.execute("ALTER TABLE approvals ADD COLUMN mac TEXT")


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


def m032_config(cursor: sqlite3.Cursor) -> None:
    """The configuration that a run of an Agentfile was begun with, where one was named; `said_json` has it by now."""
    cursor.execute("ALTER TABLE workflows ADD COLUMN config TEXT NOT NULL DEFAULT ''")


def m032_said(cursor: sqlite3.Cursor) -> None:
    """The options that a run of an Agentfile was begun with: configuration, profile, provider, model."""
    cursor.execute("ALTER TABLE workflows ADD COLUMN said_json TEXT NOT NULL DEFAULT '{}'")
    cursor.execute("UPDATE workflows SET said_json = json_object('config_file', config) WHERE config != ''")


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


def m040_sure(cursor: sqlite3.Cursor) -> None:
    """Whether a change was the call's for sure: what commands changed before this was known may be anybody's."""
    cursor.execute("ALTER TABLE checkpoint_changes ADD COLUMN sure INTEGER NOT NULL DEFAULT 0")
    cursor.execute("""
        UPDATE checkpoint_changes SET sure = 1 WHERE checkpoint_id IN (
            SELECT id FROM checkpoints WHERE kind = 'restore' OR tool IN ('Write', 'Edit', 'NotebookEdit', 'Delete')
        )""")


def m041_turns(cursor: sqlite3.Cursor) -> None:
    """Where each turn begins, which reply a model call brought, and a view with a line for each message."""
    cursor.execute("""
        CREATE TABLE turns (
            turn_id TEXT PRIMARY KEY,
            session_id TEXT NOT NULL,
            first_sequence INTEGER NOT NULL
        )""")
    cursor.execute("CREATE INDEX idx_turns_session ON turns(session_id, first_sequence)")
    cursor.execute("""
        INSERT OR IGNORE INTO turns
        SELECT 'turn-' || coalesce(substr(json_extract(payload_json, '$.uuid'), 7), id), session_id, sequence
        FROM transcript_entries WHERE entry_type = 'user'""")
    cursor.execute("ALTER TABLE model_calls ADD COLUMN entry_sequence INTEGER")
    cursor.execute("CREATE INDEX idx_model_calls_entry ON model_calls(session_id, entry_sequence)")
    cursor.execute("""
        CREATE VIEW memory_log AS
        SELECT s.conversation_id,
            (SELECT t.turn_id FROM turns t WHERE t.session_id = e.session_id AND t.first_sequence <= e.sequence
             ORDER BY t.first_sequence DESC LIMIT 1) AS turn_id,
            strftime('%Y-%m-%dT%H:%M:%SZ', e.created_at) AS timestamp,
            CASE e.entry_type WHEN 'tool_result' THEN 'tool' ELSE e.entry_type END AS role,
            CASE e.entry_type WHEN 'tool_result' THEN json_extract(e.payload_json, '$.content') ELSE
                coalesce((SELECT group_concat(json_extract(b.value, '$.text'), char(10))
                 FROM json_each(e.payload_json, '$.content') b WHERE json_extract(b.value, '$.type') = 'text'), '')
            END AS content,
            (SELECT json_group_array(json_object('id', json_extract(b.value, '$.id'),
                    'name', json_extract(b.value, '$.name'), 'input', json_extract(b.value, '$.input')))
             FROM json_each(CASE e.entry_type WHEN 'assistant' THEN e.payload_json ELSE '{}' END, '$.content') b
             WHERE json_extract(b.value, '$.type') = 'tool_use') AS tool_calls,
            CASE e.entry_type WHEN 'tool_result' THEN json_array(json_object(
                    'tool_use_id', e.tool_use_id, 'content', json_extract(e.payload_json, '$.content'),
                    'is_error', json(iif(json_extract(e.payload_json, '$.is_error'), 'true', 'false'))))
                ELSE '[]' END AS tool_results,
            m.provider, m.model,
            json_object('session_id', e.session_id, 'entry_id', e.id, 'sequence', e.sequence,
                'usage', json(coalesce(m.usage_json, 'null')), 'cost', m.cost) AS metadata
        FROM transcript_entries e JOIN sessions s ON s.session_id = e.session_id
        LEFT JOIN model_calls m ON m.session_id = e.session_id AND m.entry_sequence = e.sequence
        WHERE e.entry_type IN ('user', 'assistant', 'tool_result')""")


def m042_began(cursor: sqlite3.Cursor) -> None:
    """Where the tables of its session stood when a run began: what came before belongs to the runs before it."""
    cursor.execute("ALTER TABLE runs ADD COLUMN began_json TEXT")


def m043_notes(cursor: sqlite3.Cursor) -> None:
    """The index of notes has their row numbers, so that one note is one row of it; the newest are found at once."""
    cursor.execute("DELETE FROM memories_fts")
    cursor.execute(
        "INSERT INTO memories_fts(rowid, title, content, keywords, anticipated_queries)"
        " SELECT rowid, title, content, keywords, anticipated_queries FROM memories"
    )
    cursor.execute("CREATE INDEX IF NOT EXISTS idx_memories_updated ON memories(updated_at)")


MIGRATIONS: dict[str, Callable[[sqlite3.Cursor], None]] = {
    step.__name__: step
    for step in (
        m001_model_calls,
        m002_runs,
        m003_receipts,
        m004_opaque_blocks,
        m005_transcript_search,
        m006_lookups,
        m007_cost,
        m008_approvals,
        m009_mcp_pins,
        m010_subagents,
        m011_approval_mac,
        m012_background_tasks,
        m013_checkpoints,
        m014_lists,
        m015_task_results,
        m020_workflows,
        m030_tape,
        m031_used,
        m032_config,
        m032_said,
        m033_receipts_of_runs,
        m034_imprints,
        m036_later,
        m037_questions,
        m038_replies,
        m039_traces,
        m040_sure,
        m041_turns,
        m042_began,
        m043_notes,
    )
}


def pending(cursor: sqlite3.Cursor, path: str) -> list[str]:
    """The steps that the file still lacks; a file that is not ours, or newer than this program, is an error."""
    tables = {row[0] for row in cursor.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        return list(MIGRATIONS)
    if "schema_meta" not in tables:
        raise StoreError(
            f"{path} is a database of another program (it has the table {min(tables)} and no schema_meta): "
            "set [memory] path to another file"
        )
    row = cursor.execute("SELECT value FROM schema_meta WHERE key = 'schema_version'").fetchone()
    if row is not None and row[0] != SCHEMA_VERSION:
        raise _newer(path, f"schema version {row[0]}, this program knows {SCHEMA_VERSION}")
    if "schema_migrations" not in tables:
        return list(MIGRATIONS)
    done = {row[0] for row in cursor.execute("SELECT name FROM schema_migrations")}
    if unknown := done - MIGRATIONS.keys():
        raise _newer(path, f"migration {min(unknown)}")
    return [name for name in MIGRATIONS if name not in done]


def apply(cursor: sqlite3.Cursor, path: str) -> None:
    """Inside the caller's transaction: whoever comes second finds nothing left to do."""
    if not (missing := pending(cursor, path)):
        return
    with open(os.path.join(os.path.dirname(__file__), "schema.sql"), encoding="utf-8") as file:
        for statement in _statements(file.read()):
            cursor.execute(statement)
    cursor.execute(
        "CREATE TABLE IF NOT EXISTS schema_migrations"
        "(name TEXT PRIMARY KEY, applied_at TEXT NOT NULL DEFAULT (datetime('now')))"
    )
    for name in missing:
        MIGRATIONS[name](cursor)
        cursor.execute("INSERT INTO schema_migrations(name) VALUES (?)", (name,))


def backed_up(cursor: sqlite3.Cursor, path: str) -> str:
    """Copy a database that is about to be changed; where the copy is, or nothing for one that is new or up to date.

    The caller holds the write lock, so that nobody changes it meanwhile.
    """
    missing = pending(cursor, path)
    if not missing or len(missing) == len(MIGRATIONS):
        return ""
    copy = f"{path}.before-{missing[0]}"
    unfinished = f"{copy}.unfinished"
    try:
        with suppress(FileNotFoundError):
            os.unlink(unfinished)  # of a process that was killed here
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(unfinished)) as target:
            source.backup(target)
        os.replace(unfinished, copy)
    except (OSError, sqlite3.Error) as error:
        with suppress(OSError):
            os.unlink(unfinished)
        raise StoreError(
            f"{path} has to be brought up to date, and cannot be copied before that ({error}): "
            "free some space, or make its folder writable; nothing was changed"
        ) from error
    return copy


def apply_or_restore(cursor: sqlite3.Cursor, path: str, copy: str) -> None:
    """All steps, committed, or none of them: what a step that fails has changed is rolled back."""
    try:
        apply(cursor, path)
        cursor.execute("COMMIT")
    except (sqlite3.Error, OSError, ValueError, TypeError, KeyError) as error:
        if cursor.connection.in_transaction:  # on a full disk SQLite has rolled it back already
            cursor.execute("ROLLBACK")
        full = isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF in DISK
        fix = (
            "free some space, and try again" if full else "use the version of adderclaw that wrote it, and report this"
        )
        raise StoreError(
            f"{path} could not be brought up to date ({error}) and is as it was; a copy is in {copy}: {fix}"
        ) from error


def _statements(script: str) -> Iterator[str]:
    # executescript would commit first, and the whole of it has to be one transaction.
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _newer(path: str, what: str) -> StoreError:
    return StoreError(
        f"{path} was written by a newer adderclaw ({what}): upgrade, or set [memory] path to another file"
    )
