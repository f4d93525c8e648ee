"""Hooks from the outside: configured, run, recorded; and hooks that misbehave."""

import json
import os
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


def snapshot(world: World, *hooks: Hook, **more: Any) -> None:
    """The operator's own settings row, as seed 003 §8.8.3 writes it."""
    assert world.cli("init").code == 0
    with sqlite3.connect(world.database) as connection:
        connection.execute(
            "INSERT OR REPLACE INTO settings_snapshot(scope, json, updated_at)"
            " VALUES ('effective', ?, datetime('now'))",
            (json.dumps({"hooks": hooks, **more}),),
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


def test_what_commands_show_is_what_runs_obey(world: World) -> None:
    """The operator's own row of settings counts for the commands that explain, list and show."""
    hook = {"hook_event_name": "PreToolUse", "matcher": "Bash", "command": "exit 2"}
    chosen = {"provider": "local", "model_id": "another"}
    snapshot(world, hook, permissions={"deny": ["Bash(git push *)"]}, model_config=chosen)
    explain = ("tool", "explain", "Bash", "--output-format", "json", "--json")
    push = json.loads(world.cli(*explain, '{"command": "git push origin"}').out)
    assert (push["verdict"], push["by"]) == ("deny", "permission rules")
    assert json.loads(world.cli(*explain, '{"command": "echo hi"}', "--hooks").out)["by"] == "hook"
    shown = world.cli("config", "show", "--origin").out
    assert """permissions.deny = ["Bash(git push *)"]  # settings_snapshot 'effective'""" in shown
    assert "`adderclaw config reload` drops it" in shown
    assert json.loads(world.cli("hooks", "list", "--output-format", "json").out)[0]["command"] == "exit 2"
    tried = '{"tool_name": "Bash", "tool_input": {}, "tool_use_id": "t"}'
    assert world.cli("hooks", "test", "PreToolUse", "--json", tried).code == 3
    assert "settings_snapshot row 'effective'" in world.cli("doctor").out
    listed = json.loads(world.cli("provider", "list", "--output-format", "json").out)
    assert next(row["model"] for row in listed if row["name"] == "local") == "another"
    (row,) = world.rows("SELECT json FROM settings_snapshot WHERE scope = 'effective'")
    assert json.loads(row[0])["hooks"] == [hook], "nothing that only looks changes the row"
    world.cli("config", "reload")
    assert "permissions.deny = []" in world.cli("config", "show").out
    assert world.cli("hooks", "list").out == "no hooks are configured\n"


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

BAD: list[tuple[str, Hook, int, str]] = [
    # what it does, the exit code in its row (-1: none), what its row says; the call goes on
    ("exits 1", hook("echo oops >&2; exit 1"), 1, "oops"),
    ("exits 127", hook("no-such-program-at-all"), 127, "not found"),
    ("is killed", hook("kill -9 $$"), -9, ""),
    ("prints 10 MB", hook("head -c 10000000 /dev/zero | tr '\\0' x"), 0, ""),
    ("prints broken JSON", hook("echo '{broken'"), 0, ""),
    ("prints async JSON", hook("echo '{\"async\": true}'"), 0, ""),
    ("prints no UTF-8", hook("printf '\\377\\376'; exit 1"), 1, ""),
    ("closes its input", hook("exec 0<&-; exit 0"), 0, ""),
    ("is no program", {"hooks": [{"type": "command", "command": "/no/such/file", "args": []}]}, -1, "not started"),
    ("has no shell", hook("x", shell="powershell"), -1, "not started"),
]
BLOCKING: list[tuple[str, str, Hook, int, str]] = [
    # what it does, the tool that it is about, the exit code in its row, what its row says; the call is denied
    ("hangs", "Glob", hook("sleep 60", "Glob", timeout=0.3), -1, "did not end within 0.3 s"),
    ("holds on", "Grep", hook("trap '' TERM; sleep 60 & wait; sleep 60", "Grep", timeout=0.3), -1, "did not end"),
    ("has no name that is there", "TodoWrite", {"name": "nowhere", "matcher": "TodoWrite"}, -1, "not started"),
    (
        "prints 10 MB of JSON",
        "Bash",
        hook("printf '{\"a\":\"'; head -c 10000000 /dev/zero | tr '\\0' x", "Bash"),
        0,
        "",
    ),
    ("says async and blocks", "Read", hook("echo '{\"async\": true}'; echo no >&2; exit 2", "Read"), 2, "no"),
]


def test_hooks_that_misbehave(world: World) -> None:
    user(world, PreToolUse=[{**row[1], "matcher": "LS"} for row in BAD] + [row[2] for row in BLOCKING])
    about = [(what, "LS", *rest) for what, _, *rest in BAD] + [(what, tool, *rest) for what, tool, _, *rest in BLOCKING]
    world.script(
        call("LS", path="."),
        call("Glob", pattern="*"),
        call("Grep", pattern="x"),
        call("TodoWrite", todos=[]),
        call("Bash", command="ls"),
        call("Read", file_path="x"),
        text("done"),
    )
    done = world.agent("go")
    assert (done.code, done.out) == (3, "done\n"), done.err
    assert "Traceback" not in done.err
    found = rows(world, "tool_name, exit_code, stderr_text, stdout_text")
    for (what, tool, exit_code, said), (its_tool, code, stderr, stdout) in zip(about, found, strict=True):
        assert (its_tool, code) == (tool, None if exit_code == -1 else exit_code), what
        assert said in stderr, what
        assert len(stdout) <= 4_194_304 + 30, what
        assert ("[SDLC_OUTPUT_TRUNCATED]" in stdout) == (len(stdout) > 4_000_000), what
    assert [receipt["status"] for receipt in world.receipts()] == ["allowed", *["denied"] * 5]


def test_x91_hooks_run_in_the_projects_root_wherever_the_shell_is(world: World) -> None:
    sub = world.workspace / "sub"
    sub.mkdir()
    (sub / "x").write_text("x")
    told = hook("pwd > marker; cat > told.json", "Read")
    user(world, PostToolUse=[hook(f"rm -r {sub}", "Bash")], PreToolUse=[told])
    world.script(call("Bash", command="cd sub && ls"), call("Read", file_path="x"), text("done"))
    done = world.agent("go", "--profile", "sandboxed")
    assert "Traceback" not in done.err
    assert (world.workspace / "marker").read_text() == f"{world.workspace}\n"
    stdin = json.loads((world.workspace / "told.json").read_text())
    assert (stdin["cwd"], stdin["session_cwd"]) == (str(world.workspace), str(sub))


def test_d60_a_hook_whose_folder_is_gone_is_not_started(world: World) -> None:
    away = world.workspace.with_name("away")
    user(world, PostToolUse=[hook(f"mv {world.workspace} {away}", "LS")], PreToolUse=[hook("echo ran > x", "Read")])
    world.script(call("LS", path="."), call("Read", file_path="x"), text("done"))
    done = world.agent("go")
    assert "Traceback" not in done.err
    ((code, said),) = world.rows("SELECT exit_code, stderr_text FROM hook_invocations WHERE hook_event = 'PreToolUse'")
    assert code is None
    assert "does not exist" in said
    assert not (away / "x").exists()


def test_nothing_that_a_hook_starts_outlives_it(world: World) -> None:
    mark = world.workspace / "alive"
    started = f"(setsid sh -c 'echo $$ > {mark}.new; mv {mark}.new {mark}; sleep 300' >/dev/null 2>&1 &)"
    user(world, PreToolUse=[hook(f"{started}; until [ -e {mark} ]; do sleep 0.02; done")])
    assert world.cli("--eval", json.dumps({"tool": "LS", "input": {"path": "."}})).code == 0
    for _ in range(400):
        if not _lives(int(mark.read_text())):
            return
        time.sleep(0.05)
    raise AssertionError("what the hook started is still there")


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_emergency_stop_ends_a_hook_at_once(world: World) -> None:
    user(world, PreToolUse=[hook("touch began; sleep 60")])
    process = world.cli.start("--eval", json.dumps({"tool": "LS", "input": {"path": "."}}), cwd=world.workspace)
    _await(world.workspace / "began")
    began = time.monotonic()
    assert world.cli("estop").code == 0
    process.communicate(timeout=60)
    assert time.monotonic() - began < 30
    assert rows(world, "exit_code, stderr_text") == [(None, "killed by the emergency stop")]


def test_an_interrupted_hook_leaves_its_row_and_the_call_its_receipt(world: World) -> None:
    user(world, PreToolUse=[hook("touch began; sleep 60")])
    process = world.cli.start("--eval", json.dumps({"tool": "LS", "input": {"path": "."}}), cwd=world.workspace)
    _await(world.workspace / "began")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert rows(world, "exit_code, stderr_text") == [(None, "interrupted before it ended")]
    assert [receipt["status"] for receipt in world.receipts()] == ["denied"]


def _await(path: Path) -> None:
    for _ in range(1200):
        if path.exists():
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} did not come")


