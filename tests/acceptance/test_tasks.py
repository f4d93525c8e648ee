"""Tasks run by the installed program on scripted wires: skills selected, steps carried out, failures met, traced."""

import contextlib
import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from tests.acceptance.test_rpc import Rpc
from tests.acceptance.world import World
from tests.program import PROGRAM, Done, Soak
from tests.scripted import ScriptedModel
from tests.scripted_anthropic import ScriptedMessages
from tests.scripted_gemini import ScriptedGemini
from tests.trial import expected

ROOT = Path(__file__).resolve().parents[2]
DEMOS = ROOT / "demos" / "basic_demo_skills"
FIXTURES = ROOT / "tests" / "fixtures"
WIRES = ("anthropic", "gemini")
KEYS = {"anthropic": "ANTHROPIC_API_KEY", "gemini": "GEMINI_API_KEY"}
KEY = "sk-test-0123456789abcdef0123456789abcdef"
type Json = dict[str, Any]
type Server = ScriptedMessages | ScriptedGemini | ScriptedModel


def decision(skill: str | None = None, *actions: Json, paths: tuple[str, ...] = (), why: str = "It fits.") -> Json:
    said = {"selected_skill": skill, "reasoning_summary": why, "required_disclosure_paths": list(paths)}
    return {**said, "planned_actions": list(actions)}


def finish(answer: str) -> Json:
    return {"type": "finish", "params": {"answer": answer}}


def command(text: str) -> Json:
    return {"type": "run_command", "params": {"command": text}, "expected_output": ""}


def script(name: str, *args: str) -> Json:
    return {"type": "call_skill", "params": {"script": f"scripts/{name}", "args": list(args)}}


def answered(wire: str, made: Json | str) -> Json:
    """A reply of the model, as its wire gives decisions."""
    if isinstance(made, str):
        return {"text": made}
    if not made.keys().isdisjoint({"error", "tool_calls"}):
        return made
    if wire == "gemini":
        return {"text": json.dumps(made)}
    key = "input" if wire == "anthropic" else "arguments"
    return {"tool_calls": [{"name": "Decision", key: made}]}


def server(wire: str, steps: list[Json]) -> Server:
    match wire:
        case "anthropic":
            return ScriptedMessages(steps)
        case "gemini":
            return ScriptedGemini(steps, counts=77)
        case _:
            return ScriptedModel(steps)


class Place:
    """A workspace with skills, and a run of a task in it."""

    def __init__(self, world: World) -> None:
        self.cli, self.folder = world.cli, world.workspace
        self.world = world
        self._earlier: set[Path] = set()
        (self.folder / "notes.md").write_text("# Release\n\nThe deadline is Friday.\n\n- [ ] Write the notes\n")

    def skill(self, name: str, description: str, *more: str, where: Path | None = None, **scripts: str) -> None:
        folder = (where or self.folder / "skills") / name
        (folder / "scripts").mkdir(parents=True)
        (folder / "references").mkdir()
        (folder / "references" / "more.md").write_text(f"# More on {name}\n\nREFERENCE-OF-{name}\n")
        head = "\n".join((f"name: {name}", f"description: {description}", *more))
        body = f"---\n{head}\n---\n# {name}\n\n## Instructions\n\nFOLLOW-{name}\n"
        (folder / "SKILL.md").write_text(body + "".join(f"\nRun `scripts/{one}.sh`.\n" for one in scripts))
        for one, text in scripts.items():
            (folder / "scripts" / f"{one}.sh").write_text(f"#!/bin/bash\n{text}\n")

    def configure(self, wire: str, url: str, more: str = "") -> None:
        kind = wire if wire in WIRES else "openai-compatible"
        entry = f'[providers.models.s]\nkind = "{kind}"\nbase_url = "{url}"\nmodel = "m"\n'
        head = f'workspace_dir = "{self.folder}"\ndefault_provider = "s"\n'
        runtime = "" if "[runtime]" in more else "[runtime]\nretry_base_delay_seconds = 0.01\n"
        self.cli.configure(f"{head}{runtime}{more}\n{entry}")
        if wire in KEYS:
            self.cli.env[KEYS[wire]] = KEY

    def run(self, wire: str, task: str, *made: Json | str, more: str = "", flags: tuple[str, ...] = ()) -> "Ran":
        self._earlier = set(self.folder.glob("runs/*"))
        with server(wire, [answered(wire, one) for one in made]) as model:
            self.configure(wire, model.base_url, more)
            done = self.cli("run", task, *flags)
            requests = model.asked if isinstance(model, ScriptedGemini) else model.requests
            return Ran(done, self.events(), [json.loads(one.body) for one in requests])

    def events(self) -> list[Json]:
        """Of the one run since the last `run` began: two of one second have no order by their names."""
        files = [file for file in self.folder.glob("runs/*/events.jsonl") if file.parent not in self._earlier]
        assert len(files) < 2, files
        return [json.loads(line) for line in files[0].read_text().splitlines()] if files else []

    def approved(self) -> list[str]:
        """The tools that may run so far."""
        return [one["payload"]["tool"] for one in self.events() if one["event_type"] == "tool_approved"]


