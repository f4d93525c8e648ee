"""Task runs proved, and resumed after they were killed or stopped: what is changed is named, nothing is done twice."""

import fcntl
import json
import os
import select
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from tests.acceptance.test_replay import Change, check_changes, last_run, named, verified, verify
from tests.acceptance.test_tasks import TASK, WIRES, Place, command, decision, finish, script
from tests.acceptance.world import World
from tests.program import PROGRAM, Soak

type Json = dict[str, Any]


@pytest.fixture
def place(world: World) -> Place:
    made = Place(world)
    made.skill("release-notes", "Writes release notes from a list of changes", good="echo DONE-$1", bad="exit 3")
    made.skill("release-check", "Checks a release before it goes out", good="echo CHECKED")
    with (made.folder / "skills" / "release-notes" / "references" / "more.md").open("a") as file:
        file.write("A long text is kept apart.\n" * 60)
    return made


def whole(place: Place, wire: str) -> str:
    """A run with references, a script that fails and falls back, a decision that is repaired, a denied command."""
    ran = place.run(
        wire,
        TASK,
        decision("release-notes", paths=("references/more.md",)),
        decision("nowhere"),
        decision("release-notes", command("cat notes.md"), script("bad.sh")),
        decision("release-check", script("good.sh"), paths=("references/more.md",)),
        decision("release-check", finish("Checked instead.")),
        more='[permissions]\ndeny = ["Bash(rm *)"]\n',
    )
    assert (ran.code, ran.out) == (0, "Checked instead.\n"), ran.err
    return last_run(place.world)


@pytest.mark.parametrize("wire", [*WIRES, "openai"])
def test_a_task_run_is_proved_without_its_skills_and_files(place: Place, wire: str) -> None:
    run_id = whole(place, wire)
    for file in [*place.folder.glob("skills/*/SKILL.md"), place.folder / "notes.md"]:
        file.unlink()
    proof = verified(place.world, run_id)
    assert proof["tool_calls"] == (4 if wire == "gemini" else 9)


CHANGED: list[Change] = [
    (
        "a decision, as the model gave it",
        "UPDATE model_calls SET response_json = replace(response_json, 'cat notes.md', 'cat nates.md')"
        " WHERE response_json LIKE '%cat notes%'",
        ("entry", "tool_use"),
    ),
    (
        "a decision's reason",
        "UPDATE model_calls SET response_json = replace(response_json, 'It fits.', 'It fitz.') WHERE step = 1",
        ("events, event", "llm_decision_decoded", "summary"),
    ),
    (
        "a decision that was told",
        "UPDATE events SET detail = replace(detail, 'release-check', 'release-chick')"
        " WHERE event_type = 'llm_decision_decoded'",
        ("events, event", "llm_decision_decoded", "selected_skill"),
    ),
    (
        "a tool's result",
        "UPDATE transcript_entries SET payload_json = replace(payload_json, 'CHECKED', 'CHACKED')"
        " WHERE entry_type = 'tool_result'",
        ("receipt", "result_hash"),
    ),
    (
        "a step's summary",
        "UPDATE events SET detail = replace(detail, 'CHECKED', 'CHICKED') WHERE event_type = 'skill_step_executed'",
        ("events, event", "skill_step_executed", "stdout_summary"),
    ),
    (
        "the prompt",
        "UPDATE transcript_entries SET payload_json = replace(payload_json, 'REFERENCE-OF', 'REFERENCE-UF')"
        " WHERE entry_type = 'user'",
        ("entry", "(user)"),
    ),
    (
        "a rule",
        "UPDATE settings_snapshot SET json = replace(json, 'Bash(rm *)', 'Bash(rn *)') WHERE scope LIKE 'effective:%'",
        ("settings_snapshot row effective:session-",),
    ),
    (
        "a verdict",
        "UPDATE tool_permission_log SET decision = 'deny' WHERE tool_name = 'Bash'",
        ("permission of call-", "decision"),
    ),
    (
        "a receipt's mirror",
        'UPDATE receipts SET line = replace(line, \'"status":"allowed"\', \'"status":"failed"\')',
        ("receipt", "of call-", "status"),
    ),
    ("the answer", "UPDATE runs SET answer = 'Checked insteat.'", ("answer of the run",)),
    ("the outcome", "UPDATE runs SET outcome = 'limit'", ("outcome of the run",)),
]
ALONE: list[Change] = [
    (
        "a file that was shown",
        "UPDATE tape_texts SET text = replace(text, 'REFERENCE-OF', 'REFERENCE-UF') WHERE text LIKE '%REFERENCE-OF%'",
        ("tape_texts row", "was changed"),
    ),
    (
        "a script that was found",
        "UPDATE tape SET items_json = replace(items_json, 'good.sh', 'goad.sh') WHERE items_json LIKE '%good.sh%'",
        ("tape row", "was changed"),
    ),
    (
        "the policy",
        "UPDATE tape_texts SET text = replace(text, 'Bash(rm *)', 'Bash(rn *)') WHERE text LIKE '%Bash(rm *)%'",
        ("tape_texts row", "was changed"),
    ),
    ("a missing fact", "DELETE FROM tape WHERE seq = 3", ("tape row 3", "missing")),
]