# ------------------------------------------------------------------ before a call


def test_a_hook_may_rewrite_the_input_and_the_gate_judges_that(world: World) -> None:
    (world.workspace / "sub").mkdir()
    (world.workspace / "sub" / "inside.txt").write_text("x")
    allowed = arm("PreToolUse", permissionDecision="allow", updatedInput={"file_path": "/etc/passwd"})
    user(
        world,
        PreToolUse=[
            hook(allowed, "Read"),
            hook(arm("PreToolUse", updatedInput={"path": "sub"}), "LS"),
            hook(arm("PreToolUse", updatedInput={"nonsense": 1}), "Glob"),
        ],
    )
    world.script(call("Read", file_path="a.txt"), call("file_list", path="."), call("Glob", pattern="*"), text("done"))
    assert world.agent("go").code == 0
    forbidden, listed, unfit = world.entries("tool_result")
    assert "/etc/passwd is forbidden" in forbidden["content"]
    assert "inside.txt" in listed["content"]
    assert "a hook rewrote the input" in unfit["content"]
    assert [receipt["status"] for receipt in world.receipts()] == ["denied", "allowed", "failed"]


def about(file: str, verdict: str) -> Hook:
    """A hook with this verdict on writing one file."""
    return hook(arm("PreToolUse", permissionDecision=verdict), "Write", **{"if": f"Write({file})"})