class Ran:
    def __init__(self, done: Done, events: list[Json], requests: list[Json]) -> None:
        self.code, self.out, self.err = done
        self.trace, self.requests = events, requests

    def of(self, kind: str) -> list[Json]:
        return [one["payload"] for one in self.trace if one["event_type"] == kind]

    def asked(self, number: int) -> str:
        return json.dumps(self.requests[number])


@pytest.fixture
def place(world: World) -> Place:
    return Place(world)


@pytest.fixture
def skilled(place: Place) -> Place:
    place.skill(
        "release-notes", "Writes release notes from a list of changes", good="echo DONE-$1", bad="echo no >&2; exit 3"
    )
    place.skill("release-check", "Checks a release before it goes out", good="echo CHECKED")
    return place


TASK = "Write the release notes"
NAMES = ("release-notes", "release-check")

# ------------------------------------------------------------------ refusals of the command line

REFUSED: list[tuple[list[str], str]] = [
    ([], "nothing to run: there is no SPEC.md here. Write one, or name a task in quotes"),
    (["none"], "there is no file 'none'; name an existing file, or use `--task none`"),
    (["a b", "--task", "c"], "use only one"),
    (["--task", " "], "the task is empty"),
    (["a b", "-i", "x=y"], "--input is only for an Agentfile or a SOP"),
    (["a b", "--dry-run=maybe"], "--dry-run=maybe: expected true or false"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED, ids=[message[:30] for _, message in REFUSED])
def test_what_cannot_be_run_is_a_usage_error(place: Place, words: list[str], message: str) -> None:
    place.configure("anthropic", "http://127.0.0.1:9")
    done = place.cli("run", *words)
    assert done.code == 2
    assert message in done.err
    assert not place.events()


# ------------------------------------------------------------------ both wires, the same semantics


@pytest.mark.parametrize("wire", [*WIRES, "openai"])
def test_one_skill_is_selected_disclosed_and_carried_out(skilled: Place, wire: str) -> None:
    ran = skilled.run(
        wire,
        TASK,
        decision("release-notes", script("good.sh", "too-early"), paths=("references/more.md",)),
        decision("release-notes", script("good.sh", "a")),
        decision("release-notes", finish("The notes are written.")),
    )
    assert (ran.code, ran.out) == (0, "The notes are written.\n")
    assert [one["stage"] for one in ran.of("skill_disclosure_loaded")] == [0, 1, 2, 3]
    assert "FOLLOW-release-notes" not in ran.asked(0)
    assert "FOLLOW-release-notes" in ran.asked(1)
    assert "REFERENCE-OF-release-notes" in ran.asked(1)
    assert "No action was run. Read the instructions of release-notes first" in ran.asked(1)
    assert len(ran.of("skill_step_executed")) == 1
    assert "DONE-a" in ran.asked(2)  # what a step gave is told with the next decision
    step = ran.of("skill_step_executed")[0]
    assert (step["status"], step["exit_code"], step["stdout_summary"]) == ("ok", 0, "DONE-a")
    assert ran.of("run_finished")[0]["mode"] == "task"
    assert re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{8}", ran.trace[0]["run_id"])
    assert {one["counted"] for one in ran.of("prompt_budget_computed")} == {"provider" if wire in WIRES else "estimate"}
    head = ran.requests[0]
    if wire == "gemini":
        assert head["generationConfig"]["responseMimeType"] == "application/json"
    else:
        assert "Decision" in json.dumps(head["tool_choice"])
    assert KEY not in json.dumps(ran.trace) + ran.err


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("name", [folder.name for folder in sorted(DEMOS.iterdir()) if folder.is_dir()])
def test_each_demo_skill_runs_on_each_wire(place: Place, wire: str, name: str) -> None:
    fixture = json.loads((FIXTURES / "provider_responses" / f"{wire}.json").read_text())[name]
    with server(wire, fixture["responses"]) as model:
        place.configure(wire, model.base_url)
        done = place.cli("run", fixture["task"], "--skills-dir", str(DEMOS))
        assert done.code == 0, done.err
    ran = Ran(done, place.events(), [])
    assert [one["skill"] for one in ran.of("skill_invocation_started")] == [name]
    for step in ran.of("skill_step_executed"):
        assert (step["status"], bool(step["stdout_summary"])) == ("ok", True), step
    made = [one["decision"]["sandbox"] for one in place.world.receipts() if one["tool"] == "Bash"]
    assert set(made) == {expected()}
    if name == "workspace-inventory":  # the notes, and not the traces of the run itself
        assert "1 files in 0 folders" in ran.of("skill_step_executed")[0]["stdout_summary"]


# ------------------------------------------------------------------ steps that fail


@pytest.mark.parametrize(
    ("policy", "steps", "outcome"),
    [
        ("retry_once_then_fallback_then_abort", ["failed", "failed", "ok"], 0),
        ("retry_once_then_abort", ["failed", "failed"], 1),
        ("abort", ["failed"], 1),
    ],
)
def test_a_script_that_fails_is_met_by_the_policy(skilled: Place, policy: str, steps: list[str], outcome: int) -> None:
    made = [decision("release-notes"), decision("release-notes", script("bad.sh"))]
    if outcome == 0:
        made += [decision("release-check", script("good.sh")), decision(None, finish("Checked instead."))]
    ran = skilled.run("anthropic", TASK, *made, more=f'[runtime]\non_step_failure = "{policy}"\n')
    assert ran.code == outcome, ran.err
    assert [one["status"] for one in ran.of("skill_step_executed")] == steps
    assert len(ran.of("step_retry_scheduled")) == (0 if policy == "abort" else 1)
    if outcome == 0:
        assert [one["skill"] for one in ran.of("skill_invocation_started")] == ["release-notes", "release-check"]
        assert ran.of("skill_invocation_started")[1]["handoff_from"] == ""
        assert ran.of("skill_invocation_finished")[0]["status"] == "failed"
    else:
        assert ran.of("run_failed")[0]["reason"] == "step_failed"


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ("sleep 30", "timeout", "timed out"),
        ("yes x | head -c 3000000; exit 1", "failed", "left out"),
        ("printf '\\033[2Jgone\\007'; exit 1", "failed", "gone"),
    ],
    ids=["hangs", "megabytes", "control characters"],
)
def test_a_script_that_misbehaves_does_no_harm(place: Place, body: str, status: str, told: str) -> None:
    place.skill("release-notes", "Writes release notes", bad=body)
    made = [decision("release-notes"), decision("release-notes", script("bad.sh"))]
    ran = place.run("anthropic", TASK, *made, more='[runtime]\non_step_failure = "abort"\ntimeout_seconds = 1\n')
    step = ran.of("skill_step_executed")[0]
    assert step["status"] == status
    assert told in step["stdout_summary"]
    assert len(step["stdout_summary"]) < 5_000
    assert "\x1b" not in json.dumps(ran.trace, ensure_ascii=False) + ran.err
    assert ran.code == 1