@pytest.mark.soak
def test_whatever_is_changed_of_a_task_run_is_named(place: Place, soak: Soak) -> None:
    run_id, world = whole(place, "anthropic"), place.world
    check_changes(world, run_id, CHANGED, ALONE, soak)
    for file, old, new in (
        (world.log, b'"status":"allowed"', b'"status":"alloweD"'),
        (place.folder / "runs" / run_id / "events.jsonl", b'"status":"repair"', b'"status":"repaiR"'),
    ):
        before = file.read_bytes()
        file.write_bytes(before.replace(old, new, 1))
        assert before != file.read_bytes()
    proof = verify(world, run_id)
    assert named(proof, "receipt", "tool_receipts.log")
    assert named(proof, "events.jsonl", "llm_decision_decoded", "status")


def test_another_policy_on_a_task_run(place: Place) -> None:
    run_id = whole(place, "anthropic")
    policy = place.folder.parent / "strict.toml"
    policy.write_text('[bash]\ndenylist = ["cat *"]\n')
    done = place.cli("replay", run_id, "--policy", str(policy), "--output-format", "json")
    assert done.code == 1, done.err
    changed = [(one["tool"], one["after"]) for one in json.loads(done.out)["verdicts"] if one["changes"]]
    assert changed == [("Bash", "deny")]


# ------------------------------------------------------------------ resumed

SLOW = "echo slow >> journal.txt\nsleep 60"


def scripted(place: Place, *made: Json, **more: Any) -> None:
    """The model of a run that several processes work on: each goes on where the script is."""
    steps = [{"tool_calls": [{"name": "Decision", "arguments": one}], **more} for one in made]
    place.world.configure()
    place.world.script(*steps)


def mark(number: int) -> Json:
    return command(f"echo mark-{number} >> journal.txt")


def marks(place: Place) -> list[str]:
    file = place.folder / "journal.txt"
    return file.read_text().split() if file.exists() else []


def until(seen: Callable[[], bool], process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 60
    while not seen() and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.002)


def in_a_step(place: Place) -> "subprocess.Popen[bytes]":
    """A run whose second step is in the middle of what it does."""
    place.skill("slow-work", "Writes slowly", slow=SLOW)
    scripted(
        place,
        decision("slow-work"),
        decision("slow-work", mark(1), script("slow.sh"), mark(2)),
        decision(None, command("cat journal.txt")),
        decision(None, finish("all done")),
    )
    process = place.cli.start("run", "Write slowly")
    until(lambda: "slow" in marks(place), process)
    return process


