-- Who submits signs what a run is to do, with a key that an operator enrolled. No worker writes any of that.

CREATE TABLE fleet.submitters (
    name text NOT NULL,                     -- as runs name their submitter
    public_key text NOT NULL,               -- Ed25519, hexadecimal
    enrolled timestamptz NOT NULL DEFAULT now(),
    revoked timestamptz,
    PRIMARY KEY (name, public_key)          -- a submitter has a key on each of its machines
);

-- The signature is NULL for runs from before this migration and never for later ones: verify tells the two apart.
ALTER TABLE fleet.runs ADD COLUMN signed_by text NOT NULL DEFAULT '';
ALTER TABLE fleet.runs ADD COLUMN signature text;
ALTER TABLE fleet.runs ALTER COLUMN signature SET DEFAULT '';

-- The state that a run continues from is signed by the worker that saved it.
ALTER TABLE fleet.runs ADD COLUMN saved_by text NOT NULL DEFAULT '';
ALTER TABLE fleet.runs ADD COLUMN saved_signature text NOT NULL DEFAULT '';

-- Which login a worker belongs to. '' is a worker that started before this migration: any worker login may be it.
ALTER TABLE fleet.workers ADD COLUMN login text NOT NULL DEFAULT '';
ALTER TABLE fleet.workers ALTER COLUMN login SET DEFAULT session_user;

CREATE FUNCTION fleet.is_mine(worker_id text) RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT 1 FROM fleet.workers AS w WHERE w.id = worker_id AND w.login IN (session_user, ''))
$$;
CREATE FUNCTION fleet.is_held(run_id text) RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT 1 FROM fleet.runs AS r
        WHERE r.id = run_id AND r.state = 'running' AND fleet.is_mine(r.worker))
$$;

-- Columns: every grant of before that is wider than the commands need is replaced. tests/fleet/test_roles.py has the
-- whole table.
REVOKE INSERT, UPDATE ON fleet.runs, fleet.workers, fleet.units, fleet.calls, fleet.budgets, fleet.reservations,
    fleet.pace, fleet.clock, fleet.events, fleet.anchors, fleet.anchor_head, fleet.objects, fleet.heard
    FROM adderclaw_worker;
REVOKE INSERT, UPDATE ON fleet.runs, fleet.controls, fleet.questions, fleet.budgets, fleet.pace, fleet.identities,
    fleet.shares, fleet.workers, fleet.objects, fleet.prunings FROM adderclaw_operator;
REVOKE INSERT ON fleet.reservations FROM adderclaw_operator;    -- UPDATE stays: without it nobody may lock the table
REVOKE INSERT, UPDATE ON fleet.shares, fleet.objects FROM adderclaw_submitter;

GRANT SELECT ON fleet.submitters TO adderclaw_submitter, adderclaw_worker, adderclaw_operator, adderclaw_auditor;
GRANT SELECT ON fleet.migrations TO adderclaw_worker;

GRANT INSERT (signed_by, signature) ON fleet.runs TO adderclaw_submitter;
GRANT INSERT (submitter, tag), UPDATE (tag) ON fleet.shares TO adderclaw_submitter, adderclaw_operator;
GRANT INSERT (digest, body), UPDATE (at) ON fleet.objects TO adderclaw_submitter, adderclaw_worker, adderclaw_operator;

GRANT UPDATE (state, generation, token, worker, lease_until, resume_due, strikes, starts, units, saved, saved_call,
    saved_by, saved_signature, schema, version, stopped_by, began, finished, outcome, exit_code, reason, answer, cost,
    tokens) ON fleet.runs TO adderclaw_worker;
GRANT INSERT (id, name, host, pid, version, schema, slots, labels), UPDATE (seen, ended) ON fleet.workers
    TO adderclaw_worker;
GRANT INSERT (run, number, place, token, worker, saved) ON fleet.units TO adderclaw_worker;
GRANT INSERT (run, token, call, tool, shown), UPDATE (ended, lost) ON fleet.calls TO adderclaw_worker;
GRANT UPDATE (spent_cost, spent_tokens, held_cost, held_tokens) ON fleet.budgets TO adderclaw_worker;
GRANT INSERT (id, run, token, submitter, project, model, held_cost, held_tokens),
    UPDATE (settled, cost, tokens, lost, held_cost, held_tokens) ON fleet.reservations TO adderclaw_worker;
