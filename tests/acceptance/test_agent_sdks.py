"""Both public Agent SDKs at their newest versions: each option is applied, or the client is told that it is not."""

import asyncio
import base64
import json
import re
import subprocess
from typing import Any

import pytest

from tests.acceptance.test_frames import PNG
from tests.acceptance.test_print_sdk import Client, on, options, sdk
from tests.acceptance.world import World, call, text
from tests.program import PROGRAM
from tests.scripted import ScriptedModel
from tests.tools.mcp.node import ROOT, node

__all__ = ["sdk"]

type Json = dict[str, Any]
FOLDER = ROOT / ".cache" / "agent-sdk-ts" / "node_modules"
DRIVER = ROOT / "tests" / "fixtures" / "agent_sdk.mjs"
DATA = base64.b64encode(PNG).decode()
IMAGE: Json = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}}


def typescript(world: World, scenario: Json, **given: Any) -> list[Json]:
    """What the TypeScript SDK handed to its program."""
    if not (FOLDER / "@anthropic-ai").is_dir():
        pytest.skip("the TypeScript SDK is not there: scripts/agent-sdk brings it")
    given = {
        "pathToClaudeCodeExecutable": str(PROGRAM),
        "cwd": str(world.workspace),
        "env": world.cli.env,
        "model": "mine",
        **given,
    }
    told = subprocess.run(
        [node(), str(DRIVER), str(FOLDER), json.dumps({**scenario, "options": given})],
        capture_output=True,
        check=True,
        timeout=120,
        cwd=world.workspace,
    )
    return [json.loads(line) for line in told.stdout.splitlines()]


def sees_and_thinks(world: World, model: ScriptedModel) -> None:
    entry = f'kind = "openai-compatible"\nbase_url = "{model.base_url}"\nmodel = "m"\n'
    world.configure(more=f"[providers.models.mine]\n{entry}[models.m]\nvision = true\nthinking = true\n")


def of(told: list[Json], kind: str) -> list[Json]:
    return [one for one in told if one["type"] == kind]


def without_effect(told: list[Json]) -> dict[str, str]:
    """Option → reason, of the messages about options without effect."""
    return {one["option"]: one["reason"] for one in told if one.get("subtype") == "informational"}


def test_the_typescript_sdks_prompt_servers_and_pictures_reach_the_model(world: World) -> None:
    steps = [call("mcp__mycalc__add", a=2, b=3), text("Five."), text("A dot.")]
    with ScriptedModel(steps) as model:
        sees_and_thinks(world, model)
        told = typescript(
            world,
            {"calc": {}, "name": "myCalc", "prompts": ["add", [{"type": "text", "text": "what is this?"}, IMAGE]]},
            systemPrompt="You are ZEBRA1.",
            allowedTools=["mcp__myCalc__add"],
        )
        assert "the sum is 5" in json.dumps(model.requests[1].messages)
        assert "ZEBRA1" in str(model.requests[0].messages[0]["content"])
        assert DATA in model.requests[2].body.decode()
    assert [one["result"] for one in of(told, "result")] == ["Five.", "A dot."]
    assert told[-1]["total_cost_usd"] == 0.0, "a model of this machine is free"


ANYTHING: Json = {
    "effort": "high",
    "thinking": {"type": "enabled", "budgetTokens": 4_000, "display": "summarized"},
    "betas": ["context-1m-2025-08-07"],
    "taskBudget": {"total": 5_000},
    "permissionMode": "auto",
    "persistSession": False,
    "debug": True,
    "agent": "poet",
    "agents": {"poet": {"description": "writes", "prompt": "You are a POET.", "tools": ["Read"], "memory": "user"}},
    "tools": ["Read", "Monitor"],
    "permissionPrompts": "none",
    "projectConfigRoot": "/",
    "planModeInstructions": "Plan well.",
    "toolAliases": {"Bash": "mcp__calc__bash"},
    "toolConfig": {"askUserQuestion": {"previewFormat": "html"}},
    "promptSuggestions": True,
    "agentProgressSummaries": True,
    "forwardSubagentText": True,
    "title": "A session of its own",
    "skills": ["none"],
    "settingSources": [],
    "settings": {"theme": "dark"},
    "maxTurns": 5,
    "maxBudgetUsd": 2.5,
    "includePartialMessages": True,
    "includeHookEvents": True,
    "enableFileCheckpointing": True,
    "verbatimPrompts": True,
    "strictMcpConfig": True,
    "systemPrompt": {"type": "preset", "preset": "claude_code", "append": "Be brief.", "excludeDynamicSections": True},
    "sandbox": {"enabled": True},
    "additionalDirectories": [],
    "perTaskStopAffordance": True,
    "extraArgs": {"replay-user-messages": None},
}


