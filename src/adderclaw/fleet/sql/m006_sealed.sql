-- A question is sealed by the worker that asks it: who can only write rows shows an operator nothing of their own.

ALTER TABLE fleet.questions ADD COLUMN seal text NOT NULL DEFAULT '';
GRANT INSERT (seal) ON fleet.questions TO adderclaw_worker;

-- A run that is submitted waits: none is said to be worked on already, which nobody would ever end.
ALTER POLICY own ON fleet.runs
    WITH CHECK (submitter = session_user AND state IN ('held', 'queued') AND priority BETWEEN 0 AND 9);
