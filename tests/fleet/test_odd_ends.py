"""What nobody plans for: a workflow that ended without its run, a state that was removed, a role that is gone."""

import psycopg

from tests.fleet.farm import Farm, call, reached, text


def test_a_run_whose_workflow_has_ended_is_queued_anew(farm: Farm) -> None:
    (run_id,) = farm.submit("-m", "x", "--workspace", str(farm.workspace))
    with psycopg.connect(farm.url) as connection:
        connection.execute("UPDATE dbos.workflow_status SET status = 'ERROR', error = '\"boom\"'")
        connection.execute("UPDATE fleet.runs SET resume_due = true")
    farm.worker("w1")
    (row,) = farm.ended(run_id)
    assert (row.outcome, row.generation) == ("completed", 2)


def test_a_state_that_is_gone_is_the_run_s_outcome(farm: Farm) -> None:
    """It is said, the worker lives on, and `retry --fresh` begins anew."""
    farm.agentfile(2)
    farm.script({"delay_ms": 500}, call("Bash", command="echo one >> log"), reached())
    (run_id,) = farm.submit("--agentfile", "Agentfile", "--workspace", str(farm.workspace))
    first = farm.worker("w1")
    farm.until(lambda: farm.run(run_id).units == 1)
    first.kill()
    farm.expire(first)
    with psycopg.connect(farm.url) as connection:
        connection.execute("DELETE FROM fleet.objects WHERE digest IN (SELECT saved FROM fleet.runs)")
    farm.worker("w2")
    (row,) = farm.ended(run_id)
    assert row.outcome == "error"
    assert "is not in the object store" in row.reason
    farm.script(call("Bash", command="echo one >> log"), reached())
    assert farm.fleet("retry", run_id, "--fresh").code == 0
    farm.until(lambda: farm.run(run_id).outcome == "completed")
    assert (farm.fetched(run_id) / "workspace" / "log").read_text().split() == ["one", "one"]
    farm.script(text("fine"))
    (other,) = farm.submit("-m", "x", "--workspace", str(farm.workspace))
    assert farm.ended(other)[0].outcome == "completed"