def test_what_a_skill_is_allowed_counts_where_somebody_vouches_for_it(place: Place) -> None:
    """As with the tool Skill: never before trust, only while the skill is at work, over no deny and no guard."""
    for name in ("release-notes", "release-check", "release-plan"):
        asks = ("allowed-tools: Bash(mkdir:*)",) if name == "release-notes" else ()
        place.skill(name, "Writes release notes", *asks)
    more = '[runtime]\non_step_failure = "abort"\n[permissions]\ndeny = ["Bash(mkdir denied:*)"]\n'
    flags = ("--profile", "supervised")
    made = (decision("release-notes"), decision("release-notes", command("mkdir made")))
    before = place.run("anthropic", TASK, *made, more=more, flags=flags)
    assert before.code == 3, before.err
    assert "its allowed-tools are ignored" in before.err
    assert place.cli("trust", str(place.folder)).code == 0
    after = place.run(
        "anthropic",
        TASK,
        *made,
        decision("release-notes", command("mkdir ../outside")),
        decision("release-notes", command("mkdir denied")),
        decision("release-plan", command("mkdir later")),
        decision(None, finish("Enough.")),
        more=more.replace("abort", "retry_once_then_fallback_then_abort"),
        flags=flags,
    )
    assert after.code == 3, after.err
    steps = [(one["command"], one["status"]) for one in after.of("skill_step_executed")]
    refused = ("mkdir ../outside", "mkdir denied", "mkdir later")
    assert steps == [("mkdir made", "ok"), *((text, "denied") for text in refused)]
    (place.cli.cwd / "other.toml").write_text('[bash]\ndenylist = ["sudo *"]\n')
    ((run_id,),) = place.world.rows("SELECT run_id FROM runs ORDER BY rowid DESC LIMIT 1")
    same = place.cli("replay", run_id, "--policy", "other.toml")  # what is lent counts there, too
    assert (same.code, " 0 of " in same.out) == (0, True), same.out
    assert sorted(path.name for path in place.folder.iterdir() if path.is_dir()) == ["made", "runs", "skills"]


def test_what_one_skill_is_allowed_is_not_lent_to_anothers_script(place: Place) -> None:
    """Each step is judged by the skill that it belongs to, also where one decision has steps of several."""
    place.skill("release-notes", "Writes release notes", "allowed-tools: Bash(bash:*)", own="echo OWN")
    place.skill("release-check", "Checks release notes", other="echo OTHER > other.txt")
    assert place.cli("trust", str(place.folder)).code == 0
    theirs: Json = {
        "type": "call_skill",
        "params": {"skill": "release-check", "script": "scripts/other.sh", "args": []},
    }
    ran = place.run(
        "anthropic",
        TASK,
        decision("release-check"),
        decision("release-notes"),
        decision("release-notes", script("own.sh"), theirs, finish("no")),
        decision("release-notes", script("own.sh"), finish("own")),
        flags=("--profile", "supervised"),
    )
    assert (ran.code, ran.out) == (0, "own\n"), ran.err
    steps = [(one["step_id"], one["skill"], one["status"]) for one in ran.of("skill_step_executed")]
    assert steps == [
        ("3.1", "release-notes", "ok"),
        ("3.2", "release-check", "denied"),
        ("4.1", "release-notes", "ok"),
    ]
    assert not (place.folder / "other.txt").exists()
    verify = place.cli("replay", ran.trace[0]["run_id"], "--verify")
    assert verify.code == 0, verify.out + verify.err


