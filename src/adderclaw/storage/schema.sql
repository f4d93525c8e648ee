CREATE TABLE IF NOT EXISTS schema_meta (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
);

CREATE TABLE IF NOT EXISTS conversations (
    id              TEXT PRIMARY KEY,
    project_dir     TEXT NOT NULL,
    created_at      TEXT NOT NULL DEFAULT (datetime('now')),
    last_active     TEXT NOT NULL DEFAULT (datetime('now')),
    phase           TEXT NOT NULL DEFAULT 'idle'
);

CREATE TABLE IF NOT EXISTS sessions (
    session_id      TEXT PRIMARY KEY,
    conversation_id TEXT NOT NULL REFERENCES conversations(id),
    started_at      TEXT NOT NULL DEFAULT (datetime('now'))
);

CREATE TABLE IF NOT EXISTS state (
    conversation_id TEXT NOT NULL,
    key             TEXT NOT NULL,
    value           TEXT,
    updated_at      TEXT NOT NULL DEFAULT (datetime('now')),
    PRIMARY KEY (conversation_id, key)
);

CREATE TABLE IF NOT EXISTS plans (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation_id TEXT NOT NULL,
    file_path       TEXT,
    content         TEXT NOT NULL,
    hash            TEXT NOT NULL,
    status          TEXT NOT NULL DEFAULT 'draft',
    created_at      TEXT NOT NULL DEFAULT (datetime('now')),
    approved_at     TEXT,
    completed_at    TEXT
);

CREATE TABLE IF NOT EXISTS summaries (
    conversation_id TEXT PRIMARY KEY REFERENCES conversations(id),
    content         TEXT NOT NULL,
    word_count      INTEGER NOT NULL,
    created_at      TEXT NOT NULL DEFAULT (datetime('now'))
);

CREATE TABLE IF NOT EXISTS events (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation_id TEXT NOT NULL,
    session_id      TEXT,
    timestamp       TEXT NOT NULL DEFAULT (datetime('now')),
    event_type      TEXT NOT NULL,
    detail          TEXT
);

CREATE TABLE IF NOT EXISTS task_ratings (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation_id TEXT NOT NULL,
    rating          INTEGER NOT NULL,
    objective       TEXT,
    timestamp       TEXT NOT NULL DEFAULT (datetime('now'))
);

CREATE TABLE IF NOT EXISTS memories (
    id TEXT PRIMARY KEY,
    type TEXT NOT NULL,
    title TEXT NOT NULL,
    content TEXT,
    keywords TEXT,
    anticipated_queries TEXT,
    concept_tags TEXT,
    project_scope TEXT,
    correction_count INTEGER DEFAULT 1,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    last_accessed INTEGER,
    access_count INTEGER DEFAULT 0,
    attention_score REAL DEFAULT 0.5
);

CREATE VIRTUAL TABLE IF NOT EXISTS memories_fts USING fts5(
    title, content, keywords, anticipated_queries,
    tokenize='porter unicode61'
);

CREATE TABLE IF NOT EXISTS transcript_entries (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id      TEXT NOT NULL REFERENCES sessions(session_id),
    sequence        INTEGER NOT NULL,
    parent_entry_id INTEGER REFERENCES transcript_entries(id),
    entry_type      TEXT NOT NULL,
    payload_json    TEXT NOT NULL,
    tool_use_id     TEXT,
    created_at      TEXT NOT NULL DEFAULT (datetime('now')),
    UNIQUE(session_id, sequence)
);

CREATE INDEX IF NOT EXISTS idx_transcript_session ON transcript_entries(session_id, sequence);

CREATE TABLE IF NOT EXISTS hook_invocations (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id     TEXT NOT NULL,
    conversation_id TEXT NOT NULL,
    hook_event     TEXT NOT NULL,
    hook_ordinal   INTEGER NOT NULL,
    matcher        TEXT NOT NULL,
    command        TEXT NOT NULL,
    tool_use_id    TEXT,
    tool_name      TEXT,
    input_json     TEXT NOT NULL,
    exit_code      INTEGER,
    stdout_text    TEXT,
    stderr_text    TEXT,
    started_at     TEXT NOT NULL,
    completed_at   TEXT,
    skipped_reason TEXT
);

