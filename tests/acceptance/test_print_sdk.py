"""stream-json on both sides: the public SDK drives the installed program, and clients that nobody would wish for."""

import asyncio
import importlib
import json
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.world import World, call, text
from tests.program import PROGRAM
from tests.scripted import ScriptedModel

type Json = dict[str, Any]
FOLDER = Path(__file__).resolve().parents[2] / ".cache" / "agent-sdk"
BOTH = ("--output-format", "stream-json", "--input-format", "stream-json")
MAKES = call("Write", file_path="made.txt", content="hi\n")


@pytest.fixture
def sdk() -> Any:
    if not (FOLDER / "claude_agent_sdk").is_dir():
        pytest.skip("the public SDK is not there: scripts/agent-sdk brings it")
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    return importlib.import_module("claude_agent_sdk")


def on(world: World, model: ScriptedModel) -> None:
    entry = f'kind = "openai-compatible"\nbase_url = "{model.base_url}"\nmodel = "m"\n'
    world.configure(more=f"[providers.models.mine]\n{entry}")


def options(sdk: Any, world: World, **more: Any) -> Any:
    """As a program would give them; the rest of the tester's environment stays out."""
    return sdk.ClaudeAgentOptions(
        cli_path=str(PROGRAM), cwd=str(world.workspace), env=world.cli.env, model="mine", **more
    )


def until(seen: Callable[[], bool]) -> None:
    while not seen():
        time.sleep(0.01)


async def said(client: Any, message: str) -> list[Any]:
    await client.query(message)
    return [one async for one in client.receive_response()]


def talk(sdk: Any, given: Any, hold: Callable[[Any], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with asyncio.timeout(90), sdk.ClaudeSDKClient(given) as client:
            return await hold(client)

    return asyncio.run(run())


def test_10_the_public_sdk_holds_turns_with_permissions_hooks_and_an_interrupt(sdk: Any, world: World) -> None:
    """Allowed, denied, rewritten, watched by a hook, interrupted while a model thinks; and it goes on after that."""
    other = call("Write", file_path="other.txt", content="no\n")
    steps = [
        MAKES,
        text("Made."),
        other,
        text("Not made."),
        MAKES,
        text("Elsewhere."),
        {"hang": 60},
        text("Still here."),
    ]
    asked: list[tuple[str, Json]] = []
    heard: list[str] = []

    async def permit(tool: str, given: Json, _context: Any) -> Any:
        asked.append((tool, given))
        if given["file_path"] == "other.txt":
            return sdk.PermissionResultDeny(message="not that one")
        if (world.workspace / "made.txt").exists():
            return sdk.PermissionResultAllow(updated_input={"file_path": "moved.txt", "content": "elsewhere\n"})
        return sdk.PermissionResultAllow()

    async def before(given: Json, tool_use_id: str | None, _context: Any) -> Json:
        heard.append(f"{given['hook_event_name']} {given['tool_name']} {bool(tool_use_id)}")
        return {}

    async def hold(client: Any) -> None:
        first = await said(client, "make it")
        assert [type(one).__name__ for one in first] == [
            *("SystemMessage", "AssistantMessage", "UserMessage", "AssistantMessage", "ResultMessage")
        ]
        assert (first[-1].result, first[-1].is_error, first[-1].num_turns) == ("Made.", False, 2)
        denied = (await said(client, "make another"))[-1]
        assert (denied.is_error, denied.result) == (True, "Not made.")
        assert denied.permission_denials[0]["tool_input"]["file_path"] == "other.txt"
        assert (await said(client, "make it again"))[-1].result == "Elsewhere."
        await client.query("think")
        await asyncio.to_thread(until, lambda: len(model.requests) >= 7)
        await client.interrupt()
        stopped = [one async for one in client.receive_response()][-1]
        assert (stopped.subtype, stopped.is_error) == ("error_during_execution", True)
        assert (await said(client, "are you there?"))[-1].result == "Still here."

    with ScriptedModel(steps) as model:
        on(world, model)
        hooks = {"PreToolUse": [sdk.HookMatcher(matcher="Write", hooks=[before])]}
        talk(sdk, options(sdk, world, can_use_tool=permit, hooks=hooks), hold)
        refused = json.dumps(model.requests[3].messages[-1])
    assert "not that one" in refused
    assert [tool for tool, _ in asked] == ["Write"] * 3
    assert heard == ["PreToolUse Write True"] * 3
    assert (world.workspace / "made.txt").read_text() == "hi\n"
    assert (world.workspace / "moved.txt").read_text() == "elsewhere\n"
    assert not (world.workspace / "other.txt").exists()
    assert [receipt["status"] for receipt in world.receipts()] == ["allowed", "denied", "allowed"]
    assert world.rows("SELECT hook_event, command FROM hook_invocations") == [("PreToolUse", "hook_0")] * 3
    assert world.cli("receipt", "verify").code == 0
    ((run_id,),) = world.rows("SELECT run_id FROM runs")
    proof = world.cli("replay", "--verify", run_id)
    assert proof.code == 0, proof.out + proof.err


def test_10_a_hook_of_the_sdk_denies_and_rewrites(sdk: Any, world: World) -> None:
    async def guard(given: Json, _id: str | None, _context: Any) -> Json:
        name = given["tool_input"]["file_path"]
        if name == "made.txt":
            decision = {"permissionDecision": "deny", "permissionDecisionReason": "the program says no"}
        else:
            moved = {"file_path": "kept.txt", "content": "by the hook\n"}
            decision = {"permissionDecision": "allow", "updatedInput": moved}
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **decision}}

    async def hold(client: Any) -> None:
        told = await said(client, "make it")
        assert told[-1].is_error
        assert [one.hook_event_name for one in told if type(one).__name__ == "HookEventMessage"] == ["PreToolUse"]
        assert not (await said(client, "make another"))[-1].is_error

    with ScriptedModel([MAKES, text("No."), call("Write", file_path="b", content="c"), text("Yes.")]) as model:
        on(world, model)
        hooks = {"PreToolUse": [sdk.HookMatcher(hooks=[guard])]}
        talk(sdk, options(sdk, world, hooks=hooks, allowed_tools=["Read"], include_hook_events=True), hold)
        assert "the program says no" in json.dumps(model.requests[1].messages[-1])
    assert [path.name for path in world.workspace.iterdir()] == ["kept.txt"]