FAILS = "echo 1 test failed >&2; exit 1\n"


def tool(name: str, **given: str) -> Json:
    """A call of a tool, as the model makes it over the wire of Anthropic."""
    return {"tool_calls": [{"name": name, "input": given}]}


def test_without_a_skill_the_ordinary_agent_works_and_sees_what_failed(place: Place) -> None:
    """The agent of `-p` with its tools, in more replies than a task with skills has decisions."""
    (place.folder / "check.sh").write_text(FAILS)
    looks = [tool("Bash", command="bash check.sh; exit 1"), *(tool("Read", file_path=f"{n}.md") for n in range(7))]
    ran = place.run(
        "anthropic",
        "Fix the failing test",
        *looks,
        tool("Write", file_path="check.sh", content="echo passed\n"),
        tool("Bash", command="bash check.sh"),
        "Fixed.",
    )
    assert (ran.code, ran.out) == (0, "Fixed.\n"), ran.err
    names = {one["name"] for one in ran.requests[0]["tools"]}
    assert {"Bash", "Read", "Edit", "Write", "Grep"} <= names
    assert "Decision" not in names
    assert "the task is carried out without one" in ran.err
    assert "1 test failed" in ran.asked(1)
    assert "passed" in ran.asked(-1)
    proof = place.cli("replay", ran.trace[0]["run_id"], "--verify")
    assert proof.code == 0, proof.out + proof.err


def test_max_turns_limits_the_ordinary_agent_too_and_resume_continues(place: Place) -> None:
    looks = [tool("LS", path=".")] * 3
    ran = place.run("anthropic", "Look around", *looks[:2], flags=("--max-turns", "2"))
    assert (ran.code, ran.of("run_failed")[0]["reason"]) == (4, "max_turns_exceeded"), ran.err
    run_id = ran.trace[0]["run_id"]
    assert f"run --resume {run_id} --max-turns MORE" in ran.err
    steps: list[Json] = [*looks[2:], {"text": "Seen."}]
    with ScriptedMessages(steps) as model:
        place.configure("anthropic", model.base_url)
        again = place.cli("run", "--resume", run_id, "--max-turns", "9")
    assert (again.code, again.out) == (0, "Seen.\n"), again.err
    assert json.dumps(json.loads(model.requests[0].body)["messages"]).count("Look around") == 1
    proof = place.cli("replay", run_id, "--verify")
    assert proof.code == 0, proof.out + proof.err


def test_resuming_makes_no_success_of_a_run_that_was_denied(place: Place) -> None:
    ran = place.run(
        "anthropic",
        "Write it",
        tool("Write", file_path="a", content="b"),
        "I could not.",
        flags=("--profile", "readonly"),
    )
    assert ran.code == 3, ran.err
    run_id = ran.trace[0]["run_id"]
    again = place.cli("run", "--resume", run_id)
    assert (again.code, again.out) == (2, ""), again.err
    assert f"run {run_id} ended as denied, and its model has answered" in again.err
    assert json.loads(place.cli("runs", "show", run_id, "--output-format", "json").out)["outcome"] == "denied"


def test_a_dry_run_without_skills_shows_what_the_ordinary_agent_is_asked(place: Place) -> None:
    ran = place.run("anthropic", TASK, flags=("--dry-run", "--output-format", "json"))
    shown = json.loads(ran.out)
    assert (ran.code, shown["prompt"], "make one decision" in shown["system"]) == (0, TASK, False)


@pytest.mark.parametrize("skill", [None, "release-notes"])
def test_a_command_that_fails_is_shown_to_the_model(skilled: Place, skill: str | None) -> None:
    """It is the model's own: it is neither repeated nor a reason to leave the skill or the run."""
    (skilled.folder / "check.sh").write_text(FAILS)
    ran = skilled.run(
        "anthropic",
        TASK,
        decision(skill, command("bash check.sh"), command("touch never")),
        decision(skill, command("touch mended")),
        decision(skill, finish("Mended.")),
    )
    assert (ran.code, ran.out) == (0, "Mended.\n"), ran.err
    assert [one["status"] for one in ran.of("skill_step_executed")] == ["failed", "ok"]
    assert not ran.of("step_retry_scheduled")
    assert "1 test failed" in ran.asked(1)
    assert not (skilled.folder / "never").exists()
    assert [one["status"] for one in ran.of("skill_invocation_finished")] == (["completed"] if skill else [])