@pytest.mark.parametrize("how", ["killed", "interrupted", "stopped"])
def test_a_task_goes_on_and_nothing_is_done_twice(place: Place, how: str) -> None:
    process = in_a_step(place)
    if how == "stopped":
        place.cli("estop")
    else:
        process.send_signal(signal.SIGKILL if how == "killed" else signal.SIGINT)
    _, err = process.communicate(timeout=60)
    run_id = last_run(place.world)
    assert how == "killed" or f"run --resume {run_id}" in err.decode()
    if how == "stopped":
        place.cli("estop", "--clear")
    if how == "killed":
        verified(place.world, run_id)
    done = place.cli("run", "--resume", run_id)
    assert (done.code, done.out) == (0, "all done\n"), done.err
    assert marks(place) == ["mark-1", "slow"]
    assert last_run(place.world) == run_id
    told = [one["payload"] for one in place.events() if one["event_type"] == "skill_step_executed"]
    assert [(one["step_id"], one["status"]) for one in told] == [("2.1", "ok"), ("2.2", "unknown"), ("3.1", "ok")]
    asked = [entry["content"][0]["text"] for entry in place.world.entries("user")]
    assert "outcome is unknown" in asked[-1]
    assert verified(place.world, run_id)["tool_calls"] == 7
    if how == "killed":
        again = place.cli("run", "--resume", run_id)
        assert (again.code, "is already completed" in again.err) == (0, True)
        assert again.out.strip() == place.world.rows("SELECT answer FROM runs WHERE run_id = ?", run_id)[0][0]


def test_a_task_without_skills_is_resumed_after_a_kill(world: World) -> None:
    """It is one turn of the ordinary agent: what was under way is reported as unknown, and the rest is made."""
    place = Place(world)
    slow, later = "echo slow >> journal.txt; sleep 100", "echo later >> journal.txt"
    both = {"tool_calls": [{"name": "Bash", "arguments": {"command": text}} for text in (slow, later)]}
    world.script(both, {"text": "all done"})
    process = place.cli.start("run", "Write slowly")
    until(lambda: "slow" in marks(place), process)
    process.kill()
    process.communicate(timeout=60)
    run_id = last_run(world)
    verified(world, run_id)
    done = place.cli("run", "--resume", run_id)
    assert (done.code, done.out) == (0, "all done\n"), done.err
    assert marks(place) == ["slow", "later"]
    assert "outcome is unknown" in world.entries("tool_result")[0]["content"]
    assert len(world.entries("user")) == 1, "the task is told once"
    assert verified(world, run_id)["tool_calls"] == 2


def fresh(place: Place) -> None:
    world = place.world
    for file in (place.folder / "journal.txt", world.log, world.cli.data / "receipt.key"):
        file.unlink(missing_ok=True)
    for file in world.cli.data.glob("memory.sqlite*"):
        file.unlink()
    shutil.rmtree(place.folder / "runs", ignore_errors=True)


def lines(place: Place) -> list[bytes]:
    return [line for file in place.folder.glob("runs/*/events.jsonl") for line in file.read_bytes().split(b"\n")[:-1]]


def begun(world: World) -> list[str]:
    try:
        return [str(row[0]) for row in world.rows("SELECT run_id FROM workflows")]
    except sqlite3.OperationalError:
        return []  # killed before the tables were there


def check_marks(place: Place) -> None:
    """Every mark once; none is missing unless its step, or one before it in the same decision, is unknown."""
    told = [json.loads(line) for line in lines(place)]
    unknown = [
        one["payload"]["step_id"].split(".")
        for one in told
        if one["event_type"] == "skill_step_executed" and one["payload"]["status"] == "unknown"
    ]
    found = marks(place)
    for turn in range(1, TURNS + 1):
        for step in (1, 2):
            times = found.count(f"mark-{turn}{step}")
            lost = any(int(where[0]) == turn and int(where[1]) <= step for where in unknown)
            assert times == 1 or (times == 0 and lost), f"mark-{turn}{step}: {times} times; unknown: {unknown}"


TURNS = 4


