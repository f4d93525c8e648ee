"""Killed anywhere, a run goes on: nothing committed is lost, no write happens twice, the receipts verify."""

import json
import random
import re
import signal
import sqlite3
import time
from typing import Any

import pytest

from tests.acceptance.world import World, call, text
from tests.program import Soak

CALLS = 30
UNKNOWN = "outcome is unknown"


def journal(world: World) -> list[str]:
    file = world.workspace / "journal.txt"
    return file.read_text().split() if file.exists() else []


def long_script(world: World) -> None:
    """Thirty calls, two of them in each third reply: each leaves its mark exactly once when it runs once."""
    world.configure(autonomy="full", rounds=100)
    steps: list[dict[str, Any]] = []
    number = 0
    while number < CALLS:
        calls: list[Any] = []
        for _ in range(2 if len(steps) % 3 == 2 and number + 1 < CALLS else 1):
            calls += call("Bash", command=f"echo mark-{number} >> journal.txt")["tool_calls"]
            number += 1
        steps.append({"tool_calls": calls})
    world.script(*steps, text("all done"))


def killed_at(world: World, receipts: int, delay: float) -> bool:
    """Start the run and kill it a moment after a number of receipts; False when it had ended by itself before."""
    process = world.cli.start("agent", "-m", "go")
    while process.poll() is None:
        if not receipts or len(world.receipts_so_far()) >= receipts:
            time.sleep(delay)
            process.kill()
            break
        time.sleep(0.0005)
    process.communicate()
    return process.returncode == -signal.SIGKILL


def fresh(world: World) -> None:
    for file in (world.workspace / "journal.txt", world.log, world.cli.data / "receipt.key"):
        file.unlink(missing_ok=True)
    for file in world.cli.data.glob("memory.sqlite*"):
        file.unlink()


def committed(world: World) -> list[tuple[Any, ...]]:
    """What the store has of the run; nothing, when it was killed before the tables were there."""
    try:
        return world.rows("SELECT id, payload_json FROM transcript_entries")
    except sqlite3.OperationalError:
        return []


def check_whole(world: World) -> None:
    """Every mark once, or not more than once and reported unknown; one result and one receipt a call."""
    results = {entry["tool_use_id"]: entry for entry in world.entries("tool_result")}
    marks = journal(world)
    uses = world.entries("tool_use")
    assert len(uses) == CALLS
    assert len(results) == CALLS
    for use in uses:
        mark = re.search(r"mark-\d+", use["input"]["command"])
        assert mark is not None
        times = marks.count(mark[0])
        said = results[use["id"]]["content"]
        assert times == 1 or (times == 0 and UNKNOWN in said), f"{mark[0]}: {times} times, {said!r}"
    assert len(world.receipts()) == CALLS
    with sqlite3.connect(world.database) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    verified = world.cli("receipt", "verify")
    assert verified.code == 0, verified.out + verified.err


def resumed(world: World, before: list[tuple[Any, ...]]) -> None:
    ((conversation,),) = world.rows("SELECT id FROM conversations")
    done = world.cli("agent", "--resume", conversation)
    assert done.code == 0, done.err
    assert done.out == "all done\n"
    after = world.rows("SELECT id, payload_json FROM transcript_entries")
    assert after[: len(before)] == before, "a committed entry was lost or changed"
    check_whole(world)


def test_kill_9_in_the_middle_and_resume(world: World) -> None:
    long_script(world)
    assert killed_at(world, CALLS // 2, 0)
    before = committed(world)
    assert before
    resumed(world, before)


@pytest.mark.soak
def test_kill_9_anywhere_and_resume(world: World, soak: Soak) -> None:
    long_script(world)
    rounds = soak.of(200, share=12)
    in_the_middle = 0
    for number in rounds:
        fresh(world)
        chance = random.Random(number)
        receipts = chance.randrange(CALLS)
        # before the first receipt lies the start of the program, which takes longer than any step
        delay = chance.uniform(0, 0.4) if not receipts else chance.uniform(0, 0.012)
        if not killed_at(world, receipts, delay):
            check_whole(world)
            continue
        before = committed(world)
        if not before:
            continue  # killed before the message was committed: there is nothing to resume yet
        in_the_middle += 1
        print(f"round {number}: killed {delay * 1000:.1f} ms after {receipts} receipts")
        resumed(world, before)
    assert in_the_middle > 0.4 * len(rounds), f"only {in_the_middle} of {len(rounds)} kills hit a run in the middle"


def test_continue_goes_on_with_the_last_conversation(world: World) -> None:
    world.script(text("one"), text("two"), text("three"))
    assert world.agent("first", "--output-format", "json").code == 1, "steps are left over: the script says so"
    done = world.agent("second", "--continue", "--output-format", "json")
    said = json.loads(done.out)
    assert said["answer"] == "two"
    assert (
        json.loads(world.agent("third", "--resume", said["conversation_id"][:20], "--output-format", "json").out)[
            "answer"
        ]
        == "three"
    )
    assert len(world.rows("SELECT * FROM conversations")) == 1


def test_a_plain_message_begins_a_new_conversation(world: World) -> None:
    world.script(text("one"))
    world.agent("first")
    world.agent("second")
    assert len(world.rows("SELECT * FROM conversations")) == 2


@pytest.mark.parametrize("arguments", [("--resume", "nothing-like-it"), ("--continue",)])
def test_nothing_to_resume_is_said(world: World, arguments: tuple[str, ...]) -> None:
    done = world.cli("agent", "-m", "hi", *arguments)
    assert done.code == 2
    assert "no conversation" in done.err


def test_a_finished_turn_is_not_run_again(world: World) -> None:
    world.script(text("one"))
    world.agent("first")
    done = world.cli("agent", "--continue")
    assert (done.code, done.out) == (0, "one\n")
    assert len(world.entries("assistant")) == 1