def test_a_denied_step_is_shown_to_the_model_and_ends_denied(skilled: Place) -> None:
    refused = decision(None, command("cat /etc/passwd"))
    ran = skilled.run("anthropic", TASK, refused, decision(None, finish("I could not.")))
    assert (ran.code, ran.out) == (3, "I could not.\n"), ran.err
    assert "denied" in ran.asked(1)
    other = skilled.run(
        "anthropic", TASK, refused, decision(None, command("cat notes.md")), decision(None, finish("Otherwise."))
    )
    assert (other.code, other.out) == (0, "Otherwise.\n"), other.err


def test_what_the_gate_denies_ends_denied(skilled: Place) -> None:
    more = '[runtime]\non_step_failure = "abort"\n'
    ran = skilled.run("anthropic", TASK, decision(None, command("cat /etc/passwd")), more=more)
    assert ran.code == 3
    assert ran.of("skill_step_executed")[0]["status"] == "denied"
    assert [one["status"] for one in skilled.world.receipts()] == ["allowed", "denied"]


@pytest.mark.parametrize("profile", ["permissive", "sandboxed"])
def test_a_profile_says_how_far_a_step_may_reach(skilled: Place, profile: str) -> None:
    """`permissive` by choice: local writes anywhere, no list of commands, no sandbox; by default none of it."""
    outside = skilled.folder.parent / "outside.txt"
    tried = decision(None, command(f"tee {outside} < notes.md"))
    traces = decision(None, command("tee runs/20260101-000000-0badcafe/events.jsonl < notes.md"))
    flags = ("--profile", profile) if profile == "permissive" else ()
    more = '[runtime]\non_step_failure = "abort"\n'
    made = (tried, decision(None, command("getconf ARG_MAX")), traces) if flags else (tried,)
    ran = skilled.run("anthropic", TASK, *made, more=more, flags=flags)
    statuses = [one["status"] for one in ran.of("skill_step_executed")]
    assert (ran.code, statuses) == (3, ["ok", "ok", "denied"] if flags else ["denied"]), ran.err
    assert outside.exists() is bool(flags)
    assert {one["decision"]["sandbox"] for one in skilled.world.receipts()} == {"none" if flags else expected()}


# ------------------------------------------------------------------ decisions that do not fit

UNFIT: list[tuple[Json | str, str]] = [
    (decision("nowhere"), "selected_skill: 'nowhere' is not a candidate"),
    (decision("release-notes", paths=("../../secret",)), "leads out of the skill's folder"),
    (decision("release-notes", script("../../../x.sh")), "leads out of the skill's folder"),
    (decision("release-notes", script("none.sh")), "scripts of release-notes: scripts/bad.sh, scripts/good.sh"),
    (decision("release-notes", {"type": "dance", "params": {}}), "planned_actions[0].type"),
    (decision(None), "with neither, nothing happens"),
    (decision(None, command(" ")), "params.command: is empty"),
    ("I would rather talk.", "the reply neither calls Decision nor is one JSON object"),
]


@pytest.mark.parametrize(("made", "problem"), UNFIT, ids=[problem[:25] for _, problem in UNFIT])
def test_a_decision_that_does_not_fit_is_repaired_once(skilled: Place, made: Json | str, problem: str) -> None:
    ran = skilled.run("anthropic", TASK, made, decision(None, finish("Mended.")))
    assert (ran.code, ran.out) == (0, "Mended.\n"), ran.err
    assert [one["status"] for one in ran.of("llm_decision_decoded")] == ["repair", "decoded"]
    assert problem in str(ran.of("llm_decision_decoded")[0]["problems"])
    assert "one JSON object that matches this schema" in ran.asked(1)
    assert len(ran.of("prompt_budget_computed")) == 1  # a repair belongs to its turn


@pytest.mark.parametrize("wire", WIRES)
def test_a_second_one_ends_the_run(skilled: Place, wire: str) -> None:
    ran = skilled.run(wire, TASK, "No.", "Nor now.")
    assert ran.code == 1
    assert ran.of("run_failed")[0]["reason"] == "invalid_decision"


def test_json_in_the_text_counts_where_no_call_came(skilled: Place) -> None:
    fenced = f"```json\n{json.dumps(decision(None, finish('By text.')))}\n```"
    ran = skilled.run("anthropic", TASK, fenced)
    assert (ran.code, ran.out) == (0, "By text.\n")
    assert ran.of("llm_decision_decoded")[0]["how"] == "json"


# ------------------------------------------------------------------ guards


def test_so_many_turns_are_allowed_and_the_next_ends_the_run(skilled: Place) -> None:
    """Also where the model hands over and back, to others and to the same skill, and would for ever."""
    circle = [decision("release-notes", {"type": "call_skill", "params": {"skill": name}}) for name in NAMES]
    ran = skilled.run("anthropic", TASK, *circle, *circle[:1], flags=("--max-turns", "3"))
    assert ran.code == 4
    assert ran.of("run_failed")[0]["reason"] == "max_turns_exceeded"
    assert len(ran.requests) == 3
    assert [one["skill"] for one in ran.of("skill_invocation_started")] == [*NAMES, "release-notes"]
    assert {one["status"] for one in ran.of("skill_invocation_finished")[:-1]} == {"handed_off"}


