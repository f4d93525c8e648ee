"""The tables of what is said and counted: model calls, the transcript's index, turns, notes."""

import sqlite3


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


def m043_notes(cursor: sqlite3.Cursor) -> None:
    """The index of notes has their row numbers, so that one note is one row of it; the newest are found at once."""
    cursor.execute("DELETE FROM memories_fts")
    cursor.execute(
        "INSERT INTO memories_fts(rowid, title, content, keywords, anticipated_queries)"
        " SELECT rowid, title, content, keywords, anticipated_queries FROM memories"
    )
    cursor.execute("CREATE INDEX IF NOT EXISTS idx_memories_updated ON memories(updated_at)")


def m060_unconfirmed(cursor: sqlite3.Cursor) -> None:
    """Notes that a model kept and nobody was asked about: they can be looked up, and are in no prompt by themselves."""
    cursor.execute("CREATE TABLE unconfirmed_memories (id TEXT PRIMARY KEY) WITHOUT ROWID")
