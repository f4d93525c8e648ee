"""The installed program completes a turn with a tool call on each wire of OpenAI's making, over real HTTP."""

import json
from typing import Any, NamedTuple

import pytest

from tests.acceptance.world import World, call, text
from tests.scripted import ScriptedModel
from tests.scripted_responses import ScriptedResponses

CANARY = "sk-canary-0123456789abcdefghij"


class Wire(NamedTuple):
    kind: str
    model: str
    variable: str | None
    """Where the key is; None where the server wants none."""
    path: str = "/v1/chat/completions"

    def server(self, *steps: dict[str, Any]) -> ScriptedModel:
        return ScriptedResponses(steps) if self.path.endswith("/responses") else ScriptedModel(steps)

    def __str__(self) -> str:
        return self.kind


WIRES = [
    Wire("openai", "gpt-5-mini", "OPENAI_API_KEY", "/v1/responses"),
    Wire("openai-compatible", "gpt-4o", "SOME_KEY"),
    Wire("openrouter", "anthropic/claude-sonnet-4", "OPENROUTER_API_KEY"),
    Wire("ollama", "qwen3:8b", None),
    Wire("lm-studio", "qwen2.5-7b-instruct", "LM_STUDIO_API_KEY"),
]


def configure(world: World, wire: Wire, base_url: str, more: str = "") -> None:
    key = f'api_key_env = "{wire.variable}"' if wire.variable in ("SOME_KEY", "LM_STUDIO_API_KEY") else ""
    entry = f'kind = "{wire.kind}"\nbase_url = "{base_url}"\nmodel = "{wire.model}"\n{key}\n{more}'
    world.configure(more=f"[providers.models.mine]\n{entry}")
    if wire.variable:
        world.cli.env[wire.variable] = CANARY
    (world.workspace / "notes.txt").write_text("the word is heliotrope\n", encoding="utf-8")


def everything_left_behind(world: World) -> bytes:
    return b"".join(path.read_bytes() for path in world.cli.home.rglob("*") if path.is_file())


def items(wire: Wire, body: dict[str, Any]) -> str:
    return json.dumps(body["input" if wire.kind == "openai" else "messages"])


@pytest.mark.parametrize("wire", WIRES, ids=str)
def test_a_turn_with_a_tool_call(world: World, wire: Wire) -> None:
    look = {**call("Read", file_path="notes.txt"), "text": "Let me look."}
    with wire.server(look, text("It is heliotrope.")) as model:
        configure(world, wire, model.base_url)
        done = world.agent("which word?", "--provider", "mine")
    assert done.code == 0, done.err
    assert done.out == "It is heliotrope.\n"
    first, second = model.requests
    assert {one.path for one in model.requests} == {wire.path}
    key = f"Bearer {CANARY}" if wire.variable else None
    assert {one.headers.get("authorization") for one in model.requests} == {key}
    assert first.json["model"] == wire.model
    assert "which word?" in items(wire, first.json)
    assert "the word is heliotrope" in items(wire, second.json)
    assert second.body.startswith(first.body.removesuffix(b"]}"))
    assert [receipt["status"] for receipt in world.receipts()] == ["allowed"]
    assert world.entries("assistant")[-1]["content"] == [{"type": "text", "text": "It is heliotrope."}]
    assert CANARY.encode() not in everything_left_behind(world)
    assert CANARY not in done.out + done.err


@pytest.mark.parametrize("wire", WIRES, ids=str)
@pytest.mark.parametrize(
    ("step", "words"),
    [
        ({"error": {"status": 401, "body": {"error": {"message": f"no {CANARY}", "code": "invalid_api_key"}}}}, "key"),
        ({"error": {"status": 404, "body": {"error": {"message": "no such model"}}}}, "no such model"),
        ({"error": {"status": 429, "body": {"error": {"message": "x", "code": "insufficient_quota"}}}}, "credit"),
        ({"error": {"status": 400, "body": "<html>proxy</html>"}}, "400"),
    ],
)
def test_an_error_is_one_line_without_the_key(world: World, wire: Wire, step: dict[str, Any], words: str) -> None:
    with wire.server(step) as model:
        configure(world, wire, model.base_url)
        done = world.agent("hi", "--provider", "mine")
    assert done.code == 1
    assert done.out == ""
    assert words in done.err
    assert "Traceback" not in done.err
    assert CANARY not in done.err
    assert CANARY.encode() not in everything_left_behind(world)


def test_reasoning_outlives_the_process(world: World) -> None:
    wire = WIRES[0]
    step = {**call("LS", path="."), "reasoning": "gAAAA-encrypted"}
    with wire.server(step, text("done"), text("again")) as model:
        configure(world, wire, model.base_url)
        assert world.agent("look", "--provider", "mine").code == 0
        assert world.agent("once more", "--provider", "mine", "--continue").code == 0
    last = model.requests[2].json["input"]
    thought = next(place for place, item in enumerate(last) if item.get("type") == "reasoning")
    assert last[thought]["encrypted_content"] == "gAAAA-encrypted"
    assert last[thought + 1]["type"] == "function_call"


def test_a_call_in_the_text_runs_only_where_the_entry_allows_it(world: World) -> None:
    wire = WIRES[3]
    written = '<tool_call>{"name": "Read", "arguments": {"file_path": "notes.txt"}}</tool_call>'
    with wire.server(text(written)) as model:
        configure(world, wire, model.base_url)
        assert world.agent("go", "--provider", "mine").out == f"{written}\n"
    assert world.receipts() == []
    with wire.server(text(f"Looking.\n{written}"), text("Heliotrope.")) as model:
        configure(world, wire, model.base_url, "text_tool_calls = true")
        assert world.agent("go", "--provider", "mine").out == "Heliotrope.\n"
    assert [receipt["tool"] for receipt in world.receipts()] == ["Read"]
