"""Hooks from the outside: configured, run, recorded; and hooks that misbehave."""

import json
import signal
import sqlite3
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.world import World, call, text

type Hook = dict[str, Any]
ECHO = {"tool": "Bash", "input": {"command": "echo hello"}}


def snapshot(world: World, *hooks: Hook) -> None:
    """The operator's own settings row, as seed 003 §8.8.3 writes it."""
    assert world.cli("init").code == 0
    with sqlite3.connect(world.database) as connection:
        connection.execute(
            "INSERT OR REPLACE INTO settings_snapshot(scope, json, updated_at)"
            " VALUES ('effective', ?, datetime('now'))",
            (json.dumps({"hooks": hooks}),),
        )


def user(world: World, **events: list[Any]) -> None:
    """Hooks in the operator's own settings.json: nested groups, or single hooks."""
    (world.cli.data / "settings.json").write_text(json.dumps({"hooks": events}), encoding="utf-8")


def hook(command: str, matcher: str = "", **more: Any) -> Hook:
    return {"matcher": matcher, "hooks": [{"type": "command", "command": command, **more}]}


def rows(world: World, columns: str = "hook_event, hook_ordinal, exit_code, skipped_reason") -> list[tuple[Any, ...]]:
    return world.rows(f"SELECT {columns} FROM hook_invocations ORDER BY id")


def output(**said: Any) -> str:
    """A command that prints this JSON."""
    return f"cat <<'END'\n{json.dumps(said)}\nEND"


def arm(event: str, **said: Any) -> str:
    return output(hookSpecificOutput={"hookEventName": event, **said})


# ------------------------------------------------------------------ the contract of §8.8.3


def test_d94_a_hook_that_exits_2_denies_the_call(world: World) -> None:
    snapshot(world, {"hook_event_name": "PreToolUse", "matcher": "Bash", "command": "exit 2"})
    done = world.cli("--eval", json.dumps(ECHO))
    assert done.code == 3, done.err
    sql = "SELECT exit_code FROM hook_invocations WHERE hook_event='PreToolUse' AND tool_name='Bash' ORDER BY id DESC"
    assert world.rows(sql) == [(2,)]
    sql = "SELECT payload_json FROM transcript_entries WHERE entry_type='tool_result' ORDER BY sequence DESC LIMIT 1"
    assert '"is_error":true' in world.rows(sql)[0][0]
    assert world.cli("receipt", "verify").code == 0


# ------------------------------------------------------------------ hooks that misbehave

BAD: list[tuple[str, Hook, int, str, int]] = [
    # what it does, the exit code in its row (-1: none), what its row says, how the call ends
    ("exits 1", hook("echo oops >&2; exit 1"), 1, "oops", 0),
    ("exits 127", hook("no-such-program-at-all"), 127, "not found", 0),
    ("is killed", hook("kill -9 $$"), -9, "", 0),
    ("hangs", hook("sleep 60", timeout=0.3), -1, "did not end within 0.3 s", 3),
    ("hangs and holds on", hook("trap '' TERM; sleep 60 & wait; sleep 60", timeout=0.3), -1, "did not end", 3),
    ("prints 10 MB", hook("head -c 10000000 /dev/zero | tr '\\0' x"), 0, "", 0),
    ("prints 10 MB of JSON", hook("printf '{\"a\":\"'; head -c 10000000 /dev/zero | tr '\\0' x"), 0, "", 0),
    ("prints broken JSON", hook("echo '{broken'"), 0, "", 0),
    ("prints async JSON", hook("echo '{\"async\": true}'"), 0, "", 0),
    ("prints async JSON and blocks", hook("echo '{\"async\": true}'; echo no >&2; exit 2"), 2, "no", 3),
    ("prints no UTF-8", hook("printf '\\377\\376'; exit 1"), 1, "", 0),
    ("closes its input", hook("exec 0<&-; exit 0"), 0, "", 0),
    ("is no program", {"hooks": [{"type": "command", "command": "/no/such/file", "args": []}]}, -1, "not started", 0),
    ("has no shell", hook("x", shell="powershell"), -1, "not started", 0),
    ("has no name that is there", {"name": "nowhere"}, -1, "not started", 0),
]


