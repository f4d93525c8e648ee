"""The installed program on Gemini's wire: a turn with a tool call, and signatures that survive the store."""

import json
from typing import Any

import pytest

from tests.acceptance.world import World
from tests.scripted_gemini import ScriptedGemini

KEY = "AIzaCanary-0123456789abcdefghijklmnopqr"
SIGNATURE = "CiQB0e2Kb+Xy/9Zz==ünsafe?" * 40
THOUGHT = {"text": "They want the list.", "thought": True, "thoughtSignature": "dGhvdWdodA=="}


@pytest.fixture
def gemini(world: World) -> World:
    world.cli.env["GEMINI_API_KEY"] = KEY
    return world


def point(world: World, model: ScriptedGemini, name: str = "gemini-2.5-flash") -> None:
    (world.workspace / "a.txt").write_text("the adder\n")
    entry = f'[providers.models.google]\nkind = "gemini"\nbase_url = "{model.base_url}"\nmodel = "{name}"'
    world.configure(more=entry)


def call(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "arguments": {"file_path": "a.txt"}, **more}


def test_a_wrong_key_is_said_in_one_line_and_is_nowhere(gemini: World) -> None:
    body = {"error": {"code": 400, "message": f"API key not valid: {KEY}", "status": "INVALID_ARGUMENT"}}
    with ScriptedGemini([{"error": {"status": 400, "body": body}}]) as model:
        point(gemini, model)
        done = gemini.agent("hi", "--provider", "google")
    assert done.code == 1
    assert "check the key" in done.err
    shown = [done.out, done.err, *(path.read_bytes() for path in gemini.cli.home.rglob("*") if path.is_file())]
    assert not any(KEY.encode() in (one if isinstance(one, bytes) else one.encode()) for one in shown)


def test_a_missing_key_is_said_with_no_network(gemini: World) -> None:
    gemini.cli.env.pop("GEMINI_API_KEY")
    with ScriptedGemini() as model:
        point(gemini, model)
        done = gemini.agent("hi", "--provider", "google")
        assert not model.asked
    assert done.code == 1
    assert "GEMINI_API_KEY" in done.err


@pytest.mark.parametrize("stream", ["true", "false"])
def test_a_turn_with_a_tool_call(gemini: World, stream: str) -> None:
    with ScriptedGemini([{"tool_calls": [call("Read"), call("Read")]}, {"text": "It holds the adder."}]) as model:
        point(gemini, model)
        config = gemini.cli.data / "config.toml"
        config.write_text(f"{config.read_text()}\nstream = {stream}\n")
        done = gemini.agent("what is in a.txt?", "--provider", "google", "--output-format", "json")
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert (said["outcome"], said["answer"]) == ("completed", "It holds the adder.")
    assert said["usage"]["input_tokens"] == 200
    first, second = (one.json for one in model.asked)
    declared = {one["name"] for one in first["tools"][0]["functionDeclarations"]}
    assert {"Read", "Bash", "Write"} <= declared
    asked, calls, results = second["contents"]
    assert asked == {"role": "user", "parts": [{"text": "what is in a.txt?"}]}
    assert [part["functionCall"]["name"] for part in calls["parts"]] == ["Read", "Read"]
    assert all("the adder" in part["functionResponse"]["response"]["output"] for part in results["parts"])
    assert model.asked[1].body.startswith(model.asked[0].body.removesuffix(b"]}"))
    assert [receipt["tool"] for receipt in gemini.receipts()] == ["Read", "Read"]


@pytest.mark.parametrize("name", ["gemini-2.5-flash", "gemini-3-pro-preview"])
def test_thought_signatures_come_back_byte_for_byte_after_continue(gemini: World, name: str) -> None:
    """Twice: within the turn from memory, and from the store when another process goes on."""
    steps: list[dict[str, Any]] = [
        {"parts": [THOUGHT], "tool_calls": [call("Read", id="k1", signature=SIGNATURE), call("Read", id="k2")]},
        {"parts": [{"text": "It holds "}, {"text": "the adder.", "thoughtSignature": "c2lnbmVk"}]},
        {"text": "Still that."},
    ]
    with ScriptedGemini(steps) as model:
        point(gemini, model, name)
        assert gemini.agent("what is in a.txt?", "--provider", "google").out == "It holds the adder.\n"
        done = gemini.agent("and now?", "--continue", "--provider", "google")
    assert (done.code, done.out) == (0, "Still that.\n"), done.err
    _, second, third = model.asked
    assert third.body.startswith(second.body.removesuffix(b"]}"))
    calls, answer = third.json["contents"][1], third.json["contents"][3]
    arguments = {"file_path": "a.txt"}
    assert calls["parts"] == [
        THOUGHT,
        {"functionCall": {"id": "k1", "name": "Read", "args": arguments}, "thoughtSignature": SIGNATURE},
        {"functionCall": {"id": "k2", "name": "Read", "args": arguments}},
    ]
    assert answer["parts"] == [{"text": "It holds "}, {"text": "the adder.", "thoughtSignature": "c2lnbmVk"}]
    assert third.json["contents"][4] == {"role": "user", "parts": [{"text": "and now?"}]}
    assert [part["functionResponse"]["id"] for part in third.json["contents"][2]["parts"]] == ["k1", "k2"]


def test_another_provider_is_not_shown_them(gemini: World) -> None:
    from tests.scripted import ScriptedModel

    steps = [{"tool_calls": [call("Read", signature=SIGNATURE)]}, {"text": "The adder."}]
    with ScriptedGemini(steps) as model, ScriptedModel([{"text": "Yes."}]) as other:
        point(gemini, model)
        config = gemini.cli.data / "config.toml"
        entry = f'\n[providers.models.other]\nkind = "openai-compatible"\nbase_url = "{other.base_url}"\nmodel = "m"\n'
        config.write_text(config.read_text() + entry)
        gemini.agent("what is in a.txt?", "--provider", "google")
        assert gemini.agent("sure?", "--continue", "--provider", "other").out == "Yes.\n"
    assert SIGNATURE not in json.dumps(other.requests[0].json, ensure_ascii=False)
