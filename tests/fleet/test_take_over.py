"""A worker may die at any moment: others go on from the last unit, and nothing is done twice without being said."""

import contextlib
import json
import os
import signal
import sqlite3
import time
from pathlib import Path

from tests.fleet.farm import LEASE, Farm, call, reached, text

SLOW = {"delay_ms": 700}
QUICK = call("Bash", command="echo one >> log")


def log_of(place: Path) -> list[str]:
    return (place / "workspace" / "log").read_text().split()


def test_a_run_on_a_worker_is_the_same_run(farm: Farm) -> None:
    farm.script(call("Bash", command="echo hi >> log"), text("all done"))
    (farm.workspace / "a.txt").write_text("a")
    (run_id,) = farm.submit("-m", "do it", "--workspace", str(farm.workspace))
    farm.worker("w1")
    (row,) = farm.ended(run_id)
    assert (row.outcome, row.answer, row.exit_code, row.strikes) == ("completed", "all done", 0, 0)
    place = farm.fetched(run_id)
    assert log_of(place) == ["hi"]
    assert not (farm.workspace / "log").exists()
    farm.verified(place)
    with sqlite3.connect(place / "home" / "memory.sqlite") as store:
        assert store.execute("SELECT run_id, outcome FROM runs").fetchall() == [(run_id, "completed")]
    assert not (place / "home" / "fleet.key").exists()


def test_kill_9_of_a_worker_loses_no_finished_unit(farm: Farm) -> None:
    farm.agentfile(4)
    farm.script(SLOW, QUICK, reached())
    (run_id,) = farm.submit("--agentfile", "Agentfile", "--workspace", str(farm.workspace))
    first = farm.worker("w1")
    farm.until(lambda: farm.run(run_id).units == 2)
    first.kill()
    farm.script(QUICK, reached())
    farm.until(lambda: not first.children(), 5)
    killed = time.monotonic()
    farm.worker("w2")
    (row,) = farm.ended(run_id)
    assert (row.outcome, row.units) == ("completed", 4), row.reason
    assert time.monotonic() - killed < LEASE + 20
    units = farm.rows("SELECT number, place, worker FROM fleet.units WHERE run = %s ORDER BY number", run_id)
    assert [unit.place for unit in units] == [f"goal g{number} 0.0.{number}" for number in range(4)]
    assert {unit.worker.split("-")[0] for unit in units} == {"w1", "w2"}
    place = farm.fetched(run_id)
    assert log_of(place) == ["one"] * 4
    farm.verified(place)


def test_what_was_in_flight_is_told_and_recorded(farm: Farm) -> None:
    """The second call was begun by a worker that is gone: the model is told before it does anything."""
    farm.script(call("Bash", command="echo one >> log"), call("Bash", command="echo two >> log; sleep 30"), text("ok"))
    (run_id,) = farm.submit("-m", "do it", "--workspace", str(farm.workspace))
    first = farm.worker("w1", "--save-every", "1")
    farm.until(lambda: len(farm.rows("SELECT 1 FROM fleet.calls")) == 2)
    first.kill()
    farm.expire(first)
    farm.script(call("Bash", command="echo one >> log"), text("ok"))
    farm.worker("w2", "--save-every", "1")
    (row,) = farm.ended(run_id)
    assert row.outcome == "completed", row.reason
    (unknown,) = farm.json("show", run_id)["outcome_unknown"]
    assert "echo two" in unknown["input"]
    place = farm.fetched(run_id)
    assert log_of(place) == ["one"]
    with sqlite3.connect(place / "home" / "memory.sqlite") as store:
        said = json.dumps(store.execute("SELECT payload_json FROM transcript_entries").fetchall())
    assert "their outcome is unknown" in said
    assert "echo two" in said


def test_a_worker_that_only_slept_does_nothing_more(farm: Farm) -> None:
    farm.agentfile(3)
    farm.script(SLOW, QUICK, reached())
    (run_id,) = farm.submit("--agentfile", "Agentfile", "--workspace", str(farm.workspace))
    first = farm.worker("w1")
    farm.until(lambda: farm.run(run_id).units == 1)
    first.pause()
    farm.script(QUICK, reached())
    farm.worker("w2")
    farm.until(lambda: (farm.run(run_id).worker or "").startswith("w2"))
    first.wake()
    (row,) = farm.ended(run_id)
    assert (row.outcome, row.units) == ("completed", 3), row.reason
    place = farm.fetched(run_id)
    assert log_of(place) == ["one"] * 3
    farm.verified(place)
    farm.until(lambda: not first.children(), 10)
    units = farm.rows("SELECT token, worker FROM fleet.units WHERE run = %s ORDER BY number", run_id)
    assert [unit.worker.split("-")[0] for unit in units] == ["w1", "w2", "w2"]
    ends = farm.rows('SELECT entry FROM fleet.anchors WHERE entry LIKE \'%%"kind":"end"%%\'')
    assert len(ends) == 1


def test_a_run_that_kills_its_process_is_set_aside(farm: Farm) -> None:
    """Three strikes; the worker and the other run live on."""
    farm.script({"delay_ms": 60_000}, text("never"))
    (poison,) = farm.submit("-m", "poison", "--workspace", str(farm.workspace))
    worker = farm.worker("w1")
    killed = 0
    while farm.run(poison).state != "ended":
        for pid in worker.runs():
            if farm.rows("SELECT 1 FROM fleet.reservations WHERE token = (SELECT token FROM fleet.runs LIMIT 1)"):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
        time.sleep(0.1)
    row = farm.run(poison)
    assert row.outcome == "error"
    assert "set aside: 3 starts" in row.reason
    assert killed >= 3
    for pid in worker.started():  # what starts runs is started anew, too
        os.kill(pid, signal.SIGKILL)
    farm.script(text("fine"))
    (good,) = farm.submit("-m", "good", "--workspace", str(farm.workspace))
    assert farm.ended(good)[0].outcome == "completed"
    assert worker.process.poll() is None


def test_sigterm_gives_runs_back_at_once(farm: Farm) -> None:
    farm.agentfile(3)
    farm.script(SLOW, QUICK, reached())
    (run_id,) = farm.submit("--agentfile", "Agentfile", "--workspace", str(farm.workspace))
    first = farm.worker("w1", lease=60)
    farm.until(lambda: farm.run(run_id).units == 1)
    farm.script(QUICK, reached())
    farm.worker("w2", lease=60)
    assert first.end() == 0
    (row,) = farm.ended(run_id, seconds=30)  # without waiting for a lease to run out
    assert (row.outcome, row.units) == ("completed", 3), row.reason
