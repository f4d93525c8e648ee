"""A fleet as a test drives it: the installed program submits, workers are processes, rows are looked at."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import namedtuple_row

from adderclaw.fleet import requests
from adderclaw.fleet.database import Database
from adderclaw.fleet.identities import Identity
from tests.forked import Forked, Forks
from tests.program import PROGRAM, Cli, Done

CONFIG = """
default_provider = "local"
[security]
autonomy = "full"
[runtime]
max_tool_rounds = 40
retry_base_delay_seconds = 0.01
[providers.models.local]
kind = "mock"
model = "mock"
fixture = "{fixture}"
[models.mock]
input_per_mtok = 1000.0
output_per_mtok = 1000.0
[limits]
cost_usd = 1000.0
"""
LEASE = 3.0


def call(name: str, /, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def text(said: str) -> dict[str, Any]:
    return {"text": said}


def reached(summary: str = "ok") -> dict[str, Any]:
    """How a goal of an Agentfile is ended."""
    return call("GoalResult", achieved=True, summary=summary)


class WorkerProcess:
    def __init__(self, farm: "Farm", name: str, *more: str, lease: float, slots: int, env: Mapping[str, str]) -> None:
        self.farm, self.name = farm, name
        self.home = farm.root / "workers" / name
        if not self.home.exists():
            data = self.home / ".adderclaw"
            data.mkdir(parents=True, mode=0o700)
            for file in ("config.toml", "fleet.toml", "fleet.key"):
                shutil.copy(farm.cli.data / file, data / file)
            done = self.cli("fleet", "enroll", name)
            assert done.code == 0, done.err
        self.log = (self.home / "log").open("ab")
        words = ("fleet", "worker", "--name", name, "--lease", str(lease), "--slots", str(slots), *more)
        environment = {**self.cli.env, **env}
        self.process: subprocess.Popen[bytes]
        none, log = subprocess.DEVNULL, self.log
        if farm.forks is not None and not farm.before:
            self.process = Forked(farm.forks, words, environment, str(self.home), stdin=none, stdout=log, stderr=log)
        else:
            argv = [*farm.before, str(PROGRAM), *words]
            self.process = subprocess.Popen(argv, env=environment, cwd=self.home, stdin=none, stdout=log, stderr=log)

    @property
    def cli(self) -> Cli:
        made = Cli(self.home, self.home)
        made.forks = self.farm.cli.forks
        return made

    @property
    def said(self) -> str:
        return (self.home / "log").read_text(errors="replace")

    def kill(self) -> None:
        """Nobody is asked."""
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)

    def wake(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def end(self) -> int:
        self.process.terminate()
        return self.process.wait(timeout=30)

    def children(self) -> list[int]:
        """Processes of its runs that are there now: those with its home in their environment, or their files in it.

        What starts them is there as long as the worker is.
        """
        found: list[int] = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                within = str((entry / "cwd").readlink()).startswith(f"{self.home}/")
                ours = str(self.home).encode() in (entry / "environ").read_bytes()
                starts = b"adderclaw.fleet.warm" in (entry / "cmdline").read_bytes() and self.process.poll() is None
                if within or (ours and not starts):
                    found.append(int(entry.name))
        return [pid for pid in found if pid != self.process.pid]

    def started(self) -> list[int]:
        """The process that starts those of runs."""
        return [
            int(one) for one in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        ]

    def runs(self) -> list[int]:
        """The processes of runs: what works in a workspace and is the program itself."""
        found: list[int] = []
        for pid in self.children():
            with contextlib.suppress(OSError):
                within = str((Path("/proc") / str(pid) / "cwd").readlink()).startswith(f"{self.home}/")
                if within and b"adderclaw.fleet.warm" in (Path("/proc") / str(pid) / "cmdline").read_bytes():
                    found.append(pid)
        return found


class Farm:
    before: tuple[str, ...] = ()
    """What starts workers, where that is not the test itself."""

    def __init__(self, url: str, cli: Cli, root: Path, forks: Forks | None = None) -> None:
        """`forks`: what starts workers where that makes no difference."""
        self.url, self.cli, self.root, self.forks = url, cli, root, forks
        self.workspace = root / "workspace"
        self.workspace.mkdir()
        self.fixture = root / "fixture.json"
        self.script(text("done"))
        cli.configure(CONFIG.format(fixture=self.fixture))
        (cli.data / "fleet.toml").write_text(f'database = "{url}"\n')
        (cli.data / "fleet.key").write_text("ab" * 32 + "\n")
        self.workers: list[WorkerProcess] = []
        self._connection: psycopg.Connection[Any] | None = None

    def script(self, *steps: Mapping[str, Any]) -> None:
        """What the model says, in every conversation anew."""
        self.fixture.write_text(json.dumps({"steps": list(steps), "partial": True}))

    def agentfile(self, goals: int) -> None:
        """A workflow of so many goals: so many units."""
        lines = [f'GOAL g{number} "Goal number {number}"' for number in range(goals)]
        names = ", ".join(f"g{number}" for number in range(goals))
        (self.workspace / "Agentfile").write_text("\n".join(["NAME many", *lines, f"RUN all USING {names}", ""]))

    def worker(
        self, name: str, *more: str, lease: float = LEASE, slots: int = 2, env: Mapping[str, str] | None = None
    ) -> WorkerProcess:
        made = WorkerProcess(self, name, *more, lease=lease, slots=slots, env=env or {})
        self.workers.append(made)
        return made

    def submit(self, *words: str) -> list[str]:
        """The ids."""
        done = self.cli("fleet", "submit", *words, "--output-format", "json")
        assert done.code == 0, done.err
        return [one["run_id"] for one in json.loads(done.out)["runs"]]

    def signer(self, submitter: str) -> Identity:
        """The key of the farm's home, enrolled for this submitter."""
        made, database = requests.identity(str(self.cli.data), submitter), Database(self.url)
        requests.enrol(database, submitter, made.public)
        database.close()
        return made

    def sign(self, *ids: str) -> None:
        """Rows that were written by hand, as their submitters would sign them."""
        database = Database(self.url)
        for id in ids:
            row = database.one("SELECT * FROM fleet.runs WHERE id = %s", id)
            signer = self.signer(row.submitter)
            signature = signer.sign(requests.signed_text(id, requests.Request.of(row).digest))
            sql = "UPDATE fleet.runs SET signed_by = %s, signature = %s WHERE id = %s RETURNING 1"
            self.rows(sql, signer.public, signature, id)
        database.close()

    def fleet(self, *words: str) -> Done:
        return self.cli("fleet", *words)

    def json(self, *words: str) -> Any:
        done = self.cli("fleet", *words, "--output-format", "json")
        assert done.code == 0, done.err
        return json.loads(done.out)

    def rows(self, sql: str, *parameters: Any) -> list[Any]:
        """On a connection that stays: tests look often. One that a restart of the server ended is made anew."""
        for _ in range(2):
            if self._connection is None or self._connection.closed:
                self._connection = psycopg.connect(self.url, autocommit=True, row_factory=namedtuple_row)
            try:
                return self._connection.execute(sql.encode(), parameters).fetchall()
            except psycopg.OperationalError:
                if not self._connection.closed:
                    raise
        raise AssertionError("PostgreSQL ends every connection")

    def leave(self) -> None:
        """Hold the database open no longer: nobody copies one that somebody uses."""
        if self._connection is not None:
            self._connection.close()

    def expire(self, worker: WorkerProcess) -> None:
        """A killed worker's leases run out now. Once for all is the time waited for that they have
        (test_take_over.py)."""
        self.rows("UPDATE fleet.runs SET lease_until = now() WHERE worker LIKE %s RETURNING 1", f"{worker.name}-%")

    def run(self, id: str) -> Any:
        return self.rows("SELECT * FROM fleet.runs WHERE id = %s", id)[0]

    def until(self, found: Callable[[], Any], seconds: float = 60.0) -> Any:
        limit = time.monotonic() + seconds
        while not (seen := found()):
            if time.monotonic() > limit:
                said = "\n".join(f"--- {one.name}\n{one.said[-3000:]}" for one in self.workers)
                states = self.rows("SELECT id, state, outcome, reason, token, strikes, units, worker FROM fleet.runs")
                raise AssertionError(f"it did not happen within {seconds} s\n{states}\n{said}")
            time.sleep(0.05)
        return seen

    def ended(self, *ids: str, seconds: float = 60.0) -> list[Any]:
        """The rows of these runs, once all have ended."""
        sql = "SELECT * FROM fleet.runs WHERE id = ANY(%s) AND state = 'ended' ORDER BY number"

        def all_ended() -> list[Any]:
            found = self.rows(sql, list(ids))
            return found if len(found) == len(ids) else []

        return self.until(all_ended, seconds)

    def fetched(self, id: str) -> Path:
        """Its last state, here."""
        place = self.root / f"fetched-{id}"
        done = self.fleet("fetch", id, str(place))
        assert done.code == 0, done.err
        return place

    def verified(self, place: Path) -> None:
        """The receipts of a fetched run are whole."""
        done = self.cli("receipt", "verify", env={"ADDERCLAW_HOME": str(place / "home")}, cwd=place / "workspace")
        assert done.code == 0, done.out + done.err

    def close(self) -> None:
        self.leave()
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.wake()
                worker.kill()
            worker.log.close()
