"""What people and programs are told: once, in its own place, in words that say what happened."""

import json
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.terminal import at_a_terminal
from tests.acceptance.test_replay import verified
from tests.acceptance.test_rpc import Rpc
from tests.acceptance.world import World, call, text
from tests.scripted import ScriptedModel


def lines(err: str, event: str) -> list[str]:
    """What the log says of an event."""
    return [line for line in err.splitlines() if line[9:].startswith(f"{event} ")]


def events(world: World) -> list[dict[str, Any]]:
    (log,) = world.cli.data.glob("runs/*/events.jsonl")
    return [json.loads(line) for line in log.read_text().splitlines()]


# ------------------------------------------------------------------ 22: one word for each outcome


def test_22_a_command_that_ran_is_told_apart_from_a_failed_and_a_denied_one(world: World) -> None:
    world.configure("full", 'forbidden_commands = ["rm"]')
    world.script(
        call("Bash", command="echo 1 failed, 2 passed; exit 3"),
        call("Bash", command="true"),
        call("Read", file_path="missing.txt"),
        call("Bash", command="rm -rf x"),
        text("done"),
    )
    done = world.agent("test it")
    assert done.code == 3, done.err
    ran, fine = lines(done.err, "tool_completed")
    assert ran.endswith(" exit 3")
    assert "exit" not in fine
    (failed,) = lines(done.err, "tool_failed")
    assert "missing.txt does not exist" in failed
    assert "tool_rejected" not in done.err
    assert len(lines(done.err, "tool_denied")) == 1
    told = {one["event_type"]: one["payload"] for one in reversed(events(world))}
    assert told["tool_completed"]["exit_code"] == 3
    kept = [(row["status"], row["decision"].get("exit_code")) for row in world.receipts()]
    assert kept == [("allowed", 3), ("allowed", None), ("failed", None), ("denied", None)]
    assert "exit 3" in world.cli("receipt", "list").out
    shown = [entry["is_error"] for entry in world.entries("tool_result")]
    assert shown == [True, False, True, True], "the model is told as before"
    verified(world)


def test_22_a_failed_run_says_its_reason_once(world: World) -> None:
    world.configure(more='[providers.models.mine]\nkind = "anthropic"\nmodel = "m"\n')
    done = world.agent("hi", "--provider", "mine")
    assert done.code == 1, done.err
    (line,) = lines(done.err, "run_failed")
    assert line.count("missing_provider_api_key") == 1
    assert "[redacted]" not in done.err
    (told,) = [one["payload"] for one in events(world) if one["event_type"] == "run_failed"]
    assert told["reason"] == "missing_provider_api_key"


def test_22_hints_are_near_misses(world: World) -> None:
    """Of commands, options, slash commands, settings and tools alike."""
    for arguments, hint in (
        (("agnt",), "did you mean agent?"),
        (("tool", "exlpain"), "did you mean explain?"),
        (("agent", "--mesage", "x"), "did you mean --message?"),
        (("exporter",), None),
        (("agent", "--elephant"), None),
    ):
        done = world.cli(*arguments)
        assert done.code == 2, done.err
        assert (hint or "No such") in done.err
        assert hint or "did you mean" not in done.err.lower()
        assert "Possible options" not in done.err
    world.script(call("Raed", file_path="x"), call("Elephant", x=1), text("done"))
    world.agent("hi")
    near, far = (entry["content"] for entry in world.entries("tool_result"))
    assert "did you mean Read?" in near
    assert "did you mean" not in far
    world.configure(security="workspace_onyl = true")
    assert 'did you mean "workspace_only"?' in world.cli("config", "validate").err


def test_22_a_slash_command_that_is_none_is_not_taken_for_one_with_its_first_letter(world: World) -> None:
    shown = world.cli.typed("agent", stdin="/exprot\n/elephant\n/cmpact\n/exit\n", env={"TERM": "dumb"}).err
    assert "no command /elephant: /help lists them" in shown
    assert "did you mean /compact?" in shown


def test_22_what_is_ignored_without_trust_is_a_warning_of_its_own(world: World) -> None:
    (world.workspace / ".git").mkdir()
    (world.workspace / ".adderclaw").mkdir()
    rules = [f"Bash(program-number-{number}:*)" for number in range(40)]
    (world.workspace / ".adderclaw" / "settings.json").write_text(json.dumps({"permissions": {"allow": rules}}))
    world.script(text("done"))
    done = world.cli("agent", "-m", "hi", cwd=world.workspace)
    (line,) = lines(done.err, "config_path")
    assert "trust" not in line
    (warned,) = [line for line in lines(done.err, "warning") if "not trusted" in line]
    assert warned.endswith(f"adderclaw trust {world.workspace}"), "how to change it is not cut off"
    (told,) = [one["payload"] for one in events(world) if one["event_type"] == "config_path"]
    assert told.keys() == {"paths"}


