-- What a submitter writes is what `fleet submit` writes: no value that others could not read, or not in time.

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
);

-- An object is as old as it is: who made one of another's old would have it pruned before a run refers to it.
ALTER TABLE fleet.objects ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON fleet.objects TO adderclaw_submitter USING (true) WITH CHECK (at = now());
CREATE POLICY everything ON fleet.objects TO adderclaw_worker, adderclaw_operator USING (true) WITH CHECK (true);
CREATE POLICY looking ON fleet.objects FOR SELECT TO adderclaw_auditor USING (true);