@pytest.mark.parametrize(("entry", "exit_code", "said", "code"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_a_hook_that_misbehaves(world: World, entry: Hook, exit_code: int, said: str, code: int) -> None:
    user(world, PreToolUse=[entry])
    done = world.cli("--eval", json.dumps({"tool": "LS", "input": {"path": "."}}))
    assert done.code == code, done.err
    assert "Traceback" not in done.err
    ((found, stderr, stdout),) = rows(world, "exit_code, stderr_text, stdout_text")
    assert found == (None if exit_code == -1 else exit_code)
    assert said in stderr
    assert len(stdout) <= 4_194_304 + 30
    assert ("[SDLC_OUTPUT_TRUNCATED]" in stdout) == (len(stdout) > 4_000_000)
    assert len(world.receipts()) == 1


def test_a_hook_whose_folder_is_gone_is_not_started(world: World) -> None:
    gone = world.workspace / "gone"
    gone.mkdir()
    user(world, PostToolUse=[hook(f"rmdir {gone}", "Bash")], PreToolUse=[hook("echo ran > ../marker", "Read")])
    world.script(call("Bash", command="cd gone && ls"), call("Read", file_path="x"), text("done"))
    done = world.agent("go", "--profile", "sandboxed")
    assert "Traceback" not in done.err
    ((code, said),) = world.rows("SELECT exit_code, stderr_text FROM hook_invocations WHERE hook_event = 'PreToolUse'")
    assert code is None, "the shell stayed in the folder that its hook removed"
    assert "is not there" in said
    assert not (world.workspace / "marker").exists()


def test_nothing_that_a_hook_starts_outlives_it(world: World) -> None:
    mark = world.workspace / "alive"
    started = f"(setsid sh -c 'while :; do date +%N > {mark}; sleep 0.05; done' >/dev/null 2>&1 &); sleep 0.3"
    user(world, PreToolUse=[hook(started)])
    assert world.cli("--eval", json.dumps({"tool": "LS", "input": {"path": "."}})).code == 0
    assert mark.exists()
    before = mark.read_text()
    time.sleep(0.4)
    assert mark.read_text() == before


def test_the_emergency_stop_ends_a_hook_at_once(world: World) -> None:
    user(world, PreToolUse=[hook("touch began; sleep 60")])
    process = world.cli.start("--eval", json.dumps({"tool": "LS", "input": {"path": "."}}), cwd=world.workspace)
    _await(world.workspace / "began")
    began = time.monotonic()
    assert world.cli("estop").code == 0
    process.communicate(timeout=20)
    assert time.monotonic() - began < 10
    assert rows(world, "exit_code, stderr_text") == [(None, "killed by the emergency stop")]


def test_an_interrupted_hook_leaves_its_row_and_the_call_its_receipt(world: World) -> None:
    user(world, PreToolUse=[hook("touch began; sleep 60")])
    process = world.cli.start("--eval", json.dumps({"tool": "LS", "input": {"path": "."}}), cwd=world.workspace)
    _await(world.workspace / "began")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 143
    assert rows(world, "exit_code, stderr_text") == [(None, "interrupted before it ended")]
    assert [receipt["status"] for receipt in world.receipts()] == ["denied"]


def _await(path: Path) -> None:
    for _ in range(400):
        if path.exists():
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} did not come")


# ------------------------------------------------------------------ before a call


def test_the_gate_judges_what_a_hook_rewrote(world: World) -> None:
    user(world, PreToolUse=[hook(arm("PreToolUse", permissionDecision="allow", updatedInput={"path": "/etc"}))])
    done = world.cli("tool", "run", "LS", "--json", '{"path": "."}')
    assert done.code == 3, done.err
    assert "/etc is forbidden" in done.err


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ({"path": "sub"}, 0, "inside.txt"),
        ({"nonsense": 1}, 1, "a hook rewrote the input"),
        ({"path": "."}, 0, "sub"),
    ],
)
def test_a_hook_may_rewrite_the_input(world: World, given: Hook, code: int, said: str) -> None:
    (world.workspace / "sub").mkdir()
    (world.workspace / "sub" / "inside.txt").write_text("x")
    user(world, PreToolUse=[hook(arm("PreToolUse", updatedInput=given))])
    done = world.cli("--eval", json.dumps({"tool": "file_list", "input": {"path": "."}}))
    assert done.code == code, done.err
    assert said in done.out + done.err


