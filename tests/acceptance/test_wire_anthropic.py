"""The installed program over real HTTP against the Messages API: a turn with a tool call, resumed byte for byte."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.acceptance.world import World
from tests.program import Done
from tests.scripted_anthropic import ScriptedMessages

CANARY = "sk-ant-api03-canary-0123456789abcdefghij"
MODEL = "claude-haiku-4-5"
MARK = b',"cache_control":{"type":"ephemeral"}'
THOUGHT = {"thinking": "The user wants “a.txt” → Read.\n", "signature": "EqQBCkYIBxgCKkDc9+/canon=="}
REDACTED = {"data": "EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5L8rLVyIwxtE3rAFBa8cr3qpPkNRj2YfWXGmKDxH4mPnZ5sQ7vB=="}
STEPS: list[Mapping[str, Any]] = [
    {
        "thinking": [THOUGHT, REDACTED],
        "text": "Let me look.",
        "tool_calls": [{"name": "Read", "input": {"file_path": "a.txt"}, "id": "toolu_01ABC"}],
        "usage": {"input_tokens": 50, "output_tokens": 30, "cache_creation_input_tokens": 900},
    },
    {
        "text": "It says: {{last_result}}",
        "usage": {"input_tokens": 9, "output_tokens": 12, "cache_read_input_tokens": 900},
    },
]


def talk(world: World, model: ScriptedMessages, message: str, *more: str, settings: str = "") -> Done:
    entry = f'[providers.models.claude]\nkind = "anthropic"\nbase_url = "{model.base_url}"\nmodel = "{MODEL}"\n'
    world.configure(more=entry + settings)
    world.cli.env["ANTHROPIC_API_KEY"] = CANARY
    return world.agent(message, "--provider", "claude", *more)


def thoughts_in(body: bytes) -> list[bytes]:
    """The bytes of the thinking blocks of a request's first assistant message."""
    return [body[body.index(one) : body.index(one) + len(one)] for one in SENT_BACK if one in body]


SENT_BACK = [
    json.dumps(block, ensure_ascii=False, separators=(",", ":")).encode()
    for block in ({"type": "thinking", **THOUGHT}, {"type": "redacted_thinking", **REDACTED})
]


def in_every_file(world: World, text: str) -> list[str]:
    files = [path for path in world.cli.home.rglob("*") if path.is_file()]
    assert files
    return [str(path) for path in files if text.encode() in path.read_bytes()]


@pytest.mark.parametrize("stream", [True, False])
def test_a_turn_with_a_tool_call_and_its_rows(world: World, stream: bool) -> None:
    (world.workspace / "a.txt").write_text("forty-two\n")
    with ScriptedMessages(STEPS) as model:
        done = talk(world, model, "what is in a.txt?", settings=f"stream = {str(stream).lower()}")
    assert done.code == 0, done.err
    assert done.out.startswith("It says: ")
    assert "forty-two" in done.out
    first, second = model.requests
    assert first.json["stream"] is stream
    assert {tool["name"] for tool in first.json["tools"]} >= {"Read", "Bash"}
    assert [block["type"] for block in second.messages[1]["content"]] == [
        "thinking", "redacted_thinking", "text", "tool_use",
    ]  # fmt: skip
    assert thoughts_in(second.body) == SENT_BACK
    assert second.messages[2]["content"][0]["tool_use_id"] == "toolu_01ABC"

    assert [row[0] for row in world.rows("SELECT entry_type FROM transcript_entries ORDER BY id")] == [
        "user", "assistant", "tool_use", "tool_result", "assistant",
    ]  # fmt: skip
    assert world.entries("tool_use")[0] == {
        "_t": "tool_use", "id": "toolu_01ABC", "name": "Read", "input": {"file_path": "a.txt"},
    }  # fmt: skip
    assert "forty-two" in world.entries("tool_result")[0]["content"]
    ((kept,),) = world.rows("SELECT blocks_json FROM opaque_blocks")
    assert [block["payload"] for block in json.loads(kept)] == [
        {"type": "thinking", **THOUGHT},
        {"type": "redacted_thinking", **REDACTED},
    ]
    usage = [json.loads(row[0]) for row in world.rows("SELECT usage_json FROM model_calls ORDER BY id")]
    assert [(one["input_tokens"], one["cache_read_tokens"], one["cache_write_tokens"]) for one in usage] == [
        (50, 0, 900),
        (9, 900, 0),
    ]
    assert len(world.receipts()) == 1
    assert not in_every_file(world, CANARY)


def test_resumed_the_same_bytes_go_out_again(world: World) -> None:
    (world.workspace / "a.txt").write_text("forty-two\n")
    with ScriptedMessages([*STEPS, {"text": "You are welcome."}]) as model:
        assert talk(world, model, "what is in a.txt?").code == 0
        done = talk(world, model, "thanks", "--continue")
    assert (done.code, done.out) == (0, "You are welcome.\n"), done.err
    _, live, resumed = model.requests
    assert thoughts_in(live.body) == thoughts_in(resumed.body) == SENT_BACK
    # what was sent before the process ended is the beginning of what is sent after, but for the mark of the cache
    assert resumed.body.startswith(live.body[: live.body.rindex(MARK)] + b"}]}")
    assert [message["role"] for message in resumed.messages] == ["user", "assistant", "user", "assistant", "user"]


FAILURES: Sequence[Any] = [
    ({"error": {"status": 401, "type": "authentication_error", "message": f"bad {CANARY}"}}, "authentication_failed"),
    ({"error": {"status": 404, "type": "not_found_error", "message": f"model: {MODEL}"}}, "--model"),
    ({"error": {"status": 400, "message": f"Your credit balance is too low {CANARY}"}}, "billing_error"),
    ({"error": {"status": 413, "type": "request_too_large", "message": "x"}}, "context_overflow"),
    ({"raw": f"<html>{CANARY}</html>", "content_type": "text/html"}, "malformed"),
    ({"raw": 'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n'}, "server_error"),
    ({"text": "word " * 50, "cut": 700}, "malformed"),
]


@pytest.mark.parametrize(("step", "words"), FAILURES)
def test_failures_are_said_in_one_line_without_the_key(world: World, step: Mapping[str, Any], words: str) -> None:
    with ScriptedMessages([step] * 4) as model:
        done = talk(world, model, "hi")
        tries = len(model.requests)
        while len(model.requests) < 4:  # what was not tried again is left over
            model.next_step(model.requests[0])
    assert done.code == 1
    assert words in done.err
    assert tries in (1, 4)
    assert "Traceback" not in done.err
    assert CANARY not in done.out + done.err
    assert not in_every_file(world, CANARY)
