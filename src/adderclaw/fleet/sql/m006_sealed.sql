-- A question is sealed by the worker that asks it: who can only write rows shows an operator nothing of their own.

ALTER TABLE fleet.questions ADD COLUMN seal text NOT NULL DEFAULT '';
GRANT INSERT (seal) ON fleet.questions TO adderclaw_worker;