VERDICTS = [
    # what the hook says, the autonomy, what the operator would answer, how it ends
    ("allow", "supervised", "n\n", True),
    ("ask", "full", "n\n", False),
    ("ask", "full", "y\n", True),
    ("deny", "full", "y\n", False),
]


@pytest.mark.parametrize(("verdict", "autonomy", "stdin", "written"), VERDICTS)
def test_x50_a_hooks_verdict_is_one_judge_of_several(
    world: World, verdict: str, autonomy: str, stdin: str, written: bool
) -> None:
    world.configure(autonomy)
    user(world, PreToolUse=[hook(arm("PreToolUse", permissionDecision=verdict), "Write")])
    world.script(call("Write", file_path="a.txt", content="x"), text("done"))
    world.agent("go", stdin=stdin)
    assert (world.workspace / "a.txt").exists() == written


@pytest.mark.parametrize(
    ("rule", "stdin"), [('deny = ["Write"]', "y\n"), ('ask = ["Write"]', "n\n")], ids=["deny", "ask"]
)
def test_x50_a_hooks_allow_lifts_no_deny_and_no_ask(world: World, rule: str, stdin: str) -> None:
    world.configure("full", more=f"[permissions]\n{rule}")
    user(world, PreToolUse=[hook(arm("PreToolUse", permissionDecision="allow"))])
    world.script(call("Write", file_path="a.txt", content="x"), text("done"))
    world.agent("go", stdin=stdin)
    assert not (world.workspace / "a.txt").exists()


def test_d55_what_follows_a_refusal_is_skipped_and_recorded(world: World) -> None:
    user(
        world,
        PreToolUse=[
            hook("true", "LS"),
            hook("true", "Bash"),
            hook("echo first >&2; exit 2", "LS"),
            hook("touch ran", "LS"),
            hook("touch ran", "*"),
        ],
    )
    done = world.cli("--eval", json.dumps({"tool": "LS", "input": {"path": "."}}))
    assert done.code == 3
    assert "[2] first" in done.err
    assert rows(world, "hook_ordinal, exit_code, skipped_reason") == [
        (0, 0, None),
        (2, 2, None),
        (3, None, "prior_block_or_deny"),
        (4, None, "prior_block_or_deny"),
    ]
    assert not (world.workspace / "ran").exists()


def test_200_hooks_on_one_call_keep_their_order(world: World) -> None:
    user(world, PreToolUse=[hook(f"echo {number} >> order", "LS", shell="sh") for number in range(200)])
    done = world.cli("--eval", json.dumps({"tool": "LS", "input": {"path": "."}}), timeout=120)
    assert done.code == 0, done.err
    wanted = list(range(200))
    assert list(map(int, (world.workspace / "order").read_text().split())) == wanted
    assert [row[0] for row in rows(world, "hook_ordinal")] == wanted


def test_hooks_that_are_the_same_run_once_where_they_stand_together(world: World) -> None:
    same, other = hook("echo a >> order", "LS"), hook("echo b >> order", "LS")
    user(world, PreToolUse=[same, same, other, same])
    assert world.cli("--eval", json.dumps({"tool": "LS", "input": {"path": "."}})).code == 0
    assert (world.workspace / "order").read_text().split() == ["a", "b", "a"]
    assert [row[0] for row in rows(world, "hook_ordinal")] == [0, 1, 2]