WITHOUT_EFFECT = {
    *("--betas", "--task-budget", "--permission-mode auto", "--no-session-persistence", "--thinking-display"),
    *("--project-config-root", "--setting-sources", "--settings (in part)", "agents.poet.memory"),
    *(f"initialize.{name}" for name in ("planModeInstructions", "toolAliases", "excludeDynamicSections")),
    *(f"initialize.{name}" for name in ("promptSuggestions", "agentProgressSummaries", "forwardSubagentText")),
    "CLAUDE_CODE_QUESTION_PREVIEW_FORMAT",
}


def test_the_typescript_sdk_is_told_of_each_option_without_effect(world: World) -> None:
    """Every ordinary option at once: the run succeeds, what can be applied is, and the rest is named."""
    with ScriptedModel([text("Hello.")]) as model:
        sees_and_thinks(world, model)
        told = typescript(world, {"calc": {}, "prompts": ["/hello"]}, **ANYTHING)
        (request,) = model.requests
    assert "POET" in str(request.messages[0]["content"])
    assert [tool["function"]["name"] for tool in request.json["tools"]] == ["Read"]
    assert request.messages[-1]["content"] == "/hello"
    assert of(told, "result")[0]["subtype"] == "success"
    assert request.json["reasoning_effort"] == "high"
    assert without_effect(told).keys() == WITHOUT_EFFECT
    assert {one["option"] for one in told[0]["options_without_effect"]} == WITHOUT_EFFECT
    assert world.rows("SELECT value FROM state WHERE key = 'title'") == [("A session of its own",)]


def test_a_client_changes_a_session_by_control_requests(world: World) -> None:
    """Each method of the TypeScript SDK's query has an effect, or fails with the reason."""
    asked = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"
    requests: list[list[Any]] = [
        ["supportedCommands"],
        ["supportedAgents"],
        ["getContextUsage"],
        ["rewindFiles", asked, {"dryRun": True}],
        ["rewindFiles", asked],
        ["toggleMcpServer", "calc", False],
        ["mcpServerStatus"],
        ["toggleMcpServer", "calc", True],
        ["reconnectMcpServer", "calc"],
        ["reconnectMcpServer", "none"],
        ["setMaxThinkingTokens", 2_000],
        ["applyFlagSettings", {"effortLevel": "low", "permissions": {"defaultMode": "acceptEdits"}}],
        ["applyFlagSettings", {"theme": "dark"}],
        ["setPermissionMode", "bypassPermissions"],
        ["setPermissionMode", "auto"],
        ["stopTask", "task-none"],
        ["setMcpServers", {}],
        ["reloadPlugins"],
    ]
    folder = world.workspace / ".adderclaw" / "skills" / "greet"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: greet\ndescription: says hello\n---\nHello.\n", encoding="utf-8")
    made = call("Write", file_path="made.txt", content="x\n")
    policy = {"tools": [{"name": "add", "permission_policy": "always_deny"}]}
    with ScriptedModel([call("mcp__calc__add", a=1, b=1), made, text("Made.")]) as model:
        on(world, model)
        told = typescript(
            world,
            {"calc": policy, "prompts": [{"content": "make it", "uuid": asked}], "requests": requests},
            permissionMode="bypassPermissions",
            allowDangerouslySkipPermissions=True,
        )
    answers: list[tuple[str, Any, str]] = [
        (one["method"], one.get("value"), one.get("error", "")) for one in of(told, "answer")
    ]
    assert len(answers) == len(requests), told
    assert [one["tool_name"] for one in of(told, "result")[0]["permission_denials"]] == ["mcp__calc__add"]
    commands, agents, context, dry, rewound, *more = answers
    assert [one["name"] for one in commands[1]] == ["greet"]
    assert {"general-purpose", "Explore", "Plan"} == {one["name"] for one in agents[1]}
    assert context[1]["totalTokens"] == sum(one["tokens"] for one in context[1]["categories"]) > 100
    assert dry[1] == rewound[1] == {"canRewind": True, "filesChanged": [str(world.workspace / "made.txt")]}
    assert not (world.workspace / "made.txt").exists()
    assert [one["status"] for one in more[1][1]] == ["disabled"]
    errors = [why for _, _, why in more]
    assert [bool(why) for why in errors] == [*[False] * 4, True, *[False] * 2, True, False, *[True] * 4]
    for why, said in zip(
        filter(None, errors), ("Configured: calc", "theme", "auto has no effect", "task-none"), strict=False
    ):
        assert said in why


