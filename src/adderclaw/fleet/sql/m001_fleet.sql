-- What the fleet knows. Runs are queued by DBOS (its own schema, dbos); everything here is ours.

CREATE TABLE fleet.workers (
    id text PRIMARY KEY,                    -- one process: its name and a word that no other start has
    name text NOT NULL,                     -- the machine, as the operator enrolled it
    host text NOT NULL,
    pid integer NOT NULL,
    version text NOT NULL,
    slots integer NOT NULL,
    labels text[] NOT NULL DEFAULT '{}',
    started timestamptz NOT NULL DEFAULT now(),
    seen timestamptz NOT NULL DEFAULT now(),
    draining boolean NOT NULL DEFAULT false,
    ended timestamptz
);

CREATE TABLE fleet.identities (
    name text PRIMARY KEY,                  -- of a worker
    public_key text NOT NULL,               -- Ed25519, hexadecimal
    enrolled timestamptz NOT NULL DEFAULT now(),
    revoked timestamptz
);

CREATE TABLE fleet.runs (
    id text PRIMARY KEY,
    number bigint GENERATED ALWAYS AS IDENTITY,
    submitter text NOT NULL,
    project text NOT NULL DEFAULT '',
    label text NOT NULL DEFAULT '',         -- which workers may take it; empty: all
    batch text NOT NULL DEFAULT '',         -- runs of one matrix have one
    wanted jsonb NOT NULL,                  -- what is to be run, as drivers/wanted has it
    place jsonb NOT NULL,                   -- {"archive": digest} or {"repo": url, "commit": hash}
    priority integer NOT NULL DEFAULT 5,
    tag bigint NOT NULL DEFAULT 0,          -- its turn among all submitters
    dedupe text,
    after text[] NOT NULL DEFAULT '{}',
    max_cost double precision,
    deadline timestamptz,
    trace text NOT NULL DEFAULT '',         -- the trace that the submission began

    state text NOT NULL CHECK (state IN ('held', 'queued', 'running', 'waiting', 'ended')),
    generation integer NOT NULL DEFAULT 1,  -- workflow `id.generation` of DBOS carries it
    token bigint NOT NULL DEFAULT 0,        -- fencing: grows with every claim and every take-over
    worker text REFERENCES fleet.workers,
    lease_until timestamptz,
    resume_due boolean NOT NULL DEFAULT false,
    strikes integer NOT NULL DEFAULT 0,     -- starts since the last finished unit
    units integer NOT NULL DEFAULT 0,
    saved text,                             -- digest of the state that a take-over begins with
    saved_call bigint NOT NULL DEFAULT 0,   -- the last of fleet.calls that this state knows
    stopped_by bigint,

    submitted timestamptz NOT NULL DEFAULT now(),
    began timestamptz,
    finished timestamptz,
    outcome text,
    exit_code integer,
    reason text NOT NULL DEFAULT '',
    answer text NOT NULL DEFAULT '',
    cost double precision,
    tokens bigint NOT NULL DEFAULT 0,
    CHECK ((state = 'ended') = (outcome IS NOT NULL))
);
CREATE UNIQUE INDEX runs_dedupe ON fleet.runs (dedupe) WHERE dedupe IS NOT NULL AND state <> 'ended';
CREATE INDEX runs_number ON fleet.runs (number);
CREATE INDEX runs_open ON fleet.runs (lease_until) WHERE state = 'running';
CREATE INDEX runs_due ON fleet.runs (id) WHERE resume_due;
CREATE INDEX runs_held ON fleet.runs (number) WHERE state IN ('held', 'waiting');
CREATE INDEX runs_batch ON fleet.runs (batch, number) WHERE batch <> '';
CREATE INDEX runs_stopped ON fleet.runs (stopped_by) WHERE stopped_by IS NOT NULL;

CREATE TABLE fleet.shares (
    submitter text PRIMARY KEY,
    tag bigint NOT NULL                     -- of the last run that it submitted
);
CREATE TABLE fleet.clock (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    tag bigint NOT NULL DEFAULT 100000      -- of the last run that was claimed
);
INSERT INTO fleet.clock DEFAULT VALUES;