def writes(*files: str) -> list[dict[str, Any]]:
    return [*(call("Write", file_path=file, content="x") for file in files), text("done")]


def test_x50_a_hooks_verdict_is_one_judge_of_several(world: World) -> None:
    world.configure("full", more='[permissions]\ndeny = ["Write(ruled-out)"]\nask = ["Write(asked-for)"]')
    user(
        world,
        PreToolUse=[
            *(about("no", "ask"), about("yes", "ask"), about("never", "deny")),
            *(about("ruled-out", "allow"), about("asked-for", "allow")),
        ],
    )
    world.script(*writes("no", "yes", "never", "ruled-out", "asked-for", "free"))
    world.agent("go", stdin="n\ny\nn\n")
    assert sorted(path.name for path in world.workspace.iterdir()) == ["free", "yes"], "an allow lifts no deny, no ask"
    by = [receipt["decision"]["by"] for receipt in world.receipts()]
    assert by == ["operator", "operator", "hook", "permission rules", "operator", "mode"]


def test_x50_a_hooks_allow_is_enough_where_the_mode_would_ask(world: World) -> None:
    user(world, PreToolUse=[about("a.txt", "allow")])
    world.script(*writes("a.txt", "b.txt"))
    world.agent("go", stdin="n\n")
    assert [path.name for path in world.workspace.iterdir()] == ["a.txt"]


def test_the_order_of_hooks_and_what_follows_a_refusal(world: World) -> None:
    """200 on one call; of adjacent ones that are the same the first; after a refusal (D-55) none."""
    same, other = hook("echo a >> same", "Glob", shell="sh"), hook("echo b >> same", "Glob", shell="sh")
    user(
        world,
        PreToolUse=[
            *(hook(f"echo {number} >> order", "LS", shell="sh") for number in range(200)),
            *(same, same, other, same),
            hook("true", "Read"),
            hook("true", "Bash"),
            hook("echo first >&2; exit 2", "Read"),
            hook("touch ran", "Read"),
            hook("touch ran", "R.*"),
        ],
    )
    world.script(call("LS", path="."), call("Glob", pattern="*"), call("Read", file_path="x"), text("done"))
    done = world.agent("go")
    assert done.code == 3, done.err
    wanted = list(range(200))
    assert list(map(int, (world.workspace / "order").read_text().split())) == wanted
    assert (world.workspace / "same").read_text().split() == ["a", "b", "a"]
    assert "[205] first" in world.entries("tool_result")[2]["content"]
    ran = rows(world, "hook_ordinal, exit_code, skipped_reason")
    assert ran[:203] == [(number, 0, None) for number in range(203)]
    assert ran[203:] == [
        (203, 0, None),
        (205, 2, None),
        (206, None, "prior_block_or_deny"),
        (207, None, "prior_block_or_deny"),
    ]
    assert not (world.workspace / "ran").exists()


