"""What a hook answers changes what happens next, and what it is told has the specified names: seen from outside."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from tests.acceptance.test_hooks import arm, hook, user
from tests.acceptance.world import World, call, text
from tests.scripted import ScriptedModel

SERVER = Path(__file__).parents[1] / "tools" / "mcp" / "a_server.py"


def test_session_start_names_the_model_that_the_request_names(world: World) -> None:
    user(world, SessionStart=[hook("cat > started.json")])
    with ScriptedModel([{"text": "hello"}]) as model:
        entry = f'kind = "openai-compatible"\nbase_url = "{model.base_url}"\nmodel = "sold-as-this"\n'
        world.configure(more=f"[providers.models.remote]\n{entry}")
        assert world.agent("hi", "--provider", "remote").code == 0
    (request,) = model.requests
    told = json.loads((world.workspace / "started.json").read_text())
    assert told["model"] == request.json["model"] == "sold-as-this"


def test_session_start_may_begin_with_a_message(world: World) -> None:
    user(world, SessionStart=[hook(arm("SessionStart", initialUserMessage="WORDS OF THE HOOK"))])
    with ScriptedModel([{"text": "hello"}]) as model:
        entry = f'kind = "openai-compatible"\nbase_url = "{model.base_url}"\nmodel = "m"\n'
        world.configure(more=f"[providers.models.remote]\n{entry}")
        assert world.agent("hi", "--provider", "remote").code == 0
    assert "WORDS OF THE HOOK" in json.dumps(
        [one for one in model.requests[0].json["messages"] if one["role"] == "user"]
    )


def test_a_refusal_may_invite_another_try(world: World) -> None:
    user(world, PermissionDenied=[hook(arm("PermissionDenied", retry=True), "Write"), hook("true", "Edit")])
    world.configure(more='[permissions]\ndeny = ["Write", "Edit"]')
    edit = call("Edit", file_path="a.txt", old_string="x", new_string="y")
    world.script(call("Write", file_path="a.txt", content="x"), edit, text("done"))
    world.agent("go")
    written, edited = (one["content"] for one in world.entries("tool_result"))
    assert "it may be tried again" in written
    assert "it may be tried again" not in edited


def test_a_hook_may_interrupt_where_permission_is_asked(world: World) -> None:
    """It is told which rules would allow the call, too."""
    decision = {"behavior": "deny", "message": "stop all of it", "interrupt": True}
    answer = json.dumps({"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}})
    user(world, PermissionRequest=[hook(f"cat > asked.json; echo '{answer}'")])
    world.script(call("Bash", command="python3 -c 'print(1)'"), text("never"))
    done = world.agent("go", "--output-format", "json")
    assert "never" not in done.out
    told = json.loads((world.workspace / "asked.json").read_text())
    assert {"tool_name", "tool_input", "permission_suggestions"} <= set(told)
    (suggested,) = told["permission_suggestions"]
    assert (suggested["type"], suggested["behavior"]) == ("addRules", "allow")
    assert suggested["rules"][0]["toolName"] == "Bash"


def test_a_hook_may_replace_what_a_servers_tool_returned(world: World, needs: Callable[[str], str]) -> None:
    needs("bwrap")
    user(
        world,
        PostToolUse=[
            hook(arm("PostToolUse", updatedMCPToolOutput="ANOTHER RESULT"), "mcp__demo__echo"),
            hook(arm("PostToolUse", updatedMCPToolOutput="ANOTHER RESULT"), "LS"),
        ],
    )
    table = f'[mcp_servers.demo]\ncommand = "{sys.executable}"\nargs = ["{SERVER}"]\n'
    world.configure("full", more=table)
    world.script(call("mcp__demo__echo", text="what the server said"), call("LS", path="."), text("done"))
    done = world.agent("go")
    assert done.code == 0, done.err
    replaced, listed = (one["content"] for one in world.entries("tool_result"))
    assert "ANOTHER RESULT" in replaced
    assert "what the server said" not in replaced
    assert "ANOTHER RESULT" not in listed, "only what a server returned is replaced"


def test_a_tool_hook_is_told_the_result_under_its_name(world: World) -> None:
    user(world, PostToolUse=[hook("cat > after.json")], PostToolUseFailure=[hook("cat > failed.json")])
    (world.workspace / "a.txt").write_text("THE CONTENT")
    world.script(call("Read", file_path="a.txt"), call("Read", file_path="missing"), text("done"))
    assert world.agent("go").code == 0
    after = json.loads((world.workspace / "after.json").read_text())
    assert "THE CONTENT" in json.dumps(after["tool_response"])
    failed = json.loads((world.workspace / "failed.json").read_text())
    assert "missing" in failed["error"]
    assert failed["is_interrupt"] is False
