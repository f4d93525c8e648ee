"""Thinking as a person and a program meet it: the flag, `/effort`, what is sent back, resumed, and shown."""

import json
from typing import Any

import pytest

from tests.acceptance.test_slash import talk
from tests.acceptance.world import World
from tests.scripted import ScriptedModel
from tests.scripted_anthropic import ScriptedMessages
from tests.scripted_responses import ScriptedResponses, response_of

type Json = dict[str, Any]
SIGNED = {"thinking": "First I look.", "signature": "c2lnbmF0dXJl"}
READS = {"name": "Read", "input": {"file_path": "a.txt"}}


@pytest.fixture(autouse=True)
def keys(world: World) -> None:
    world.cli.env["ANTHROPIC_API_KEY"] = "sk-ant-canary-0123456789abcdef"


def on(world: World, model: Any, kind: str, name: str, more: str = "") -> None:
    entry = f'kind = "{kind}"\nbase_url = "{model.base_url}"\nmodel = "{name}"\n{more}'
    world.configure(more=f"[providers.models.mine]\n{entry}\n")
    (world.workspace / "a.txt").write_text("words\n")


def thoughts(body: Json) -> list[Json]:
    return [block for message in body["messages"] for block in message["content"] if block["type"] == "thinking"]


def test_a_thought_goes_back_with_its_signature_across_calls_and_a_resume_and_is_counted(world: World) -> None:
    steps = [
        {"thinking": [SIGNED], "tool_calls": [READS], "usage": {"output_tokens": 700}},
        {"thinking": [{"data": "b3BhcXVl"}], "text": "It says words.", "usage": {"output_tokens": 70}},
        {"text": "Again."},
    ]
    with ScriptedMessages(steps) as model:
        on(world, model, "anthropic", "claude-opus-4-7", 'effort = "low"')
        first = world.agent("look", "--provider", "mine", "--effort", "xhigh", "--output-format", "json")
        told = json.loads(first.out)
        world.agent("again", "--provider", "mine", "--resume", told["conversation_id"])
    assert told["usage"]["output_tokens"] == 770
    bodies = [one.json for one in model.requests]
    assert [body["output_config"] for body in bodies] == [{"effort": "xhigh"}, {"effort": "xhigh"}, {"effort": "low"}]
    assert [body["thinking"] for body in bodies] == [{"type": "adaptive", "display": "summarized"}] * 3
    assert [thoughts(body) for body in bodies] == [
        [],
        [{"type": "thinking", **SIGNED}],
        [{"type": "thinking", **SIGNED}],
    ]
    assert bodies[2]["messages"][: len(bodies[1]["messages"])] != []
    assert b"b3BhcXVl" in model.requests[2].body


def test_a_skill_and_a_subagent_have_an_effort_of_their_own(world: World) -> None:
    skills = world.cli.data / "skills" / "deep"
    skills.mkdir(parents=True)
    (skills / "SKILL.md").write_text("---\nname: deep\ndescription: Thinks.\neffort: xhigh\n---\nThink hard.\n")
    agents = {"quick": {"description": "Quick.", "prompt": "Be quick.", "effort": "low"}}
    order = {"description": "d", "prompt": "p", "subagent_type": "quick"}
    steps = [
        {"tool_calls": [{"name": "Agent", "arguments": order}]},
        {"text": "done"},
        {"tool_calls": [{"name": "Agent", "arguments": order | {"effort": "none"}}]},
        {"text": "done"},
        {"tool_calls": [{"name": "Skill", "arguments": {"skill": "deep"}}]},
        {"text": "ok"},
    ]
    with ScriptedModel(steps) as model:
        on(world, model, "openai-compatible", "gpt-5.2")
        flags = ("--provider", "mine", "--agents", json.dumps(agents), "--effort", "medium")
        done = world.cli("-p", "work", *flags, cwd=world.workspace)
    assert done.code == 0, done.err
    efforts = [one.json["reasoning_effort"] for one in model.requests]
    assert efforts == ["medium", "low", "medium", "none", "medium", "xhigh"]