def test_10_a_query_of_the_sdk_with_its_own_mcp_server_and_a_schema(sdk: Any, world: World) -> None:
    @sdk.tool("weigh", "Weighs a word", {"word": str})
    async def weigh(given: Json) -> Json:
        return {"content": [{"type": "text", "text": f"{given['word']} weighs {len(given['word'])}"}]}

    shape = {"type": "object", "properties": {"grams": {"type": "integer"}}, "required": ["grams"]}

    async def run(given: Any) -> list[Any]:
        async with asyncio.timeout(90):
            return [one async for one in sdk.query(prompt="weigh it", options=given)]

    with ScriptedModel([call("mcp__scales__weigh", word="plum"), text('{"grams": 4}')]) as model:
        on(world, model)
        server = sdk.create_sdk_mcp_server("scales", tools=[weigh])
        given = options(
            sdk,
            world,
            mcp_servers={"scales": server},
            allowed_tools=["mcp__scales__weigh"],
            output_format={"type": "json_schema", "schema": shape},
            include_partial_messages=True,
            max_turns=5,
        )
        told = asyncio.run(run(given))
        assert "plum weighs 4" in json.dumps(model.requests[1].messages[-1])
    assert told[-1].structured_output == {"grams": 4}
    assert any(type(one).__name__ == "StreamEvent" for one in told)


def test_10_the_sdk_changes_mode_and_model_while_it_talks(sdk: Any, world: World) -> None:
    async def hold(client: Any) -> None:
        assert (await said(client, "make it"))[-1].is_error
        with pytest.raises(Exception, match="must be allowed at the start"):
            await client.set_permission_mode("bypassPermissions")
        await client.set_permission_mode("acceptEdits")
        await client.set_model("other")
        assert (await said(client, "make it"))[-1].result == "Yes."
        assert (await client.get_mcp_status())["mcpServers"] == []
        assert (await client.get_context_usage())["totalTokens"] > 0

    with ScriptedModel([MAKES, text("No."), MAKES, text("Yes.")]) as model:
        on(world, model)
        talk(sdk, options(sdk, world), hold)
        assert [request.json["model"] for request in model.requests] == ["m", "m", "other", "other"]
    assert (world.workspace / "made.txt").exists()


# ------------------------------------------------------------------ clients that nobody would wish for


