"""Whoever falls asleep in a transaction holds its locks for two seconds: nobody else waits longer for any of them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator

import psycopg
import pytest

from tests.fleet.farm import Farm, call, reached

SLEEPER = """
import sys, time
from adderclaw.fleet.database import Database

def work(cursor):
    cursor.execute({sql!r})
    if {fetches}:
        cursor.fetchall()
    print("holds", flush=True)
    time.sleep(600)

database = Database({url!r}, patience=0)
database.one("SELECT 1")
print("ready", flush=True)
sys.stdin.readline()
database.do(work)
"""
LOCKS = {
    "the run": "SELECT 1 FROM fleet.runs FOR UPDATE",
    "the budgets": "SELECT 1 FROM fleet.budgets FOR UPDATE",
    "the log's head": "SELECT 1 FROM fleet.anchor_head FOR UPDATE",
    "the reaper's": "SELECT pg_advisory_xact_lock(hashtext('adderclaw fleet reaper'))",
    "the clock of turns": "SELECT 1 FROM fleet.clock FOR UPDATE",
}


@pytest.fixture
def sleepers(farm: Farm) -> Generator[list["subprocess.Popen[str]"]]:
    """Processes that will hold a lock each, by the fleet's own connections."""
    # Some fall asleep before they have looked at what they hold.
    programs = [
        SLEEPER.format(sql=sql, url=farm.url, fetches=bool(number % 2)) for number, sql in enumerate(LOCKS.values())
    ]
    pipe = subprocess.PIPE
    made = [subprocess.Popen([sys.executable, "-c", one], stdin=pipe, stdout=pipe, text=True) for one in programs]
    yield made
    for one in made:
        one.kill()
        one.communicate()


def says(process: "subprocess.Popen[str]", word: str) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == f"{word}\n"


def fall_asleep(sleepers: list["subprocess.Popen[str]"]) -> None:
    """All of them, each with its lock."""
    for one in sleepers:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    for one in sleepers:
        says(one, "holds")
        os.kill(one.pid, signal.SIGSTOP)


def test_who_sleeps_with_a_lock_keeps_nobody_waiting(farm: Farm, sleepers: list["subprocess.Popen[str]"]) -> None:
    """All locks are held when a run of a dead worker is due: it is taken over, spends, finishes units, and ends."""
    farm.agentfile(2)
    farm.script(call("Bash", command="echo one >> log"), reached())
    assert farm.fleet("budget", "fleet", "--cost", "100000").code == 0
    (run_id,) = farm.submit("--agentfile", "Agentfile", "--workspace", str(farm.workspace))
    with psycopg.connect(farm.url) as connection:  # as a worker leaves it that died
        connection.execute(
            "INSERT INTO fleet.workers (id, name, host, pid, version, slots) VALUES ('dead', 'dead', 'x', 1, '', 1)"
        )
        connection.execute(
            "UPDATE fleet.runs SET state = 'running', worker = 'dead', token = 1, lease_until = now() + interval '1 h'"
        )
        connection.execute("UPDATE dbos.workflow_status SET status = 'PENDING', executor_id = 'dead'")
    worker = farm.worker("w1")
    for one in sleepers:
        says(one, "ready")
    farm.until(lambda: "slots" in worker.said)
    farm.rows("UPDATE fleet.runs SET lease_until = now() + interval '1 s' RETURNING 1")
    fall_asleep(sleepers)
    began = time.monotonic()
    (row,) = farm.ended(run_id, seconds=30)
    assert (row.outcome, row.units, row.strikes, row.token) == ("completed", 2, 0, 4), row.reason
    print(f"every lock was held by one who sleeps: it took {time.monotonic() - began:.1f} s")
    assert "Traceback" not in worker.said