def test_a_passing_failure_is_tried_again(skilled: Place) -> None:
    fault = {"error": {"status": 529, "type": "overloaded_error"}}
    ran = skilled.run("anthropic", TASK, fault, decision(None, finish("At last.")))
    assert (ran.code, ran.out) == (0, "At last.\n")
    assert len(ran.of("llm_retry_scheduled")) == 1
    lasting = skilled.run(
        "anthropic", TASK, *[fault] * 2, more="[runtime]\nmax_llm_retries = 1\nretry_base_delay_seconds = 0.01\n"
    )
    assert lasting.code == 1
    assert [one["attempt"] for one in lasting.of("llm_request_failed")] == [1, 2]


@pytest.mark.parametrize("wire", WIRES)
def test_a_missing_key_is_said_before_anything_is_sent(skilled: Place, wire: str) -> None:
    with server(wire, []) as model:
        skilled.configure(wire, model.base_url)
        skilled.cli.env[KEYS[wire]] = ""
        done = skilled.cli("run", TASK, "--provider", wire)  # an entry that needs no configuration
    ran = Ran(done, skilled.events(), [])
    assert ran.code == 1
    assert KEYS[wire] in ran.err
    assert ran.of("run_failed")[0]["reason"] == "missing_provider_api_key"
    assert not ran.of("llm_request_sent")


def test_zero_candidates_by_both_strategies(skilled: Place) -> None:
    more = '[skills]\nprefilter_zero_candidate_strategy = "fail_fast"\n'
    strict = skilled.run("anthropic", "Translate quixotic poetry", more=more)
    assert strict.code == 1
    assert strict.of("run_failed")[0]["reason"] == "no_candidate_skills"
    loose = skilled.run("anthropic", "Translate quixotic poetry", decision(None, finish("Done.")))
    assert loose.code == 0
    assert loose.of("skill_prefilter_completed")[0]["strategy"] == "fallback_all_skills"
    assert "release-notes" in loose.asked(0)
    assert "FOLLOW" not in loose.asked(0)


@pytest.mark.soak
def test_ten_thousand_skills_are_looked_at_and_only_the_fitting_are_told(place: Place, soak: Soak) -> None:
    numbers = soak.of(9_999)
    for number in numbers:
        folder = place.folder / "skills" / f"s{number:05}"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(
            f"---\nname: s{number:05}\ndescription: Handles widgets of kind {number}\n---\n"
        )
    place.skill("zz-last", "Writes release notes")
    ran = place.run("openai", TASK, decision("zz-last", finish("Found.")))
    assert (ran.code, ran.out) == (0, "Found.\n"), ran.err
    assert ran.of("skill_catalog_loaded")[0]["skills"] == len(numbers) + 1
    assert [one["skill_name"] for one in ran.of("skill_prefilter_completed")[0]["candidates"]] == ["zz-last"]
    assert "widgets" not in ran.asked(0)


def test_nobody_can_answer_and_asking_again_needs_input(skilled: Place) -> None:
    ask = {"type": "ask_user", "params": {"question": "Which one?"}}
    ran = skilled.run("anthropic", TASK, decision(None, ask), decision(None, ask))
    assert ran.code == 5
    assert [one["status"] for one in ran.of("skill_step_executed")] == ["unanswered", "unanswered"]


def kinds(place: Place) -> list[str]:
    return [one["event_type"] for one in place.events()]


def until(seen: Callable[[], bool]) -> None:
    limit = time.monotonic() + 90
    while not seen():
        assert time.monotonic() < limit
        time.sleep(0.02)


def _holds(path: Path, words: bytes) -> bool:
    try:
        return path.read_bytes().endswith(words)
    except OSError:
        return False


@pytest.mark.parametrize(("number", "times"), [(signal.SIGINT, 1), (signal.SIGTERM, 1), (signal.SIGTERM, 2)])
def test_a_signal_ends_the_run_and_its_children(skilled: Place, number: signal.Signals, times: int) -> None:
    """A second one does not wait, and what the run came to is written all the same."""
    mark = str(1_000_000 + os.getpid())
    with ScriptedMessages([answered("anthropic", decision(None, command(f"sleep {mark} | sleep {mark}")))]) as model:
        skilled.configure("anthropic", model.base_url)
        process = skilled.cli.start("run", TASK)
        until(lambda: "Bash" in skilled.approved())
        for _ in range(times):
            process.send_signal(number)
            until(lambda: "graceful_shutdown_started" in kinds(skilled))
        process.communicate(timeout=90)
    code, reason = 128 + number, f"{number.name} received"
    assert process.returncode in (code, -number)  # a shell reports both as the former
    assert skilled.world.rows("SELECT outcome, exit_code, reason FROM runs") == [("stopped", code, reason)]
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if _holds(path, f"sleep\0{mark}\0".encode())]
    told = [one for one in kinds(skilled) if one.startswith(("run_", "signal_", "graceful_"))]
    assert told == ["run_started", "signal_received", "graceful_shutdown_started", "run_failed"]


