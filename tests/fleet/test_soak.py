"""Three workers under fire: killed at random, one asleep past its lease, PostgreSQL gone and back; nothing is lost."""

import json
import random
import time

import pytest

from tests.fleet.farm import Farm, call, reached
from tests.fleet.postgres import Cluster
from tests.program import Soak

GOALS = 2


def submitted(farm: Farm, count: int) -> list[str]:
    farm.agentfile(GOALS)
    farm.script(call("Bash", command="echo one >> log"), {"delay_ms": 200}, reached())
    matrix = farm.root / "matrix.csv"
    rows = [f"Agentfile,{farm.workspace}" for _ in range(count)]
    matrix.write_text("\n".join(["agentfile,workspace", *rows]))
    assert farm.fleet("budget", "fleet", "--cost", "100000").code == 0
    return [one["run_id"] for one in farm.json("submit", "--matrix", str(matrix))["runs"]]


def proved(farm: Farm, ids: list[str], aside: list[str] | None = None) -> None:
    """Every run ended once, every unit is counted once, receipts verify, budgets add up, nothing is left running."""
    rows = farm.rows("SELECT id, outcome, reason, units FROM fleet.runs ORDER BY number")
    wrong = [row for row in rows if (row.outcome, row.units) != ("completed", GOALS)]
    assert not wrong, wrong
    entries = [json.loads(row.entry) for row in farm.rows("SELECT entry FROM fleet.anchors ORDER BY seq")]
    ends = [entry["run"] for entry in entries if entry["kind"] == "end"]
    assert sorted(ends) == sorted([*ids, *(aside or ())])
    units = [(entry["run"], entry["unit"]) for entry in entries if entry["kind"] == "unit"]
    assert sorted(units) == sorted((id, number) for id in ids for number in range(1, GOALS + 1))
    places = farm.rows("SELECT run, count(DISTINCT place) AS n FROM fleet.units GROUP BY run HAVING count(*) <> 2")
    assert places == []
    done = farm.cli("fleet", "verify", timeout=300)
    assert done.code == 0, done.out
    (budget,) = farm.rows("SELECT * FROM fleet.budgets WHERE scope = 'fleet'")
    assert (budget.held_tokens, budget.held_cost) == (0, pytest.approx(0, abs=1e-6))
    spent = farm.rows("SELECT sum(cost) AS cost, count(*) FILTER (WHERE settled IS NULL) AS n FROM fleet.reservations")
    assert (spent[0].n, budget.spent_cost) == (0, pytest.approx(spent[0].cost))
    sample = farm.fetched(ids[len(ids) // 2])
    assert (sample / "workspace" / "log").read_text().split() == ["one"] * GOALS
    for worker in farm.workers:
        if worker.process.poll() is None:
            worker.end()
    for worker in farm.workers:
        farm.until(lambda worker=worker: not worker.children(), 15)
    left = [path for worker in farm.workers for path in (worker.home / ".adderclaw" / "fleet-runs").iterdir()]
    assert left == []  # also what killed ones left behind


@pytest.mark.soak
def test_workers_killed_at_random_lose_nothing(farm: Farm, soak: Soak) -> None:
    ids = submitted(farm, max(6, len(list(soak.of(300)))))
    chance = random.Random(len(ids))
    workers = [farm.worker(f"w{number}") for number in range(3)]
    asleep, slept, killed = None, 0.0, 0
    limit = time.monotonic() + 60 + 12 * len(ids)
    while farm.rows("SELECT 1 FROM fleet.runs WHERE state <> 'ended' LIMIT 1"):
        assert time.monotonic() < limit, farm.rows("SELECT state, count(*) FROM fleet.runs GROUP BY state")
        time.sleep(chance.uniform(2, 5))
        if asleep is None and slept == 0.0 and farm.rows("SELECT 1 FROM fleet.units LIMIT 1"):
            asleep, slept = workers[0], time.monotonic()
            asleep.pause()
        elif asleep is not None and time.monotonic() - slept > 8:
            asleep.wake()
            asleep = None
        victim = chance.choice(range(1, 3))
        if farm.rows("SELECT 1 FROM fleet.runs WHERE worker LIKE %s LIMIT 1", f"w{victim}-%"):
            workers[victim].kill()
            killed += 1
            workers[victim] = farm.worker(f"w{victim}")
    if asleep is not None:
        asleep.wake()
    aside = [row.id for row in farm.rows("SELECT id FROM fleet.runs WHERE reason LIKE 'set aside%%'")]
    print("killed:", killed, "set aside:", len(aside))
    assert len(aside) <= len(ids) // 10
    for id in aside:  # three workers died with it, one after the other: that looks like its doing
        assert farm.fleet("retry", id).code == 0
    farm.until(lambda: not farm.rows("SELECT 1 FROM fleet.runs WHERE state <> 'ended'"), 60 + 12 * len(ids))
    proved(farm, ids, aside)


@pytest.mark.soak
def test_postgresql_that_crashes_loses_nothing(farm: Farm, cluster: Cluster, soak: Soak) -> None:
    ids = submitted(farm, max(6, len(list(soak.of(100)))))
    for number in range(2):
        farm.worker(f"w{number}", lease=10)
    farm.until(lambda: farm.rows("SELECT 1 FROM fleet.units LIMIT 1"))
    cluster.restart()
    done = farm.until(lambda: farm.rows("SELECT count(*) AS n FROM fleet.runs WHERE state = 'ended'")[0].n > 2, 240)
    assert done
    cluster.stop("fast")
    time.sleep(4)
    cluster.start()
    farm.until(lambda: not farm.rows("SELECT 1 FROM fleet.runs WHERE state <> 'ended'"), 120 + 12 * len(ids))
    proved(farm, ids)