CREATE INDEX IF NOT EXISTS idx_hook_inv_session ON hook_invocations(session_id, hook_ordinal);

CREATE TABLE IF NOT EXISTS tool_permission_log (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id      TEXT NOT NULL,
    tool_use_id     TEXT NOT NULL,
    tool_name       TEXT NOT NULL,
    decision        TEXT NOT NULL,
    reason_json     TEXT,
    created_at      TEXT NOT NULL DEFAULT (datetime('now'))
);

CREATE TABLE IF NOT EXISTS settings_snapshot (
    scope      TEXT PRIMARY KEY,
    json       TEXT NOT NULL,
    updated_at TEXT NOT NULL
);

-- From here on the tables are our own.
CREATE TABLE IF NOT EXISTS schema_migrations (
    name       TEXT PRIMARY KEY,
    applied_at TEXT NOT NULL DEFAULT (datetime('now'))
);

-- Each request to a model: its cost in US dollars (NULL without a known price), its run, and the entry with its reply.
CREATE TABLE IF NOT EXISTS model_calls (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id     TEXT NOT NULL,
    step           INTEGER NOT NULL,
    provider       TEXT NOT NULL,
    model          TEXT NOT NULL,
    request_hash   TEXT NOT NULL,
    response_json  TEXT,
    usage_json     TEXT NOT NULL,
    attempts       INTEGER NOT NULL,
    latency_ms     REAL NOT NULL,
    status         TEXT NOT NULL,
    error          TEXT,
    created_at     TEXT NOT NULL DEFAULT (datetime('now')),
    cost           REAL,
    run_id         TEXT,
    entry_sequence INTEGER
);

CREATE INDEX IF NOT EXISTS idx_model_calls_session ON model_calls(session_id, id);

-- used_json is what the run has used of its limits; began_json is where the tables of its session stood when it began.
CREATE TABLE IF NOT EXISTS runs (
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
    reason          TEXT,
    cost            REAL,
    used_json       TEXT,
    rounds          INTEGER NOT NULL DEFAULT 0,
    began_json      TEXT
);

-- A copy of the receipt log. archive is '' for the log in use, else the name of the archived log.
CREATE TABLE IF NOT EXISTS receipts (
    archive      TEXT NOT NULL DEFAULT '',
    seq          INTEGER NOT NULL,
    receipt_hash TEXT NOT NULL,
    line         TEXT NOT NULL,
    end_offset   INTEGER NOT NULL,
    session_id   TEXT,
    tool_use_id  TEXT,
    run_id       TEXT,
    PRIMARY KEY (archive, seq)
) WITHOUT ROWID;

-- Blocks of an assistant entry that only its own provider understands.
CREATE TABLE IF NOT EXISTS opaque_blocks (
    entry_id    INTEGER PRIMARY KEY REFERENCES transcript_entries(id),
    blocks_json TEXT NOT NULL
);

-- Without content: the text is in payload_json. Entries are never changed, and only deleted all together.
CREATE VIRTUAL TABLE IF NOT EXISTS transcript_fts USING fts5(body, content='', tokenize='unicode61');

CREATE INDEX IF NOT EXISTS idx_sessions_conversation ON sessions(conversation_id);

-- Without it, deleting n entries takes n² steps through the foreign key on parent_entry_id.
CREATE INDEX IF NOT EXISTS idx_transcript_parent ON transcript_entries(parent_entry_id)
    WHERE parent_entry_id IS NOT NULL;