def test_22_where_the_log_is_json_every_line_on_stderr_is(world: World) -> None:
    options = [{"label": "red", "description": ""}, {"label": "blue", "description": ""}]
    question = {"question": "Which?", "header": "Colour", "options": options, "multiSelect": False}
    world.script(
        call("Write", file_path="a.txt", content="x\n"),
        call("AskUserQuestion", questions=[question]),
        call("SendUserMessage", message="half of it\nis done"),
        call("Bash", command="sudo id"),
        text("done"),
    )
    world.cli.env["ADDERCLAW_LOG"] = "json"
    done = world.agent("go", stdin="y\n2\n")
    assert (done.code, (world.workspace / "a.txt").read_text()) == (3, "x\n"), done.err
    told = [json.loads(line) for line in done.err.splitlines()]
    beside = [one for one in told if "event_type" not in one]
    assert all(one.keys() == {"level", "timestamp", "message"} for one in beside)
    approval, asked, *_, outcome = beside
    assert approval["message"].startswith("Tool request:")
    assert approval["message"].endswith("Approve? [y/N] "), "a question is one object"
    assert asked["message"].startswith("Question (Colour)")
    assert (outcome["level"], "denied" in outcome["message"]) == ("error", True)
    for wrong in (("agnt",), ("agent", "-m", ""), ("agent", "--resume", "nothing", "-m", "x")):
        done = world.cli(*wrong)
        assert done.code == 2
        assert [json.loads(line) for line in done.err.splitlines()]


# ------------------------------------------------------------------ 21: quiet


def test_21_quiet_is_there_for_every_command(world: World) -> None:
    world.script(call("Bash", command="false"), text("done"))
    loud, quiet = world.agent("go"), world.agent("go", "--quiet")
    assert "tool_requested" in loud.err
    assert (quiet.code, quiet.out, quiet.err) == (0, "done\n", "")
    assert world.cli("--quiet", "agent", "-m", "go").err == ""
    world.script(call("Bash", command="sudo id"), text("done"))
    denied = world.agent("go", "--quiet")
    assert denied.err.startswith("adderclaw: denied: ")
    assert len(denied.err.splitlines()) == 1
    for command in (("tool", "list"), ("config", "show"), ("doctor",), ("runs", "list"), ("receipt", "verify")):
        done = world.cli(*command, "--quiet")
        assert (done.code, done.err) == (0, ""), command
    assert "--quiet" in world.cli("agent", "--help").out
    behind = world.cli("mcp", "add", "fs", "--", "server", "--quiet")
    assert behind.code == 0, behind.err
    assert "--quiet" in world.cli("mcp", "get", "fs").out + world.cli("config", "show").out


# ------------------------------------------------------------------ 23: what people write

WRITTEN = "👨‍👩‍👧 ❤️‍🔥 👩🏽‍💻 می‌خواهم ශ්‍රී क्‍ष Tiếng Việt שָׁלוֹם مرحبا \u2068John\u2069 أهلا"
STEERS = "a\u202eb \x1b]0;title\x07 \x9b31m x\u2028y \U000e0041 a\u200db \u2067שלום"


@pytest.mark.parametrize("terminal", [False, True])
def test_23_what_people_write_is_shown_and_what_steers_is_escaped(world: World, terminal: bool) -> None:
    world.script(text(f"{WRITTEN}\n{STEERS}"))
    shown = at_a_terminal(world, "agent", "-m", WRITTEN)[1] if terminal else world.agent(WRITTEN).out
    assert WRITTEN in shown
    for char in "\u202e\x07\x9b\u2028\U000e0041":
        assert char not in shown
    assert "a\\u{200d}b \\u{2067}שלום" in shown


