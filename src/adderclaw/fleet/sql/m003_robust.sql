-- What keeps one worker's trouble from being another's, and lets a stop be measured.

ALTER TABLE fleet.runs ADD COLUMN starts integer NOT NULL DEFAULT 0;   -- workers that died before its work began

CREATE TABLE fleet.heard (                  -- when each worker heard a stop, and when all that it stopped had ended
    control bigint NOT NULL REFERENCES fleet.controls,
    worker text NOT NULL,
    heard timestamptz NOT NULL DEFAULT clock_timestamp(),
    runs integer NOT NULL,
    ended timestamptz,
    PRIMARY KEY (control, worker)
);
GRANT SELECT, INSERT, UPDATE ON fleet.heard TO adderclaw_worker;
GRANT SELECT ON fleet.heard TO adderclaw_operator, adderclaw_auditor;

-- Who waits for runs hears of them at once, and need not ask in between.
CREATE OR REPLACE FUNCTION fleet.enqueue(run_id text, step integer) RETURNS void
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