@pytest.mark.parametrize(
    ("condition", "runs"),
    [("Bash(echo *)", True), ("Bash(git *)", False), ("Read(*.env)", False), ("Bash", True), ("((", True)],
)
def test_if_conditions_are_permission_rules(world: World, condition: str, runs: bool) -> None:
    user(world, PreToolUse=[hook("true", "Bash", **{"if": condition})])
    assert world.cli("--eval", json.dumps(ECHO)).code == 0
    assert rows(world, "exit_code, skipped_reason") == [(0, None) if runs else (None, "if_condition")]


# ------------------------------------------------------------------ what a hook is told


def test_d63_d64_what_a_hook_is_told(world: World) -> None:
    user(world, PreToolUse=[hook("cat > in.json; env > env.txt; pwd > cwd.txt", "LS")])
    extra = {"MY_OWN": "kept", "LANG": "", "LC_ALL": ""}
    assert world.cli("tool", "run", "file_list", "--json", '{"path": "."}', env=extra).code == 0
    raw = (world.workspace / "in.json").read_bytes()
    assert raw.endswith(b"}\n")
    assert not raw.endswith(b"\n\n")
    given = json.loads(raw)
    assert (given["hook_event_name"], given["tool_name"], given["tool_input"]) == ("PreToolUse", "LS", {"path": "."})
    assert given["runtime_db_path"] == str(world.database)
    assert given["cwd"] == str(world.workspace) == (world.workspace / "cwd.txt").read_text().strip()
    assert "transcript_path" not in given
    env = dict(line.split("=", 1) for line in (world.workspace / "env.txt").read_text().splitlines() if "=" in line)
    assert env["MY_OWN"] == "kept"
    assert (env["SDLC_HOOK"], env["AGENT_SDLC_DB"]) == ("1", str(world.database))
    assert env["CLAUDE_PROJECT_DIR"] == str(world.workspace)
    assert env["LANG"] == "C.UTF-8"


def test_t13_secrets_in_a_hooks_output_are_not_stored(world: World) -> None:
    user(
        world,
        PreToolUse=[hook("printf sk-ant-api03-; printf 'a%.0s' {1..40}; echo key=$ANTHROPIC_API_KEY >&2; exit 2")],
    )
    world.configure(more='[providers.models.cloud]\nkind = "anthropic"\nmodel = "m"')
    done = world.cli(
        "--eval", json.dumps({"tool": "LS", "input": {"path": "."}}), env={"ANTHROPIC_API_KEY": "very-secret-value"}
    )
    assert done.code == 3
    stored = json.dumps(rows(world, "stdout_text, stderr_text, input_json"))
    assert "aaaaaaaaaa" not in stored
    assert "very-secret-value" not in stored + done.err + json.dumps(world.entries("tool_result"))


# ------------------------------------------------------------------ a whole turn


def test_a_turn_fires_its_events_in_order(world: World) -> None:
    say = "cat >> events; echo >> events"
    events = (
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "PostToolUseFailure",
        "Stop",
        "SessionEnd",
    )
    user(world, **{event: [hook(say)] for event in (*events, "SessionEnd")})
    world.script(call("LS", path="."), call("Read", file_path="missing"), text("done"))
    done = world.agent("hello")
    assert done.code == 0, done.err
    lines = [json.loads(line) for line in (world.workspace / "events").read_text().split("\n") if line]
    assert [line["hook_event_name"] for line in lines] == [
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "PreToolUse",
        "PostToolUseFailure",
        "Stop",
        "SessionEnd",
    ]
    assert lines[0]["source"] == "startup"
    assert lines[1]["prompt"] == "hello"
    assert "tool_response" in lines[3]
    assert lines[5]["error"]
    assert (lines[6]["stop_hook_active"], lines[6]["last_assistant_message"]) == (False, "done")
    assert lines[7]["reason"] == "other"


