"""A stop that stops, limits that hold, signals that end cleanly: each with its own outcome and exit code."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.acceptance.world import World, call, text
from tests.program import PROGRAM


def outcome(world: World) -> str:
    ((said,),) = world.rows("SELECT outcome FROM runs ORDER BY rowid DESC LIMIT 1")
    return said


def running(marker: str) -> list[int]:
    """Processes whose command line holds a marker."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if marker.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def gone(marker: str, within: float) -> bool:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        if not running(marker):
            return True
        time.sleep(0.05)
    return False


def started(world: World, marker: str, ignoring: str = "") -> "subprocess.Popen[bytes]":
    """A run that is in the middle of a long shell command; its starter may ignore signals."""
    world.configure(autonomy="full", security='allowed_commands = ["sleep"]')
    world.script(call("Bash", command=f"sleep {marker}"), text("never"))
    words = ["sh", "-c", f'trap "" {ignoring}; exec "$@"', "sh", str(PROGRAM), "agent", "-m", "sleep"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        words if ignoring else words[4:], stdin=pipe, stdout=pipe, stderr=pipe, env=world.cli.env, cwd=world.cli.cwd
    )
    deadline = time.monotonic() + 90
    while not running(marker):
        assert time.monotonic() < deadline, "the command never started"
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    return process


def test_estop_kills_what_runs_and_ends_the_run_as_stopped(world: World) -> None:
    process = started(world, "98761.1")
    assert world.cli("estop").code == 0
    assert gone("98761.1", within=60)
    process.communicate(timeout=60)
    assert process.returncode == 6
    assert outcome(world) == "stopped"
    assert world.cli("receipt", "verify").code == 0


def test_estop_survives_and_allows_text_only(world: World) -> None:
    world.cli("estop")
    assert (world.cli.data / "ESTOP").exists()
    world.script(text("Tool use is stopped."))
    done = world.agent("hello?")
    assert (done.code, done.out) == (0, "Tool use is stopped.\n")
    world.script(call("time"), text("no"))
    done = world.agent("the time?")
    assert done.code == 6
    assert world.receipts()[-1]["status"] == "denied"
    assert world.cli("tool", "run", "time").code == 3
    assert world.cli("estop", "--clear").code == 0
    assert not (world.cli.data / "ESTOP").exists()
    assert world.cli("tool", "run", "time").code == 0


@pytest.mark.parametrize(
    ("number", "code", "ignoring"),
    [(signal.SIGINT, 130, ""), (signal.SIGTERM, 143, ""), (signal.SIGINT, 130, "INT"), (signal.SIGTERM, 143, "TERM")],
)
def test_a_signal_ends_the_run_with_no_child_left(
    world: World, number: signal.Signals, code: int, ignoring: str
) -> None:
    """Also where a script started it in the background, with the signal ignored."""
    marker = f"98762.{os.getpid()}"  # the same signal is sent by another test, perhaps at the same time
    process = started(world, marker, ignoring)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == code
    assert gone(marker, within=60)
    assert outcome(world) == "stopped"
    (result,) = world.entries("tool_result")
    assert "unknown" in result["content"]
    assert world.cli("receipt", "verify").code == 0


def test_children_die_with_us(world: World) -> None:
    process = started(world, "98763.1")
    process.kill()
    process.communicate()
    assert gone("98763.1", within=60)


def test_tool_rounds_end_with_the_partial_answer(world: World) -> None:
    world.configure(rounds=2)
    steps = [{"text": f"looking {n}", **call("file_list", path=".")} for n in range(4)]
    world.script(*steps)
    done = world.agent("go")
    assert done.code == 4
    assert "looking 2" in done.out
    assert outcome(world) == "limit"
    assert "max_tool_rounds" in done.err
    assert [r["status"] for r in world.receipts()] == ["allowed", "allowed", "denied"]


@pytest.mark.parametrize("word", ["tool_calls", "tokens", "seconds"])
def test_zero_means_zero(world: World, word: str) -> None:
    world.configure(more=f"[limits]\n{word} = 0")
    world.script(call("time"), text("done"))
    done = world.agent("the time?")
    assert done.code == 4
    assert f"limits.{word}" in done.err
    assert not [r for r in world.receipts() if r["status"] == "allowed"]


def test_a_model_that_goes_in_circles_is_warned_then_stopped(world: World) -> None:
    world.script(*[call("file_list", path=".") for _ in range(12)])
    done = world.agent("go")
    assert done.code == 4
    results = world.entries("tool_result")
    assert len(results) == 8
    assert "Do something else" in results[4]["content"]
    assert "loop_warning" in done.err


def test_json_output_has_the_outcome(world: World) -> None:
    world.script(text("hello"))
    done = world.agent("hi", "--output-format", "json")
    said = json.loads(done.out)
    assert (said["outcome"], said["answer"]) == ("completed", "hello")
    assert {"run_id", "conversation_id", "usage", "cost"} <= said.keys()


def test_stream_json_is_events_and_one_result(world: World) -> None:
    world.script(call("time"), text("hello"))
    done = world.agent("hi", "--output-format", "stream-json")
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert lines[-1]["type"] == "result"
    assert lines[-1]["answer"] == "hello"
    assert "tool_completed" in {line.get("event_type") for line in lines}
    assert sum(line["type"] == "result" for line in lines) == 1


def test_whoever_must_leave_at_once_leaves_whatever_cannot_be_written() -> None:
    code = """
from adderclaw.agent.run import signals
class Broken:
    def finish(self, *_, **__): raise OSError("no space left on device")
signals._exit_now(Broken(), 15, "agent")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (143, b"")
