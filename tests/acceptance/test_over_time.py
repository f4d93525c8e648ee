"""Nothing is lost under load and over time: long outputs, many runs, a store that disappears, a server that stalls."""

import json
import os
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.acceptance.test_rpc import Rpc
from tests.acceptance.world import World, call, text
from tests.program import Soak


def result_of(world: World, command: str, **more: object) -> str:
    world.configure(autonomy="full")
    world.script(call("Bash", command=command, **more), text("done"))
    done = world.agent("go")
    assert done.code == 0, done.err
    return world.entries("tool_result")[-1]["content"]


def kept_file(shown: str) -> Path:
    found = re.search(r"Read (\S+) (?:shows|has)", shown)
    assert found, shown[14_900:15_300]
    return Path(found[1])


def test_31_the_end_of_a_long_output_is_shown_and_the_file_has_all_of_it(world: World) -> None:
    shown = result_of(world, "seq 1 400000 && echo ERROR && false")
    assert "399999\n400000\nERROR\n" in shown
    assert "has all of it" in shown
    lines = kept_file(shown).read_text(encoding="utf-8").splitlines()
    assert lines == ["Exit code 1", *map(str, range(1, 400_001)), "ERROR"]


def test_31_what_is_past_the_limit_is_dropped_and_counted_and_nothing_is_killed(world: World) -> None:
    shown = result_of(world, "seq 1 9000000 && echo ERROR >&2 && touch reached && false")
    assert "8999999\n9000000\n" in shown
    assert "--- stderr ---\nERROR\n" in shown
    assert "has all of it" not in shown
    assert (world.workspace / "reached").exists()
    kept = kept_file(shown).read_bytes()
    told = re.search("\n\\[… (\\d+) bytes were dropped here …\\]\n".encode(), kept)
    assert told
    assert f"{int(told[1]):,} bytes dropped" in shown
    whole = ("\n".join(map(str, range(1, 9_000_001))) + "\n").encode()
    head = kept[: told.start()].removeprefix(b"Exit code 1\n")
    tail = kept[told.end() :].split(b"[SDLC_TRUNCATED]")[0]
    assert len(head) + len(tail) + int(told[1]) == len(whole)
    assert whole.startswith(head)
    assert whole.endswith(tail)


@pytest.mark.parametrize("command", ["git status && seq 1 400000 >&2 && git nonsense", "seq 1 400000 >&2; exit 3"])
def test_31_the_end_of_stderr_too_and_of_each_part_of_a_command(world: World, command: str) -> None:
    world.cli.cwd = world.workspace
    shown = result_of(world, f"git init -q; {command}")
    assert "399999\n400000\n" in shown
    assert kept_file(shown).read_text(encoding="utf-8").count("\n400000\n") == 1


WORK = (
    call("Read", file_path="made.txt"),
    call("Write", file_path="made.txt", content="x"),
    call("Bash", command="echo looked; touch touched"),
    call("Bash", command="echo behind", run_in_background=True),
    text("done"),
)
"""What each run does: everything that opens something for a session."""


class Held(NamedTuple):
    """What a process holds of the system."""

    descriptors: int
    threads: int
    children: int
    kilobytes: int

    @staticmethod
    def by(pid: int) -> "Held":
        here = Path(f"/proc/{pid}")
        children = (here / f"task/{pid}/children").read_text(encoding="ascii").split()
        kilobytes = re.search(r"VmRSS:\s+(\d+)", (here / "status").read_text(encoding="ascii"))
        assert kilobytes
        return Held(len(os.listdir(here / "fd")), len(os.listdir(here / "task")), len(children), int(kilobytes[1]))


def flat(first: Held, last: Held, runs: int) -> None:
    assert last.descriptors <= first.descriptors, (first, last)
    assert last.threads <= first.threads + 8, (first, last)  # the loop's pool of them grows up to a few
    assert last.children <= first.children, (first, last)
    assert last.kilobytes < first.kilobytes + 20_000 + 40 * runs, (first, last)


def worked(world: World) -> None:
    world.configure(autonomy="full")
    world.script(*WORK)
    (world.workspace / "made.txt").write_text("x", encoding="utf-8")