def test_context_reaches_the_model_and_survives_in_the_transcript(world: World) -> None:
    user(
        world,
        SessionStart=[hook("echo start-context")],
        UserPromptSubmit=[hook("echo prompt-context")],
        PreToolUse=[hook(arm("PreToolUse", additionalContext="before-context"))],
        PostToolUse=[hook("echo after-words >&2; exit 2")],
    )
    world.script(call("LS", path="."), text("done"))
    assert world.agent("hello").code == 0
    (message,) = world.entries("user")
    assert [block["text"].split("\n")[0] for block in message["content"]] == [
        "hello",
        '<hook event="SessionStart">',
        '<hook event="UserPromptSubmit">',
    ]
    (result,) = world.entries("tool_result")
    assert "before-context" in result["content"]
    assert "[3] after-words" in result["content"]
    assert result["is_error"] is False


def test_a_refused_message_leaves_no_trace(world: World) -> None:
    user(world, UserPromptSubmit=[hook("echo not today >&2; exit 2")])
    world.script(text("never"))
    done = world.agent("secret plan")
    assert done.code == 3
    assert "not today" in done.err
    assert world.entries("user") == []


def test_a_stop_hook_sends_the_model_back_but_not_for_ever(world: World) -> None:
    user(world, Stop=[hook("cat >> stops; echo >> stops; echo go on >&2; exit 2")])
    world.script(*(text(f"answer {number}") for number in range(9)))
    done = world.agent("hello")
    assert done.code == 0, done.err
    assert done.out.strip() == "answer 8"
    active = [
        json.loads(line)["stop_hook_active"] for line in (world.workspace / "stops").read_text().split("\n") if line
    ]
    assert active == [False] + [True] * 8


def test_a_hook_may_end_the_turn(world: World) -> None:
    user(world, PostToolUse=[hook(output(**{"continue": False, "stopReason": "enough for today"}))])
    world.script(call("LS", path="."), text("never"))
    done = world.agent("hello")
    assert done.code == 3
    assert "enough for today" in done.err


REQUESTS = [
    ({"behavior": "allow"}, True),
    ({"behavior": "deny", "message": "not here"}, False),
    ({"behavior": "allow", "updatedInput": {"file_path": "b.txt", "content": "y"}}, False),
]


@pytest.mark.parametrize(("decision", "written"), REQUESTS)
def test_a_permission_request_hook_may_answer(world: World, decision: Hook, written: bool) -> None:
    user(
        world,
        PermissionRequest=[hook(arm("PermissionRequest", decision=decision))],
        Notification=[hook("touch asked")],
        PermissionDenied=[hook("touch refused")],
    )
    world.script(call("Write", file_path="a.txt", content="x"), text("done"))
    world.agent("go", stdin="")
    assert (world.workspace / "a.txt").exists() == written
    assert (world.workspace / "b.txt").exists() == ("updatedInput" in decision)
    assert not (world.workspace / "asked").exists(), "nobody was asked"


def test_the_operator_is_notified_and_a_denial_is_told(world: World) -> None:
    retry = arm("PermissionDenied", retry=True)
    user(world, Notification=[hook("cat > asked", "permission_prompt")], PermissionDenied=[hook(retry, "Write")])
    world.script(call("Write", file_path="a.txt", content="x"), text("done"))
    world.agent("go", stdin="n\n")
    assert json.loads((world.workspace / "asked").read_text())["notification_type"] == "permission_prompt"
    assert "may be tried again" in world.entries("tool_result")[0]["content"]


def test_x29_a_model_that_fails_fires_stop_failure(world: World) -> None:
    world.configure(more='[providers.models.cloud]\nkind = "anthropic"\nmodel = "m"')
    user(world, StopFailure=[hook("cat > failed", "authentication_failed"), hook("touch wrong", "rate_limit")])
    done = world.agent("hello", "--provider", "cloud")
    assert done.code == 1
    assert json.loads((world.workspace / "failed").read_text())["error"] == "authentication_failed"
    assert not (world.workspace / "wrong").exists()


# ------------------------------------------------------------------ where hooks come from, and whether they count