def test_bypass_is_there_for_a_typescript_client_that_allowed_it_at_the_start(world: World) -> None:
    with ScriptedModel([text("Hello.")]) as model:
        on(world, model)
        change = ["setPermissionMode", "bypassPermissions"]
        told = typescript(world, {"prompts": ["hi"], "requests": [change]}, allowDangerouslySkipPermissions=True)
    assert of(told, "answer") == [{"type": "answer", "method": "setPermissionMode", "value": None}]
    assert without_effect(told) == {}


def test_the_python_sdk_is_told_of_each_option_without_effect(
    sdk: Any, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Each of them was the end of the session before; nothing else is written to stderr, `--verbose` or not."""
    lines: list[str] = []
    given = options(
        sdk,
        world,
        effort="high",
        thinking={"type": "enabled", "budget_tokens": 4_000, "display": "summarized"},
        betas=["context-1m-2025-08-07"],
        task_budget={"total": 5_000},
        permission_mode="auto",
        system_prompt={"type": "preset", "preset": "claude_code", "snapshot": True, "exclude_dynamic_sections": True},
        forward_subagent_text=True,
        client_app="shop/1.0",
        verbatim_prompts=True,
        permission_prompt_tool_name="mcp__gate__ask",
        stderr=lines.append,
    )

    async def messages() -> Any:
        yield {"type": "user", "message": {"role": "user", "content": "first"}, "shouldQuery": False}
        yield {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": "see"}, IMAGE]}}

    async def run() -> list[Any]:
        async with asyncio.timeout(90):
            return [one async for one in sdk.query(prompt=messages(), options=given)]

    with ScriptedModel([text("A dot.")]) as model:
        on(world, model)
        told = asyncio.run(run())
        content = json.dumps(model.requests[0].messages[-1])
        assert model.requests[0].json["reasoning_effort"] == "high"
    assert caplog.records == []
    assert "first" in content
    assert "see" in content
    assert [type(one).__name__ for one in told][-2:] == ["AssistantMessage", "ResultMessage"]
    assert (told[-1].is_error, told[-1].total_cost_usd) == (False, 0.0)
    named = {one.data["option"] for one in told if getattr(one, "subtype", "") == "informational"}
    assert named == {
        *("--betas", "--task-budget", "--permission-mode auto", "--thinking-display"),
        *("initialize.systemPromptSnapshot", "initialize.excludeDynamicSections", "initialize.forwardSubagentText"),
        *("CLAUDE_AGENT_SDK_CLIENT_APP", "--permission-prompt-tool", "image in a message"),
    }
    assert sum(" has no effect: " in line for line in lines) == len(named), lines
    assert not any("tool_requested" in line or "startup" in line for line in lines)


def test_a_session_that_cannot_start_tells_the_client_why(sdk: Any, world: World) -> None:
    """A guard that cannot be kept ends the start, with the reason as the result and not on stderr alone."""
    world.script(text("never"))

    async def run(**given: Any) -> list[Any]:
        async with asyncio.timeout(90):
            return [one async for one in sdk.query(prompt="hi", options=options(sdk, world, **given))]

    for given, said in (
        ({"resume": "x", "resume_session_at": "y"}, "--resume-session-at is not supported"),
        ({"extra_args": {"managed-settings": "{}"}}, "--managed-settings is not supported"),
        ({"extra_args": {"surprise": None}}, "there is no flag --surprise"),
    ):
        with pytest.raises(sdk.ResultError, match=said):
            asyncio.run(run(**given))


def test_blocks_that_no_model_can_be_sent_are_answered_with_an_error(world: World) -> None:
    """The conversation continues; documents of text reach the model in a frame."""
    document = {
        "type": "document",
        "title": "notes",
        "source": {"type": "text", "media_type": "text/plain", "data": "plum"},
    }
    with ScriptedModel([text("Plum.")]) as model:
        on(world, model)
        client = Client(world)
        for source in ({"type": "url", "url": "https://example.com/a.png"}, {**IMAGE["source"], "data": "AAAA"}):
            client.user([{"type": "image", "source": source}])
            result = client.next("result")
            assert (result["subtype"], result["is_error"]) == ("error_during_execution", True)
            assert "cannot be" in result["result"]
        client.user([{"type": "text", "text": "what is in it?"}, document])
        assert client.next("result")["result"] == "Plum."
        assert client.end()[0] == 0
        assert "plum" in json.dumps(model.requests[0].messages[-1])
        assert b"<outside-" in model.requests[0].body


def test_what_initialize_brings_counts_as_the_flags_do(world: World) -> None:
    """Servers, plugins, settings, denials, skills, none of them on the command line."""
    plugin = world.workspace.parent / "plug"
    (plugin / ".claude-plugin").mkdir(parents=True)
    manifest = {"name": "plug", "version": "1.0.0", "description": "d", "mcpServers": {"echo": {"command": "/bin/cat"}}}
    (plugin / ".claude-plugin" / "plugin.json").write_text(json.dumps(manifest), encoding="utf-8")
    for name in ("greet", "part"):
        folder = world.workspace / ".adderclaw" / "skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: says {name}\n---\nHi.\n", encoding="utf-8")
    begin: Json = {
        "subtype": "initialize",
        "mcpServers": {"cat": {"command": "/bin/cat"}},
        "plugins": [{"type": "local", "path": str(plugin), "skipMcpDiscovery": True}],
        "settings": {"permissions": {"allow": ["Write(made.txt)"]}},
        "disallowedTools": ["Bash"],
        "skills": ["part"],
        "sdkMcpServers": ["own"],
        "sdkMcpServerConfigs": {"own": {"timeout": 5_000}},
        "surprise": {"some": "value"},
    }
    with ScriptedModel([call("Write", file_path="made.txt", content="x\n"), text("Done.")]) as model:
        on(world, model)
        client = Client(world, "--await-initialize")
        client.send({"type": "control_request", "request_id": "a", "request": begin})
        greeting = client.next("control_response")["response"]["response"]
        assert [name for name in greeting if name.endswith("_applied") and greeting[name] is True] == [
            *("hooks_applied", "plugins_applied", "mcp_servers_applied", "settings_applied", "disallowed_tools_applied")
        ]
        client.user("do it")
        init = client.next("system")
        assert {one["name"] for one in init["mcp_servers"]} == {"cat", "own"}
        assert [one["name"] for one in init["plugins"]] == ["plug"]
        assert (init["skills"], "Bash" in init["tools"]) == (["part"], False)
        assert {one["option"] for one in init["options_without_effect"]} == {
            *("initialize.surprise", "initialize.sdkMcpServerConfigs.own.timeout")
        }
        result = client.next("result")
        client.end()
    assert result["permission_denials"] == []
    assert (world.workspace / "made.txt").exists()


def test_a_client_stops_a_background_command(world: World) -> None:
    steps = [call("Bash", command="sleep 300", run_in_background=True), text("It runs.")]
    with ScriptedModel(steps) as model:
        on(world, model)
        client = Client(world, "--permission-mode", "bypassPermissions")
        client.user("run it")
        (block,) = client.next("user")["message"]["content"]
        (task_id,) = set(re.findall(r"task-[\w-]+", block["content"]))
        assert client.next("result")["result"] == "It runs."
        request = {"subtype": "stop_task", "task_id": task_id}
        client.send({"type": "control_request", "request_id": "s", "request": request})
        answer = client.next("control_response")["response"]
        assert (answer["subtype"], answer["request_id"]) == ("success", "s"), answer
        assert client.end()[0] == 0
    assert world.rows("SELECT status FROM background_tasks") == [("stopped",)]
