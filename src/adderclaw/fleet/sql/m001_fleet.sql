-- What the fleet knows. Runs are queued by DBOS (its own schema, dbos); everything here is ours.

CREATE TABLE fleet.workers (
    id text PRIMARY KEY,                    -- one process: its name and a word that no other start has
    name text NOT NULL,                     -- the machine, as the operator enrolled it
    host text NOT NULL,
    pid integer NOT NULL,
    version text NOT NULL,
    schema integer NOT NULL DEFAULT 0,      -- the newest schema of a store that it can open
    slots integer NOT NULL,
    labels text[] NOT NULL DEFAULT '{}',
    started timestamptz NOT NULL DEFAULT now(),
    seen timestamptz NOT NULL DEFAULT now(),
    draining boolean NOT NULL DEFAULT false,
    ended timestamptz,
    login text NOT NULL DEFAULT session_user
);

CREATE TABLE fleet.identities (
    name text PRIMARY KEY,                  -- of a worker
    public_key text NOT NULL,               -- Ed25519, hexadecimal
    enrolled timestamptz NOT NULL DEFAULT now(),
    revoked timestamptz
);

-- Who submits signs what a run is to do, with a key that an operator enrolled. No worker writes any of that.
CREATE TABLE fleet.submitters (
    name text NOT NULL,                     -- as runs name their submitter
    public_key text NOT NULL,               -- Ed25519, hexadecimal
    enrolled timestamptz NOT NULL DEFAULT now(),
    revoked timestamptz,
    PRIMARY KEY (name, public_key)          -- a submitter has a key on each of its machines
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
    signed_by text NOT NULL DEFAULT '',     -- the submitter's public key
    signature text NOT NULL DEFAULT '',     -- of the request

    state text NOT NULL CHECK (state IN ('held', 'queued', 'running', 'waiting', 'ended')),
    generation integer NOT NULL DEFAULT 1,  -- workflow `id.generation` of DBOS carries it
    token bigint NOT NULL DEFAULT 0,        -- fencing: grows with every claim and every take-over
    worker text REFERENCES fleet.workers,
    lease_until timestamptz,
    resume_due boolean NOT NULL DEFAULT false,
    strikes integer NOT NULL DEFAULT 0,     -- starts since the last finished unit
    starts integer NOT NULL DEFAULT 0,      -- workers that died before its work began
    units integer NOT NULL DEFAULT 0,
    saved text,                             -- digest of the state that a take-over begins with
    saved_call bigint NOT NULL DEFAULT 0,   -- the last of fleet.calls that this state knows
    saved_by text NOT NULL DEFAULT '',      -- the worker that saved the state, and its signature
    saved_signature text NOT NULL DEFAULT '',
    schema integer NOT NULL DEFAULT 0,      -- of the store in this state: who knows no such schema leaves the run alone
    version text NOT NULL DEFAULT '',
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
    pruned timestamptz,                     -- when its state was removed; what its workers signed stays
    CHECK ((state = 'ended') = (outcome IS NOT NULL))
);
CREATE UNIQUE INDEX runs_dedupe ON fleet.runs (dedupe) WHERE dedupe IS NOT NULL AND state <> 'ended';
CREATE INDEX runs_number ON fleet.runs (number);
CREATE INDEX runs_open ON fleet.runs (lease_until) WHERE state = 'running';
CREATE INDEX runs_due ON fleet.runs (id) WHERE resume_due;
CREATE INDEX runs_held ON fleet.runs (number) WHERE state IN ('held', 'waiting');
CREATE INDEX runs_batch ON fleet.runs (batch, number) WHERE batch <> '';
CREATE INDEX runs_stopped ON fleet.runs (stopped_by) WHERE stopped_by IS NOT NULL;
CREATE INDEX runs_prunable ON fleet.runs (finished) WHERE state = 'ended' AND pruned IS NULL;

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

CREATE TABLE fleet.heard (                  -- when each worker heard a stop, and when all that it stopped had ended
    control bigint NOT NULL REFERENCES fleet.controls,
    worker text NOT NULL,
    heard timestamptz NOT NULL DEFAULT clock_timestamp(),
    runs integer NOT NULL,
    ended timestamptz,
    PRIMARY KEY (control, worker)
);