GRANT INSERT (model, not_before), UPDATE (not_before) ON fleet.pace TO adderclaw_worker;
GRANT UPDATE (tag) ON fleet.clock TO adderclaw_worker;
GRANT INSERT (run, token, event) ON fleet.events TO adderclaw_worker;
GRANT INSERT (seq, entry, hash, signature) ON fleet.anchors TO adderclaw_worker;
GRANT UPDATE (seq, hash) ON fleet.anchor_head TO adderclaw_worker;
GRANT INSERT (control, worker, runs), UPDATE (runs, ended) ON fleet.heard TO adderclaw_worker;

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
GRANT INSERT (by, older_than, runs, calls, events, objects) ON fleet.prunings TO adderclaw_operator;

-- Rows. A submitter's run is signed by a key of its own.
ALTER POLICY own ON fleet.runs WITH CHECK (
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

-- A worker changes a run that is its own, or that no worker holds any more, and none that has ended: an honest worker
-- would carry out again what was signed once. It adds to what it holds.
ALTER POLICY everything ON fleet.runs TO adderclaw_operator;
CREATE POLICY seeing ON fleet.runs FOR SELECT TO adderclaw_worker USING (true);
CREATE POLICY working ON fleet.runs FOR UPDATE TO adderclaw_worker
    USING (state <> 'ended' AND (worker IS NULL OR lease_until < now() OR fleet.is_mine(worker)))
    WITH CHECK (worker IS NULL OR fleet.is_mine(worker));
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['units', 'calls', 'events', 'questions'] LOOP
        EXECUTE format('ALTER POLICY everything ON fleet.%I TO adderclaw_operator', name);
        EXECUTE format('CREATE POLICY seeing ON fleet.%I FOR SELECT TO adderclaw_worker USING (true)', name);
        EXECUTE format('CREATE POLICY adding ON fleet.%I FOR INSERT TO adderclaw_worker'
            ' WITH CHECK (fleet.is_held(run))', name);
    END LOOP;
    FOREACH name IN ARRAY ARRAY['workers', 'heard', 'reservations'] LOOP
        EXECUTE format('ALTER TABLE fleet.%I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY everything ON fleet.%I TO adderclaw_operator USING (true)', name);
        EXECUTE format('CREATE POLICY looking ON fleet.%I FOR SELECT TO adderclaw_auditor USING (true)', name);
        EXECUTE format('CREATE POLICY seeing ON fleet.%I FOR SELECT TO adderclaw_worker USING (true)', name);
    END LOOP;
END $$;
CREATE POLICY ending ON fleet.calls FOR UPDATE TO adderclaw_worker USING (fleet.is_held(run));

CREATE POLICY registering ON fleet.workers FOR INSERT TO adderclaw_worker WITH CHECK (login = session_user);
CREATE POLICY living ON fleet.workers FOR UPDATE TO adderclaw_worker    -- or one that has been silent for long
    USING (login IN (session_user, '') OR seen < now() - interval '5 minutes');
CREATE POLICY hearing ON fleet.heard FOR INSERT TO adderclaw_worker WITH CHECK (fleet.is_mine(worker));
CREATE POLICY ending ON fleet.heard FOR UPDATE TO adderclaw_worker USING (fleet.is_mine(worker));

-- Who takes a run over also settles what the worker before had reserved.
CREATE POLICY reserving ON fleet.reservations FOR INSERT TO adderclaw_worker WITH CHECK (fleet.is_held(run));
CREATE POLICY settling ON fleet.reservations FOR UPDATE TO adderclaw_worker USING (true);
CREATE POLICY freeing ON fleet.reservations FOR DELETE TO adderclaw_worker
    USING (settled IS NULL AND fleet.is_held(run));

-- A worker makes no object of another old either.
ALTER POLICY own ON fleet.objects TO adderclaw_submitter, adderclaw_worker;
ALTER POLICY everything ON fleet.objects TO adderclaw_operator;