CREATE TABLE fleet.units (
    run text NOT NULL REFERENCES fleet.runs,
    number integer NOT NULL,
    place text NOT NULL,
    token bigint NOT NULL,
    worker text NOT NULL,
    saved text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run, number)
);

CREATE TABLE fleet.calls (                  -- tool calls that had begun: what has no end is of unknown outcome
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run text NOT NULL REFERENCES fleet.runs,
    token bigint NOT NULL,
    call text NOT NULL,
    tool text NOT NULL,
    shown text NOT NULL,                    -- its input without secrets, cut
    begun timestamptz NOT NULL DEFAULT now(),
    ended timestamptz,
    lost boolean NOT NULL DEFAULT false,    -- its worker ended before what came of it was put away
    UNIQUE (run, token, call)
);

CREATE TABLE fleet.budgets (
    scope text NOT NULL CHECK (scope IN ('fleet', 'project', 'submitter', 'run')),
    name text NOT NULL DEFAULT '',
    cost double precision,                  -- US dollars; null: no limit
    tokens bigint,
    spent_cost double precision NOT NULL DEFAULT 0,
    spent_tokens bigint NOT NULL DEFAULT 0,
    held_cost double precision NOT NULL DEFAULT 0,
    held_tokens bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (scope, name)
);

CREATE TABLE fleet.reservations (           -- model calls: held before, settled after
    id text PRIMARY KEY,
    run text NOT NULL REFERENCES fleet.runs,
    token bigint NOT NULL,
    submitter text NOT NULL,
    project text NOT NULL,
    model text NOT NULL,
    held_cost double precision NOT NULL,
    held_tokens bigint NOT NULL,
    begun timestamptz NOT NULL DEFAULT now(),
    settled timestamptz,
    cost double precision,
    tokens bigint,
    lost boolean NOT NULL DEFAULT false     -- its worker died: what was expected counts
);
CREATE INDEX reservations_open ON fleet.reservations (model) WHERE settled IS NULL;
CREATE INDEX reservations_recent ON fleet.reservations (model, begun);
CREATE INDEX reservations_run ON fleet.reservations (run);

CREATE TABLE fleet.pace (
    model text PRIMARY KEY,
    not_before timestamptz,                 -- the provider said that it is asked too often
    per_minute integer,
    at_once integer
);

CREATE TABLE fleet.controls (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope text NOT NULL CHECK (scope IN ('fleet', 'label', 'run')),
    name text NOT NULL DEFAULT '',
    reason text NOT NULL DEFAULT '',
    by text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    cleared timestamptz
);
CREATE INDEX controls_set ON fleet.controls (scope, name) WHERE cleared IS NULL;

CREATE TABLE fleet.questions (
    id text NOT NULL,                       -- of the approval in the run's store
    run text NOT NULL REFERENCES fleet.runs,
    question jsonb NOT NULL,
    asked timestamptz NOT NULL DEFAULT now(),
    answer jsonb,
    by text,
    mac text,                               -- made with the fleet's key: who can only write rows answers nothing
    answered timestamptz,
    PRIMARY KEY (run, id)
);

CREATE TABLE fleet.events (                 -- what `fleet logs` shows
    run text NOT NULL REFERENCES fleet.runs,
    id bigint GENERATED ALWAYS AS IDENTITY,
    token bigint NOT NULL,
    event jsonb NOT NULL,
    PRIMARY KEY (run, id)
);

CREATE TABLE fleet.anchors (                -- a transparency log: each entry commits to the one before
    seq bigint PRIMARY KEY,
    entry text NOT NULL,                    -- canonical JSON, what is hashed and signed
    hash text NOT NULL UNIQUE,
    signature text NOT NULL
);
CREATE TABLE fleet.anchor_head (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    seq bigint NOT NULL,
    hash text NOT NULL
);
INSERT INTO fleet.anchor_head (seq, hash) VALUES (0, repeat('0', 64));

CREATE FUNCTION fleet.only_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'fleet.% is only added to', TG_TABLE_NAME;
END $$;
CREATE TRIGGER only_added BEFORE UPDATE OR DELETE OR TRUNCATE ON fleet.anchors
    FOR EACH STATEMENT EXECUTE FUNCTION fleet.only_added();

CREATE TABLE fleet.objects (                -- where no other object store is configured
    digest text PRIMARY KEY,
    body bytea NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);