# ------------------------------------------------------------------ budget, dry run, debugging


def test_a_prompt_that_is_too_large_is_trimmed_and_stays_within(skilled: Place) -> None:
    more = skilled.folder / "skills" / "release-notes" / "references" / "more.md"
    more.write_text("# Long\n" + "REFERENCE " * 1_500)
    ran = skilled.run(
        "openai",
        TASK,
        decision("release-notes", paths=("references/more.md",)),
        decision(None, finish("Done.")),
        more="[runtime]\nmax_context_tokens = 2600\nresponse_headroom_tokens = 400\n",
    )
    assert ran.code == 0, ran.err
    first, second = ran.of("prompt_budget_computed")
    assert list(first["allocated"]) == sorted(
        first["allocated"], key=["system", "task", "run_state", "candidates", "disclosed"].index
    )
    assert sum(second["allocated"].values()) <= 2_200
    assert second["trimmed"] == ["shortened release-notes/references/more.md"]
    assert "FOLLOW-release-notes" in ran.asked(1)


def test_a_dry_run_plans_and_asks_nobody(skilled: Place) -> None:
    ran = skilled.run("anthropic", TASK, flags=("--dry-run", "true", "--output-format", "json"))
    told = json.loads(ran.out)
    assert (ran.code, told["mode"]) == (0, "dry_run")
    assert TASK in told["prompt"]
    kinds = [one["event_type"] for one in ran.trace]
    assert kinds[-6:] == [
        "skill_catalog_loaded",
        "skill_prefilter_completed",
        "skill_disclosure_loaded",
        "prompt_budget_computed",
        "prompt_composed",
        "run_finished",
    ]
    assert ran.of("run_finished")[0]["mode"] == "dry_run"


def test_a_dry_run_needs_no_key_and_false_means_no(skilled: Place) -> None:
    skilled.configure("anthropic", "http://127.0.0.1:9")
    del skilled.cli.env["ANTHROPIC_API_KEY"]
    assert "dry run, no model is called" in skilled.cli("run", "--dry-run", TASK).out
    assert skilled.cli("run", "--dry-run", "false", TASK).code == 1


@pytest.mark.parametrize("wire", WIRES)
def test_bodies_are_kept_only_where_somebody_asked(skilled: Place, wire: str) -> None:
    ran = skilled.run(wire, TASK, decision(None, finish("SECRET-ANSWER")))
    assert not list(skilled.folder.glob("runs/*/step-*.json"))
    assert TASK not in json.dumps(ran.of("llm_request_sent"))
    shutil.rmtree(skilled.folder / "runs")
    skilled.run(wire, TASK, decision(None, finish("SECRET-ANSWER")), flags=("--debug-llm", "true"))
    kept = sorted(skilled.folder.glob("runs/*/step-*.json"))
    assert [file.name for file in kept] == ["step-0001-request.json", "step-0001-response.json"]
    assert TASK in kept[0].read_text()
    assert "SECRET-ANSWER" in kept[1].read_text()
    assert KEY not in kept[0].read_text()


# ------------------------------------------------------------------ over JSON-RPC


def test_a_task_over_json_rpc_is_the_same_run_and_the_client_is_asked(skilled: Place) -> None:
    ask = {"type": "ask_user", "params": {"question": "Which?", "options": ["red", "blue"]}}
    made = [
        decision("release-notes"),
        decision("release-notes", ask, script("good.sh", "a")),
        decision(None, finish("Red.")),
    ]
    with ScriptedMessages([answered("anthropic", one) for one in made]) as model:
        skilled.configure("anthropic", model.base_url)
        client = Rpc(skilled.world)
        for wrong in ({"task": " "}, {"task": "a", "inputs": {"a": "b"}}, {"message": "a", "max_turns": 1}):
            assert client.answer("wrong", "run", **wrong)["error"]["code"] == -32602
        planned = client.answer("dry", "run", task=TASK, dry_run=True)["result"]
        assert (planned["mode"], TASK in planned["prompt"], len(model.requests)) == ("dry_run", True, 0)
        client.request("real", "run", task=TASK)
        asked = client.until("question_request")["params"]
        client.request("reply", "answer", id=asked["id"], replies={"Which?": "red"})
        done = client.until(id="real")["result"]
        assert (done["outcome"], done["answer"], done["turns"]) == ("completed", "Red.", 3)
        assert [one["payload"]["status"] for one in client.events("skill_step_executed")] == ["ok", "ok"]
        assert "red" in json.loads(model.requests[2].body)["messages"][0]["content"][0]["text"]
        assert client.close() == 0


# ------------------------------------------------------------------ the live view

