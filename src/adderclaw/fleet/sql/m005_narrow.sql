-- What a role may write is what its commands write, column by column: the rest of a row is not its to say.

REVOKE INSERT ON fleet.runs FROM adderclaw_submitter;   -- no state of another run to begin with, no token, no outcome
GRANT INSERT (id, submitter, project, label, batch, trace, wanted, place, priority, tag, dedupe, after, max_cost,
    deadline, state) ON fleet.runs TO adderclaw_submitter;
GRANT UPDATE (trace) ON fleet.runs TO adderclaw_submitter;  -- who waits for one of its runs (--after) locks it

REVOKE UPDATE ON fleet.objects FROM adderclaw_submitter, adderclaw_worker, adderclaw_operator;
GRANT UPDATE (at) ON fleet.objects TO adderclaw_submitter, adderclaw_worker, adderclaw_operator;

REVOKE INSERT ON fleet.questions FROM adderclaw_worker; -- it asks, and answers nothing
GRANT INSERT (id, run, question, token) ON fleet.questions TO adderclaw_worker;

-- submitter: a budget for its own runs, its own turn
ALTER TABLE fleet.budgets ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON fleet.budgets FOR INSERT TO adderclaw_submitter
    WITH CHECK (scope = 'run' AND name IN (SELECT id FROM fleet.runs WHERE submitter = session_user));
CREATE POLICY everything ON fleet.budgets TO adderclaw_worker, adderclaw_operator USING (true) WITH CHECK (true);
CREATE POLICY looking ON fleet.budgets FOR SELECT TO adderclaw_auditor USING (true);
REVOKE INSERT ON fleet.budgets FROM adderclaw_submitter;
GRANT INSERT (scope, name, cost) ON fleet.budgets TO adderclaw_submitter;

ALTER TABLE fleet.shares ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON fleet.shares TO adderclaw_submitter
    USING (submitter = session_user) WITH CHECK (submitter = session_user);
CREATE POLICY everything ON fleet.shares TO adderclaw_operator USING (true) WITH CHECK (true);
CREATE POLICY looking ON fleet.shares FOR SELECT TO adderclaw_auditor USING (true);