-- Questions to the operator. Another process may answer them; mac shows that a yes was given with the operator's key.
CREATE TABLE IF NOT EXISTS approvals (
    id             TEXT PRIMARY KEY,
    session_id     TEXT NOT NULL,
    tool_use_id    TEXT NOT NULL,
    tool           TEXT NOT NULL,
    risk           TEXT NOT NULL,
    reason         TEXT NOT NULL,
    shown          TEXT NOT NULL,
    plan_hash      TEXT NOT NULL,
    pid            INTEGER NOT NULL,
    created_at     TEXT NOT NULL,
    expires_at     TEXT,
    answer         TEXT CHECK (answer IN ('yes', 'no')),
    answered_by    TEXT,
    answered_at    TEXT,
    comment        TEXT,
    mac            TEXT,
    channel        TEXT NOT NULL DEFAULT '',
    agent          TEXT NOT NULL DEFAULT '',
    answered_who   TEXT,
    used_at        TEXT,
    terminal       INTEGER NOT NULL DEFAULT 0,
    questions_json TEXT NOT NULL DEFAULT '',
    replies_json   TEXT NOT NULL DEFAULT '',
    stays          INTEGER NOT NULL DEFAULT 0,
    kind           TEXT NOT NULL DEFAULT 'call'
);

-- The definition of each MCP tool as it was approved, and the one that is offered now if it differs.
CREATE TABLE IF NOT EXISTS mcp_pins (
    scope       TEXT NOT NULL,
    server      TEXT NOT NULL,
    tool        TEXT NOT NULL,
    definition  TEXT,
    approved_by TEXT CHECK (approved_by IN ('first_sight', 'operator')),
    offered     TEXT,
    updated_at  TEXT NOT NULL DEFAULT (datetime('now')),
    PRIMARY KEY (scope, server, tool)
);

-- Child sessions: the parent of each and how it ended.
CREATE TABLE IF NOT EXISTS subagents (
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
    reason      TEXT
);

CREATE INDEX IF NOT EXISTS idx_subagents_parent ON subagents(parent_id, tool_use_id);

-- Processes and children that a session started in the background, and whether the model knows how they ended.
CREATE TABLE IF NOT EXISTS background_tasks (
    id         TEXT PRIMARY KEY,
    session_id TEXT NOT NULL,
    kind       TEXT NOT NULL,
    title      TEXT NOT NULL,
    status     TEXT NOT NULL DEFAULT 'running',
    summary    TEXT,
    told       INTEGER NOT NULL DEFAULT 0,
    began_at   TEXT NOT NULL DEFAULT (datetime('now')),
    ended_at   TEXT,
    result     TEXT
);

CREATE INDEX IF NOT EXISTS idx_background_tasks_untold ON background_tasks(session_id) WHERE told = 0;

-- Files that tools changed, path by path, and where the bytes of each content are.
CREATE TABLE IF NOT EXISTS checkpoints (
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
);

CREATE INDEX IF NOT EXISTS idx_checkpoints_conversation ON checkpoints(conversation_id, id);