HOSTILE = "日本語 🎉 \x1b[2J\x1b]0;title\x07 \u202eevil [bold]no markup[/bold]\r\nbelow " + "and so on at length " * 12
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def watched(place: Place, columns: int, *made: Json) -> tuple[int, list[str]]:
    """A run whose stderr is a terminal of that width: its exit code, and the lines that the terminal got."""
    with ScriptedMessages([answered("anthropic", one) for one in made]) as model:
        place.configure("anthropic", model.base_url)
        ours, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        env = {**place.cli.env, "TERM": "xterm-256color"}
        pipe = subprocess.PIPE
        program = [str(PROGRAM), "run", TASK]
        process = subprocess.Popen(program, stdin=pipe, stdout=pipe, stderr=its, env=env, cwd=place.cli.cwd)
        os.close(its)
        seen = bytearray()
        with contextlib.suppress(OSError):  # EIO: nobody writes there any more
            while part := os.read(ours, 65_536):
                seen += part
        os.close(ours)
        out, _ = process.communicate(timeout=60)
        assert out == b"Written.\n"
        return process.returncode, seen.decode().replace("\r\n", "\n").splitlines()


@pytest.mark.parametrize("columns", [100, 44])
def test_the_live_view_fits_the_terminal_and_nothing_steers_it(skilled: Place, columns: int) -> None:
    code, raw = watched(
        skilled,
        columns,
        decision("release-notes", why=HOSTILE),
        decision("release-notes", script("good.sh", "a"), why="Now."),
        decision("release-notes", finish("Written.")),
    )
    assert code == 0
    lines = [COLOURS.sub("", line) for line in raw]
    assert not [line for line in lines if not line.isprintable()]
    assert max(map(cell_len, lines)) < columns
    trace = skilled.events()[0]["trace_id"].removeprefix("trace-")[:8]
    heads = [" ".join(line.split()[1:5]) for line in lines if re.match(r"\d\d:\d\d:\d\d ", line)]
    for said in (
        "turn 1 decide",
        "turn 1 select",
        "turn 2 disclose",
        "turn 2 call_skill",
        "turn 3 leave",
        "turn 3 run",
    ):
        assert f"{trace} {said}" in heads, heads
    text = " ".join(" ".join(lines).split())
    assert "日本語 🎉 \\u{1b}[2J\\u{1b}]0;title\\u{7} \\u{202e}evil [bold]no markup[/bold] below" in text
    assert "call_skill ok release-notes exit 0: bash" in text
    assert re.search(r"turn 3 run completed \d+ tokens", text)


# ------------------------------------------------------------------ the trace, event by event


class _Snapshots(JSONSnapshotExtension):
    @classmethod
    def dirname(cls, *, test_location: Any) -> str:
        return str(FIXTURES / "event_snapshots" / "test_tasks")


CHANGING = frozenset(
    {
        "request_hash",
        "latency_ms",
        "directories",
        "command",
        "bytes",
        "tokens",
        "allocated",
        "delay_seconds",
        "usage",
        "cost",
    }
)


def steady(trace: list[Json]) -> Iterator[Mapping[str, Any]]:
    """The events of a task run without what differs from run to run."""
    kinds = ("run_", "skill_", "prompt_", "llm_", "step_")
    for one in trace:
        if one["event_type"].startswith(kinds):
            payload = {key: value for key, value in one["payload"].items() if key not in CHANGING}
            if "files" in payload:
                payload["files"] = [file["path"] for file in payload["files"]]
            yield {"event_type": one["event_type"], **payload}


@pytest.mark.parametrize("wire", WIRES)
def test_the_trace_is_the_same_every_time(skilled: Place, wire: str, snapshot: SnapshotAssertion) -> None:
    ran = skilled.run(
        wire,
        TASK,
        decision("release-notes", paths=("references/more.md",)),
        decision("release-notes", script("bad.sh")),
        decision("release-check", script("good.sh")),
        decision("release-check", finish("Checked.")),
    )
    assert list(steady(ran.trace)) == snapshot.use_extension(_Snapshots)


def test_what_a_hook_refuses_is_refused_again_when_it_is_resumed(skilled: Place) -> None:
    command = "echo not today >&2; exit 2"
    hook = f'[[hooks.UserPromptSubmit]]\n[[hooks.UserPromptSubmit.hooks]]\ntype = "command"\ncommand = "{command}"\n'
    assert skilled.run("openai", "Write the notes", more=hook).code == 3
    ((run,),) = skilled.world.rows("SELECT run_id FROM runs")
    with server("openai", [answered("openai", decision(None, finish("Done all the same.")))]) as model:
        skilled.configure("openai", model.base_url, hook)
        again = skilled.cli("run", "--resume", run)
        skilled.configure("openai", model.base_url)
        allowed = skilled.cli("run", "--resume", run)
    assert (again.code, again.out) == (3, "")
    assert "not today" in again.err
    assert (allowed.code, allowed.out) == (0, "Done all the same.\n"), allowed.err