@pytest.mark.soak
def test_28_rpc_holds_nothing_of_a_run_that_has_ended(world: World, soak: Soak) -> None:
    worked(world)
    rpc, runs = Rpc(world), 500 if soak.whole else 40
    most = 64
    try:
        resource.prlimit(rpc.process.pid, resource.RLIMIT_NOFILE, (most, most))
        first: Held | None = None
        for number in range(runs):
            answered = rpc.answer(number, "run", message="go")
            assert answered["result"]["outcome"] == "completed", answered
            if number == 7:
                first = Held.by(rpc.process.pid)
        assert first
        flat(first, Held.by(rpc.process.pid), runs)
    finally:
        rpc.process.kill()
        rpc.process.communicate()
    failed = [one for one in world.entries("tool_result") if one.get("is_error")]
    assert not failed, failed[0]
    assert world.rows("SELECT count(*) FROM runs WHERE outcome = 'completed'") == [(runs,)]


IN_PYTHON = """
import asyncio, json, os, resource, sys
from adderclaw import AgentClient, QueryOptions
from tests.acceptance.test_over_time import Held

async def main(runs, most):
    client = AgentClient(QueryOptions(cwd=sys.argv[3]))
    for number in range(runs):
        last = [one async for one in client.query("go")][-1]
        if number == 0:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        if number == 7:
            first = Held.by(os.getpid())
    print(json.dumps([first, Held.by(os.getpid())]))

asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
"""


@pytest.mark.soak
def test_28_the_python_api_holds_nothing_of_a_run_that_has_ended(world: World, soak: Soak) -> None:
    worked(world)
    runs, most = (500, 64) if soak.whole else (40, 64)
    root = str(Path(__file__).resolve().parents[2])
    command = [sys.executable, "-c", IN_PYTHON, str(runs), str(most), str(world.workspace)]
    env = {**world.cli.env, "PYTHONPATH": root}
    done = subprocess.run(command, env=env, cwd=world.workspace, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, last = json.loads(done.stdout)
    flat(Held(*first), Held(*last), runs)
    assert world.rows("SELECT count(*) FROM runs WHERE outcome = 'completed'") == [(runs,)]
    assert not [one for one in world.entries("tool_result") if one.get("is_error")]


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_35_a_database_that_goes_while_it_is_in_use_ends_the_run(world: World, how: str) -> None:
    world.configure(autonomy="full")
    waiting = "touch begun; until [ -e go ]; do sleep 0.05; done"
    world.script(call("Bash", command=waiting), call("Write", file_path="after.txt", content="x"), text("done"))
    process = world.cli.start("agent", "-m", "go")
    try:
        until(world.workspace / "begun")
        kept = world.database.read_bytes()
        world.database.unlink()
        if how == "replaced":
            world.database.write_bytes(kept)
        (world.workspace / "go").touch()
        out, err = process.communicate(timeout=90)
    finally:
        process.kill()
    assert process.returncode == 1, err
    assert f"{world.database} was {how}".encode() in err
    assert b"Traceback" not in err
    assert b"done" not in out
    assert not (world.workspace / "after.txt").exists(), "it stops at once"


def until(path: Path) -> None:
    for _ in range(1200):
        if path.exists():
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} never came")


@pytest.mark.soak
def test_35_a_lock_is_waited_for_as_long_as_the_message_says(world: World, soak: Soak) -> None:
    if not soak.turn(0):  # it waits for half a minute
        return
    world.script(text("done"))
    assert world.agent("once").code == 0
    with closing(sqlite3.connect(world.database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        done = world.cli("agent", "-m", "again", timeout=120)
        took = time.monotonic() - began
    assert done.code == 1, done.err
    assert "for more than 30 s" in done.err
    assert 29 < took < 50


@pytest.mark.parametrize("behind", [False, True])
def test_37_a_command_with_a_nul_is_refused_with_a_reason(world: World, behind: bool) -> None:
    world.configure(autonomy="full")
    world.script(call("Bash", command="echo a\0b", run_in_background=behind), text("done"))
    world.agent("go")
    shown = world.entries("tool_result")[-1]["content"]
    assert "NUL" in shown
    assert "SDLC_INTERNAL" not in shown


def waits(world: World, *before: str) -> "subprocess.Popen[bytes]":
    """A run whose command has begun, and waits for the file `go`."""
    world.configure(autonomy="full")
    world.script(call("Bash", command="touch begun; until [ -e go ]; do sleep 0.05; done"), text("done"))
    world.cli.before = before
    process = world.cli.start("agent", "-m", "go")
    until(world.workspace / "begun")
    return process


def test_37_the_end_of_the_terminal_ends_a_run_in_order(world: World) -> None:
    process = waits(world)
    process.send_signal(signal.SIGHUP)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 129, err
    assert world.rows("SELECT outcome, exit_code FROM runs") == [("stopped", 129)]


def test_37_a_run_that_was_started_to_outlive_its_terminal_does(world: World) -> None:
    process = waits(world, "nohup")
    process.send_signal(signal.SIGHUP)
    (world.workspace / "go").touch()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
