-- Questions of a process that waits, versions of states, and what was pruned.

ALTER TABLE fleet.questions ADD COLUMN token bigint NOT NULL DEFAULT 0;  -- of the process that waits; 0: the run does

-- which program can open the state that a run goes on from: the number of its store's schema, and who wrote it
ALTER TABLE fleet.runs ADD COLUMN schema integer NOT NULL DEFAULT 0;
ALTER TABLE fleet.runs ADD COLUMN version text NOT NULL DEFAULT '';
ALTER TABLE fleet.workers ADD COLUMN schema integer NOT NULL DEFAULT 0;

-- what was removed of runs that had ended long ago; what their workers signed stays
ALTER TABLE fleet.runs ADD COLUMN pruned timestamptz;
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
CREATE INDEX runs_prunable ON fleet.runs (finished) WHERE state = 'ended' AND pruned IS NULL;
GRANT SELECT ON fleet.prunings TO adderclaw_auditor, adderclaw_operator;
GRANT INSERT ON fleet.prunings TO adderclaw_operator;
GRANT DELETE ON fleet.calls, fleet.events, fleet.objects TO adderclaw_operator;
GRANT UPDATE ON fleet.objects TO adderclaw_submitter, adderclaw_worker, adderclaw_operator;
