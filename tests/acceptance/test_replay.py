"""`replay`: a recorded run is shown again, proved, or judged under another policy; whatever is changed is named."""

import json
import os
import pty
import shutil
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.world import World, call, text
from tests.program import PROGRAM, Done, Soak
from tests.scripted import ScriptedModel


def last_run(world: World) -> str:
    ((run_id,),) = world.rows("SELECT run_id FROM runs ORDER BY rowid DESC LIMIT 1")
    return str(run_id)


def verify(world: World, run_id: str | None = None) -> dict[str, Any]:
    done = world.cli("replay", run_id or last_run(world), "--verify", "--output-format", "json")
    assert done.out, done.err
    proof = json.loads(done.out)
    assert done.code == (0 if proof["verified"] else 1), done.err
    return proof


def verified(world: World, run_id: str | None = None) -> dict[str, Any]:
    proof = verify(world, run_id)
    assert proof["verified"], json.dumps(proof["differences"], indent=1)
    return proof


def named(proof: dict[str, Any], *words: str) -> bool:
    return any(all(word in f"{one['where']} {one['note']}" for word in words) for one in proof["differences"])


def change(world: World, sql: str, *parameters: Any) -> None:
    with closing(sqlite3.connect(world.database)) as connection, connection:
        assert connection.execute(sql, parameters).rowcount > 0, sql


