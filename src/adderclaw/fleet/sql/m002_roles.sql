-- Who may do what. Four roles that nobody logs in with: an operator grants them to people and machines.
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
END $$;
REVOKE ALL ON FUNCTION fleet.enqueue(text, integer) FROM PUBLIC;

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

-- submitter: its own runs, and nobody else's
GRANT SELECT, INSERT ON fleet.runs TO adderclaw_submitter;
GRANT SELECT, INSERT, UPDATE ON fleet.shares TO adderclaw_submitter;
GRANT SELECT ON fleet.clock TO adderclaw_submitter;
GRANT SELECT, INSERT ON fleet.objects TO adderclaw_submitter;
GRANT INSERT ON fleet.budgets TO adderclaw_submitter;
GRANT SELECT ON fleet.units, fleet.calls, fleet.events, fleet.questions TO adderclaw_submitter;
GRANT EXECUTE ON FUNCTION fleet.enqueue(text, integer) TO adderclaw_submitter, adderclaw_worker, adderclaw_operator;

ALTER TABLE fleet.runs ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON fleet.runs TO adderclaw_submitter
    USING (submitter = session_user) WITH CHECK (submitter = session_user);
CREATE POLICY everything ON fleet.runs TO adderclaw_worker, adderclaw_operator USING (true) WITH CHECK (true);
CREATE POLICY looking ON fleet.runs FOR SELECT TO adderclaw_auditor USING (true);
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['units', 'calls', 'events', 'questions'] LOOP
        EXECUTE format('ALTER TABLE fleet.%I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format(
            'CREATE POLICY own ON fleet.%I FOR SELECT TO adderclaw_submitter'
            ' USING (run IN (SELECT id FROM fleet.runs WHERE submitter = session_user))', name);
        EXECUTE format(
            'CREATE POLICY everything ON fleet.%I TO adderclaw_worker, adderclaw_operator'
            ' USING (true) WITH CHECK (true)', name);
        EXECUTE format('CREATE POLICY looking ON fleet.%I FOR SELECT TO adderclaw_auditor USING (true)', name);
    END LOOP;
END $$;

-- worker: what it works on; it enrols nobody, stops nothing and answers nothing
GRANT SELECT, INSERT, UPDATE ON fleet.runs, fleet.workers, fleet.units, fleet.calls, fleet.budgets, fleet.reservations,
    fleet.pace, fleet.clock TO adderclaw_worker;
GRANT DELETE ON fleet.reservations TO adderclaw_worker;
GRANT SELECT, INSERT ON fleet.events, fleet.anchors, fleet.objects, fleet.questions TO adderclaw_worker;
GRANT SELECT, UPDATE ON fleet.anchor_head TO adderclaw_worker;
GRANT SELECT ON fleet.controls, fleet.identities TO adderclaw_worker;

-- operator: stop, answer, cancel, budgets, enrolment; it signs nothing
GRANT SELECT, INSERT, UPDATE ON fleet.runs, fleet.controls, fleet.questions, fleet.budgets, fleet.pace, fleet.identities,
    fleet.shares, fleet.workers, fleet.reservations TO adderclaw_operator;
GRANT DELETE ON fleet.units TO adderclaw_operator;
GRANT SELECT, INSERT ON fleet.objects TO adderclaw_operator;
GRANT SELECT ON fleet.units, fleet.calls, fleet.events, fleet.clock, fleet.anchors, fleet.anchor_head
    TO adderclaw_operator;

-- auditor: looks
GRANT SELECT ON ALL TABLES IN SCHEMA fleet TO adderclaw_auditor;