def test_if_conditions_are_permission_rules(world: World) -> None:
    conditions = {"Bash(echo *)": True, "Bash(git *)": False, "Read(*.env)": False, "Bash": True, "((": True}
    user(world, PreToolUse=[hook("true", "Bash", **{"if": condition}) for condition in conditions])
    assert world.cli("--eval", json.dumps(ECHO)).code == 0
    wanted = [(0, None) if runs else (None, "if_condition") for runs in conditions.values()]
    assert rows(world, "exit_code, skipped_reason") == wanted


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


def test_a_permission_request_hook_may_answer(world: World) -> None:
    elsewhere = {"behavior": "allow", "updatedInput": {"file_path": "d.txt", "content": "y"}}
    answers: dict[str, Hook] = {
        "a.txt": {"behavior": "allow"},
        "b.txt": {"behavior": "deny", "message": "not here"},
        "c.txt": elsewhere,
    }
    user(
        world,
        PermissionRequest=[
            hook(arm("PermissionRequest", decision=answer), **{"if": f"Write({file})"})
            for file, answer in answers.items()
        ],
        Notification=[hook("touch asked")],
        PermissionDenied=[hook("touch refused")],
    )
    world.script(*writes(*answers))
    world.agent("go", stdin="")
    assert sorted(path.name for path in world.workspace.iterdir()) == ["a.txt", "d.txt"], "and nobody was asked"
    assert "not here" in world.entries("tool_result")[1]["content"]


def test_a_permission_request_hook_makes_no_raw_bash_of_a_call(world: World) -> None:
    """X-90: it is asked about each time, also where a hook rewrites what it allows."""
    world.configure(security='raw_bash = "ask"')
    raw = {"behavior": "allow", "updatedInput": {"command": "umask 022; touch made"}}
    user(world, PermissionRequest=[hook(arm("PermissionRequest", decision=raw), "Bash")])
    world.script(call("Bash", command="touch a.txt"), text("done"))
    done = world.agent("go", stdin="n\n")
    assert "umask 022" in done.err
    assert not (world.workspace / "made").exists()


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
    world.script(call("LS", path="."), call("Read", file_path=str(world.cli.data / "receipt.key")), text("done"))
    world.cli("agent", "-m", "go", env=env)
    assert not (world.workspace / "ran").exists()
    assert rows(world, "exit_code, skipped_reason") == [(None, "disabled")] * 2
    statuses = [receipt["status"] for receipt in world.receipts()]
    assert statuses == ["allowed", "denied"], "the baseline is no hook, and cannot be switched off"


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
            "Stop": [
                {"hooks": [{"type": "http", "url": "http://127.0.0.1:9/", "headers": {"X": "$A"}}]},
                {"matcher": ".*", "hooks": [{"type": "command", "command": "true"}]},
            ],
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
        ("Stop", "command"),
    ]
    assert [entry["state"] for entry in json.loads(done.out)] == [*["active"] * 4, "never runs"]
    assert "hook 4 never runs: Stop does not use matchers" in world.cli("hooks", "list").err
    made = world.cli("--eval", json.dumps(ECHO))
    assert (made.code, "never runs: Stop does not use matchers" in made.err) == (0, True), "a session says it"
    validated = world.cli("config", "validate")
    assert validated.code == 0
    assert (
        "no effect here: $schema, model, includeCoAuthoredBy, permissions.disableAutoMode"
        in validated.err + validated.out
    )


def test_hooks_that_are_none_are_refused_all_at_once(world: World) -> None:
    wrong: list[Any] = [
        {"hooks": [{"type": "shell", "command": "x"}]},
        {"hooks": [{"type": "command"}]},
        hook("x", shell="fish"),
        hook("x", timeout=-1),
        hook("x", timeout=True),
        "../evil",
    ]
    entries = {"Nowhere": [], "PretoolUse": [hook("x")], "PreToolUse": wrong}
    (world.cli.data / "settings.json").write_text(json.dumps({"hooks": entries}))
    done = world.cli("hooks", "list")
    assert done.code == 2
    places = ["[0].hooks[0].type", "[1].hooks[0].command", "[2].hooks[0].shell", "[3].hooks[0].timeout"]
    for place in (*places, "[4].hooks[0].timeout", "[5].name"):
        assert f"hooks.PreToolUse{place}" in done.err, done.err
    assert "PretoolUse" in done.err
    assert "did you mean" in done.err
    assert "Nowhere" not in done.err, "a name with no hook asks for nothing"


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