CREATE TABLE fleet.questions (
    id text NOT NULL,                       -- of the approval in the run's store
    run text NOT NULL REFERENCES fleet.runs,
    question jsonb NOT NULL,
    asked timestamptz NOT NULL DEFAULT now(),
    answer jsonb,
    by text,
    mac text,                               -- made with the fleet's key: who can only write rows answers nothing
    answered timestamptz,
    token bigint NOT NULL DEFAULT 0,        -- of the process that waits; 0: the run does
    seal text NOT NULL DEFAULT '',          -- of the worker that asks: who can only write rows shows nothing else
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

CREATE TABLE fleet.prunings (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now(),
    by text NOT NULL,
    older_than timestamptz NOT NULL,
    runs bigint NOT NULL,
    calls bigint NOT NULL,
    events bigint NOT NULL,
    objects bigint NOT NULL
);

-- A run is queued by a function, so that who submits one needs no right to the engine's own tables.
CREATE FUNCTION fleet.enqueue(run_id text, step integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r fleet.runs;
BEGIN
    SELECT * INTO STRICT r FROM fleet.runs WHERE id = run_id;
    IF r.state <> 'queued' THEN
        RAISE EXCEPTION 'run % is not to be queued: it is %', run_id, r.state;
    END IF;
    PERFORM dbos.enqueue_workflow(
        workflow_name => 'run',
        queue_name => CASE WHEN r.label = '' THEN 'runs' ELSE 'runs-' || r.label END,
        positional_args => ARRAY[to_json(r.id)],
        workflow_id => r.id || '.' || r.generation,
        app_version => 'fleet-1',
        priority => greatest(1, least(2147483647, r.tag + (r.priority - 5) * step))::integer,
        application_name => 'adderclaw'
    );
    PERFORM pg_notify('fleet', 'queued');   -- once for each transaction, however many
END $$;
REVOKE ALL ON FUNCTION fleet.enqueue(text, integer) FROM PUBLIC;

CREATE FUNCTION fleet.is_mine(worker_id text) RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT 1 FROM fleet.workers AS w WHERE w.id = worker_id AND w.login = session_user)
$$;
CREATE FUNCTION fleet.is_held(run_id text) RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT 1 FROM fleet.runs AS r
        WHERE r.id = run_id AND r.state = 'running' AND fleet.is_mine(r.worker))
$$;

-- Who may do what. Four roles that nobody logs in with: an operator grants them to people and machines.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['submitter', 'worker', 'operator', 'auditor'] LOOP
        IF NOT EXISTS (SELECT 1 FROM pg_catalog.pg_roles WHERE rolname = 'adderclaw_' || name) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', 'adderclaw_' || name);
        END IF;
    END LOOP;
END $$;

GRANT USAGE ON SCHEMA fleet TO adderclaw_submitter, adderclaw_worker, adderclaw_operator, adderclaw_auditor;
GRANT EXECUTE ON FUNCTION fleet.enqueue(text, integer) TO adderclaw_submitter, adderclaw_worker, adderclaw_operator;
GRANT SELECT ON ALL TABLES IN SCHEMA fleet TO adderclaw_auditor;

-- What a role may write is what its commands write, column by column. tests/fleet/test_roles.py has the whole table.

-- submitter: its own runs, and nobody else's
GRANT SELECT ON fleet.runs, fleet.shares, fleet.clock, fleet.objects, fleet.units, fleet.calls, fleet.events,
    fleet.questions, fleet.submitters TO adderclaw_submitter;
GRANT INSERT (id, submitter, project, label, batch, trace, wanted, place, priority, tag, dedupe, after, max_cost,
    deadline, state, signed_by, signature),
    UPDATE (trace) ON fleet.runs TO adderclaw_submitter;    -- who waits for one of its runs (--after) locks it
GRANT INSERT (submitter, tag), UPDATE (tag) ON fleet.shares TO adderclaw_submitter, adderclaw_operator;
GRANT INSERT (digest, body), UPDATE (at) ON fleet.objects TO adderclaw_submitter, adderclaw_worker, adderclaw_operator;
GRANT INSERT (scope, name, cost) ON fleet.budgets TO adderclaw_submitter;

-- worker: what it works on; it enrols nobody, stops nothing and answers nothing
GRANT SELECT ON fleet.runs, fleet.workers, fleet.units, fleet.calls, fleet.budgets, fleet.reservations, fleet.pace,
    fleet.clock, fleet.events, fleet.anchors, fleet.objects, fleet.questions, fleet.anchor_head, fleet.controls,
    fleet.identities, fleet.heard, fleet.submitters, fleet.migrations TO adderclaw_worker;
GRANT UPDATE (state, generation, token, worker, lease_until, resume_due, strikes, starts, units, saved, saved_call,
    saved_by, saved_signature, schema, version, stopped_by, began, finished, outcome, exit_code, reason, answer, cost,
    tokens) ON fleet.runs TO adderclaw_worker;
GRANT INSERT (id, name, host, pid, version, schema, slots, labels), UPDATE (seen, ended) ON fleet.workers
    TO adderclaw_worker;
