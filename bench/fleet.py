"""What a fleet costs: many runs queued, runs a second, an idle worker, a run's queries and rows, a take-over, a stop.

`python bench/fleet.py` starts a PostgreSQL of its own on loopback, and takes at most ten minutes (`--seconds`): what
does not fit is left out, and named. `--only` chooses, `--runs` says how many runs each worker has. Each part prints a
line of JSON with how many cores were busy meanwhile, by whoever; the last line has the ratios that are asked for.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from adderclaw.fleet import leases, queries, requests, submit  # noqa: E402
from adderclaw.fleet.database import Database  # noqa: E402
from adderclaw.fleet.submit import ANY_PLACE, Order  # noqa: E402
from tests.fleet.farm import Farm, call, reached, text  # noqa: E402
from tests.fleet.postgres import Cluster, programs  # noqa: E402
from tests.program import Cli  # noqa: E402

TICK = os.sysconf("SC_CLK_TCK")
OWN = (
    "^(BEGIN|COMMIT|SELECT coalesce.sum.calls|SELECT .. FROM fleet.runs WHERE state <>"
    "|SELECT [*] FROM fleet.runs WHERE id = ANY.* AND state)"
)
"""Statements that the bench itself makes, or that are none."""
LONGEST = 60.0
"""Seconds that have to be left for a part to begin."""
NEXT = (
    "SELECT workflow_uuid FROM dbos.workflow_status WHERE queue_name = 'runs' AND status = 'ENQUEUED'"
    " AND application_version = 'fleet-1' ORDER BY priority, created_at LIMIT 1 FOR UPDATE SKIP LOCKED"
)
"""What the engine asks when it takes the next from its queue."""


class Bench:
    def __init__(self, cluster: Cluster, root: Path, limit: float) -> None:
        """`limit`: when all is over, by the clock that only counts."""
        self._cluster, self._root, self._made, self._limit = cluster, root, 0, limit

    @property
    def left(self) -> float:
        """Seconds."""
        return self._limit - time.monotonic()

    def farm(self) -> Farm:
        self._made += 1
        folder = self._root / str(self._made)
        (folder / "home").mkdir(parents=True)
        (folder / "cwd").mkdir()
        return Farm(self._cluster.database(), Cli(folder / "home", folder / "cwd"), folder)

    # -------------------------------------------------------------- many queued

    def queued(self, count: int) -> Any:
        """Milliseconds: submitting so many at once, for each; a list of 20; taking the next from the queue; a claim."""
        database = Database(self._cluster.database())
        orders = [Order(wanted={"message": "x"}, submitter="bench") for _ in range(count)]
        signer = requests.identity(str(self._root / "signer"), "bench")
        requests.enrol(database, "bench", signer.public)
        began = time.perf_counter()
        done = submit.submit(database, orders, [ANY_PLACE] * count, signer)
        submitting = time.perf_counter() - began
        database.run("ANALYZE")
        sql = "INSERT INTO fleet.workers (id, name, host, pid, version, slots) VALUES ('b', 'b', 'b', 1, '', 1)"
        database.run(sql)
        ids = iter(done)
        return {
            "queued": count,
            "submit_ms_each": round(submitting / count * 1000, 3),
            "list_ms": median(lambda: queries.runs(database, limit=20)),
            "next_ms": median(lambda: database.one(NEXT)),
            "claim_ms": median(lambda: leases.claim(database, next(ids).id, "b", 60)),
        }

    # -------------------------------------------------------------- runs a second

    def ran(self, workers: int, runs: int, model_ms: int) -> Any:
        """From the first claim to the last end. All workers are up before anything is submitted; each has one slot."""
        farm = self.farm()
        farm.script({**text("done"), "delay_ms": model_ms})
        for number in range(workers):
            farm.worker(f"w{number}", lease=30, slots=1)
        farm.until(lambda: all("slots" in worker.said for worker in farm.workers))
        before, used = self._counted(farm), cpu(farm)
        submitted(farm, runs)
        farm.until(lambda: not farm.rows("SELECT 1 FROM fleet.runs WHERE state <> 'ended' LIMIT 1"), self.left)
        (row,) = farm.rows("SELECT extract(epoch FROM max(finished) - min(began))::float8 AS took FROM fleet.runs")
        after, used = self._counted(farm), cpu(farm) - used
        farm.close()
        each = {name: round((after[name] - before.get(name, 0)) / runs, 1) for name in after}
        return {
            "workers": workers,
            "runs": runs,
            "model_ms": model_ms,
            "runs_per_second": round(runs / row.took, 2),
            "cpu_seconds_each": round(used / runs, 2),
            "each": {name: value for name, value in each.items() if value},
        }

    def counted(self) -> Any:
        """Statements and new rows of one longer run: three units, each of a tool call and two model calls."""
        farm = self.farm()
        farm.agentfile(3)
        farm.script(call("Bash", command="echo one >> log"), reached())
        worker = farm.worker("w0", lease=60, slots=1)
        farm.until(lambda: "slots" in worker.said)
        time.sleep(2)
        idle, began = self._counted(farm), time.monotonic()
        time.sleep(10)
        still, for_seconds = self._counted(farm), time.monotonic() - began
        rate = (still["statements"] - idle["statements"]) / for_seconds
        before, began = self._counted(farm), time.monotonic()
        (id,) = farm.submit("--agentfile", "Agentfile", "--workspace", str(farm.workspace))
        farm.ended(id)
        after, took = self._counted(farm), time.monotonic() - began
        farm.close()
        made = {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)}
        made["statements"] -= round(rate * took)
        return {"run": "3 units, 3 tool calls, 6 model calls", "seconds": round(took, 1), **made}

    def idle(self, for_seconds: float = 20.0) -> Any:
        """A worker with nothing to do: statements and processor seconds, for each second."""
        farm = self.farm()
        worker = farm.worker("w0", lease=30, slots=4)
        farm.until(lambda: "slots" in worker.said)
        time.sleep(3)
        pids = (worker.process.pid, *below(worker.process.pid))
        before, cpu = self._counted(farm), sum(map(seconds, pids))
        time.sleep(for_seconds)
        after, used = self._counted(farm), sum(map(seconds, pids)) - cpu
        farm.close()
        asked = (after["statements"] - before["statements"]) / for_seconds
        return {"idle": 1, "statements_per_second": round(asked, 2), "cpu": round(used / for_seconds, 4)}

    def _counted(self, farm: Farm) -> dict[str, int]:
        """Statements of all so far, and rows that were ever put into each table."""
        (asked,) = farm.rows(
            "SELECT coalesce(sum(calls), 0)::bigint AS n FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid"
            " WHERE d.datname = current_database() AND query !~ %s",
            OWN,
        )
        rows = farm.rows("SELECT schemaname || '.' || relname AS t, n_tup_ins AS n FROM pg_stat_user_tables")
        return {"statements": int(asked.n), **{row.t: int(row.n) for row in rows}}

    # -------------------------------------------------------------- taking over, stopping

    def taken_over(self, lease: float) -> Any:
        """Seconds from kill -9 of a worker until another has its run, and until that one's process is at work."""
        farm = self.farm()
        farm.script({"delay_ms": 600_000}, text("never"))
        (id,) = farm.submit("-m", "x", "--workspace", str(farm.workspace))
        first = farm.worker("w0", lease=lease)
        working = "SELECT 1 FROM fleet.reservations WHERE run = %s HAVING count(*) = %s"
        farm.until(lambda: farm.rows(working, id, 1))
        second = farm.worker("w1", lease=lease)
        farm.until(lambda: "slots" in second.said)
        time.sleep(1)
        first.kill()
        began = time.monotonic()
        farm.until(lambda: (farm.run(id).worker or "").startswith("w1"))
        claimed = time.monotonic() - began
        farm.until(lambda: farm.rows(working, id, 2))
        at_work = time.monotonic() - began
        farm.close()
        return {"take_over": 1, "lease": lease, "claimed": round(claimed, 2), "at_work": round(at_work, 2)}

    def stopped(self) -> Any:
        """Seconds from `fleet stop` until every worker has heard it, and until nothing of any run is there."""
        farm = self.farm()
        farm.script(call("Bash", command="trap '' TERM INT; sleep 600; sleep 600"), text("never"))
        for _ in range(4):
            farm.submit("-m", "x", "--workspace", str(farm.workspace))
        for number in range(2):
            farm.worker(f"w{number}", lease=30, slots=2)
        farm.until(lambda: len(farm.rows("SELECT 1 FROM fleet.calls")) == 4)
        heard = farm.json("stop")["workers"]
        left = [pid for worker in farm.workers for pid in worker.children()]
        farm.close()
        late = {name: round(max(one[name] for one in heard), 2) for name in ("heard", "ended")}
        return {"stop": 1, "runs": sum(one["runs"] for one in heard), **late, "left": len(left)}


