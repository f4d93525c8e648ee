"""The program is killed at random moments of schedules, tasks, messages and backups: nothing is lost, or done twice."""

import json
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adderclaw.core.json_text import to_json
from adderclaw.flows.schedules.terms import Terms
from adderclaw.flows.schedules.when import UNSET, When
from adderclaw.storage import Store
from adderclaw.storage import schedules as rows
from adderclaw.storage.ledger.log_files import read_or_create_key
from adderclaw.storage.schedules import Schedule
from adderclaw.storage.text import iso
from tests.acceptance.test_tasks import command, decision, finish
from tests.acceptance.world import World, add_skill, call, text
from tests.program import Soak

ROUNDS = 150
"""Of each kind; under `make soak` that is more than 500 kills together."""
PARTS = 5
CALLS = 3
DUE_AT_ONCE = 3
LONGEST = 5.0
UNKNOWN = "outcome is unknown"
PROFILE = ("--profile", "sandboxed")


class Killer:
    """Starts the program and kills it at a moment that is drawn from the time that it takes undisturbed."""

    def __init__(self, world: World) -> None:
        self.world, self.kills, self.takes = world, 0, 1.0

    def kill(self, chance: random.Random, *words: str) -> None:
        process = self.world.cli.start(*words)
        began = time.monotonic()
        try:
            process.communicate(timeout=chance.uniform(0, self.takes))
            self.takes = max(0.2, time.monotonic() - began)  # it ended before
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self.takes = min(self.takes * 1.1, LONGEST)
        self.kills += process.returncode == -signal.SIGKILL


def folder(world: World, name: str) -> Path:
    made = world.cli.home.parent / "work" / name
    made.mkdir(parents=True)
    return made


def marked(at: Path) -> list[str]:
    file = at / "journal.txt"
    return sorted(file.read_text(encoding="utf-8").split()) if file.exists() else []


def results(world: World, run_id: str) -> dict[str, str]:
    """What came of each call of a run, by its mark; only one that never ran is made again."""
    found: dict[str, str] = {}
    sql = (
        "SELECT e.entry_type, e.payload_json FROM transcript_entries e JOIN runs r ON r.session_id = e.session_id"
        " WHERE r.run_id = ? AND e.entry_type IN ('tool_use', 'tool_result') ORDER BY e.id"
    )
    uses: dict[str, str] = {}
    for kind, payload in world.rows(sql, run_id):
        body: dict[str, Any] = json.loads(payload)
        if kind == "tool_use":
            uses[body["id"]] = re.findall(r"mark-\d+", json.dumps(body["input"]))[0]
        else:
            mark = uses[body["tool_use_id"]]
            assert found.get(mark, "Not run:").startswith("Not run:"), "a call has two results"
            found[mark] = body["content"]
    return found


def check_done_once(world: World, run_id: str, at: Path) -> None:
    """Each call ran once; one that was under way at a kill is reported unknown, and ran at most once."""
    marks, came = marked(at), results(world, run_id)
    [(kind, outcome)] = world.rows("SELECT kind, outcome FROM runs WHERE run_id = ?", run_id)
    assert outcome == "completed"
    assert list(came) == [f"mark-{number}" for number in range(len(came))], came
    for mark, said in came.items():
        times = marks.count(mark)
        assert times == 1 or (times == 0 and UNKNOWN in said), f"{mark}: {times} times, {said!r}"
    # in a task a step whose outcome is unknown ends the plan: the model is asked anew, and has nothing more to do here
    assert len(came) == CALLS or (kind == "task" and UNKNOWN in list(came.values())[-1]), came
    said = (
        "SELECT 1 FROM transcript_entries e JOIN runs r USING (session_id) WHERE r.run_id = ? AND entry_type = 'user'"
    )
    assert kind == "task" or len(world.rows(said, run_id)) == 1, "the message was said twice"


def check_whole(world: World) -> None:
    assert world.rows("PRAGMA integrity_check") == [("ok",)]
    verified = world.cli("receipt", "verify")
    assert verified.code == 0, verified.out + verified.err


def known(world: World) -> list[str]:
    try:
        return [row[0] for row in world.rows("SELECT run_id FROM runs ORDER BY rowid")]
    except sqlite3.OperationalError:  # it was killed before the tables were there
        return []


def messages(world: World) -> None:
    world.script(*(call("Bash", command=f"echo mark-{number} >> journal.txt") for number in range(CALLS)), text("done"))


# ------------------------------------------------------------------ schedules


def due_now(world: World, name: str, at: Path) -> None:
    """A schedule that was due a moment ago."""
    now = time.time()
    what = {"message": "work", "profile": "sandboxed"}
    when = When("at", "UTC", anchor=now - 1)
    one = Schedule(
        rows.fresh_id(),
        name,
        str(at),
        to_json(when, omit=UNSET),
        what,
        to_json(Terms(missed="once"), omit=(None,)),
        "",
        iso(now),
        "test",
        "",
        None,
        now - 2,
        now - 1,
    )
    key = read_or_create_key(str(world.cli.data / "receipt.key"))
    store = Store.open(str(world.database))
    rows.add(store, rows.sign(one, key))
    store.close()