GRANT INSERT (run, number, place, token, worker, saved) ON fleet.units TO adderclaw_worker;
GRANT INSERT (run, token, call, tool, shown), UPDATE (ended, lost) ON fleet.calls TO adderclaw_worker;
GRANT INSERT (id, run, question, token, seal) ON fleet.questions TO adderclaw_worker;
GRANT UPDATE (spent_cost, spent_tokens, held_cost, held_tokens) ON fleet.budgets TO adderclaw_worker;
GRANT INSERT (id, run, token, submitter, project, model, held_cost, held_tokens),
    UPDATE (settled, cost, tokens, lost, held_cost, held_tokens) ON fleet.reservations TO adderclaw_worker;
GRANT DELETE ON fleet.reservations TO adderclaw_worker;
GRANT INSERT (model, not_before), UPDATE (not_before) ON fleet.pace TO adderclaw_worker;
GRANT UPDATE (tag) ON fleet.clock TO adderclaw_worker;
GRANT INSERT (run, token, event) ON fleet.events TO adderclaw_worker;
GRANT INSERT (seq, entry, hash, signature) ON fleet.anchors TO adderclaw_worker;
GRANT UPDATE (seq, hash) ON fleet.anchor_head TO adderclaw_worker;
GRANT INSERT (control, worker, runs), UPDATE (runs, ended) ON fleet.heard TO adderclaw_worker;

-- operator: stop, answer, cancel, budgets, enrolment; it signs nothing
GRANT SELECT ON fleet.runs, fleet.controls, fleet.questions, fleet.budgets, fleet.pace, fleet.identities, fleet.shares,
    fleet.workers, fleet.reservations, fleet.objects, fleet.units, fleet.calls, fleet.events, fleet.clock,
    fleet.anchors, fleet.anchor_head, fleet.heard, fleet.prunings, fleet.submitters TO adderclaw_operator;
GRANT INSERT (id, submitter, project, label, batch, trace, wanted, place, priority, tag, dedupe, after, max_cost,
    deadline, state, signed_by, signature) ON fleet.runs TO adderclaw_operator;
GRANT UPDATE (state, generation, token, worker, lease_until, resume_due, strikes, starts, units, saved, schema,
    stopped_by, finished, outcome, exit_code, reason, answer, cost, tokens, pruned) ON fleet.runs
    TO adderclaw_operator;
GRANT INSERT (scope, name, reason, by), UPDATE (cleared) ON fleet.controls TO adderclaw_operator;
GRANT UPDATE (answer, by, mac, answered) ON fleet.questions TO adderclaw_operator;
GRANT INSERT (scope, name, cost, tokens, spent_cost, spent_tokens, held_cost, held_tokens),
    UPDATE (cost, tokens, spent_cost, spent_tokens, held_cost, held_tokens) ON fleet.budgets TO adderclaw_operator;
GRANT INSERT (model, per_minute, at_once), UPDATE (per_minute, at_once) ON fleet.pace TO adderclaw_operator;
GRANT INSERT (name, public_key), UPDATE (revoked) ON fleet.identities, fleet.submitters TO adderclaw_operator;
GRANT UPDATE (draining) ON fleet.workers TO adderclaw_operator;
GRANT UPDATE ON fleet.reservations TO adderclaw_operator;   -- without it nobody may lock the table
GRANT INSERT (by, older_than, runs, calls, events, objects) ON fleet.prunings TO adderclaw_operator;
GRANT DELETE ON fleet.units, fleet.calls, fleet.events, fleet.objects TO adderclaw_operator;

-- Rows. A submitter's run waits, is signed by a key of its own, and has no value that others could not read in time.
ALTER TABLE fleet.runs ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON fleet.runs TO adderclaw_submitter USING (submitter = session_user) WITH CHECK (
    submitter = session_user AND state IN ('held', 'queued') AND priority BETWEEN 0 AND 9
    AND id ~ '^[0-9A-Za-z_-]{1,64}$' AND label ~ '^([a-z0-9][a-z0-9_-]{0,31})?$'
    AND length(project) <= 200 AND length(batch) <= 64 AND length(trace) <= 200
    AND length(coalesce(dedupe, '')) <= 1000
    AND jsonb_typeof(wanted) = 'object' AND NOT jsonb_path_exists(wanted, '$.**{3}')
    AND NOT jsonb_path_exists(wanted, '$.** ? (@.type() == "number" && (@ > 1e300 || @ < -1e300))')
    AND octet_length(wanted::text) <= 16777216
    AND jsonb_typeof(place) = 'object' AND NOT jsonb_path_exists(place, '$.**{2}')
    AND NOT jsonb_path_exists(place, '$.** ? (@.type() == "number")')
    AND octet_length(place::text) <= 10000
    AND tag BETWEEN 0 AND 1000000000000
    AND cardinality(after) <= 1000 AND array_position(after, NULL) IS NULL
    AND (max_cost IS NULL OR max_cost BETWEEN 0 AND 1e12)
    AND (deadline IS NULL OR deadline BETWEEN '2000-01-01 00:00+00' AND '9000-01-01 00:00+00')
    AND signature ~ '^[0-9a-f]{128}$'
    AND signed_by IN (SELECT public_key FROM fleet.submitters WHERE name = session_user AND revoked IS NULL)
);
CREATE POLICY everything ON fleet.runs TO adderclaw_operator USING (true) WITH CHECK (true);
CREATE POLICY looking ON fleet.runs FOR SELECT TO adderclaw_auditor USING (true);