def submitted(farm: Farm, runs: int) -> None:
    matrix = farm.root / "matrix.csv"
    matrix.write_text("\n".join(["message,workspace", *(f"m{n},{farm.workspace}" for n in range(runs))]))
    farm.submit("--matrix", str(matrix))


def median(work: Callable[[], Any]) -> float:
    took = list[float]()
    for _ in range(21):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return round(sorted(took)[10] * 1000, 2)


def seconds(pid: int) -> float:
    """Of a processor, with what it waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICK


def below(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for one in (task / "children").read_text().split():
            found += [int(one), *below(int(one))]
    return found


def cpu(farm: Farm) -> float:
    """Seconds of a core that the workers used, and the processes of their runs that have ended."""
    return sum(seconds(pid) for worker in farm.workers for pid in (worker.process.pid, *below(worker.process.pid)))


def busy() -> float:
    """Seconds of all cores that anybody used since the machine started."""
    fields = Path("/proc/stat").read_text().split("\n")[0].split()[1:]
    return sum(int(value) for place, value in enumerate(fields[:8]) if place not in (3, 4)) / TICK


def ratios(made: list[Any]) -> Any:
    """What is asked for: the rate against that of one worker for each, and what 10,000 queued runs cost against 100."""
    found: dict[str, Any] = {"ratios": 1, "cores": os.cpu_count()}
    rates = {(one["model_ms"], one["workers"]): one["runs_per_second"] for one in made if "runs_per_second" in one}
    for (model_ms, workers), rate in rates.items():
        if workers > 1 and (model_ms, 1) in rates:
            found[f"linear_{workers}_workers_model_{model_ms}_ms"] = round(rate / rates[model_ms, 1] / workers, 2)
    queued = sorted((one for one in made if "queued" in one), key=lambda one: one["queued"])
    if len(queued) > 1:
        few, many = queued[0], queued[-1]
        found |= {name: round(many[name] / few[name], 2) for name in few if "_ms" in name}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="for all of it")
    parser.add_argument("--runs", type=int, default=20, help="for each worker")
    parser.add_argument("--model-ms", type=int, nargs="*", default=[0, 1000], help="how long the model thinks")
    parser.add_argument("--leases", type=float, nargs="*", default=[3.0, 10.0], help="of the workers that are killed")
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--queued", type=int, nargs="*", default=[100, 10_000])
    parser.add_argument("--only", nargs="*", default=["queued", "ran", "counted", "idle", "take_over", "stop"])
    given = parser.parse_args()
    found = programs()
    if found is None:
        sys.exit("PostgreSQL is not installed")
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(found, "-c shared_preload_libraries=pg_stat_statements")
        cluster.start()
        try:
            cluster.template(Path(folder) / "template", "CREATE EXTENSION pg_stat_statements SCHEMA public")
            bench = Bench(cluster, Path(folder), time.monotonic() + given.seconds)
            parts: dict[str, list[Callable[[], Any]]] = {
                "queued": [lambda count=count: bench.queued(count) for count in given.queued],
                "ran": [
                    lambda number=number, took=took: bench.ran(number, given.runs * number, took)
                    for took in given.model_ms
                    for number in given.workers
                ],
                "counted": [bench.counted],
                "idle": [bench.idle],
                "take_over": [lambda lease=lease: bench.taken_over(lease) for lease in given.leases],
                "stop": [bench.stopped],
            }
            made: list[Any] = []
            for name in given.only:
                for part in parts[name]:
                    if bench.left < LONGEST:
                        print(json.dumps({"left_out": name, "why": "the time is over"}), flush=True)
                        continue
                    began, before = time.monotonic(), busy()
                    made.append(part())
                    cores = (busy() - before) / (time.monotonic() - began)
                    load = round(os.getloadavg()[0], 1)
                    print(json.dumps({**made[-1], "cores_busy": round(cores, 2), "load": load}), flush=True)
            print(json.dumps(ratios(made)), flush=True)
        finally:
            cluster.remove()


if __name__ == "__main__":
    main()