@pytest.mark.parametrize("how", ["variable", "setting"])
def test_d59_hooks_can_be_switched_off_and_that_is_recorded(world: World, how: str) -> None:
    user(world, PreToolUse=[hook("touch ran; exit 2")])
    if how == "setting":
        world.configure(more="disableAllHooks = true")
        toml = world.cli.data / "config.toml"
        toml.write_text("disableAllHooks = true\n" + toml.read_text().replace("disableAllHooks = true", ""))
    env = {"SDLC_DISABLE_ALL_HOOKS": "1"} if how == "variable" else {}
    assert world.cli("--eval", json.dumps({"tool": "LS", "input": {"path": "."}}), env=env).code == 0
    assert not (world.workspace / "ran").exists()
    assert rows(world, "exit_code, skipped_reason") == [(None, "disabled")]


def test_a_projects_hooks_wait_for_trust(world: World) -> None:
    folder = world.workspace / ".adderclaw"
    folder.mkdir()
    (folder / "settings.json").write_text(
        json.dumps({"disableAllHooks": True, "hooks": {"PreToolUse": [hook("touch project")]}})
    )
    user(world, PreToolUse=[hook("touch own")])
    request = json.dumps({"tool": "LS", "input": {"path": "."}})
    run = world.cli("--eval", request, cwd=world.workspace)
    assert run.code == 0, run.err
    assert (world.workspace / "own").exists(), "a project cannot switch the operator's hooks off"
    assert not (world.workspace / "project").exists()
    assert rows(world, "skipped_reason") == [(None,), ("untrusted_workspace",)]
    listed = json.loads(world.cli("hooks", "list", "--output-format", "json", cwd=world.workspace).out)
    assert [entry["state"] for entry in listed] == ["active", "not trusted"]
    assert world.cli("trust", str(world.workspace)).code == 0
    assert world.cli("--eval", request, cwd=world.workspace).code == 0
    assert (world.workspace / "project").exists()


def test_settings_of_the_reference_product_load_as_they_are(world: World) -> None:
    settings = {
        "$schema": "https://json.schemastore.org/claude-code-settings.json",
        "model": "opus",
        "env": {"A": "b"},
        "includeCoAuthoredBy": False,
        "permissions": {"allow": ["Bash(ls *)"], "deny": ["Read(./.env)"], "disableAutoMode": "disable"},
        "hooks": {
            "PreToolUse": [
                {"matcher": "Edit|Write", "hooks": [{"type": "command", "command": "true", "timeout": 10}]},
                {"hooks": [{"type": "command", "command": "true", "async": True, "statusMessage": "x"}]},
            ],
            "PostToolBatch": [{"hooks": [{"type": "prompt", "prompt": "fine?"}]}],
            "Stop": [{"hooks": [{"type": "http", "url": "http://127.0.0.1:9/", "headers": {"X": "$A"}}]}],
        },
    }
    (world.cli.data / "settings.json").write_text(json.dumps(settings))
    done = world.cli("hooks", "list", "--output-format", "json")
    assert done.code == 0, done.err
    assert [(entry["event"], entry["type"]) for entry in json.loads(done.out)] == [
        ("PreToolUse", "command"),
        ("PreToolUse", "command"),
        ("PostToolBatch", "prompt"),
        ("Stop", "http"),
    ]
    validated = world.cli("config", "validate")
    assert validated.code == 0
    assert (
        "no effect here: $schema, model, env, includeCoAuthoredBy, permissions.disableAutoMode"
        in validated.err + validated.out
    )


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"PreToolUse2": []}, ""),
        ({"PretoolUse": [hook("x")]}, "PreToolUse"),
        ({"PreToolUse": [{"hooks": [{"type": "shell", "command": "x"}]}]}, "type"),
        ({"PreToolUse": [{"hooks": [{"type": "command"}]}]}, "command"),
        ({"PreToolUse": [hook("x", shell="fish")]}, "shell"),
        ({"PreToolUse": [hook("x", timeout=-1)]}, "timeout"),
        ({"PreToolUse": [hook("x", timeout=True)]}, "timeout"),
        ({"PreToolUse": ["../evil"]}, "name"),
    ],
)
def test_a_hook_that_is_none_is_refused(world: World, entry: Hook, said: str) -> None:
    (world.cli.data / "settings.json").write_text(json.dumps({"hooks": entry}))
    done = world.cli("hooks", "list")
    assert (done.code, said in done.err) == ((2, True) if said else (0, True)), done.err