def copied(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


def in_a_call(world: World) -> "subprocess.Popen[bytes]":
    """A run in the middle of a long command."""
    world.configure(autonomy="full", security='allowed_commands = ["sleep", "touch"]')
    world.script(call("Bash", command="touch began; sleep 120"), text("never"))
    process = world.cli.start("agent", "-m", "sleep")
    deadline = time.monotonic() + 90
    while not (world.workspace / "began").exists():
        assert time.monotonic() < deadline, "the command did not begin"
        time.sleep(0.05)
    return process


def events_file(world: World, run_id: str | None = None) -> Path:
    return world.cli.data / "runs" / (run_id or last_run(world)) / "events.jsonl"


def mixed(world: World) -> str:
    """A run with two calls in one reply, a denial, a failure, a command, broken arguments, a hook and an answer."""
    world.configure(autonomy="full", security='allowed_commands = ["echo", "cat"]', more=ALLOW)
    (world.cli.data / "settings.json").write_text(json.dumps({"hooks": {"SessionEnd": [hook("echo heard")]}}))
    (world.workspace / "a.txt").write_text("hello\n")
    world.script(
        {
            "tool_calls": [
                {"name": "Read", "arguments": {"file_path": "a.txt"}},
                {"name": "Bash", "arguments": {"command": "cat *.txt && echo $HOME"}},
            ]
        },
        call("Read", file_path="/etc/shadow"),
        call("Read", file_path="missing.txt"),
        call("Reed", path="a.txt"),
        call("Write", file_path="b.txt"),
        call("file_write", path="b.txt", content="x"),
        text("done"),
    )
    done = world.agent("go")
    assert done.code == 0, done.err
    return last_run(world)


ALLOW = '[permissions]\nallow = ["Bash(echo *)"]\n'


# ------------------------------------------------------------------ refusals


def test_what_is_asked_must_make_sense(world: World) -> None:
    cases = [
        (["replay", "nothing"], "run `adderclaw init`"),
        (["replay", "x", "--verify", "--event-stream"], "use only one"),
        (["replay", "x", "--speed", "2"], "--event-stream"),
        (["replay", "x", "--event-stream", "--speed", "nan"], "--speed nan: expected a number"),
        (["replay", "../x", "--event-stream"], "is not a run id"),
        (["replay", "20990101", "--event-stream"], "run `adderclaw init`"),
    ]
    for arguments, said in cases:
        done = world.cli(*arguments)
        assert done.code in (1, 2), arguments
        assert said in done.err, (arguments, done.err)
        assert "Traceback" not in done.err
    world.script(text("done"))
    world.agent("hi")
    for flag in ("--verify", "--event-stream"):
        done = world.cli("replay", "20990101-nothing", flag)
        assert done.code == 2, flag
        assert "runs list" in done.err
    assert world.cli("replay", last_run(world), "--policy", "no-such-file.toml").code == 2


type Change = tuple[str, str, tuple[str, ...]]
"""What is changed, how, and by which words it is named."""

SIDE_BY_SIDE: list[Change] = [
    (
        "a model's reply",
        "UPDATE model_calls SET response_json = replace(response_json, '\"done\"', '\"dane\"')"
        " WHERE response_json LIKE '%done%'",
        ("entry", "assistant"),
    ),
    (
        "a model's call",
        "UPDATE model_calls SET response_json = replace(response_json, 'b.txt', 'c.txt') WHERE step = 6",
        ("receipt 7 of call_6_0", "args_hash"),
    ),
    (
        "a request hash",
        "UPDATE model_calls SET request_hash = 'x' || substr(request_hash, 2) WHERE step = 2",
        ("model call of step 2", "request_hash"),
    ),
    (
        "a tool's result",
        "UPDATE transcript_entries SET payload_json = replace(payload_json, 'hello', 'hallo')"
        " WHERE entry_type = 'tool_result'",
        ("receipt 1", "result_hash"),
    ),
    (
        "a call's input",
        "UPDATE transcript_entries SET payload_json = replace(payload_json, 'a.txt', 'b.txt')"
        " WHERE entry_type = 'tool_use' AND tool_use_id = 'call_1_0'",
        ("entry", "tool_use of call_1_0"),
    ),
    (
        "the user's message",
        "UPDATE transcript_entries SET payload_json = replace(payload_json, '\"go\"', '\"gp\"')"
        " WHERE entry_type = 'user'",
        ("entry 0 (user)",),
    ),
    (
        "an entry's id",
        "UPDATE transcript_entries SET payload_json = replace(payload_json, 'entry-', 'entrx-') WHERE sequence = 1",
        ("entry 1 (assistant)",),
    ),
    (
        "a permission rule",
        "UPDATE settings_snapshot SET json = replace(json, 'Bash(echo *)', 'Bash(echp *)')"
        " WHERE scope LIKE 'effective:%'",
        ("settings_snapshot row effective:session-",),
    ),
    (
        "a verdict in the log",
        "UPDATE tool_permission_log SET decision = 'allow' WHERE decision = 'deny' AND tool_use_id = 'call_2_0'",
        ("permission of call_2_0", "decision"),
    ),
    (
        "an event",
        'UPDATE events SET detail = replace(detail, \'"risk":"medium"\', \'"risk":"low"\')'
        " WHERE event_type = 'tool_approved'",
        ("events, event", "tool_approved", "risk"),
    ),
    (
        "a receipt's mirror",
        'UPDATE receipts SET line = replace(line, \'"status":"denied"\', \'"status":"allowed"\')',
        ("receipt", "call_2_0", "status"),
    ),
    (
        "what a hook said",
        "UPDATE hook_invocations SET stdout_text = replace(stdout_text, 'heard', 'haard')",
        ("hook_invocations row",),
    ),
    ("a time", "UPDATE events SET timestamp = '2001-01-01 00:00:00' WHERE event_type = 'startup'", ("events row",)),
    ("how long it took", "UPDATE model_calls SET latency_ms = latency_ms + 1 WHERE step = 3", ("model_calls row",)),
    (
        "whose verdict it is",
        "UPDATE tool_permission_log SET tool_use_id = 'call_9_9' WHERE tool_use_id = 'call_1_1'",
        ("permission of call_9_9", "call"),
    ),
    (
        "a hook that never ran",
        "INSERT INTO hook_invocations(session_id, conversation_id, hook_event, hook_ordinal, matcher, command,"
        " input_json, started_at) SELECT session_id, conversation_id, 'Stop', 99, '', 'true', '{}', 'now' FROM runs",
        ("hook_invocations row", "not in the imprint"),
    ),
    (
        "an event twice",
        "INSERT INTO events(conversation_id, session_id, timestamp, event_type, detail) SELECT conversation_id,"
        " session_id, timestamp, event_type, detail FROM events WHERE event_type = 'startup'",
        ("events row", "not in the imprint"),
    ),
    ("the exit code", "UPDATE runs SET exit_code = 1", ("runs row",)),
    ("the outcome", "UPDATE runs SET outcome = 'denied'", ("outcome of the run",)),
    ("the answer", "UPDATE runs SET answer = 'dene'", ("answer of the run",)),
]
ALONE: list[Change] = [
    (
        "the facts of a call",
        "UPDATE tape SET items_json = replace(items_json, '/etc/shadow', '/etc/shadoW')",
        ("tape row", "was changed"),
    ),
    (
        "the configuration",
        "UPDATE tape_texts SET text = replace(text, 'Bash(echo *)', 'Bash(echp *)')",
        ("tape_texts row",),
    ),
    (
        "a reply that is no reply any more",
        "UPDATE model_calls SET response_json = replace(response_json, '\"raw\"', '\"rav\"') WHERE step = 2",
        ("model_calls row",),
    ),
    (
        "a count that is none any more",
        "UPDATE model_calls SET usage_json = replace(usage_json, '}', '') WHERE step = 2",
        ("model_calls row",),
    ),
    (
        "an entry of no known type",
        "UPDATE transcript_entries SET entry_type = 'usar' WHERE sequence = 0",
        ("transcript_entries row",),
    ),
    ("a missing reply", "DELETE FROM model_calls WHERE step = 7", ("course of the run",)),
    (
        "a missing result",
        "DELETE FROM transcript_entries WHERE entry_type = 'tool_result' AND tool_use_id = 'call_1_1'",
        ("course of the run",),
    ),
    ("a missing verdict", "DELETE FROM tool_permission_log WHERE tool_use_id = 'call_1_0'", ("permission",)),
    ("an emptied imprint", "UPDATE imprints SET rows_json = '{}'", ("events row", "not in the imprint")),
    ("a missing row of the tape", "DELETE FROM tape WHERE seq = 2", ("tape row 2", "missing")),
    ("the end of the tape", "DELETE FROM tape WHERE seq > 3", ("course of the run",)),
]


def check_changes(world: World, run_id: str, side_by_side: list[Change], alone: list[Change], soak: Soak) -> None:
    """Each change is found and named; those that stand side by side in one go, and one by one under `make soak`."""
    verified(world, run_id)
    kept = world.database.with_name("kept.sqlite")
    copied(world.database, kept)
    groups = [[one] for one in side_by_side] if soak.whole else [side_by_side]
    for group in [*groups, *([one] for one in alone)]:
        copied(kept, world.database)
        for _, sql, _ in group:
            change(world, sql)
        proof = verify(world, run_id)
        for what, _, words in group:
            assert named(proof, *words), f"{what}: {json.dumps(proof['differences'], indent=1)}"
    copied(kept, world.database)


@pytest.mark.soak
def test_whatever_is_changed_is_found_and_named(world: World, soak: Soak) -> None:
    check_changes(world, mixed(world), SIDE_BY_SIDE, ALONE, soak)


def test_a_receipt_and_an_event_file_that_were_changed(world: World) -> None:
    run_id = mixed(world)
    log, file = world.log.read_bytes(), events_file(world).read_bytes()
    world.log.write_bytes(log.replace(b'"status":"denied"', b'"status":"deniee"', 1))
    assert named(verify(world, run_id), "receipt 3 of tool_receipts.log")
    world.log.write_bytes(log)
    for changed, word in (
        (file.replace(b'"risk":"medium"', b'"risk":"mediun"', 1), "risk"),
        (file[: len(file) // 2], "events.jsonl, event"),
        (b"".join(file.splitlines(keepends=True)[:-8]), "events.jsonl, event"),
    ):
        events_file(world).write_bytes(changed)
        assert named(verify(world, run_id), "events.jsonl", word)
    events_file(world).unlink()
    assert "does not exist" in " ".join(verified(world, run_id)["notes"])


def test_a_run_in_progress_and_a_run_without_a_tape(world: World) -> None:
    process = in_a_call(world)
    done = world.cli("replay", last_run(world), "--verify")
    process.kill()
    process.communicate()
    assert done.code == 2
    assert "still running" in done.err
    proof = verified(world)  # killed in the middle of a call: what is there agrees
    assert "interrupted" in " ".join(proof["notes"])

    world.cli("tool", "run", "LS", "--json", '{"path": "."}')
    refused = world.cli("replay", last_run(world), "--verify")
    assert refused.code == 2
    assert "no turn to replay" in refused.err
    run_id = last_run(world)
    change(world, "UPDATE runs SET kind = 'agent' WHERE run_id = ?", run_id)
    assert "no tape" in world.cli("replay", run_id, "--verify").err


# ------------------------------------------------------------------ what verifies


def kept_files(world: World) -> list[str]:
    return sorted(path.name for path in world.cli.data.rglob("*") if not path.name.endswith(("-wal", "-shm", ".lock")))


def test_m_replay_a_clean_run_of_thirty_calls_whose_files_are_gone(world: World) -> None:
    world.configure(autonomy="full", rounds=60)
    for number in range(10):
        (world.workspace / f"{number}.txt").write_text(f"content {number}\n")
    steps = [call("Read", file_path=f"{number % 10}.txt", offset=1 + number // 10) for number in range(29)]
    world.script(*steps, call("Bash", command="ls *.txt | head -3"), text("done"))
    assert world.agent("read them").code == 0
    shutil.rmtree(world.workspace)
    world.workspace.mkdir()
    before = kept_files(world)
    rows = world.rows("SELECT count(*) FROM transcript_entries")
    proof = verified(world)
    assert (proof["tool_calls"], proof["model_calls"]) == (30, 31)
    assert kept_files(world) == before, "nothing is written"
    assert world.rows("SELECT count(*) FROM transcript_entries") == rows
    assert not list(world.workspace.iterdir())
    ((size,),) = world.rows("SELECT max(length(items_json)) FROM tape WHERE seq > 1 AND items_json NOT LIKE '%Plan%'")
    assert size < 1_500, "what a step costs does not grow"


@pytest.mark.parametrize(("said", "code"), [("y\n", 0), ("n\n", 3), ("", 3), ("a\n", 0)])
def test_approvals(world: World, said: str, code: int) -> None:
    world.script(
        call("file_write", path="a.txt", content="x"), call("file_write", path="a.txt", content="y"), text("ok")
    )
    done = world.agent("write", stdin=said * 2 if said != "a\n" else said)
    assert done.code == code or "a.txt" in done.err, done.err
    verified(world)
    if said == "a\n":  # what the operator granted meanwhile counts under another policy, too
        (world.cli.cwd / "other.toml").write_text('[bash]\ndenylist = ["sudo *"]\n')
        same = world.cli("replay", last_run(world), "--policy", "other.toml")
        assert (same.code, "0 of 2 verdicts change" in same.out) == (0, True), same.out


def test_a_loop_a_limit_and_a_stop(world: World) -> None:
    world.configure(autonomy="full", rounds=3)
    (world.workspace / "a.txt").write_text("x")
    world.script(*[call("Read", file_path="a.txt")] * 8, text("never"))
    assert world.agent("again and again").code == 4
    verified(world)
    world.configure(autonomy="full", more="[limits]\ntool_calls = 1\n")
    assert world.agent("again").code == 4
    verified(world)
    world.configure(autonomy="full")
    world.cli("estop")
    world.script(text("I cannot"))
    world.agent("anything")
    verified(world)


def test_failures_of_the_provider_and_retries(world: World) -> None:
    error = {"error": {"kind": "server_error", "message": "busy"}}
    world.script(error, call("LS", path="."), error, text("done"))
    done = world.agent("hi")
    assert done.code == 0, done.err
    verified(world)
    world.script({"error": {"kind": "authentication_failed", "message": "no"}})
    assert world.agent("hi").code == 1
    verified(world)


def hook(command: str, matcher: str = "") -> dict[str, Any]:
    return {"matcher": matcher, "hooks": [{"type": "command", "command": command}]}


def test_hooks_that_deny_rewrite_and_speak(world: World) -> None:
    (world.workspace / "a.txt").write_text("one")
    (world.workspace / "b.txt").write_text("two")
    rewrite = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {"file_path": "b.txt"}}}
    speak = {"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "well read"}}
    said = {
        "PreToolUse": [hook(f"echo '{json.dumps(rewrite)}'", "Read"), hook("echo no >&2; exit 2", "LS")],
        "PostToolUse": [hook(f"echo '{json.dumps(speak)}'", "Read")],
        "UserPromptSubmit": [hook("echo a word before")],
        "SessionStart": [hook("echo hello")],
        "Stop": [hook("true")],
        "SessionEnd": [hook("true")],
    }
    world.configure(autonomy="full")
    (world.cli.data / "settings.json").write_text(json.dumps({"hooks": said}))
    assert world.cli("trust", str(world.workspace)).code == 0  # a hook's text names b.txt
    world.script(call("Read", file_path="a.txt"), call("LS", path="."), text("done"))
    done = world.agent("read")
    assert "two" in world.entries("tool_result")[0]["content"], done.err
    assert "well read" in world.entries("tool_result")[0]["content"]
    verified(world)


def test_a_compacted_run(world: World) -> None:
    (world.workspace / "big.txt").write_text("\n".join(f"line {n} " + "x" * 60 for n in range(120)))
    steps: list[Any] = [call("Read", file_path="big.txt", offset=number + 1) for number in range(8)]
    with ScriptedModel([*steps, {"text": "done"}], aside={"Write the summary now.": {"text": "SUMMARY"}}) as model:
        entry = f'kind = "openai-compatible"\nbase_url = "{model.base_url}"\nmodel = "small"\ncontext_tokens = 12000\n'
        world.configure(autonomy="full", more=f"[providers.models.small]\n{entry}")
        assert world.agent("read", "--provider", "small").code == 0
    assert world.entries("system"), "it was compacted"
    verified(world)
    change(
        world,
        "UPDATE transcript_entries SET payload_json = replace(payload_json, 'SUMMARY', 'SUMMERY')"
        " WHERE entry_type = 'system'",
    )
    assert named(verify(world), "entry", "system")


def test_a_conversation_that_went_on(world: World) -> None:
    world.script(call("LS", path="."), text("first"))
    world.agent("one")
    first = last_run(world)
    world.script(call("LS", path="."), text("first"), call("LS", path="."), text("second"))
    assert world.agent("two", "--continue").code == 0
    assert last_run(world) != first
    assert world.rows("SELECT run_id FROM receipts ORDER BY seq") == [(first,), (last_run(world),)]
    verified(world, first)
    verified(world)
    change(world, "UPDATE transcript_entries SET payload_json = replace(payload_json, 'one', 'ony') WHERE sequence = 0")
    assert named(verify(world), "history that the run began with")


def test_a_run_that_was_killed_and_the_one_that_went_on(world: World) -> None:
    process = in_a_call(world)
    process.kill()
    process.communicate()
    killed = last_run(world)
    assert world.cli("agent", "--continue").code == 0
    verified(world, killed)
    verified(world)


@pytest.mark.parametrize("hooked", [False, True], ids=["model", "hook"])
def test_a_repl_that_was_killed_in_its_second_turn(world: World, *, hooked: bool) -> None:
    """While the model is asked, or while a hook still looks at the message, which the store does not have yet."""
    if hooked:
        slow = hook("if [ -e first ]; then touch second; sleep 60; fi; touch first")
        (world.cli.data / "settings.json").write_text(json.dumps({"hooks": {"UserPromptSubmit": [slow]}}))
    with ScriptedModel([call("LS", path="."), text("first"), *([] if hooked else [{"hang": 60}])]) as model:
        entry = f'kind = "openai-compatible"\nbase_url = "{model.base_url}"\nmodel = "m"\n'
        world.configure(autonomy="full", more=f"[providers.models.s]\n{entry}")
        terminal, theirs = pty.openpty()
        process = subprocess.Popen(
            [PROGRAM, "agent", "--provider", "s"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=world.cli.env,
            cwd=world.cli.cwd,
        )
        os.close(theirs)
        os.write(terminal, b"one\ntwo\n")
        deadline = time.monotonic() + 90
        while not ((world.workspace / "second").exists() if hooked else len(model.requests) == 3):
            assert time.monotonic() < deadline, os.read(terminal, 65_536)
            time.sleep(0.05)
        process.kill()
        process.wait()
        os.close(terminal)
    assert world.rows("SELECT kind, outcome FROM runs") == [("repl", None)]
    proof = verified(world)
    assert (proof["model_calls"], proof["tool_calls"]) == (2, 1)
    assert "interrupted" in " ".join(proof["notes"])
    change(world, "UPDATE transcript_entries SET payload_json = replace(payload_json, 'first', 'furst')")
    assert named(verify(world), "entry", "assistant")


def test_background_tasks(world: World) -> None:
    world.configure(autonomy="full", security='allowed_commands = ["sleep", "echo", "touch", "test"]')
    begin = call("Bash", command="echo hello; touch ended", run_in_background=True)
    waits = call("Bash", command="until test -e ended; do sleep 0.05; done; sleep 0.5")
    world.script(begin, waits, text("done"))
    world.agent("go")
    assert any("background" in json.dumps(entry) for entry in world.entries("attachment"))
    verified(world)


def test_a_subagent_is_a_session_of_its_own(world: World) -> None:
    (world.workspace / "a.txt").write_text("x")
    world.configure(autonomy="full")
    task = call("Agent", description="look", prompt="look at a.txt", subagent_type="general-purpose")
    with ScriptedModel([task, call("Read", file_path="a.txt"), {"text": "seen"}, {"text": "done"}]) as model:
        entry = f'kind = "openai-compatible"\nbase_url = "{model.base_url}"\nmodel = "m"\n'
        world.configure(autonomy="full", more=f"[providers.models.s]\n{entry}")
        assert world.agent("go", "--provider", "s").code == 0
    proof = verified(world)
    assert (proof["sessions"], proof["tool_calls"]) == (2, 2)
    assert world.rows("SELECT DISTINCT run_id FROM receipts") == [(last_run(world),)]
    change(world, "UPDATE tool_permission_log SET decision = 'deny' WHERE tool_name = 'Read'")
    assert named(verify(world), "session session-", "permission")


def test_an_interrupted_run(world: World) -> None:
    process = in_a_call(world)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=90)
    verified(world)


# ------------------------------------------------------------------ another policy


def test_another_policy_changes_verdicts(world: World) -> None:
    run_id = mixed(world)
    policy = world.cli.home.parent / "strict.toml"
    policy.write_text('[bash]\ndenylist = ["cat *"]\n')
    shutil.rmtree(world.workspace)
    world.workspace.mkdir()
    done = world.cli("replay", run_id, "--policy", str(policy), "--output-format", "json")
    assert done.code == 1, done.err
    found = json.loads(done.out)
    changed = {one["tool"]: one["after"] for one in found["verdicts"] if one["changes"]}
    assert changed == {"Bash": "deny"}
    plain = world.cli("replay", run_id, "--policy", str(policy))
    assert "1 of" in plain.out
    assert "allow → deny by policy.toml" in plain.out
    policy.write_text('[bash]\ndenylist = ["sudo *"]\n')
    assert world.cli("replay", run_id, "--policy", str(policy)).code == 0
    config = world.cli.home.parent / "other.toml"
    config.write_text(f'workspace_dir = "{world.workspace}"\n[security]\nautonomy = "readonly"\n')
    done = world.cli("replay", run_id, "--policy", str(config), "--output-format", "json")
    changed = {one["tool"] for one in json.loads(done.out)["verdicts"] if one["changes"]}
    assert "Write" in changed, done.out
    policy.write_text("this is no policy")
    assert world.cli("replay", run_id, "--policy", str(policy)).code == 2


# ------------------------------------------------------------------ the events again


def test_s08_the_stored_events_are_shown_again(world: World) -> None:
    run_id = mixed(world)
    done = world.cli("replay", run_id, "--event-stream", "--speed", "0")
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) == len(events_file(world).read_text().splitlines())
    assert "tool_denied Read" in done.out
    assert "\x1b" not in done.out
    as_json = world.cli("replay", run_id[:18], "--event-stream", "--speed", "0", "--output-format", "json")
    told = [json.loads(line)["event_type"] for line in as_json.out.splitlines()]
    assert told[-2:] == ["run_finished", "hook_finished"]
    on_a_terminal = shown_on_a_terminal(world, "replay", run_id, "--event-stream", "--speed", "0")
    assert b"\x1b[" in on_a_terminal
    assert b"tool_denied" in on_a_terminal


def shown_on_a_terminal(world: World, *arguments: str) -> bytes:
    main, other = pty.openpty()
    process = subprocess.Popen(
        [str(PROGRAM), *arguments], stdin=other, stdout=other, stderr=other, env={**world.cli.env, "TERM": "xterm"}
    )
    os.close(other)
    seen = b""
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:
            break
        if not part:
            break
        seen += part
    os.close(main)
    process.wait(timeout=90)
    return seen


def test_of_a_headless_run_they_are_in_the_workspace(world: World) -> None:
    """A workflow: its goals are sessions of their own, and each is replayed."""
    (world.workspace / "Agentfile").write_text('NAME flow\nGOAL a "x"\nGOAL b "y"\nRUN r USING a, b\n')
    steps: list[Any] = [call("LS", path="."), call("GoalResult", achieved="?"), *[call("GoalResult", **REACHED)] * 2]
    with ScriptedModel(steps) as model:
        entry = f'kind = "openai-compatible"\nbase_url = "{model.base_url}"\nmodel = "m"\n'
        world.configure(autonomy="full", more=f"[providers.models.s]\n{entry}")
        flow = world.cli("run", str(world.workspace / "Agentfile"), "--provider", "s")
        assert flow.code == 0, flow.err
    done = world.cli("replay", last_run(world), "--event-stream", "--speed", "0")
    assert "run_finished completed" in done.out, done.err
    proof = verified(world)
    assert (proof["sessions"], proof["tool_calls"]) == (2, 4)


REACHED = {"achieved": True, "summary": "reached"}


def line(seconds: int, kind: str = "warning", **payload: Any) -> str:
    stamp = f"2026-05-12T14:00:{seconds:02d}.000Z"
    return json.dumps({"event_type": kind, "timestamp": stamp, "payload": payload, "session_id": "s"}) + "\n"


def streamed(world: World, content: bytes, *more: str) -> Done:
    (folder,) = (world.cli.data / "runs").iterdir()
    (folder / "events.jsonl").write_bytes(content)
    return world.cli("replay", folder.name, "--event-stream", *more)


BROKEN: list[tuple[bytes, str]] = [
    (b"not json\n", "line 1: not JSON"),
    (b"[1]\n", "line 1: not an event"),
    (b"\xff\xfe\n", "not JSON"),
    (b"[" * 100_000 + b"\n", "not JSON"),
    (line(1).encode()[:-5], "incomplete"),
    (b'{"event_type": 7}\n', "not an event"),
    (b'{"event_type": "x", "a": "' + b"y" * 5_000_000 + b'"}\n', "longer than"),
]


def test_broken_lines_are_named_and_the_rest_is_shown(world: World) -> None:
    world.script(text("hello"))
    world.agent("hi")
    (folder,) = (world.cli.data / "runs").iterdir()
    whole = (folder / "events.jsonl").read_bytes()
    for content, said in BROKEN:
        after = whole if content.endswith(b"\n") else b""
        done = streamed(world, content + after, "--speed", "0")
        assert done.code == 1, content[:40]
        assert said in done.err, done.err
        assert not after or "run_finished" in done.out
        assert "Traceback" not in done.err
    assert "the last" in streamed(world, b"", "--speed", "0").err
    bad = (
        line(1, message="a\x1b[2J\u202eb").encode() + b'{"event_type":"x\\u001b[2J","timestamp":"never","payload":3}\n'
    )
    done = streamed(world, bad + whole, "--speed", "0")
    assert done.code == 1, done.err
    assert "\x1b" not in done.out + done.err
    (folder / "events.jsonl").unlink()
    (folder / "events.jsonl").symlink_to("/etc/passwd")
    assert world.cli("replay", folder.name, "--event-stream").code == 2


def test_timing_speed_and_an_interruption(world: World) -> None:
    world.script(call("Bash", command="sleep 1"), text("done"))
    world.configure(autonomy="full")
    world.agent("wait")
    run_id = last_run(world)
    process = world.cli.start("replay", run_id, "--event-stream", "--speed", "4", "--output-format", "json")
    assert process.stdout is not None
    at = {json.loads(line)["event_type"]: time.monotonic() for line in process.stdout}
    process.communicate(timeout=60)
    assert 0.05 < at["tool_completed"] - at["tool_approved"] < 30  # a quarter of a second, read by a busy reader
    process = world.cli.start("replay", run_id, "--event-stream", "--speed", "0.001")
    assert process.stdout is not None
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in err


def test_a_summary(world: World) -> None:
    run_id = mixed(world)
    done = world.cli("replay", run_id)
    assert "call call_2_0  Read  denied by forbidden_paths  receipt-" in done.out
    assert "step 7" in done.out
    assert "answer: done" in done.out
    body = json.loads(world.cli("replay", run_id, "--output-format", "json").out)
    assert len(body["tool_calls"]) == 7
    assert body["status"] == "completed"


def test_the_hash_of_a_question_is_compared(world: World) -> None:
    world.script(call("Write", file_path="b.txt", content="b\n"), text("written"))
    assert world.agent("write", stdin="y\n").code == 0
    log = world.cli.data / "runs" / last_run(world) / "events.jsonl"
    verified(world)
    (hashed,) = world.rows("SELECT plan_hash FROM approvals")[0]
    assert hashed in log.read_text()
    log.write_text(log.read_text().replace(hashed, "0" * 64))
    assert named(verify(world), "approval_requested", "plan_hash")
