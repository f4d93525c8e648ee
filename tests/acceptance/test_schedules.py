"""Schedules as an operator has them: refused, added, ticked, held, killed and gone on with, by the program itself."""

import json
import os
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_telemetry import Receiver
from tests.acceptance.world import World, call, text
from tests.program import Cli, Done
from tests.scripted import ScriptedModel
from tests.server.conftest import Process

SOP = """
name = "check"
description = "look, ask, look again"
[[steps]]
id = "first"
kind = "tool"
tool = "file_list"
args = {path = "."}
"""
APPROVAL = """
[[steps]]
id = "sure"
kind = "approval"
prompt = "Go on?"
[[steps]]
id = "last"
kind = "tool"
tool = "file_list"
args = {path = "."}
"""
SOON = 4.0
"""Seconds in which a command has surely been started."""


@pytest.fixture
def world(cli: Cli, tmp_path: Path) -> World:
    made = World(cli, tmp_path)
    made.script(text("looked"))
    return made


def schedule(world: World, *words: str) -> Done:
    return world.cli("schedule", *words)


def as_json(world: World, *words: str) -> Any:
    done = schedule(world, *words, "--output-format", "json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def add_soon(world: World, *words: str) -> float:
    """Add one that is due in a moment; when that is."""
    at = time.time() + SOON
    as_json(world, "add", "one", "--at", datetime.fromtimestamp(at, UTC).isoformat(), *words)
    return at


def wait_for(at: float) -> None:
    time.sleep(max(0.0, at - time.time()) + 0.05)


def sop(world: World, content: str) -> Path:
    file = world.workspace / "sops" / "check" / "SOP.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content, encoding="utf-8")
    return file


def states(world: World, name: str) -> list[str]:
    return [row["outcome"] or row["state"] for row in as_json(world, "history", name)]


def until(world: World, name: str, wanted: list[str], seconds: float = 30) -> None:
    """The command is asked when a row has changed, and not all the time."""
    end, before = time.monotonic() + seconds, list[object]()
    while True:
        now = [*world.rows("SELECT state, outcome FROM schedule_runs"), *world.rows("SELECT outcome FROM runs")]
        if now != before and states(world, name) == wanted:
            return
        assert time.monotonic() < end, (states(world, name), wanted)
        before = now
        time.sleep(0.1)


REFUSED = (
    (("--cron", "0 0 30 2 *", "--message", "x"), "it never fires: month 2 has no day 30"),
    (("--cron", "* * * * * *", "--message", "x"), "six fields"),
    (("--every", "1s", "--message", "x"), "at least 1m"),
    (("--at", "2020-01-01T00:00", "--message", "x"), "is in the past"),
    (("--cron", "@daily", "--zone", "Berlin", "--message", "x"), "did you mean Europe/Berlin"),
    (("--cron", "@daily", "--every", "1h", "--message", "x"), "exactly one of"),
    (("--cron", "@daily"), "give exactly one of"),
    (("--cron", "@daily", "--agentfile", "nowhere"), "nowhere"),
    (("--cron", "@daily", "--sop", "nowhere"), "there is no SOP 'nowhere'"),
    (("--cron", "@daily", "--message", "x", "--budget", "lots"), "such as 5/day"),
    (("--cron", "* * * * *", "--message", "x", "--jitter", "5m"), "shorter than the 1m"),
    (("--changed", "../*", "--message", "x"), "relative to the workspace"),
    (("--cron", "@daily", "--message", "x", "--limit", "cost=1"), "cost_usd"),
    (("--cron", "@daily", "--message", "x", "--input", "a=b"), "inputs"),
)


def test_what_is_refused_adds_nothing(world: World) -> None:
    for words, why in REFUSED:
        done = schedule(world, "add", "one", *words)
        assert (done.code, why in done.err) == (2, True), done.err
    assert as_json(world, "list") == []


def test_a_schedule_is_shown_added_ticked_once_and_removed(world: World) -> None:
    dry = schedule(
        world, "add", "one", "--cron", "30 2 * * *", "--zone", "Europe/Berlin", "--message", "x", "--dry-run"
    )
    assert (dry.out.count(" 02:30 CE"), dry.out.splitlines()[-1]) == (5, "nothing was added (--dry-run)")
    assert schedule(world, "tick").out == "nothing is due\n"
    at = add_soon(world, "--message", "look")
    assert "already" in schedule(world, "add", "one", "--every", "1h", "--message", "x").err
    wait_for(at)
    ticked = as_json(world, "tick")["due"]
    assert [(row["schedule"], row["outcome"], row["cause"]) for row in ticked] == [("one", "completed", "time")]
    assert as_json(world, "tick")["due"] == []
    assert [row["state"] for row in as_json(world, "list")] == ["done"]
    clients = world.rows("SELECT value FROM state WHERE key = 'client'")
    assert clients == [("schedule one",)]
    assert schedule(world, "remove", "one").out == "one: removed\n"
    assert schedule(world, "show", "one").code == 2


def test_added_at_home_a_schedule_works_in_the_configured_workspace(world: World) -> None:
    home = world.cli.home
    added = world.cli("schedule", "add", "one", "--every", "1h", "--message", "look", cwd=home)
    assert added.out.splitlines()[-1].endswith("/adderclaw schedule tick --quiet"), added.err
    assert f"workspace  {world.workspace}\n" in added.out
    files = world.cli("schedule", "add", "two", "--changed", "*.py", "--message", "look", cwd=home)
    assert (files.code, "your home directory" in files.err) == (2, True), files.err


def test_what_waits_for_a_request_says_that_a_server_is_needed(world: World) -> None:
    added = schedule(world, "add", "one", "--webhook", "standard", "--message", "look")
    assert added.out.splitlines()[-1] == "added. Requests need a running `adderclaw serve`"
    assert schedule(world, "run", "one").code == 0
    assert " UTC (by hand) " in schedule(world, "history", "one").out


def test_nobody_is_asked_in_a_run_that_a_tick_begins(world: World) -> None:
    world.script(call("shell", command="touch made"), text("so be it"))
    as_json(world, "add", "one", "--every", "1h", "--message", "make it", "--profile", "supervised")
    done = schedule(world, "run", "one")
    assert done.out == "so be it\n", done.err
    assert [one["decision"]["by"] for one in world.receipts()] == ["no_operator"]
    assert world.rows("SELECT channel, answered_by FROM approvals") == [("schedule one", "no_operator")]
    assert not (world.workspace / "made").exists()


def test_the_stop_holds_and_afterwards_the_missed_policy_counts(world: World) -> None:
    at = add_soon(world, "--message", "look")
    world.cli("estop")
    wait_for(at)
    done = schedule(world, "tick")
    assert (done.code, "emergency stop" in done.err) == (6, True)
    assert schedule(world, "run", "one").code == 6
    assert states(world, "one") == []
    world.cli("estop", "--clear")
    assert schedule(world, "tick").code == 0
    assert states(world, "one") == ["completed"]


def test_a_sop_is_pinned_and_held_when_it_changes(world: World) -> None:
    sop(world, SOP)
    assert len(as_json(world, "add", "one", "--every", "1h", "--sop", "check")["pinned"]) == 64
    sop(world, SOP.replace("look again", "delete"))
    done = schedule(world, "run", "one")
    assert (done.code, "has changed since it was approved" in done.err) == (1, True), done.err
    assert as_json(world, "show", "one")["state"] == "held"
    assert "is approved" in schedule(world, "approve", "one").out
    assert schedule(world, "run", "one").code == 0
    assert states(world, "one") == ["completed", "held"]


def test_an_approval_stays_open_and_the_tick_goes_on_when_it_is_answered(world: World) -> None:
    sop(world, SOP + APPROVAL)
    as_json(world, "add", "one", "--every", "1h", "--sop", "check")
    as_json(world, "add", "bounded", "--every", "1h", "--sop", "check", "--limit", "tool_calls=1", "--budget", "1/day")
    assert schedule(world, "run", "one").code == 5
    assert schedule(world, "run", "bounded").code == 5
    assert schedule(world, "tick").out == "nothing is due\n"
    for waiting in json.loads(world.cli("approvals", "list", "--output-format", "json").out):
        assert world.cli("approvals", "answer", waiting["id"], "yes").code == 0
    time.sleep(5.1)
    done = schedule(world, "tick")
    assert "completed" in done.out, done.err
    assert states(world, "one") == ["completed"]
    assert states(world, "bounded") == ["limit"], "a yes lifts no limit of the schedule"
    assert len(world.rows("SELECT 1 FROM runs")) == 2


def _killed_in_a_run(world: World, has_come: Callable[[], object], *more: str) -> None:
    """The process that a schedule's run is in is killed when it has come so far."""
    as_json(world, "add", "one", "--every", "1h", *more)
    process = world.cli.start("schedule", "run", "one")
    end = time.monotonic() + 60
    while not has_come() and time.monotonic() < end:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


def test_kill_9_in_a_run_and_the_next_tick_goes_on_with_it(world: World) -> None:
    world.script(call("shell", command="sleep 30"), text("never"))
    begun = "SELECT 1 FROM transcript_entries WHERE entry_type = 'tool_use'"
    _killed_in_a_run(world, lambda: world.rows(begun), "--message", "wait", "--profile", "sandboxed")
    assert states(world, "one") == ["interrupted"]
    world.script(call("shell", command="sleep 30"), text("looked"))
    done = schedule(world, "tick")
    assert (done.code, "  completed  " in done.out) == (0, True), done.err
    assert states(world, "one") == ["completed"]
    assert len(world.rows("SELECT 1 FROM runs")) == 1
    told = [one["content"] for one in world.entries("tool_result")]
    assert ["was not run again" in one for one in told] == [True], told
    assert schedule(world, "tick").out == "nothing is due\n"


def _killed_while_the_model_is_asked(world: World, model: ScriptedModel, receiver: Receiver, how: str) -> None:
    entry = f'kind = "openai-compatible"\nbase_url = "{model.base_url}"\nmodel = "m"\n'
    target = f'[notices.targets.mine]\nkind = "webhook"\nurl = "{receiver.url}"\n'
    world.configure(more=f"[providers.models.s]\n{entry}{target}")
    more = ("--message", "say done", "--provider", "s", "--interrupted", how)
    _killed_in_a_run(world, lambda: model.requests, *more)


def _noticed(world: World) -> list[str]:
    return [json.loads(row[0])["text"] for row in world.rows("SELECT body_json FROM notices WHERE kind = 'held'")]


def test_what_a_notice_of_a_run_that_is_left_names_goes_on_with_it(world: World) -> None:
    with ScriptedModel([{"hang": 60}, text("done"), text("more")]) as model, Receiver() as receiver:
        _killed_while_the_model_is_asked(world, model, receiver, "leave")
        done = schedule(world, "tick")
        assert (done.code, "interrupted: the process that it ran in was killed" in done.out) == (1, True), done.out
        [(run_id,)] = world.rows("SELECT run_id FROM runs")
        [notice] = _noticed(world)
        assert f"`adderclaw run --resume {run_id}`" in notice
        assert f"`adderclaw agent --continue --resume {run_id}`" in notice
        assert len(model.requests) == 1
        done = world.cli("run", "--resume", run_id)
        assert (done.code, done.out) == (0, "done\n"), done.err
        assert states(world, "one") == ["completed"]
        done = world.cli("agent", "--continue", "--resume", run_id, "--provider", "s", "-m", "and?")
        assert (done.code, done.out) == (0, "more\n"), done.err
        done = world.cli("replay", run_id, "--verify")
        assert done.code == 0, done.out
    assert [one["role"] for one in model.requests[1].messages] == ["system", "user"], "nothing was said twice"


@pytest.mark.parametrize("how", ["resume", "again"])
def test_a_server_answers_for_the_runs_of_a_process_that_was_killed(world: World, how: str) -> None:
    with ScriptedModel([{"hang": 60}, text("done")]) as model, Receiver() as receiver:
        _killed_while_the_model_is_asked(world, model, receiver, how)
        server = Process(world.cli, "--workspace", str(world.workspace))
        try:
            until(world, "one", ["completed"] if how == "resume" else ["completed", "interrupted"])
        finally:
            server.end()
        assert len(model.requests) == 2
        assert len(world.rows("SELECT 1 FROM runs")) == (1 if how == "resume" else 2)
        assert len(_noticed(world)) == 1


def test_the_server_ticks_and_a_command_leaves_it_to_the_server(world: World) -> None:
    server = Process(world.cli, "--workspace", str(world.workspace))
    try:
        (world.workspace / "notes").mkdir()
        as_json(world, "add", "seen", "--changed", "notes/*.md", "--settle", "1s", "--message", "read")
        (world.workspace / "notes" / "a.md").write_text("hello", encoding="utf-8")
        add_soon(world, "--message", "look")
        until(world, "one", ["completed"])
        told = as_json(world, "tick")
        assert (told["server"], told["due"]) == (server.url.rstrip("/"), [])
        run_id = schedule(world, "run", "one", "--detach").out.strip()
        until(world, "one", ["completed", "completed"])
        assert as_json(world, "history", "one")[0]["run_id"] == run_id
        until(world, "seen", ["completed"])
    finally:
        server.end()


def test_the_doctor_speaks_of_schedules_that_nobody_ticks(world: World) -> None:
    as_json(world, "add", "one", "--every", "1h", "--message", "look")
    checks = json.loads(world.cli("doctor", "--output-format", "json").out)["checks"]
    assert [one["state"] for one in checks if one["name"] == "schedules"] == ["warning"]
    schedule(world, "tick")
    checks = json.loads(world.cli("doctor", "--output-format", "json").out)["checks"]
    assert [one["state"] for one in checks if one["name"] == "schedules"] == ["ok"]
