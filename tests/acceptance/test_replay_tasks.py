"""Task runs proved, and resumed after they were killed or stopped: what is changed is named, nothing is done twice."""

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_replay import change, copied, last_run, named, verified, verify
from tests.acceptance.test_tasks import TASK, WIRES, Place, command, decision, finish, script
from tests.acceptance.world import World

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


CHANGED: list[tuple[str, str, tuple[str, ...]]] = [
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
        "UPDATE events SET detail = replace(detail, 'CHECKED', 'CHACKED') WHERE event_type = 'skill_step_executed'",
        ("events, event", "skill_step_executed", "stdout_summary"),
    ),
    (
        "the prompt",
        "UPDATE transcript_entries SET payload_json = replace(payload_json, 'REFERENCE-OF', 'REFERENCE-UF')"
        " WHERE entry_type = 'user'",
        ("entry", "(user)"),
    ),
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
        'UPDATE receipts SET line = replace(line, \'"status":"failed"\', \'"status":"allowed"\')',
        ("receipt",),
    ),
    ("the answer", "UPDATE runs SET answer = 'Checked insteat.'", ("answer of the run",)),
    ("the outcome", "UPDATE runs SET outcome = 'limit'", ("outcome of the run",)),
    ("a missing fact", "DELETE FROM tape WHERE seq = 3", ("tape row 3", "missing")),
]


def test_whatever_is_changed_of_a_task_run_is_named(place: Place) -> None:
    run_id, world = whole(place, "anthropic"), place.world
    kept = world.database.with_name("kept.sqlite")
    copied(world.database, kept)
    for what, sql, words in CHANGED:
        copied(kept, world.database)
        change(world, sql)
        proof = verify(world, run_id)
        assert named(proof, *words), f"{what}: {json.dumps(proof['differences'], indent=1)}"
    copied(kept, world.database)
    for file, old, new, words in (
        (world.log, b'"status":"failed"', b'"status":"faileD"', ("receipt", "tool_receipts.log")),
        (trace(place, run_id), b'"status":"repair"', b'"status":"repaiR"', ("events.jsonl", "llm_decision_decoded")),
    ):
        before = file.read_bytes()
        file.write_bytes(before.replace(old, new, 1))
        assert before != file.read_bytes()
        assert named(verify(world, run_id), *words)
        file.write_bytes(before)


def trace(place: Place, run_id: str) -> Path:
    return place.folder / "runs" / run_id / "events.jsonl"


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
    assert place.cli("receipt", "verify").code == 0
    again = place.cli("run", "--resume", run_id)
    assert (again.code, "is completed" in again.err) == (2, True)