CREATE TABLE IF NOT EXISTS checkpoint_changes (
    checkpoint_id INTEGER NOT NULL REFERENCES checkpoints(id),
    path          BLOB NOT NULL,
    before_json   TEXT,
    after_json    TEXT,
    sure          INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (checkpoint_id, path)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS checkpoint_blobs (
    digest TEXT PRIMARY KEY,
    pack   TEXT NOT NULL,
    start  INTEGER NOT NULL,
    size   INTEGER NOT NULL
) WITHOUT ROWID;

-- A session's todo list, and a conversation's tasks with what blocks what.
CREATE TABLE IF NOT EXISTS todos (
    session_id  TEXT NOT NULL,
    position    INTEGER NOT NULL,
    content     TEXT NOT NULL,
    status      TEXT NOT NULL,
    active_form TEXT NOT NULL,
    PRIMARY KEY (session_id, position)
);

CREATE TABLE IF NOT EXISTS todo_tasks (
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
);

CREATE TABLE IF NOT EXISTS todo_links (
    conversation_id TEXT NOT NULL,
    blocker         INTEGER NOT NULL,
    blocked         INTEGER NOT NULL,
    PRIMARY KEY (conversation_id, blocker, blocked)
);

-- The input of each run of an Agentfile, and the result of each finished goal and persona.
CREATE TABLE IF NOT EXISTS workflows (
    run_id      TEXT PRIMARY KEY,
    file        TEXT NOT NULL,
    name        TEXT NOT NULL,
    digest      TEXT NOT NULL,
    inputs_json TEXT NOT NULL,
    said_json   TEXT NOT NULL DEFAULT '{}'
);

CREATE TABLE IF NOT EXISTS workflow_results (
    run_id      TEXT NOT NULL,
    place       TEXT NOT NULL,
    agent       TEXT NOT NULL,
    goal        TEXT NOT NULL,
    session_id  TEXT NOT NULL,
    result_json TEXT NOT NULL,
    created_at  TEXT NOT NULL DEFAULT (datetime('now')),
    PRIMARY KEY (run_id, place, agent)
);

-- What a replay needs of a session and no other table has. Each row is sealed with all rows before it.
CREATE TABLE IF NOT EXISTS tape (
    run_id     TEXT NOT NULL,
    session_id TEXT NOT NULL,
    seq        INTEGER NOT NULL,
    items_json TEXT NOT NULL,
    seal       TEXT NOT NULL,
    PRIMARY KEY (run_id, session_id, seq)
);

CREATE TABLE IF NOT EXISTS tape_texts (digest TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS idx_runs_session ON runs(session_id);

CREATE INDEX IF NOT EXISTS idx_receipts_run ON receipts(run_id);

-- Digests of the rows that each run left.
CREATE TABLE IF NOT EXISTS imprints (run_id TEXT PRIMARY KEY, rows_json TEXT NOT NULL);

-- Files that programs run later, the sessions that may change them, and changes until they are acknowledged.
CREATE TABLE IF NOT EXISTS later_state (workspace TEXT PRIMARY KEY, items_json TEXT NOT NULL);

CREATE TABLE IF NOT EXISTS later_sessions (
    workspace  TEXT NOT NULL,
    session_id TEXT NOT NULL,
    PRIMARY KEY (workspace, session_id)
);

CREATE TABLE IF NOT EXISTS later_changes (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace   TEXT NOT NULL,
    path        TEXT NOT NULL,
    change      TEXT NOT NULL,
    mark        TEXT NOT NULL,
    session_id  TEXT NOT NULL,
    found_at    TEXT NOT NULL DEFAULT (datetime('now')),
    answer      TEXT,
    answered_at TEXT
);

CREATE INDEX IF NOT EXISTS idx_later_changes ON later_changes(workspace, path);

CREATE INDEX IF NOT EXISTS idx_approvals_open ON approvals(session_id) WHERE used_at IS NULL;

-- The range of the trace file that each process of a run wrote, with its digest.
CREATE TABLE IF NOT EXISTS traces (
    run_id TEXT NOT NULL,
    root   BLOB NOT NULL,
    way    BLOB NOT NULL,
    start  INTEGER NOT NULL,
    until  INTEGER NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (run_id, root, way, start)
) WITHOUT ROWID;

-- The entry with which each turn begins.
CREATE TABLE IF NOT EXISTS turns (
    turn_id        TEXT PRIMARY KEY,
    session_id     TEXT NOT NULL,
    first_sequence INTEGER NOT NULL
);

CREATE INDEX IF NOT EXISTS idx_turns_session ON turns(session_id, first_sequence);

CREATE INDEX IF NOT EXISTS idx_model_calls_entry ON model_calls(session_id, entry_sequence);

-- One row for each message.
CREATE VIEW IF NOT EXISTS memory_log AS
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
    WHERE e.entry_type IN ('user', 'assistant', 'tool_result');

CREATE INDEX IF NOT EXISTS idx_memories_updated ON memories(updated_at);

-- Each claim that a scenario passes, and the verdict of the session that checked it: empty while the check is due.
-- project is the workspace; evidence_json names what was cited, each with the digest of its content.
CREATE TABLE IF NOT EXISTS scenario_checks (
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
);

CREATE INDEX IF NOT EXISTS scenario_checks_of ON scenario_checks(project, scenario_id);

-- Acceptance criteria of plans, the files that they are proved against, and generated tests with their results.
CREATE TABLE IF NOT EXISTS plan_criteria (
    plan_id   INTEGER NOT NULL REFERENCES plans(id),
    criterion TEXT NOT NULL,
    position  INTEGER NOT NULL,
    line      INTEGER NOT NULL,
    text      TEXT NOT NULL,
    keeps     INTEGER NOT NULL CHECK (keeps IN (0, 1)),
    fault     TEXT NOT NULL,
    PRIMARY KEY (plan_id, criterion)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS plan_baselines (
    plan_id    INTEGER PRIMARY KEY REFERENCES plans(id),
    root       BLOB NOT NULL,
    digest     TEXT NOT NULL,
    tree       BLOB NOT NULL,
    left_out   TEXT NOT NULL,
    created_at TEXT NOT NULL DEFAULT (datetime('now'))
);

CREATE INDEX IF NOT EXISTS idx_plans_conversation ON plans(conversation_id, id);

CREATE TABLE IF NOT EXISTS generated_tests (
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
);

CREATE INDEX IF NOT EXISTS idx_generated_tests_plan ON generated_tests(plan_id, criterion);

CREATE TABLE IF NOT EXISTS test_results (
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
);

CREATE INDEX IF NOT EXISTS idx_test_results_test ON test_results(test_id, id);

-- Notes that a model wrote and no person confirmed: they can be looked up, but no prompt includes them.
CREATE TABLE IF NOT EXISTS unconfirmed_memories (id TEXT PRIMARY KEY) WITHOUT ROWID;

-- Clients of the server with their scopes. The token itself is not stored.
CREATE TABLE IF NOT EXISTS clients (
    id           TEXT PRIMARY KEY,
    name         TEXT NOT NULL,
    scopes_json  TEXT NOT NULL,
    folders_json TEXT NOT NULL,
    created_at   TEXT NOT NULL,
    expires_at   TEXT,
    parent       TEXT NOT NULL DEFAULT '',
    mac          TEXT NOT NULL,
    used_at      TEXT,
    revoked_at   TEXT
);

-- Schedules, and one row for every due time that was dealt with.
CREATE TABLE IF NOT EXISTS schedules (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    workspace  TEXT NOT NULL,
    when_json  TEXT NOT NULL,
    what_json  TEXT NOT NULL,
    terms_json TEXT NOT NULL,
    pin        TEXT NOT NULL DEFAULT '',
    created_at TEXT NOT NULL,
    created_by TEXT NOT NULL,
    mac        TEXT NOT NULL,
    paused_at  TEXT,
    until      REAL NOT NULL,
    next_at    REAL,
    seen_json  TEXT
);

CREATE TABLE IF NOT EXISTS schedule_runs (
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
    begins      INTEGER NOT NULL DEFAULT 0,
    UNIQUE (schedule_id, due)
);

CREATE INDEX IF NOT EXISTS idx_schedule_runs_open ON schedule_runs(schedule_id)
    WHERE state IN ('queued', 'claimed', 'running');

CREATE TABLE IF NOT EXISTS schedule_ticks (ticker TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID;

-- Ids of signed requests, so that none counts twice in any process.
CREATE TABLE IF NOT EXISTS deliveries (
    door        TEXT NOT NULL,
    id          TEXT NOT NULL,
    received_at TEXT NOT NULL,
    expires_at  TEXT,
    became      TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (door, id)
) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS deliveries_expire ON deliveries(expires_at);

-- One row for each notice and target: written with the event that it reports, marked when it was delivered.
CREATE TABLE IF NOT EXISTS notices (
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
);

CREATE INDEX IF NOT EXISTS idx_notices_waiting ON notices(due_at) WHERE state = 'waiting';

INSERT OR IGNORE INTO schema_meta(key, value) VALUES ('schema_version', '1');