def test_23_a_sign_or_a_secret_that_arrives_in_two_parts_is_whole(world: World) -> None:
    secret, family = "sk-live-abcdefghij0123456789", "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    parts = [f"It is {secret[:14]}", f"{secret[14:]} of {family[:1]}", family[1:2], f"{family[2:]}, done"]
    with ScriptedModel([{"parts": parts}]) as model:
        entry = f'kind = "openai-compatible"\nbase_url = "{model.base_url}"\nmodel = "m"\napi_key_env = "SOME_KEY"\n'
        world.configure(more=f"[providers.models.mine]\n{entry}")
        world.cli.env["SOME_KEY"] = secret
        code, shown = at_a_terminal(world, "agent", "-m", "which?", "--provider", "mine", "--quiet")
    assert code == 0, shown
    assert f"It is [redacted] of {family}, done" in shown
    assert secret[:14] not in shown


def test_23_a_command_to_be_approved_hides_nothing(world: World) -> None:
    world.script(call("Write", file_path="שלום\u2067a\u2069.txt", content="x"), text("done"))
    err = world.agent("go", stdin="n\n").err
    assert "\\u{2067}a\\u{2069}" in err


# ------------------------------------------------------------------ 24: JSON-RPC


def test_24_a_client_of_mcp_is_answered_and_events_have_the_times_of_the_trace(world: World) -> None:
    world.script(text("done"))
    client = Rpc(world)
    hello = {"protocolVersion": "2025-06-18", "capabilities": {"roots": {"listChanged": True}}, "_meta": {"a": 1}}
    said = client.answer(1, "initialize", **hello, clientInfo={"name": "editor", "version": "1", "icons": []})
    assert said["result"]["protocolVersion"] == "2025-06-18"
    assert said["result"]["serverInfo"] == said["result"]["server"]
    client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert client.answer(2, "ping")["result"] == {}
    run_id = client.answer(3, "run", message="hi")["result"]["run_id"]
    assert client.close() == 0
    (log,) = (*world.cli.data.glob(f"runs/{run_id}/events.jsonl"), *world.workspace.glob(f"runs/{run_id}/events.jsonl"))
    kept = [json.loads(line) for line in log.read_text().splitlines()]
    told = [one["params"] for one in client.seen if one.get("method") == "event"]
    assert len(told) > 5
    assert [{key: one[key] for key in kept[0]} for one in told] == kept


def memory(process: "subprocess.Popen[bytes]") -> int:
    """The most that it ever held, in MiB."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) >> 10


def test_24_a_client_that_does_not_read_takes_no_memory(world: World) -> None:
    """It asks for 300 MB of answers and reads none of them, until it does: then all of them come."""
    client = Rpc(world)
    client.answer("warm", "status")
    before, sent = memory(client.process), 300
    ids = [f"{number:04}" + "x" * 1_000_000 for number in range(sent)]
    writing = threading.Thread(target=lambda: [client.request(id, "status") for id in ids])
    writing.start()
    stuck(client.process)
    assert memory(client.process) - before < 80
    heard = {client.read()["id"] for _ in range(sent)}
    writing.join()
    assert heard == {*ids}
    assert client.close() == 0


def stuck(process: "subprocess.Popen[bytes]") -> None:
    """Until it waits and nothing but its client can wake it: its processor time stands still."""
    spent, still = -1, 0
    while still < 5:
        now = sum(map(int, Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
        still = still + 1 if now == spent else 0
        spent = now
        time.sleep(0.1)


def test_24_events_that_nobody_reads_are_dropped_and_counted(world: World) -> None:
    world.configure(rounds=100, more='[limits]\ntool_calls = 5000\n[logging]\nlevel = "error"\n')
    looks = [{"name": "Read", "arguments": {"file_path": f"missing-{number}"}} for number in range(1_500)]
    world.script(*({"tool_calls": looks[first : first + 100]} for first in range(0, 1_500, 100)), text("done"))
    client = Rpc(world)
    client.request(1, "run", message="hi")
    wait_for_end(world)
    said = client.until(id=1)["result"]
    assert (said["outcome"], said["tool_calls"]) == ("completed", 1_500)
    told = [one["params"] for one in client.seen if one.get("method") == "event"]
    lost = sum(one.get("dropped", 0) for one in told)
    lost += sum(one["params"]["events"] for one in client.seen if one.get("method") == "events_dropped")
    (log,) = (*world.cli.data.glob("runs/*/events.jsonl"), *world.workspace.glob("runs/*/events.jsonl"))
    kept = log.read_text().splitlines()
    assert lost > 0
    assert len(told) + lost == len(kept)
    assert client.close() == 0


def wait_for_end(world: World) -> None:
    while len(world.receipts_so_far()) < 1_500 or not world.rows("SELECT 1 FROM runs WHERE outcome IS NOT NULL"):
        time.sleep(0.1)