-- A worker changes a run that is its own, or that no worker holds any more, and none that has ended: an honest worker
-- would carry out again what was signed once. It adds to what it holds.
CREATE POLICY seeing ON fleet.runs FOR SELECT TO adderclaw_worker USING (true);
CREATE POLICY working ON fleet.runs FOR UPDATE TO adderclaw_worker
    USING (state <> 'ended' AND (worker IS NULL OR lease_until < now() OR fleet.is_mine(worker)))
    WITH CHECK (worker IS NULL OR fleet.is_mine(worker));
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['units', 'calls', 'events', 'questions', 'workers', 'heard', 'reservations'] LOOP
        EXECUTE format('ALTER TABLE fleet.%I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY everything ON fleet.%I TO adderclaw_operator USING (true)', name);
        EXECUTE format('CREATE POLICY looking ON fleet.%I FOR SELECT TO adderclaw_auditor USING (true)', name);
        EXECUTE format('CREATE POLICY seeing ON fleet.%I FOR SELECT TO adderclaw_worker USING (true)', name);
    END LOOP;
    FOREACH name IN ARRAY ARRAY['units', 'calls', 'events', 'questions'] LOOP
        EXECUTE format('CREATE POLICY own ON fleet.%I FOR SELECT TO adderclaw_submitter'
            ' USING (run IN (SELECT id FROM fleet.runs WHERE submitter = session_user))', name);
        EXECUTE format('CREATE POLICY adding ON fleet.%I FOR INSERT TO adderclaw_worker'
            ' WITH CHECK (fleet.is_held(run))', name);
    END LOOP;
END $$;
CREATE POLICY ending ON fleet.calls FOR UPDATE TO adderclaw_worker USING (fleet.is_held(run));

CREATE POLICY registering ON fleet.workers FOR INSERT TO adderclaw_worker WITH CHECK (login = session_user);
CREATE POLICY living ON fleet.workers FOR UPDATE TO adderclaw_worker    -- or one that has been silent for long
    USING (login = session_user OR seen < now() - interval '5 minutes');
CREATE POLICY hearing ON fleet.heard FOR INSERT TO adderclaw_worker WITH CHECK (fleet.is_mine(worker));
CREATE POLICY ending ON fleet.heard FOR UPDATE TO adderclaw_worker USING (fleet.is_mine(worker));

-- Who takes a run over also settles what the worker before had reserved.
CREATE POLICY reserving ON fleet.reservations FOR INSERT TO adderclaw_worker WITH CHECK (fleet.is_held(run));
CREATE POLICY settling ON fleet.reservations FOR UPDATE TO adderclaw_worker USING (true);
CREATE POLICY freeing ON fleet.reservations FOR DELETE TO adderclaw_worker
    USING (settled IS NULL AND fleet.is_held(run));

-- submitter: a budget for its own runs, its own turn
ALTER TABLE fleet.budgets ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON fleet.budgets FOR INSERT TO adderclaw_submitter
    WITH CHECK (scope = 'run' AND name IN (SELECT id FROM fleet.runs WHERE submitter = session_user));
CREATE POLICY everything ON fleet.budgets TO adderclaw_worker, adderclaw_operator USING (true) WITH CHECK (true);
CREATE POLICY looking ON fleet.budgets FOR SELECT TO adderclaw_auditor USING (true);

ALTER TABLE fleet.shares ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON fleet.shares TO adderclaw_submitter
    USING (submitter = session_user) WITH CHECK (submitter = session_user);
CREATE POLICY everything ON fleet.shares TO adderclaw_operator USING (true) WITH CHECK (true);
CREATE POLICY looking ON fleet.shares FOR SELECT TO adderclaw_auditor USING (true);

-- An object is as old as it is: who made one of another's old would have it pruned before a run refers to it.
ALTER TABLE fleet.objects ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON fleet.objects TO adderclaw_submitter, adderclaw_worker USING (true) WITH CHECK (at = now());
CREATE POLICY everything ON fleet.objects TO adderclaw_operator USING (true) WITH CHECK (true);
CREATE POLICY looking ON fleet.objects FOR SELECT TO adderclaw_auditor USING (true);
