"""What a fleet may meet: a server that is down, old, full or read-only, a machine without a sandbox, 10 GB to send."""

import contextlib
import re
import socket
import threading
import time
from collections.abc import Generator
from pathlib import Path

import psycopg
import pytest

import adderclaw.fleet
from tests.fleet.farm import Farm, call, reached
from tests.fleet.postgres import Cluster
from tests.listening import listening
from tests.program import Cli
from tests.sandbox.without import without


@pytest.fixture
def old(cluster: Cluster) -> Generator[int]:
    """The port of a server that says that it is PostgreSQL 12: the real one, with one word changed on the way."""

    def passed_on(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while got := source.recv(65_536):
                target.sendall(re.sub(rb"(server_version\0)\d\d", rb"\g<1>12", got))
        target.close()

    def talk(client: socket.socket) -> None:
        server = socket.create_connection(("127.0.0.1", cluster.port))
        threading.Thread(target=passed_on, args=(server, client), daemon=True).start()
        passed_on(client, server)

    with listening(talk) as port:
        yield port


def test_a_server_that_is_down_or_too_old_is_said(farm: Farm, old: int) -> None:
    done = farm.cli("fleet", "worker", "--lease", "1", "--database", "postgresql://adder@127.0.0.1:9/none")
    assert (done.code, "cannot be reached" in done.err, "Traceback" in done.err) == (1, True, False), done.err
    done = farm.cli("fleet", "init", "--database", f"postgresql://adder@127.0.0.1:{old}/{farm.url.rpartition('/')[2]}")
    assert (done.code, "PostgreSQL 12 is too old; 13 or newer is required" in done.err) == (2, True), done.err


def test_a_machine_without_a_sandbox_takes_nothing(farm: Farm) -> None:
    farm.submit("-m", "x", "--workspace", str(farm.workspace))
    bare = Cli(farm.cli.home, farm.cli.cwd)
    (bare.data / "cache" / "confinement").unlink(missing_ok=True)  # of this kernel, as it was before
    bare.before = without("namespaces", "landlock")
    done = bare("fleet", "worker", "--enroll", "--name", "bare", "--until-idle")
    assert (done.code, "a worker needs an OS sandbox" in done.err) == (1, True), done.err
    assert farm.rows("SELECT id FROM fleet.workers") == []


def test_ten_gigabytes_are_refused_before_they_are_read(farm: Farm) -> None:
    with (farm.workspace / "huge").open("wb") as file:
        file.truncate(10 * 1024**3)
    began = time.monotonic()
    done = farm.fleet("submit", "-m", "x", "--workspace", str(farm.workspace))
    assert (done.code, "too large for an archive: at most 4 GiB" in done.err) == (2, True), done.err
    assert time.monotonic() - began < 20
    assert farm.rows("SELECT 1 FROM fleet.objects") == []


FULL = """
CREATE FUNCTION public.no_room() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$;
CREATE TRIGGER no_room BEFORE INSERT ON fleet.objects FOR EACH ROW EXECUTE FUNCTION public.no_room();
"""


def test_a_server_that_is_full_or_takes_no_writes_costs_no_strike(farm: Farm) -> None:
    farm.agentfile(3)
    farm.script(call("Bash", command="echo one >> log"), {"delay_ms": 300}, reached())
    (run_id,) = farm.submit("--agentfile", "Agentfile", "--workspace", str(farm.workspace))
    worker = farm.worker("w1")
    farm.until(lambda: farm.run(run_id).units == 1)
    with psycopg.connect(farm.url, autocommit=True) as operator:
        operator.execute(FULL)
        farm.until(lambda: "disk is full" in worker.said)
        spent = farm.rows("SELECT count(*) AS n FROM fleet.reservations")[0].n
        operator.execute("SET default_transaction_read_only = off")
        operator.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        operator.execute("SELECT pg_reload_conf()")
        try:
            operator.execute("DROP TRIGGER no_room ON fleet.objects")
            farm.until(lambda: "read-only transaction" in worker.said)
        finally:
            operator.execute("ALTER SYSTEM RESET default_transaction_read_only")
            operator.execute("SELECT pg_reload_conf()")
    (row,) = farm.ended(run_id)
    assert (row.outcome, row.units, row.strikes) == ("completed", 3, 0), row.reason
    assert (farm.fetched(run_id) / "workspace" / "log").read_text().split() == ["one"] * 3
    # it rests meanwhile: what cannot be put away is not done, and paid for, again and again
    assert farm.rows("SELECT count(*) AS n FROM fleet.reservations")[0].n <= spent + 10
    assert "Traceback" not in worker.said


def test_no_clock_of_a_machine_decides_anything() -> None:
    """Leases are counted by PostgreSQL's clock, and here by one that only counts seconds. An id has a date, and what is
    a day old in a bucket may go: minutes do not matter for either."""
    package = Path(adderclaw.fleet.__file__).parent
    asked = re.compile(r"time\.time\(|datetime\.now\(|utcnow\(|date\.today\(")
    assert {path.name for path in package.glob("*.py") if asked.search(path.read_text())} <= {"submit.py", "objects.py"}