def test_the_repl_shows_the_effort_and_changes_it_from_the_next_call_on(world: World) -> None:
    steps = [{"thinking": [SIGNED], "text": "one"}, {"text": "two"}, {"text": "three"}]
    with ScriptedMessages(steps) as model:
        on(world, model, "anthropic", "claude-opus-4-7", 'effort = "low"')
        lines = ("/effort", "a", "/effort max", "b", "/effort auto", "c", "/effort huge")
        out, err = talk(world, "/model mine", *lines)
    assert "effort low (from the entry mine)" in out
    assert "/effort LEVEL changes it: auto, none, minimal, low, medium, high, xhigh, max" in out
    assert "'huge' is not an effort level: use auto or one of none" in err
    assert [one.json["output_config"]["effort"] for one in model.requests] == ["low", "max", "low"]


def test_programs_are_shown_thoughts_as_they_come_and_whole(world: World) -> None:
    with ScriptedMessages([{"thinking": [SIGNED], "text": "yes"}]) as model:
        on(world, model, "anthropic", "claude-opus-4-7")
        flags = (
            "--provider",
            "mine",
            "--effort",
            "low",
            "--output-format",
            "stream-json",
            "--include-partial-messages",
        )
        done = world.cli("-p", "?", *flags, "--verbose", cwd=world.workspace)
    said = [json.loads(line) for line in done.out.splitlines()]
    assert said[0]["effort"] == "low"
    parts = [one["event"]["delta"] for one in said if one.get("event", {}).get("type") == "content_block_delta"]
    assert "".join(part.get("thinking", "") for part in parts) == SIGNED["thinking"]
    whole = next(one["message"]["content"] for one in said if one["type"] == "assistant")
    assert whole == [{"type": "thinking", **SIGNED}, {"type": "text", "text": "yes"}]


@pytest.mark.parametrize(
    ("effort", "flags", "sent"), [("max", (), "max"), (2000, (), "low"), (2000, ("--effort", "high"), "high")]
)
def test_a_conversation_as_a_subagent_has_its_effort(
    world: World, effort: object, flags: tuple[str, ...], sent: str
) -> None:
    agents = json.dumps({"poet": {"description": "d", "prompt": "p", "effort": effort}})
    with ScriptedModel([{"text": "yes"}]) as server:
        on(world, server, "openai-compatible", "unknown")
        names = ("--provider", "mine", "--agents", agents, "--agent", "poet")
        world.cli("-p", "?", *names, *flags, cwd=world.workspace)
    assert server.requests[0].json["reasoning_effort"] == sent


@pytest.mark.parametrize(
    ("model", "flags", "sent"),
    [
        ("unknown", ("--effort", "high"), "high"),
        ("unknown", ("--thinking", "disabled", "--effort", "max"), None),
        ("gpt-4o", ("--effort", "high"), None),
    ],
)
def test_a_level_that_is_sent_is_not_reported_as_without_effect(
    world: World, model: str, flags: tuple[str, ...], sent: str | None
) -> None:
    with ScriptedModel([{"text": "yes"}]) as server:
        on(world, server, "openai-compatible", model)
        done = world.cli("-p", "?", "--provider", "mine", *flags, cwd=world.workspace)
    assert server.requests[0].json.get("reasoning_effort") == sent
    assert ("--effort, --thinking has no effect" in done.err) is (model == "gpt-4o")


@pytest.mark.parametrize("summary", ["words", ["words"], {"text": "words"}, None])
def test_a_thought_of_another_shape_than_the_protocols_stops_no_program(world: World, summary: object) -> None:
    world.cli.env["OPENAI_API_KEY"] = "sk-canary-0123456789abcdef"
    answer = response_of({"reasoning": "c2VhbGVk", "text": "yes"}, {})
    answer["output"][0]["summary"] = summary
    with ScriptedResponses([{"raw": json.dumps(answer), "content_type": "application/json"}]) as model:
        on(world, model, "openai", "gpt-5.2", "stream = false")
        flags = ("--provider", "mine", "--output-format", "stream-json")
        done = world.cli("-p", "?", *flags, cwd=world.workspace)
    assert done.code == 0, done.err
    assert [json.loads(line)["type"] for line in done.out.splitlines()] == ["system", "assistant", "result"]