@pytest.mark.soak
def test_kill_9_anywhere_in_a_task_and_resume(place: Place, soak: Soak) -> None:
    made = [decision(None, mark(10 * turn + 1), mark(10 * turn + 2)) for turn in range(1, TURNS + 1)]
    scripted(place, *made, decision(None, finish("all done")))
    killed = 0
    for number in soak.of(18):
        fresh(place)
        process = place.cli.start("run", TASK)
        until(lambda at=20 + 5 * number: len(lines(place)) >= at, process)
        process.kill()
        process.communicate()
        if process.returncode == 0 or not (run := begun(place.world)):
            continue
        if place.world.rows("SELECT outcome FROM runs WHERE run_id = ?", run[0]) == [("completed",)]:
            verified(place.world, run[0])  # it was over, but for its end
            continue
        killed += 1
        done = place.cli("run", "--resume", run[0])
        assert (done.code, done.out) == (0, "all done\n"), f"after {20 + 5 * number} events: {done.err}"
        check_marks(place)
        verified(place.world, run[0])
    assert killed, "no kill hit a run that could go on"


class Held:
    """A run that tells its events to a pipe with room for one: it cannot get past the second that nobody has read."""

    def __init__(self, place: Place, *arguments: str) -> None:
        self._pipe, its = os.pipe2(os.O_DIRECT | os.O_CLOEXEC)
        fcntl.fcntl(its, fcntl.F_SETPIPE_SZ, select.PIPE_BUF)
        self.process: subprocess.Popen[bytes] = subprocess.Popen(
            [PROGRAM, *arguments, "--output-format", "stream-json"],
            stdin=subprocess.DEVNULL,
            stdout=its,
            stderr=subprocess.DEVNULL,
            env=place.cli.env,
            cwd=place.cli.cwd,
        )
        os.close(its)

    def read(self, event: str) -> None:
        """Up to this event: the next one is told, and the run is held at the one after that."""
        told = b""
        while f'"event_type":"{event}"'.encode() not in told:
            told = os.read(self._pipe, select.PIPE_BUF).replace(b": ", b":")
            assert told, f"it ended before it told {event}"

    def let_go(self) -> None:
        threading.Thread(target=self._drain).start()

    def _drain(self) -> None:
        while os.read(self._pipe, select.PIPE_BUF):
            pass

    def kill(self) -> None:
        self.process.kill()
        assert self.process.wait() == -signal.SIGKILL


def killed_at_its_receipt(place: Place, *, written: bool) -> None:
    """Kill a run between a call's intent and its receipt, or between the receipt's line and its row."""
    world = place.world
    held = Held(place, "run", TASK)
    held.read("skill_step_executed")
    before = len(world.receipts_so_far())
    with open(f"{world.log}.lock", "rb") as lock, closing(sqlite3.connect(world.database)) as store:
        fcntl.flock(lock, fcntl.LOCK_EX)
        held.let_go()
        intents = "SELECT 1 FROM transcript_entries WHERE entry_type = 'tool_use'"
        until(lambda: len(world.rows(intents)) > before, held.process)
        if written:
            store.execute("BEGIN IMMEDIATE")
            fcntl.flock(lock, fcntl.LOCK_UN)
            until(lambda: len(world.receipts_so_far()) > before, held.process)
        held.kill()
    assert len(world.rows("SELECT 1 FROM receipts")) == before
    assert len(world.receipts_so_far()) == before + written


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("written", [False, True])
def test_killed_between_a_calls_intent_and_its_receipt(place: Place, *, written: bool, again: bool) -> None:
    """The process that goes on gives the call its receipt before its own turn begins, or is killed then, too."""
    scripted(place, decision(None, mark(1)), decision(None, mark(2)), decision(None, finish("all done")))
    killed_at_its_receipt(place, written=written)
    run_id = last_run(place.world)
    verified(place.world, run_id)
    if again:
        held = Held(place, "run", "--resume", run_id)
        held.read("conversation_started")
        closed = "SELECT 1 FROM receipts WHERE run_id = ? AND seq = 3"
        until(lambda: bool(place.world.rows(closed, run_id)), held.process)
        held.kill()
        verified(place.world, run_id)
    done = place.cli("run", "--resume", run_id)
    assert (done.code, done.out) == (0, "all done\n"), done.err
    told = ["receipt_written" for one in place.events() if one["event_type"] == "receipt_written"]
    assert len(told) == len(place.world.receipts()) - again  # the second was killed before it could tell of its one
    verified(place.world, run_id)