def schedules_round(world: World, killer: Killer, chance: random.Random, number: int) -> None:
    at = {f"s{number}-{place}": folder(world, f"s{number}-{place}") for place in range(DUE_AT_ONCE)}
    for name, where in at.items():
        due_now(world, name, where)
    serves = ("serve", "--port", "0", "--workspace", str(world.workspace))
    for _ in range(chance.choice((1, 2))):  # whose process is killed a third time is left
        killer.kill(chance, *(serves if number % 4 == 3 else ("schedule", "tick")))
    done = world.cli("schedule", "tick")
    assert done.code == 0, f"round {number}: {done.out}{done.err}"
    for name, where in at.items():
        found = world.rows(
            "SELECT r.state, r.outcome, r.run_id FROM schedule_runs r JOIN schedules s ON s.id = r.schedule_id"
            " WHERE s.name = ?",
            name,
        )
        assert [row[:2] for row in found] == [("ended", "completed")], f"round {number}: {name} {found} {done.out}"
        check_done_once(world, found[0][2], where)
    begun = "SELECT count(*) FROM state WHERE key = 'client' AND value LIKE ?"
    assert world.rows(begun, f"schedule s{number}-%") <= [(DUE_AT_ONCE,)]
    runs = "SELECT count(*) FROM runs r JOIN conversations c ON c.id = r.conversation_id WHERE c.project_dir LIKE ?"
    assert world.rows(runs, f"%/work/s{number}-%") == [(DUE_AT_ONCE,)], f"round {number}"


# ------------------------------------------------------------------ tasks and messages


def resumed_round(world: World, killer: Killer, chance: random.Random, number: int, *words: str) -> None:
    """Killed, and then resumed by the id of its run, which is killed perhaps, too, until it completes."""
    where = folder(world, f"r{number}")
    before = known(world)
    killer.kill(chance, *words, "--workspace", str(where))
    new = [run for run in known(world) if run not in before]
    if not new:
        assert marked(where) == [], "it did something, and nobody knows of it"
        return
    [run_id] = new
    said = world.rows("SELECT 1 FROM transcript_entries e JOIN runs r USING (session_id) WHERE r.run_id = ?", run_id)
    if words[0] == "agent" and not said:
        assert marked(where) == []
        return  # killed before the message was written: there is nothing to go on with
    again = ("run", "--resume", run_id) if words[0] == "run" else ("agent", "--continue", "--resume", run_id)
    if chance.random() < 0.5:
        killer.kill(chance, *again)
    done = world.cli(*again)
    assert done.code == 0, f"round {number}: {done.err}"
    last = known(world)[-1] if words[0] == "agent" else run_id
    check_done_once(world, last, where)


def tasks_round(world: World, killer: Killer, chance: random.Random, number: int) -> None:
    resumed_round(world, killer, chance, number, "run", "--task", "work", *PROFILE)


def messages_round(world: World, killer: Killer, chance: random.Random, number: int) -> None:
    resumed_round(world, killer, chance, number, "agent", "-m", "work", *PROFILE)


# ------------------------------------------------------------------ backups


def backups_round(world: World, killer: Killer, chance: random.Random, number: int) -> None:
    """The archive that was there stays whole, or the new one is; the next backup works."""
    kept = world.cli.home.parent / "kept.zip"
    killer.kill(chance, "backup", str(kept), "--replace")
    to = world.cli.home.parent / "restored"
    done = world.cli("restore", str(kept), "--to", str(to))
    assert done.code == 0, f"round {number}: {done.out}{done.err}"
    shutil.rmtree(to)
    assert world.cli("backup", str(kept), "--replace").code == 0
    left = [one.name for one in kept.parent.iterdir() if one.name.startswith("kept") and one != kept]
    assert left == [], "a killed backup left something behind for ever"


# ------------------------------------------------------------------ all of them


def prepared(world: World, kind: str) -> Callable[[World, Killer, random.Random, int], None]:
    """What a round of a kind is, once all was done once undisturbed."""
    messages(world)
    first = folder(world, "first")
    if kind == "schedules":
        world.cli("agent", "-m", "hello", "--workspace", str(first), *PROFILE)
        for place in range(DUE_AT_ONCE):
            due_now(world, f"first-{place}", folder(world, f"first-{place}"))
        world.cli("schedule", "tick")
        return schedules_round
    if kind == "tasks":
        add_skill(world.cli.data / "skills")
        commands = [command(f"echo mark-{number} >> journal.txt") for number in range(CALLS)]
        steps = [text(json.dumps(decision(None, *commands))), text(json.dumps(decision(None, finish("done"))))]
        world.script(*steps)
        world.cli("run", "--task", "work", "--workspace", str(first), *PROFILE)
        return tasks_round
    world.cli("agent", "-m", "work", "--workspace", str(first), *PROFILE)
    if kind == "messages":
        return messages_round
    world.cli("backup", str(world.cli.home.parent / "kept.zip"))
    return backups_round


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", ["schedules", "tasks", "messages", "backups"])
def test_killed_anywhere_nothing_is_lost_and_nothing_is_done_twice(
    world: World, soak: Soak, kind: str, part: int, needs: Callable[[str], str]
) -> None:
    rounds = [number for number in soak.of(ROUNDS, share=25) if number % PARTS == part]
    if not rounds:
        return
    needs("bwrap")
    world.configure(autonomy="full", rounds=100)
    killer = Killer(world)
    play = prepared(world, kind)
    for number in rounds:
        play(world, killer, random.Random(f"{kind} {number}"), number)
    print(f"kills: {killer.kills} in {len(rounds)} rounds of {kind}")
    assert not soak.whole or killer.kills > len(rounds) / 3, "most had ended before they were killed"
    check_whole(world)
