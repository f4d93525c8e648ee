"""`adderclaw run` on a SPEC.md: sessions, the status of scenarios, what is refused."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_agentfile import Flow
from tests.acceptance.test_rpc import Rpc
from tests.acceptance.world import World, call, text
from tests.program import Done, Soak
from tests.scripted import ScriptedModel

FIRST = [
    {"id": "SC-F001", "feature": "greeting.feature", "name": "It greets"},
    {"id": "SC-F002", "feature": "greeting.feature", "name": "It says goodbye"},
]


class Project(Flow):
    """A workspace with a SPEC.md."""

    def __init__(self, world: World, model: ScriptedModel, verify: str = "off") -> None:
        """`verify` is off where it is the sessions that are looked at: test_verify.py has the checks."""
        super().__init__(world, model)
        self.configure(f'[spec]\nverify = "{verify}"\n')
        (self.folder / "SPEC.md").write_text("# A program that greets\n")

    @property
    def status(self) -> Path:
        return self.folder / ".adderclaw" / "status.json"

    def say(self, *scenarios: dict[str, Any]) -> None:
        self.status.parent.mkdir(exist_ok=True)
        self.status.write_text(json.dumps({"scenarios": scenarios}))

    def passed(self) -> dict[str, bool]:
        return {one["id"]: one["passed"] for one in json.loads(self.status.read_text())["scenarios"]}

    def run(self, *more: str) -> Done:
        return self.world.cli("run", *more, cwd=self.folder)

    def told(self, number: int) -> str:
        return str(self.model.requests[number].messages[-1]["content"])


@pytest.fixture
def project(world: World) -> Iterator[Project]:
    with ScriptedModel() as model:
        yield Project(world, model)


def scenario(number: int, passed: bool = False) -> dict[str, Any]:
    return {**FIRST[number], "passed": passed}


def passes(scenario_id: str, passed: bool = True) -> dict[str, Any]:
    return call("UpdateStatus", scenario_id=scenario_id, passed=passed)


# ------------------------------------------------------------------ refused

UNFIT: list[tuple[str, str]] = [
    ("{", "correct it, or remove it to start over"),
    ("[]", "expected"),
    ('{"scenarios": []}', "there are 0; from 1 to 2000 are allowed"),
    ('{"scenarios": [{"id": "a", "feature": "f", "name": "n", "passed": "yes"}]}', "passed"),
    ('{"scenarios": [{"id": "a", "feature": "f", "name": "n", "passed": true, "note": 1}]}', "note"),
    ('{"scenarios": [{"id": "a b", "feature": "f", "name": "n", "passed": true}]}', "letters, digits"),
    ('{"scenarios": [{"id": "a", "feature": "f", "name": "x\\ny", "passed": true}]}', "one line of printable text"),
    ('{"scenarios": [{"id": "a", "feature": "f", "name": "n\\u202e", "passed": true}]}', "one line of printable text"),
    (
        '{"scenarios": [{"id": "a", "feature": "f", "name": "n", "passed": true},'
        ' {"id": "a", "feature": "f", "name": "n", "passed": true}]}',
        "is used twice",
    ),
    (f'{{"scenarios": [], "x": "{"y" * 1_000_001}"}}', "larger than 1000000 bytes"),
]


def test_a_status_that_cannot_be_used_is_said_and_kept(project: Project) -> None:
    for body, message in UNFIT:
        project.status.parent.mkdir(exist_ok=True)
        project.status.write_text(body)
        done = project.run()
        assert (done.code, done.out) == (2, ""), body[:80]
        assert message in done.err, (body[:80], done.err)
        assert project.status.read_text() == body
    assert not project.model.requests


def test_links_in_the_place_of_the_status_are_not_followed(project: Project, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "status.json").write_text(json.dumps({"scenarios": [scenario(0, passed=True)]}))
    (project.folder / ".adderclaw").symlink_to(elsewhere)
    done = project.run()
    assert done.code == 2
    assert "cannot be used as a folder" in done.err
    os.unlink(project.folder / ".adderclaw")
    project.status.parent.mkdir()
    project.status.symlink_to(elsewhere / "status.json")
    done = project.run()
    assert done.code == 2
    assert "correct it, or remove it" in done.err


def test_what_is_no_specification(project: Project, tmp_path: Path) -> None:
    (tmp_path / "outside.md").write_text("x")
    (project.folder / "empty.md").touch()
    (project.folder / "link.md").symlink_to(tmp_path / "outside.md")
    (project.folder / "empty-spec.md").touch()
    (project.folder / "both-spec.md").write_text('# a comment\n\nGOAL g "x"\nRUN r USING g\n')
    (project.folder / "notes.md").write_text("# Notes\n\nRUN, they said.\n")
    (project.folder / "binary.spec.md").write_bytes(b"\0\1")
    cases = [
        (("--spec", "none.md"), "there is no specification 'none.md'"),
        (("--spec", str(tmp_path / "outside.md")), "is outside the workspace"),
        (("--spec", "link.md"), "is outside the workspace"),
        (("--spec", "empty.md"), "is empty"),
        (("--spec", "SPEC.md", "--task", "x"), "each say what to run"),
        (("--max-iterations", "0"), "--max-iterations"),
        (("--input", "a=b"), "--input is only for an Agentfile or a SOP"),
        (("--max-turns", "3"), "are only for a task"),
        (("--limit", "rounds=3"), "a specification --max-iterations"),
        (("empty-spec.md",), "is empty"),
        (("both-spec.md",), "both-spec.md is named like a specification but begins like a workflow: `--spec"),
        (("notes.md",), "notes.md is neither a specification nor a workflow: it is not named SPEC.md"),
        (("binary.spec.md",), "is binary, not text"),
        (("--profile", "readonly"), "a specification cannot run in the profile readonly"),
        (("--task", "x y", "-n", "3"), "--max-iterations is only for a specification"),
    ]
    for arguments, message in cases:
        done = project.run(*arguments)
        assert done.code == 2, arguments
        assert message in done.err, (arguments, done.err)
    (project.folder / "SPEC.md").unlink()
    done = project.run()
    assert done.code == 2
    assert "there is no SPEC.md here. Write one, or name a task" in done.err
    assert not project.model.requests


def test_a_specification_is_a_target_by_its_name(project: Project) -> None:
    (project.folder / "todo-spec.md").write_text("# A program that lists\n\nIt lists.\n")
    for name in ("SPEC.md", "todo-spec.md"):
        done = project.run(name, "--dry-run", "--max-iterations", "2")
        assert (done.code, done.out.splitlines()[0]) == (0, f"{name}: dry run, no model is called"), done.err
    (project.folder / "flow.md").write_text('NAME flow\nGOAL g "x"\nRUN r USING g\n')
    assert "goal g" in project.run("flow.md", "--dry-run").out.lower()


def test_the_status_is_written_by_its_tool_alone(project: Project) -> None:
    """Neither a file tool nor a command; and the tool takes no scenario that nobody declared."""
    project.say(scenario(0))
    before = project.status.read_text()
    project.add(
        call("Read", file_path=".adderclaw/status.json"),
        call("Write", file_path=".adderclaw/status.json", content="{}"),
        call("Edit", file_path=".adderclaw/status.json", old_string="false", new_string="true"),
        call("Bash", command="sed -i s/false/true/ .adderclaw/status.json"),
        passes("SC-F009"),
        call("DeclareScenarios", scenarios=[{"id": "a b", "feature": "f", "name": "n"}]),
        call("DeclareScenarios", scenarios=[{**FIRST[0], "name": "Another name"}]),
        text("no way"),
    )
    done = project.run("--max-iterations", "1")
    assert done.code == 4, done.err
    assert json.loads(project.status.read_text()) == json.loads(before)
    results = [str(one.messages[-1]["content"]) for one in project.model.requests[1:]]
    assert "SC-F001" in results[0]
    assert all("denied" in one.lower() or "protected" in one.lower() for one in results[1:3]), results[1:3]
    assert "scenario not found: 'SC-F009'" in results[4]
    assert "letters, digits" in results[5]
    assert "0 of 1 scenarios" in results[6]


# ------------------------------------------------------------------ sessions


def test_from_the_specification_to_the_last_scenario(project: Project) -> None:
    project.add(
        call("Read", file_path="SPEC.md"),
        call("Write", file_path="features/greeting.feature", content="Feature: greeting\n"),
        call("DeclareScenarios", scenarios=FIRST),
        text("the list stands"),
        call("Write", file_path="greet.py", content="print('hello')\n"),
        passes("SC-F001"),
        text("one is left"),
        passes("SC-F002"),
        text("all done"),
    )
    done = project.run()
    assert (done.code, done.out) == (0, "2 of 2 scenarios have passed (3 sessions)\n"), done.err
    assert json.loads(project.status.read_text()) == {"scenarios": [scenario(0, True), scenario(1, True)]}
    assert "You begin a project that is described in `SPEC.md`" in project.told(0)
    assert "0 of 2 scenarios have passed" in project.told(4)
    assert "SC-F001" in project.told(4)
    assert "- SC-F002 (greeting.feature): It says goodbye" in project.told(7)
    assert "- SC-F001" not in project.told(7)
    offered = {one["function"]["name"] for one in project.model.requests[4].json["tools"]}
    assert {"Read", "Write", "Edit", "Bash", "UpdateStatus"} <= offered
    assert [(one["number"], one["prompt"], one["passed"], one["total"]) for one in told(project, "started")] == [
        (1, "initializer", 0, 0),
        (2, "coding", 0, 2),
        (3, "coding", 1, 2),
    ]
    assert [(one["outcome"], one["passed"]) for one in told(project, "finished")] == [
        ("completed", 0),
        ("completed", 1),
        ("completed", 2),
    ]
    sessions = project.world.rows("SELECT DISTINCT session_id FROM transcript_entries")
    assert len(sessions) == 3, "a session of its own for each"
    again = project.run("--output-format", "json")
    assert again.code == 0
    report = json.loads(again.out)
    assert (report["outcome"], report["sessions"], report["scenarios_passed"], report["scenarios_total"]) == (
        "completed",
        0,
        2,
        2,
    )
    assert len(project.model.requests) == 9, "everything has passed: no model is asked"
    first = project.world.rows("SELECT run_id FROM runs ORDER BY rowid LIMIT 1")[0][0]
    proof = project.world.cli("replay", first, "--verify", cwd=project.folder)
    assert proof.code == 0, proof.out + proof.err
    assert project.world.cli("receipt", "verify").code == 0


def told(project: Project, what: str) -> list[dict[str, Any]]:
    return project.events(f"coding_session_{what}")


def test_what_is_left_when_it_ends(project: Project) -> None:
    """The limit on sessions; sessions that bring nothing; a first session that declares nothing, told once."""
    project.say(scenario(0), scenario(1))
    project.add(passes("SC-F001"), text("one"), text("nothing"))
    done = project.run("-n", "2")
    assert done.code == 4
    assert done.out == "1 of 2 scenarios have passed (2 sessions)\nleft: SC-F002 It says goodbye\n"
    assert "the limit of 2 sessions is reached (--max-iterations)" in done.err
    assert "`adderclaw run` continues with the rest" in done.err

    project.add(*(text("nothing") for _ in range(5)))
    done = project.run()
    assert done.code == 4
    assert "5 sessions in a row made no progress" in done.err

    project.status.unlink()
    project.add(text("hm"), text("still nothing"))
    done = project.run("-n", "1")
    assert (done.code, done.out) == (4, "no scenario is declared after 1 session\n")
    assert "Call DeclareScenarios" in project.told(-1)


def test_limits_and_failures_end_it_with_what_was_reached(project: Project) -> None:
    project.say(scenario(0), scenario(1))
    project.add(passes("SC-F001"), call("LS", path="."))
    done = project.run("--limit", "tool_calls=1")
    assert done.code == 4, done.err
    assert project.passed() == {"SC-F001": True, "SC-F002": False}
    assert done.out.startswith("1 of 2 scenarios have passed")
    project.add({"error": {"status": 401}})
    done = project.run()
    assert done.code == 1, done.err
    assert "session 1:" in done.err


def test_a_signal_ends_it_and_a_new_run_goes_on(project: Project) -> None:
    project.say(scenario(0), scenario(1))
    project.add(passes("SC-F001"), {"hang": 60})
    process = project.world.cli.start("run", cwd=project.folder)
    deadline = time.monotonic() + 90
    while len(project.model.requests) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=90)
    assert process.returncode == 130
    assert project.world.rows("SELECT kind, outcome FROM runs") == [("spec", "stopped")]
    project.add(passes("SC-F002"), text("done"))
    done = project.world.cli("run", "--resume", project.run_id, cwd=project.folder)
    assert done.code == 2
    assert "continue it with `adderclaw run --spec FILE`" in done.err
    done = project.run()
    assert (done.code, done.out) == (0, "2 of 2 scenarios have passed (1 session)\n"), done.err


def test_a_dry_run_asks_nobody(project: Project) -> None:
    done = project.run("--dry-run")
    assert done.code == 0
    assert "  | You begin a project that is described in `SPEC.md`" in done.out
    assert "as Gherkin: one `.feature` file" in done.out
    project.say(scenario(0, True), scenario(1))
    plan = json.loads(project.run("--dry-run", "--output-format", "json").out)
    assert plan["scenarios"] == [scenario(0, True), scenario(1)]
    assert "SC-F002" in plan["prompt"]
    project.say(scenario(0, True))
    assert "there is nothing to do" in project.run("--dry-run", "--spec", "SPEC.md").out
    assert not project.model.requests


def test_much_is_named_in_part(project: Project) -> None:
    project.say(*({"id": f"S{n}", "feature": "f", "name": f"Number {n}", "passed": False} for n in range(2_000)))
    plan = json.loads(project.run("--dry-run", "--output-format", "json").out)
    assert plan["prompt"].count("Number") == 60
    assert "and 1940 more: see `.adderclaw/status.json`" in plan["prompt"]


# ------------------------------------------------------------------ several writers, and other programs


def test_many_writers_lose_nothing(project: Project) -> None:
    ids = [f"S{number}" for number in range(8)]
    project.say(*({"id": one, "feature": "f.feature", "name": "n", "passed": False} for one in ids))
    script = "import sys; from adderclaw.flows.spec import status; status.update(sys.argv[1], sys.argv[2], True)"
    children = [subprocess.Popen([sys.executable, "-c", script, str(project.folder), one]) for one in ids]
    assert [child.wait(90) for child in children] == [0] * len(ids)
    assert all(project.passed().values())


@pytest.mark.soak
def test_who_holds_the_folder_locked_stops_no_run(project: Project, soak: Soak) -> None:
    """A command of the session can read the folder, and so lock it: the call fails, and the run goes on."""
    if not soak.turn(3):  # it waits for fifteen seconds
        return
    project.say(scenario(0))
    project.add(passes("SC-F001"), text("it is locked"))
    folder = os.open(project.status.parent, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    try:
        done = project.run("-n", "1")
    finally:
        os.close(folder)
    assert done.code == 4, done.err
    assert "has locked .adderclaw/ for 15 s" in str(project.model.requests[1].messages[-1]["content"])
    assert project.passed() == {"SC-F001": False}


def test_one_run_at_a_time(project: Project) -> None:
    project.say(scenario(0))
    project.add({"hang": 60})
    process = project.world.cli.start("run", cwd=project.folder)
    deadline = time.monotonic() + 90
    while not project.model.requests:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    done = project.run()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=90)
    assert done.code == 2, done.err
    assert "is already working on the specification of" in done.err
    assert len(project.model.requests) == 1


def test_over_json_rpc(project: Project) -> None:
    project.say(scenario(0))
    project.add(passes("SC-F001"), text("done"))
    client, spec = Rpc(project.world), str(project.folder / "SPEC.md")
    refused = client.answer(1, "run", task="x", max_iterations=1)["error"]["message"]
    assert "`max_iterations` needs a spec" in refused
    assert "there is no specification" in client.answer(2, "run", spec=f"{spec}.none")["error"]["message"]
    done = client.answer(3, "run", spec=spec, max_iterations=2)["result"]
    assert done["answer"] == "1 of 1 scenarios have passed (1 session)"
    assert client.close() == 0


# ------------------------------------------------------------------ progress is what is there


def flips(project: Project) -> Done:
    """Sessions that say to and fro that a scenario passed."""
    project.say(scenario(0), scenario(1))
    for number in range(6):
        project.add(passes("SC-F001", number % 2 == 0), text("flipped"))
    return project.run()


def test_05_a_scenario_that_goes_to_and_fro_is_no_progress(project: Project) -> None:
    done = flips(project)
    assert done.code == 4, done.err
    assert "0 of 2 scenarios have passed (6 sessions)" in done.out
    assert "5 sessions in a row made no progress: no new commit" in done.err


def test_05_neither_are_new_scenarios_nor_empty_commits(project: Project) -> None:
    repository(project)
    project.say(scenario(0))
    for number in range(5):
        declared = [{"id": f"SC-X{number}", "feature": "x.feature", "name": "more"}]
        project.add(call("DeclareScenarios", scenarios=declared))
        project.add(call("Bash", command="git commit -q --allow-empty -m nothing"), text("nothing"))
    done = project.run()
    assert (done.code, done.out.splitlines()[0]) == (4, "0 of 6 scenarios have passed (5 sessions)"), done.err
    assert len(git(project, "log", "--format=%h").split()) == 6, "they were made"


def git(project: Project, *words: str) -> str:
    who = ("-c", "user.name=Me", "-c", "user.email=me@example.org")
    done = subprocess.run(["git", *who, *words], cwd=project.folder, capture_output=True, check=True)
    return done.stdout.decode()


def repository(project: Project) -> None:
    git(project, "init", "-q", "-b", "main")
    git(project, "config", "user.name", "Me")
    git(project, "config", "user.email", "me@example.org")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "first")


def test_05_long_work_on_one_scenario_goes_on_while_it_shows(project: Project) -> None:
    """Commits, then checks that fail and are mended, then the pass."""
    repository(project)
    project.say(scenario(0))
    for number in range(6):
        project.add(call("Write", file_path=f"step{number}.txt", content="x\n"))
        project.add(call("Bash", command=f"git add step{number}.txt && git commit -q -m step"), text("not yet"))
    for number in range(4):
        project.add(call("Bash", command=f"cat check{number}"), text("fails"))
        project.add(call("Write", file_path=f"check{number}", content="x"))
        project.add(call("Bash", command=f"cat check{number}"), text("mended"))
    project.add(passes("SC-F001"), text("done"))
    done = project.run()
    assert (done.code, done.out) == (0, "1 of 1 scenarios have passed (15 sessions)\n"), done.err


@pytest.mark.parametrize("as_json", [False, True])
def test_05_an_interrupted_run_says_what_was_reached(project: Project, as_json: bool) -> None:
    project.say(scenario(0), scenario(1))
    project.add(passes("SC-F001"), {"hang": 60})
    words = ("--output-format", "json") if as_json else ()
    process = project.world.cli.start("run", *words, cwd=project.folder)
    deadline = time.monotonic() + 90
    while len(project.model.requests) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=90)
    assert process.returncode == 130, err
    if as_json:
        body = json.loads(out)
        assert (body["outcome"], body["reason"]) == ("stopped", "SIGINT received")
        assert (body["sessions"], body["scenarios_passed"], body["scenarios_total"]) == (1, 1, 2)
    else:
        assert out == b"1 of 2 scenarios have passed (1 session)\nleft: SC-F002 It says goodbye\n"


KILLED = """
import os, signal, sys
from adderclaw.flows.spec import status
fsync = os.fsync
os.fsync = lambda fd: (fsync(fd), os.kill(os.getpid(), signal.SIGKILL))  # what is written is on the disk, and then
status.update(sys.argv[1], "SC-F001", True)
"""


def test_37_a_kill_while_the_status_is_written_leaves_no_file_behind(project: Project) -> None:
    project.say(scenario(0), scenario(1))
    done = subprocess.run([sys.executable, "-c", KILLED, str(project.folder)], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert os.listdir(project.status.parent) == ["status.json"]
    assert project.passed() == {"SC-F001": False, "SC-F002": False}


def test_37_resuming_what_is_completed_gives_its_answer(project: Project) -> None:
    project.say(scenario(0))
    project.add(passes("SC-F001"), text("done"))
    first = project.run()
    assert first.code == 0, first.err
    again = project.world.cli("run", "--resume", project.run_id, cwd=project.folder)
    assert (again.code, again.out) == (0, first.out), again.err
    shown = project.world.cli("run", "--resume", project.run_id, "--output-format", "json", cwd=project.folder)
    assert json.loads(shown.out)["answer"] == first.out.strip()
    client = Rpc(project.world)
    answer = client.answer(1, "run", resume=project.run_id)["result"]
    assert client.close() == 0
    assert (answer["outcome"], answer["answer"], answer["exit_code"]) == ("completed", first.out.strip(), 0)


# ------------------------------------------------------------------ blocked, deprecated, feature files


def test_blocked_is_no_success_and_nothing_is_deleted(project: Project) -> None:
    project.say(scenario(0), scenario(1))
    blocks = call("UpdateStatus", scenario_id="SC-F002", passed=False, blocked="needs the key of\nthe mail server")
    project.add(blocks, passes("SC-F001"), text("done"))
    done = project.run()
    assert done.code == 5
    assert "1 of 2 scenarios have passed" in done.out
    assert "blocked: SC-F002 It says goodbye: needs the key of the mail server" in done.out
    assert "spec unblock" in done.err
    assert set(json.loads(project.status.read_text())["scenarios"][1]) == {"id", "feature", "name", "passed"}
    assert project.world.cli("spec", "unblock", "SC-F002", cwd=project.folder).out == "left: SC-F002 It says goodbye\n"
    gone = ("spec", "deprecate", "SC-F002")
    assert project.world.cli(*gone, cwd=project.folder).code == 2
    assert project.world.cli(*gone, "--reason", "nobody leaves", cwd=project.folder).code == 0
    assert project.run().code == 0
    assert project.passed() == {"SC-F001": True, "SC-F002": False}
    assert project.world.cli("spec", "deprecate", "SC-F001", "--reason", "x", cwd=project.folder).code == 0
    done = project.run()
    assert (done.code, "every scenario is deprecated" in done.err) == (1, True)


def test_feature_files_are_brought_in_and_shown(project: Project) -> None:
    (project.folder / "features").mkdir()
    (feature := project.folder / "features" / "greeting.feature").write_text(
        "Feature: Greeting\n  @SC-F001\n  Scenario: It greets\n    Then it greets\n"
    )

    def spec(*words: str) -> Done:
        return project.world.cli("spec", *words, cwd=project.folder)

    assert (spec("status").code, "spec sync" in spec("status").err) == (2, True)
    assert spec("sync").out == "added: SC-F001 It greets\n0 of 1 scenarios have passed\n"
    assert spec("block", "SC-F001", "--reason", "no network").code == 0
    assert "blocked     SC-F001  It greets (greeting.feature): no network" in spec("status").out
    shown = json.loads(spec("status", "--output-format", "json").out)
    assert shown["scenarios"][0]["state"] == "blocked"
    assert project.run().code == 5
    assert not project.model.requests
    feature.write_text("Feature: Greeting\n  Scenario: It greets\n    Given it\n  nonsense\n")
    refused = spec("sync")
    assert (refused.code, "features/greeting.feature:4" in refused.err) == (2, True)
    (project.folder / ".adderclaw" / "spec.json").write_text('{"scenarios": {"SC-F001": {"blocked": "a\\u001b[2J"}}}')
    refused = project.run()
    assert (refused.code, "spec.json" in refused.err, "\x1b" in refused.err) == (2, True, False)


# ------------------------------------------------------------------ a quota that begins anew


def test_a_used_up_quota_is_waited_for_only_if_the_operator_says_so(project: Project) -> None:
    project.say(scenario(0))
    project.add({"error": {"status": 429, "retry_after": 61}})
    done = project.run()
    assert done.code == 1
    assert "in 61 s" in done.err
    assert "--wait-for-quota" in done.err
    project.add({"error": {"status": 429, "retry_after": 2}}, passes("SC-F001"), text("done"))
    done = project.run("--wait-for-quota")
    assert done.code == 0, done.err
    assert project.passed() == {"SC-F001": True}