def test_a_step_that_held_a_secret_is_planned_anew(place: Place) -> None:
    """A decision is kept without secrets: with a mark in its place a command would do something else."""
    place.cli.env["SEARCH_KEY"] = secret = "swordfish-4711"
    held = command(f"echo {secret} >> journal.txt")
    scripted(place, decision(None, mark(1), held, mark(2)), decision(None, mark(3), finish("end")))
    place.world.configure(more='[web]\nsearch_key_env = "SEARCH_KEY"\n')
    ran = place.cli("run", "Do all", "--limit", "tool_calls=2")
    assert (ran.code, marks(place)) == (4, ["mark-1"]), ran.err
    run_id = last_run(place.world)
    for limit, code in ((3, 4), (9, 0)):  # the second time it is known, and not told again
        done = place.cli("run", "--resume", run_id, "--limit", f"tool_calls={limit}")
        assert done.code == code, done.err
    assert marks(place) == ["mark-1", "mark-3"]
    told = [one["payload"] for one in place.events() if one["event_type"] == "skill_step_executed"]
    assert [(one["step_id"], one["status"]) for one in told] == [("1.1", "ok"), ("1.2", "invalid"), ("2.1", "ok")]
    asked = [entry["content"][0]["text"] for entry in place.world.entries("user")]
    assert "its command contained a secret" in asked[-1]
    assert secret not in "".join(asked)
    verified(place.world, run_id)


def test_a_task_goes_on_with_the_configuration_that_it_began_with(place: Place) -> None:
    last = decision(None, mark(2), finish("end"))
    scripted(place, decision(None, command("ls")), decision(None, mark(1)), last)
    strict, lax = place.folder.parent / "strict.toml", place.cli.data / "config.toml"
    rules = '[runtime]\nprofile = "readonly"\non_step_failure = "abort"\n'
    strict.write_text(lax.read_text().replace("[runtime]\n", rules))
    ran = place.cli("run", "Do both", "--config", "strict.toml", "--limit", "tool_calls=2", cwd=strict.parent)
    assert ran.code == 4, ran.err
    resume = ("run", "--resume", last_run(place.world), "--limit", "tool_calls=9")
    away = strict.rename(strict.with_suffix(".away"))
    gone = place.cli(*resume)
    assert (gone.code, f"{strict}, the --config that run" in gone.err, "put it back" in gone.err) == (2, True, True)
    away.rename(strict)
    held = place.cli(*resume)
    assert (held.code, marks(place)) == (3, []), held.err
    other = place.cli(*resume, "--config", str(lax))
    assert (other.code, other.out, marks(place)) == (0, "end\n", ["mark-2"]), other.err
    verified(place.world, resume[2])


def test_a_step_that_a_limit_kept_from_running_runs_when_there_is_more(place: Place) -> None:
    """Unless what a skill says of itself has changed since: what was decided rested on that."""
    scripted(place, decision(None, mark(1), mark(2), finish("both")))
    ran = place.cli("run", TASK, "--limit", "tool_calls=2")
    assert (ran.code, marks(place)) == (4, ["mark-1"]), ran.err
    run_id = last_run(place.world)
    head = place.folder / "skills" / "release-notes" / "SKILL.md"
    before = head.read_text()
    head.write_text(before.replace("Writes release notes", "Writes good release notes"))
    changed = place.cli("run", "--resume", run_id, "--limit", "tool_calls=9")
    assert (changed.code, marks(place), "skills_changed" in changed.err) == (1, ["mark-1"], True), changed.err
    head.write_text(before + "\nWhat follows the head may change.\n")
    done = place.cli("run", "--resume", run_id, "--limit", "tool_calls=9")
    assert (done.code, done.out, marks(place)) == (0, "both\n", ["mark-1", "mark-2"]), done.err
    verified(place.world, run_id)