def test_a20_named_validators(world: World) -> None:
    folder = world.cli.data / "hooks"
    folder.mkdir()
    validator = folder / "custom-validator"
    validator.write_text("#!/bin/sh\necho refused by name >&2\nexit 2\n")
    validator.chmod(0o755)
    user(world, PreToolUse=["BashSecurity", "custom-validator"])
    done = world.cli("--eval", json.dumps(ECHO))
    assert done.code == 3
    assert "[0] refused by name" in done.err
    assert len(rows(world)) == 1, "what the gate is, is no hook"


# ------------------------------------------------------------------ by hand


def test_hooks_test_runs_the_chain_and_shows_the_merge(world: World) -> None:
    user(world, PreToolUse=[hook('echo \'{"systemMessage": "seen"}\''), hook("echo never >&2; exit 2", "Bash")])
    fields = json.dumps({"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "x"})
    done = world.cli("hooks", "test", "PreToolUse", "--json", fields, "--output-format", "json")
    assert done.code == 3, done.err
    said = json.loads(done.out)
    assert [row["exit_code"] for row in said["invocations"]] == [0, 2]
    assert (said["merged"]["blocked"], said["merged"]["reason"]) == (True, "[1] never")
    assert said["merged"]["messages"] == ["seen"]
    assert not world.database.exists(), "trying writes nothing"
    assert "[1]" in world.cli("hooks", "test", "PreToolUse", "--json", fields).out


@pytest.mark.parametrize(("event", "given"), [("Nope", "{}"), ("Stop", "{}"), ("Stop", '{"x": 1}'), ("Stop", "[]")])
def test_hooks_test_refuses_what_is_no_event(world: World, event: str, given: str) -> None:
    done = world.cli("hooks", "test", event, "--json", given)
    assert done.code == 2
    assert "Traceback" not in done.err


def test_explain_runs_hooks_only_if_asked_to(world: World) -> None:
    user(world, PreToolUse=[hook("touch ran; echo by hook >&2; exit 2")])
    given = ("tool", "explain", "LS", "--json", '{"path": "."}', "--output-format", "json")
    assert json.loads(world.cli(*given).out)["verdict"] == "allow"
    assert not (world.workspace / "ran").exists()
    verdict = json.loads(world.cli(*given, "--hooks").out)
    assert (verdict["verdict"], verdict["by"]) == ("deny", "hook")
    assert "by hook" in next(opinion["reason"] for opinion in verdict["opinions"] if opinion["by"] == "hook")


def test_d36_the_order_of_the_rows_can_be_checked(world: World) -> None:
    user(world, PreToolUse=[hook("true"), hook("exit 2"), hook("true && true")])
    world.cli("--eval", json.dumps({"tool": "LS", "input": {"path": "."}}))
    script = Path(__file__).resolve().parents[2] / "scripts" / "verify_hook_order.py"
    checked = subprocess.run(["python3", str(script), str(world.database)], capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    with sqlite3.connect(world.database) as connection:
        connection.execute("UPDATE hook_invocations SET hook_ordinal = 7 WHERE hook_ordinal = 0")
    checked = subprocess.run(["python3", str(script), str(world.database)], capture_output=True, text=True, timeout=60)
    assert checked.returncode == 1
    assert "ordinal" in checked.stdout


def test_async_hooks_run_beside_the_turn_and_have_no_say(world: World) -> None:
    user(world, PreToolUse=[hook("touch began; exit 2", "", **{"async": True}), hook("sleep 0.5")])
    assert world.cli("--eval", json.dumps({"tool": "LS", "input": {"path": "."}})).code == 0
    assert (world.workspace / "began").exists()
    assert sorted(row[0] for row in rows(world, "exit_code")) == [0, 2]