class Client:
    """A client that writes what it likes."""

    def __init__(self, world: World, *flags: str) -> None:
        self.process = world.cli.start("-p", *BOTH, "--provider", "mine", *flags)
        self._watch = threading.Timer(90, self.process.kill)
        self._watch.start()

    def send(self, *messages: Mapping[str, Any] | bytes) -> None:
        assert self.process.stdin is not None
        for message in messages:
            self.process.stdin.write(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def user(self, said: object) -> None:
        self.send({"type": "user", "message": {"role": "user", "content": said}, "parent_tool_use_id": None})

    def answer(self, request: Json, **response: Any) -> None:
        given = {"subtype": "success", "request_id": request["request_id"], "response": response}
        self.send({"type": "control_response", "response": given})

    def next(self, kind: str) -> Json:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told: Json = json.loads(line)
            if told["type"] == kind:
                return told
        assert self.process.stderr is not None
        raise AssertionError(f"no {kind} came: {self.process.stderr.read()!r}")

    def end(self) -> tuple[int, bytes, bytes]:
        out, err = self.process.communicate(timeout=60)
        self._watch.cancel()
        return self.process.returncode, out, err


RUBBISH: Mapping[str, tuple[bytes, str]] = {
    "no JSON": (b"hello\n", "invalid JSON"),
    "no object": (b"[1]\n", "a message must be a JSON object"),
    "half a message": (b'{"type": "user"', "invalid JSON"),
    "no number": (b'{"type": NaN}\n', "NaN is not valid JSON"),
    "a type that is none": (b'{"type": "assistant"}\n', "unknown message type"),
    "no content": (b'{"type": "user"}\n', "a user message must be"),
    "a picture": (b'{"type": "user", "message": {"content": [{"type": "image"}]}}\n', "cannot be sent here"),
    "a request that is none": (b'{"type": "control_request", "request": 3}\n', "a request_id and a request"),
    "an endless line": (b'{"type": "user", "message": "' + b"x" * (100 << 20) + b'"}\n', "at most 8,388,608 bytes"),
    "deeper than one can see": (b"[" * 200_000 + b"\n", "invalid JSON"),
}


@pytest.mark.parametrize("name", RUBBISH)
def test_10_what_is_no_message_ends_the_conversation_with_the_reason(world: World, name: str) -> None:
    sent, said = RUBBISH[name]
    with ScriptedModel([text("Hello.")]) as model:
        on(world, model)
        client = Client(world)
        client.user("hi")
        assert client.next("result")["result"] == "Hello."
        client.send(sent)
        code, out, err = client.end()
    last = json.loads(out.splitlines()[-1])
    assert (code, last["is_error"]) == (2, True), err
    assert said in last["result"]
    assert "line 2" in last["result"]
    assert said.encode() in err
    assert b"Traceback" not in err


def test_10_a_callback_that_never_answers_is_interrupted(world: World) -> None:
    with ScriptedModel([MAKES, text("Here.")]) as model:
        on(world, model)
        client = Client(world, "--permission-prompt-tool", "stdio")
        client.user("make it")
        asked = client.next("control_request")
        assert asked["request"]["subtype"] == "can_use_tool"
        client.send({"type": "control_request", "request_id": "i", "request": {"subtype": "interrupt"}})
        assert client.next("control_cancel_request")["request_id"] == asked["request_id"]
        assert client.next("result")["outcome"] == "stopped"
        client.answer(asked, behavior="allow", updatedInput=asked["request"]["input"])  # too late
        client.user("are you there?")
        assert client.next("result")["result"] == "Here."
        assert client.end()[0] == 0
    assert not (world.workspace / "made.txt").exists()


ANSWERS: Mapping[str, Json] = {
    "out of the workspace": {"behavior": "allow", "updatedInput": {"file_path": "/etc/adderclaw-x", "content": ""}},
    "our own file": {"behavior": "allow", "updatedInput": {"file_path": "HOME/config.toml", "content": ""}},
    "no input of that tool": {"behavior": "allow", "updatedInput": {"path": 3}},
    "no object": {"behavior": "allow", "updatedInput": "made.txt"},
    "neither yes nor no": {"behavior": "Allow"},
    "nothing": {},
    "a mode of its own": {
        "behavior": "allow",
        "updatedPermissions": [{"type": "setMode", "mode": "bypassPermissions"}],
    },
}


@pytest.mark.parametrize("name", ANSWERS)
def test_10_an_answer_is_decoded_and_judged_like_any_other(world: World, name: str) -> None:
    given = json.loads(json.dumps(ANSWERS[name]).replace("HOME", str(world.cli.data)))
    with ScriptedModel([MAKES, text("No.")]) as model:
        on(world, model)
        kept = (world.cli.data / "config.toml").read_bytes()
        client = Client(world, "--permission-prompt-tool", "stdio")
        client.user("make it")
        client.answer(client.next("control_request"), **given)
        result = client.next("result")
        client.end()
    assert result["outcome"] != "completed" or result["permission_denials"] == []
    assert list(world.workspace.iterdir()) == []
    assert (world.cli.data / "config.toml").read_bytes() == kept
    assert not Path("/etc/adderclaw-x").exists()
    (receipt,) = world.receipts()
    assert receipt["status"] in ("denied", "failed")


def test_10_raw_bash_is_never_approved_by_a_client(world: World) -> None:
    """Not when it is asked for, nor as what another command is rewritten to."""
    raw = "eval \"$(printf 'touch raw.txt')\""
    steps = [call("Bash", command=raw), text("No."), call("Bash", command="touch plain.txt"), text("No.")]
    with ScriptedModel(steps) as model:
        on(world, model)
        client = Client(world, "--permission-prompt-tool", "stdio", "--allowedTools", "Bash")
        client.user("do it")
        assert client.next("result")["outcome"] == "denied"
        client.end()
        client = Client(world, "--permission-prompt-tool", "stdio")
        client.user("do it")
        client.answer(client.next("control_request"), behavior="allow", updatedInput={"command": raw})
        assert client.next("result")["outcome"] == "denied"
        client.end()
    assert list(world.workspace.iterdir()) == []


def test_10_a_client_that_leaves_while_it_is_asked_said_no(world: World) -> None:
    with ScriptedModel([MAKES, text("No.")]) as model:
        on(world, model)
        client = Client(world, "--permission-prompt-tool", "stdio")
        client.user("make it")
        client.next("control_request")
        assert client.process.stdin is not None
        client.process.stdin.close()
        assert client.next("result")["outcome"] == "denied"
        assert client.process.wait(60) == 0
    assert not (world.workspace / "made.txt").exists()


def test_10_a_client_that_does_not_read_holds_up_neither_the_turn_nor_its_end(world: World) -> None:
    """The turn goes on while nobody reads; a signal still ends the program."""
    long = "x" * 200_000
    with ScriptedModel([text(long), {"hang": 60}]) as model:
        on(world, model)
        client = Client(world, "--include-partial-messages")
        client.user("say much")
        client.user("and think")
        until(lambda: len(model.requests) >= 2)
        client.process.terminate()
        code, out, _ = client.end()
    assert code == 143
    ends = [json.loads(line) for line in out.splitlines() if b'"type":"result"' in line]
    assert [end["outcome"] for end in ends] == ["completed", "stopped"]


def test_10_a_hook_that_cannot_be_reached_any_more_blocks(world: World) -> None:
    hooks = {"PreToolUse": [{"matcher": "Write", "hookCallbackIds": ["guard"], "timeout": 30}]}
    with ScriptedModel([MAKES, text("No.")]) as model:
        on(world, model)
        client = Client(world, "--allowedTools", "Write")
        client.send(
            {"type": "control_request", "request_id": "a", "request": {"subtype": "initialize", "hooks": hooks}}
        )
        greeting = client.next("control_response")["response"]
        assert (greeting["subtype"], greeting["request_id"]) == ("success", "a")
        client.user("make it")
        asked = client.next("control_request")["request"]
        assert (asked["subtype"], asked["callback_id"]) == ("hook_callback", "guard")
        assert asked["input"]["tool_input"]["file_path"] == "made.txt"
        assert client.process.stdin is not None
        client.process.stdin.close()
        assert client.next("result")["outcome"] == "denied"
        client.process.wait(60)
    assert not (world.workspace / "made.txt").exists()


def test_10_what_cannot_begin_says_so_to_the_client(world: World) -> None:
    world.cli.configure("nonsense = 1\n")
    client = Client(world)
    client.send({"type": "control_request", "request_id": "a", "request": {"subtype": "initialize"}})
    code, out, err = client.end()
    (last,) = map(json.loads, out.splitlines())
    assert (code, last["type"], last["is_error"]) == (2, "result", True), err
    assert "nonsense" in last["result"]


@pytest.mark.parametrize(
    ("name", "value"), [("disallowedTools", "Bash"), ("disallowedTools", 5), ("skills", 5), ("appendSystemPrompt", 5)]
)
def test_10_a_field_of_initialize_with_another_type_is_refused(world: World, name: str, value: object) -> None:
    client = Client(world)
    begin = {"subtype": "initialize", name: value}
    client.send({"type": "control_request", "request_id": "a", "request": begin})
    code, out, err = client.end()
    (last,) = map(json.loads, out.splitlines())
    assert (code, last["is_error"]) == (2, True), err
    assert f"initialize: {name} must be " in last["result"]


def test_10_a_request_right_after_initialize_is_served_before_the_first_message(world: World) -> None:
    with ScriptedModel([text("Planned.")]) as model:
        on(world, model)
        client = Client(world)
        requests = ({"subtype": "initialize"}, {"subtype": "set_permission_mode", "mode": "plan"})
        client.send(*({"type": "control_request", "request_id": "a", "request": one} for one in requests))
        client.user("hi")
        answers = [client.next("control_response")["response"] for _ in requests]
        assert [one["subtype"] for one in answers] == ["success", "success"], answers
        assert client.next("result")["subtype"] == "success"
        client.end()
        assert "Plan mode is on" in str(model.requests[0].messages[-1])


def test_10_a_request_that_cannot_be_applied_is_refused_and_changes_nothing(world: World) -> None:
    both = {"effortLevel": "max", "permissions": {"defaultMode": "bypassPermissions"}}
    refused = [
        *({"subtype": "apply_flag_settings", "settings": settings} for settings in ("x", None, {"model": 5}, both)),
        {"subtype": "set_model", "model": ["other"]},
        {"subtype": "set_max_thinking_tokens", "max_thinking_tokens": 10**30},
    ]
    with ScriptedModel([text("Yes.")]) as model:
        on(world, model)
        client = Client(world)
        for request in [{"subtype": "initialize"}, *refused]:
            client.send({"type": "control_request", "request_id": "a", "request": request})
            answer = client.next("control_response")["response"]
            assert answer["subtype"] == ("error" if request in refused else "success"), request
        client.user("hi")
        assert client.next("result")["subtype"] == "success"
        client.end()
        sent = model.requests[0].json
    assert (sent["model"], sent.get("reasoning_effort")) == ("m", None)


def test_10_a_client_answers_questions_and_asks_for_a_shape(world: World) -> None:
    option = {"label": "Plum", "description": "a fruit"}
    questions = [
        {"question": "Which?", "header": "Fruit", "options": [option, {"label": "Pear"}], "multiSelect": False}
    ]
    with ScriptedModel([call("AskUserQuestion", questions=questions), text('{"fruit": "plum"}')]) as model:
        on(world, model)
        client = Client(world, "--permission-prompt-tool", "stdio")
        schema = {"type": "object", "required": ["fruit"]}
        begin = {"subtype": "initialize", "jsonSchema": schema, "appendSystemPrompt": "Ask first."}
        client.send({"type": "control_request", "request_id": "a", "request": begin})
        client.user("choose")
        asked = client.next("control_request")
        assert asked["request"]["tool_name"] == "AskUserQuestion"
        (question,) = asked["request"]["input"]["questions"]
        assert (question["question"], question["options"][0]) == ("Which?", option)
        answers = {"Which?": "Plum"}
        client.answer(asked, behavior="allow", updatedInput={**asked["request"]["input"], "answers": answers})
        assert client.next("result")["structured_output"] == {"fruit": "plum"}
        assert client.end()[0] == 0
        assert "Plum" in json.dumps(model.requests[1].messages[-1])
        assert "Ask first." in str(model.requests[0].messages[0]["content"])


def test_10_messages_are_said_again_where_that_is_wanted(world: World) -> None:
    with ScriptedModel([text("One."), text("Two.")]) as model:
        on(world, model)
        client = Client(world, "--replay-user-messages")
        client.user("first")
        client.user([{"type": "text", "text": "sec"}, {"type": "text", "text": "ond"}])
        assert client.next("user")["message"]["content"] == "first"
        assert client.next("result")["result"] == "One."
        assert client.next("user")["message"]["content"] == "sec\nond"
        result = client.next("result")
        assert (result["result"], result["num_turns"]) == ("Two.", 1)
        assert client.end()[0] == 0
    assert len(world.rows("SELECT 1 FROM runs")) == 1
