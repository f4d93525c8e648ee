"""Permissions as an operator writes them and a hook changes them: what they take away, and what nothing lifts."""

import json
from typing import Any

from tests.acceptance.test_hooks import arm, hook, user
from tests.acceptance.world import World, call, text

BODIES = "[logging]\ndebug_llm_bodies = true\n"


def test_the_model_is_not_told_of_a_tool_that_is_denied_whatever_the_call_says(world: World) -> None:
    rules = '[permissions]\ndeny = ["Bash", "WebFetch(*)", "NotebookEdit", "Edit(./a.txt)"]\n'
    (world.cli.data / "policy.toml").write_text("[memory_read]\nenabled = false\n")
    world.configure("full", more=rules + BODIES)
    world.script(
        call("ToolSearch", query="notebook cells"),
        call("ToolSearch", query="select:NotebookEdit"),
        call("Bash", command="true"),
        call("Call", tool="NotebookEdit", input={"notebook_path": "a.ipynb", "new_source": "x", "edit_mode": "insert"}),
        call("Nothing"),
        call("Time"),
        text("done"),
    )
    assert world.agent("go").code == 0
    body = json.loads(next((world.cli.data / "runs").glob("*/step-0001-request.json")).read_text())
    told = {tool[0] for tool in body["tools"]}
    assert not told & {"Bash", "WebFetch", "Http", "NotebookEdit", "MemorySearch", "MemoryRead"}
    assert {"Read", "Edit", "ToolSearch", "Call"} <= told, "a rule on some calls of a tool keeps the tool"
    assert "NotebookEdit" not in json.dumps(body["tools"])
    found, selected, bash, notebook, unknown, _ = (entry["content"] for entry in world.entries("tool_result"))
    assert "notebook_path" not in found + selected
    assert "there is no tool 'NotebookEdit'" in selected
    assert "Denied by permission rules: deny rule Bash" in bash
    assert "Denied by permission rules: deny rule NotebookEdit" in notebook
    assert "Bash" not in unknown
    assert [receipt["status"] for receipt in world.receipts()][2:4] == ["denied", "denied"]


def updates(*wanted: dict[str, Any]) -> str:
    decision = {"behavior": "allow", "updatedPermissions": list(wanted)}
    return arm("PermissionRequest", decision=decision)


def test_what_a_hook_may_change_of_the_permissions(world: World) -> None:
    """One rule for directories, whoever adds them; no deny and no ask of the configuration is lifted."""
    rules = '[permissions]\nask = ["Write"]\ndeny = ["Read(secret.txt)"]\n'
    world.configure("full", more=rules)
    (world.workspace / "secret.txt").write_text("the secret words")
    beside = world.workspace.with_name("beside")
    beside.mkdir()
    (beside / "b.txt").write_text("words from beside")
    here: dict[str, Any] = {"destination": "session"}
    denied = {"rules": [{"toolName": "Read", "ruleContent": "secret.txt"}], "behavior": "deny"}
    asked = {"rules": [{"toolName": "Write"}], "behavior": "ask"}
    folders = ["/", str(world.cli.data), str(world.cli.home), str(beside / "none")]
    wanted = [
        *({"type": "addDirectories", "directories": [folder], **here} for folder in folders),
        {"type": "removeRules", **denied, **here},
        {"type": "replaceRules", **asked, "rules": [], **here},
        {"type": "replaceRules", **denied, "rules": [{"toolName": "Grep"}], "destination": "cliArg"},
        {"type": "addDirectories", "directories": [str(beside)], "destination": "localSettings"},
    ]
    user(world, PermissionRequest=[hook(updates(*wanted), "Write")])
    assert world.cli("trust", str(world.workspace)).code == 0  # the hook's text names secret.txt
    world.script(
        call("Write", file_path="a.txt", content="1"),
        call("Read", file_path="secret.txt"),
        call("Read", file_path=str(beside / "b.txt")),
        call("Grep", pattern="words"),
        call("Write", file_path="b.txt", content="2"),
        text("done"),
    )
    done = world.agent("go")
    assert done.code == 0, done.err
    assert done.err.count("holds AdderClaw's own files") == 3 * 2, "each time that the hook is asked"
    assert done.err.count("is not an existing directory, so it cannot be added") == 2
    assert "Read(secret.txt) is not removed: a session cannot remove deny" in done.err
    assert "localSettings is a project's file, which is changed by hand" in done.err
    written, secret, read, grep, again = (entry["content"] for entry in world.entries("tool_result"))
    assert "deny rule Read(secret.txt)" in secret
    assert "words from beside" in read
    assert "deny rule Grep" in grep, "what an update adds counts at once"
    assert [receipt["decision"]["by"] for receipt in world.receipts()][::4] == ["hook", "hook"], "it is asked again"
    assert not (world.workspace / ".adderclaw").exists()
    assert written
    assert again


def test_25_d110_updates_of_the_session_and_of_the_users_settings(world: World) -> None:
    """Every type of update, by the hook of a question; what goes into the user's settings counts in the next run."""
    world.configure()
    beside = world.workspace.with_name("beside")
    beside.mkdir()
    (beside / "b.txt").write_text("words from beside")
    for_now: dict[str, Any] = {"destination": "session"}
    edits = {"rules": [{"toolName": "Bash", "ruleContent": "mkdir:*"}], "behavior": "allow"}
    times = {"rules": [{"toolName": "Time"}], "behavior": "deny"}
    wanted = [
        {"type": "setMode", "mode": "acceptEdits", **for_now},
        {"type": "addRules", **times, **for_now},
        {"type": "removeRules", **times, **for_now},
        {"type": "replaceRules", "rules": [{"toolName": "Glob"}], "behavior": "deny", **for_now},
        {"type": "addDirectories", "directories": [str(beside)], **for_now},
        {"type": "addRules", **edits, "destination": "userSettings"},
    ]
    user(world, PermissionRequest=[hook(updates(*wanted), "Write")])
    world.script(
        call("Write", file_path="a.txt", content="1"),
        call("Edit", file_path="a.txt", old_string="1", new_string="2"),
        call("Bash", command="mkdir made"),
        call("Read", file_path=str(beside / "b.txt")),
        call("Glob", pattern="*"),
        text("done"),
    )
    done = world.agent("go")
    assert "Approve?" not in done.err, done.err
    by = [(receipt["status"], receipt["decision"]["by"]) for receipt in world.receipts()]
    assert by == [
        ("allowed", "mode"),  # judged again, as the update has it
        ("allowed", "mode"),
        ("allowed", "permission rules"),
        ("allowed", "mode"),
        ("denied", "permission rules"),
    ]
    user(world)
    world.script(call("Bash", command="mkdir again"), call("Glob", pattern="*"), text("done"))
    assert world.agent("go").code == 0
    assert [receipt["status"] for receipt in world.receipts()[-2:]] == ["allowed", "allowed"]