def test_a_hook_without_its_file_is_named_at_trust_at_the_start_and_by_doctor(world: World) -> None:
    folder = world.workspace / ".adderclaw"
    folder.mkdir()
    check = {"matcher": "Write", "hooks": [{"type": "command", "command": "./checks/after.sh"}]}
    hooks = {"PreToolUse": ["custom-validator"], "PostToolUse": [check]}
    (folder / "agent.json").write_text(json.dumps({"hooks": hooks}))
    own = folder / "hooks" / "custom-validator"
    missing = (
        f"the validator 'custom-validator' does not exist: create {world.cli.data}/hooks/custom-validator or {own}"
    )
    script = "./checks/after.sh does not exist"
    trusted = world.cli("trust", str(world.workspace))
    assert trusted.code == 0
    assert missing in trusted.err
    assert script in trusted.err
    warned = json.loads(world.cli("trust", "--show", str(world.workspace), "--output-format", "json").out)["warnings"]
    assert [missing in warned[0], script in warned[1]] == [True, True]
    doctor = json.loads(world.cli("doctor", "--output-format", "json").out)["checks"]
    states = {check["detail"]: check["state"] for check in doctor if check["name"] == "hooks"}
    assert [state for detail, state in states.items() if missing in detail] == ["broken"]
    assert [state for detail, state in states.items() if script in detail] == ["warning"]
    done = world.cli("--eval", json.dumps(ECHO))
    assert done.code == 3
    assert done.err.count(missing) == 2, "when the session begins, and where the call is denied"
    own.parent.mkdir()
    own.write_text("#!/bin/sh\nexit 0\n")
    world.cli("trust", str(world.workspace))
    assert f"{own} is not executable: chmod +x {own}" in world.cli("--eval", json.dumps(ECHO)).err
    own.chmod(0o755)
    assert world.cli("--eval", json.dumps(ECHO)).code == 0
    assert missing not in world.cli("trust", str(world.workspace)).err


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


RECORDED = """
import os, sqlite3, time
rows = []
while not rows:
    time.sleep(0.02)
    with sqlite3.connect(os.environ["AGENT_SDLC_DB"]) as connection:
        rows = connection.execute("SELECT * FROM hook_invocations WHERE exit_code = 2").fetchall()
"""


def test_async_hooks_run_beside_the_turn_and_have_no_say(world: World) -> None:
    waits = hook(f"python3 -c '{RECORDED}'", timeout=60)
    user(world, PreToolUse=[hook("touch began; exit 2", "", **{"async": True}), waits])
    assert world.cli("--eval", json.dumps({"tool": "LS", "input": {"path": "."}})).code == 0
    assert (world.workspace / "began").exists()
    assert sorted(row[0] for row in rows(world, "exit_code")) == [0, 2]


def test_a_hook_that_prints_async_first_holds_up_nothing(world: World) -> None:
    beside = world.workspace.parent / "beside"
    beside.mkdir()
    says = 'echo \'{"async": true, "asyncTimeout": 60000}\''
    waits = hook(f"python3 -c '{RECORDED}'", "Glob", timeout=60)
    user(
        world,
        SessionStart=[hook(f"echo $$ > {beside}/pid; {says}; exec sleep 300", "", timeout=10)],
        PostToolUse=[
            hook(f"{says}; until [ -e {beside}/go ]; do sleep 0.02; done; echo no >&2; exit 2", "LS", timeout=20),
            hook(f"touch {beside}/go", "LS"),
        ],
        PreToolUse=[waits],
    )
    world.script(call("LS", path="."), call("Glob", pattern="*"), text("done"))
    done = world.agent("go")
    assert (done.code, done.out) == (0, "done\n"), done.err
    found = world.rows(
        "SELECT hook_event, exit_code, tool_use_id IS NULL, stderr_text FROM hook_invocations ORDER BY 1, 2"
    )
    assert found == [
        ("PostToolUse", 0, 0, ""),
        ("PostToolUse", 2, 1, "no\n"),
        ("PreToolUse", 0, 0, ""),
        ("SessionStart", None, 1, "interrupted before it ended"),
    ], "both run on beside the turn: one to its end, which decides nothing, the other until the session is over"
    with pytest.raises(ProcessLookupError):
        os.kill(int((beside / "pid").read_text()), 0)
    assert not world.rows("SELECT 1 FROM transcript_entries WHERE payload_json LIKE '%[0] no%'")
