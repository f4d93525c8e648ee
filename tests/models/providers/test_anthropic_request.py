"""What goes over the wire to the Messages API, byte for byte where it matters."""

import json
import os
import socket
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from adderclaw.config.schema import ProviderEntry
from adderclaw.core.errors import ConfigError, ProviderError
from adderclaw.core.types import (
    Json,
    MediaBlock,
    Message,
    OpaqueBlock,
    TextBlock,
    Thinking,
    ToolCall,
    ToolResultBlock,
    ToolSpec,
    ToolUseBlock,
)
from tests.models.providers.making import READ, House, ask, called, request, result, run, user
from tests.rows import rows
from tests.scripted_anthropic import Request, ScriptedMessages

CANARY = "sk-ant-canary-0123456789abcdef"
MARK = {"cache_control": {"type": "ephemeral"}}
MARK_BYTES = b',"cache_control":{"type":"ephemeral"}'
CLAUDE = "claude-haiku-4-5"
LS = ToolSpec("LS", "Lists.", {"type": "object", "properties": {}})


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "CLAUDE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ANTHROPIC_API_KEY", CANARY)


def entry(base_url: str | None = None, **more: Any) -> ProviderEntry:
    fields: dict[str, Any] = {"kind": "anthropic", "base_url": base_url, "model": CLAUDE, **more}
    return ProviderEntry(**fields)


def sent(*messages: Message, given: dict[str, Any] | None = None, **more: Any) -> Request:
    with ScriptedMessages([{"text": "ok"}]) as model:
        house = House({"p": entry(model.base_url, **(given or {}))})
        ask(house.make("p"), request(*messages, **({"model": ""} | more)))
    return model.requests[0]


def on_the_wire(message: Message, **more: Any) -> list[Json]:
    """The content of one message in the middle of a conversation."""
    return sent(message, Message("user", (TextBlock("and"),)), **more).messages[0]["content"]


# ------------------------------------------------------------------ refusals: nothing is sent


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (entry("ftp://example.com"), ["base_url", "http://"]),
        (entry("https://me:hunter22@example.com"), ["base_url", "password"]),
        (entry("https://exämple.com"), ["base_url", "ASCII"]),
        (entry("https://example.com/\r\nx-evil: 1"), ["base_url"]),
    ],
)
def test_wrong_entries_are_configuration_errors(wrong: ProviderEntry, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        House({"p": wrong}).make("p")
    assert all(word in str(caught.value) for word in words), caught.value
    assert "hunter22" not in str(caught.value)


def test_a_missing_key_is_said_before_any_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(ProviderError, match="export ANTHROPIC_API_KEY=") as caught:
        ask(House({"p": entry("https://model.invalid")}).make("p"), request())
    assert caught.value.kind == "missing_key"


@pytest.mark.parametrize("key", ["two words-here", "line\nbreak-here", "clé-secrète-99"])
def test_a_key_that_cannot_be_one_is_not_sent(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    with pytest.raises(ProviderError, match="ANTHROPIC_API_KEY") as caught:
        ask(House({"p": entry("https://model.invalid")}).make("p"), request())
    assert caught.value.kind == "authentication_failed"
    assert key not in str(caught.value)


def test_a_redirect_is_not_followed_and_the_key_stays() -> None:
    with ScriptedMessages() as elsewhere:
        moved = {"status": 307, "body": "moved", "headers": {"location": f"{elsewhere.base_url}/v1/messages"}}
        with ScriptedMessages([{"error": moved}]) as model, pytest.raises(ProviderError, match="redirects"):
            ask(House({"p": entry(model.base_url)}).make("p"), request())
        assert not elsewhere.requests


@pytest.mark.parametrize(
    ("given", "warnings"),
    [
        ({"base_url": "http://192.0.2.1"}, ["without encryption"]),
        ({"base_url": "http://127.0.0.1:1"}, []),
        ({"temperature": 0.5, "model": "claude-opus-4-7"}, ["takes no temperature"]),
        ({"temperature": 0.5, "model": "claude-haiku-4-5"}, []),
    ],
)
def test_warnings(given: dict[str, Any], warnings: list[str]) -> None:
    house = House({"p": entry(**given)})
    house.make("p")
    told = [str(body.get("message")) for body in house.told]
    assert len(told) == len(warnings)
    assert all(words in said for words, said in zip(warnings, told, strict=True))


# ------------------------------------------------------------------ the head


def test_the_body_is_as_the_api_has_it_with_messages_last() -> None:
    got = sent(tools=(LS, READ), temperature=0.5, max_tokens=7, tool_choice="Read")
    assert got.path == "/v1/messages"
    expected: Json = {
        "model": CLAUDE,
        "max_tokens": 7,
        "stream": True,
        "temperature": 0.5,
        "tool_choice": {"type": "tool", "name": "Read"},
        "tools": [
            {"name": "LS", "description": "Lists.", "input_schema": LS.parameters},
            {"name": "Read", "description": "Reads a file.", "input_schema": READ.parameters, **MARK},
        ],
        "system": [{"type": "text", "text": "be good", **MARK}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hello", **MARK}]}],
    }
    assert got.json == expected
    assert list(got.json) == list(expected)
    assert int(got.headers["content-length"]) == len(got.body)


def test_the_entry_fills_in_what_the_request_leaves_open() -> None:
    got = sent(given={"stream": False, "temperature": 1.5, "max_tokens": 9}, system_prompt=" ").json
    assert (got["stream"], got["temperature"], got["max_tokens"], got["model"]) == (False, 1.0, 9, CLAUDE)
    assert got.keys().isdisjoint({"tools", "system", "thinking", "tool_choice", "output_config"})


def within(tokens: int) -> dict[str, Any]:
    return {"thinking": Thinking(tokens=tokens)}


@pytest.mark.parametrize(
    ("model", "more", "longest"),
    [
        ("a-model-of-my-own", {}, 8192),
        ("a-model-of-my-own", {**within(10_000)}, 11_024),
        ("claude-3-haiku-20240307", {}, 4096),
        ("claude-haiku-4-5", {}, 32_000),
        ("claude-haiku-4-5", {**within(10_000)}, 42_000),
        ("claude-haiku-4-5", {**within(500_000)}, 64_000),
        ("claude-haiku-4-5", {"max_tokens": 50_000, **within(500_000)}, 50_000),
    ],
)
def test_the_longest_answer(model: str, more: dict[str, Any], longest: int) -> None:
    assert sent(model=model, **more).json["max_tokens"] == longest


@rows(
    ("model", "more", "thinking", "temperature"),
    [
        (CLAUDE, {}, None, 0.5),
        (CLAUDE, {**within(0)}, None, 0.5),
        (CLAUDE, {**within(4000)}, {"type": "enabled", "budget_tokens": 4000}, None),
        (CLAUDE, {**within(1)}, {"type": "enabled", "budget_tokens": 1024}, None),
        (
            CLAUDE,
            {**within(4000), "max_tokens": 3000},
            {"type": "enabled", "budget_tokens": 1976},
            None,
        ),
        (CLAUDE, {**within(4000), "max_tokens": 2000}, None, 0.5),
        (CLAUDE, {**within(4000), "tool_choice": "Read", "tools": (READ,)}, None, 0.5),
        (
            "claude-3-7-sonnet-20250219",
            {**within(2000)},
            {"type": "enabled", "budget_tokens": 2000},
            None,
        ),
        ("claude-opus-4-6", {**within(4000)}, {"type": "adaptive"}, None),
        ("claude-opus-4-6", {}, None, 0.5),
        ("claude-opus-4-7", {}, None, None),
        ("claude-sonnet-5", {**within(4000)}, {"type": "adaptive", "display": "summarized"}, None),
        ("a-model-of-my-own", {}, None, 0.5),
    ],
)
def test_thinking_and_temperature(
    model: str, more: dict[str, Any], thinking: Json | None, temperature: float | None
) -> None:
    got = sent(model=model, temperature=0.5, **more).json
    assert (got.get("thinking"), got.get("temperature")) == (thinking, temperature)


def test_a_schema_for_the_answer_is_made_strict() -> None:
    schema: Json = {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "minimum": 1, "description": "How large."},
            "tags": {"type": "array", "items": {"type": "object", "properties": {}}, "minItems": 1},
            "when": {"type": "string", "format": "date"},
            "either": {"oneOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]},
        },
        "required": ["size"],
    }
    assert sent(response_schema=schema).json["output_config"]["format"] == {
        "type": "json_schema",
        "schema": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "description": "How large. (minimum: 1)"},
                "tags": {
                    "type": "array",
                    "items": {"type": "object", "properties": {}, "additionalProperties": False},
                    "minItems": 1,
                },
                "when": {"type": "string", "format": "date"},
                "either": {"anyOf": [{"type": "string", "description": "(maxLength: 3)"}, {"type": "null"}]},
            },
            "required": ["size"],
            "additionalProperties": False,
        },
    }


# ------------------------------------------------------------------ messages


PNG, PDF = MediaBlock("image/png", "iVBORw0=", "a.png"), MediaBlock("application/pdf", "JVBERi0=", "a.pdf")


MESSAGES: list[Any] = [
    (user("ünï \u2028 😀"), [{"type": "text", "text": "ünï \u2028 😀"}]),
    (user("half \ud83d"), [{"type": "text", "text": "half ?"}]),
    (user(" \n"), [{"type": "text", "text": "(an empty message)"}]),
    (Message("user", ()), [{"type": "text", "text": "(an empty message)"}]),
    (result("c1", "fine"), [{"type": "tool_result", "tool_use_id": "c1", "content": "fine"}]),
    (result("c1", ""), [{"type": "tool_result", "tool_use_id": "c1", "content": ""}]),
    (
        result("c1", "", is_error=True),
        [{"type": "tool_result", "tool_use_id": "c1", "content": "failed without a word", "is_error": True}],
    ),
    (
        Message("user", (TextBlock("and"), ToolResultBlock("a", "1", False), ToolResultBlock("b", "2", True))),
        [
            {"type": "tool_result", "tool_use_id": "a", "content": "1"},
            {"type": "tool_result", "tool_use_id": "b", "content": "2", "is_error": True},
            {"type": "text", "text": "and"},
        ],
    ),
    (
        Message("user", (PNG, PDF, TextBlock("what is it?"))),
        [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0="}},
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
                "title": "a.pdf",
            },
            {"type": "text", "text": "what is it?"},
        ],
    ),
    (
        Message("user", (ToolResultBlock("a", "1", False, (PNG, PDF)), TextBlock("and"))),
        [
            {
                "type": "tool_result",
                "tool_use_id": "a",
                "content": [
                    {"type": "text", "text": "1"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0="}},
                    {
                        "type": "document",
                        "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
                        "title": "a.pdf",
                    },
                ],
            },
            {"type": "text", "text": "and"},
        ],
    ),
    (
        Message("user", (ToolResultBlock("a", "", True, (MediaBlock("image/tiff", "eA==", "b.tiff"),)),)),
        [
            {
                "type": "tool_result",
                "tool_use_id": "a",
                "content": [
                    {"type": "text", "text": "failed without a word"},
                    {"type": "text", "text": "[image: b.tiff]"},
                ],
                "is_error": True,
            }
        ],
    ),
    (
        Message("user", (MediaBlock("image/tiff", "eA==", "b.tiff"), MediaBlock("text/csv", "eA=="))),
        [{"type": "text", "text": "[image: b.tiff]"}, {"type": "text", "text": "[document: text/csv]"}],
    ),
    (Message("assistant", (TextBlock("hi"),)), [{"type": "text", "text": "hi"}]),
    (
        called("c1", "Read", {"file_path": "ä"}, "so"),
        [
            {"type": "text", "text": "so"},
            {"type": "tool_use", "id": "c1", "name": "Read", "input": {"file_path": "ä"}},
        ],
    ),
    (
        Message("assistant", (ToolUseBlock(ToolCall("c1", "Read", None, "{broken")),)),
        [{"type": "tool_use", "id": "c1", "name": "Read", "input": {"_raw": "{broken"}}],
    ),
    (
        Message("assistant", (ToolUseBlock(ToolCall("c1", "functions.Read", {})),)),
        [{"type": "tool_use", "id": "c1", "name": "functions_Read", "input": {}}],
    ),
]


@rows(("message", "content"), MESSAGES)
def test_messages_on_the_wire(message: Message, content: list[Json]) -> None:
    assert on_the_wire(message) == content


def test_a_model_that_takes_no_images_gets_their_names() -> None:
    message = Message("user", (PNG, PDF))
    names = [{"type": "text", "text": "[image: a.png]"}, {"type": "text", "text": "[document: a.pdf]"}]
    assert on_the_wire(message, model="a-model-of-my-own") == names


def test_an_assistant_message_without_content_is_left_out() -> None:
    thought = OpaqueBlock("anthropic", {"type": "thinking", "thinking": "hm", "signature": "s"})
    for empty in (Message("assistant", ()), Message("assistant", (TextBlock(" "),)), Message("assistant", (thought,))):
        assert [one["role"] for one in sent(user("a"), empty, user("b")).messages] == ["user", "user"]


def test_ids_that_the_api_refuses_are_replaced_alike_in_call_and_result() -> None:
    first, second = "functions.Read:0", "functions.Read:1"
    calls = Message("assistant", tuple(ToolUseBlock(ToolCall(name, "Read", {})) for name in (first, second)))
    got = sent(user("a"), calls, result(first, "x"), result(second, "y")).messages
    ids = [block["id"] for block in got[1]["content"]]
    assert ids == [got[2]["content"][0]["tool_use_id"], got[3]["content"][0]["tool_use_id"]]
    assert len(set(ids)) == 2
    assert all(one.startswith("toolu_") and one.replace("_", "").isalnum() for one in ids)


def test_thoughts_go_back_first_and_unchanged_and_only_to_where_they_came_from() -> None:
    thoughts = [
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "thinking", "thinking": " hm \n", "signature": "sig=="},
    ]
    kept = tuple(OpaqueBlock("anthropic", thought) for thought in thoughts)
    foreign = OpaqueBlock("gemini", {"call_id": "c1", "signature": "other"})
    message = Message("assistant", (*kept, foreign, TextBlock("so"), ToolUseBlock(ToolCall("c1", "Read", {}))))
    content = on_the_wire(message)
    assert content[:2] == thoughts
    assert [block["type"] for block in content[2:]] == ["text", "tool_use"]


def test_thoughts_between_go_back_to_their_place() -> None:
    def thought(number: int, after: list[int] | None) -> OpaqueBlock:
        payload: Json = {"type": "thinking", "thinking": str(number), "signature": "s"}
        return OpaqueBlock("anthropic", payload | ({"after": after} if after else {}))

    calls = [ToolUseBlock(ToolCall(name, "Read", {})) for name in ("c1", "c2")]
    thoughts = [thought(1, None), thought(2, [3, 0]), thought(3, [6, 1]), thought(4, [99, 99])]
    content = on_the_wire(Message("assistant", (*thoughts, TextBlock("onetwo"), *calls)))
    assert [block.get("thinking") or block.get("text") or block["id"] for block in content] == [
        "1", "one", "2", "two", "c1", "3", "c2",
    ]  # fmt: skip
    assert "after" not in json.dumps(content)


# ------------------------------------------------------------------ the cache


def test_each_body_begins_with_the_one_before_it_up_to_the_moving_mark() -> None:
    with ScriptedMessages([{"text": "ok"}] * 4) as model:
        provider = House({"p": entry(model.base_url)}).make("p")
        asked = request(user("a"), tools=(READ,), model=CLAUDE)

        async def grow() -> None:
            for step in range(4):
                await provider.chat(asked, lambda _: None)
                asked.messages.append(called(f"c{step}", "Read", {"file_path": "x"}))
                asked.messages.append(result(f"c{step}", "y"))
            await provider.close()

        run(grow())
    bodies = [one.body for one in model.requests]
    for shorter, longer in pairwise(bodies):
        before_mark = shorter[: shorter.rindex(MARK_BYTES)]
        assert longer.startswith(before_mark + b"}]}")
        assert longer.count(b"cache_control") == 3
        assert json.loads(longer)["messages"][-1]["content"][-1].get("cache_control") == {"type": "ephemeral"}


def test_only_a_users_last_block_carries_the_mark() -> None:
    got = sent(Message("user", (ToolResultBlock("a", "1", False), TextBlock("x"), PNG)))
    assert ["cache_control" in block for block in got.messages[0]["content"]] == [False, False, True]
    assert "cache_control" not in json.dumps(sent(user("a"), Message("assistant", (TextBlock("b"),))).messages)


# ------------------------------------------------------------------ counting


def test_tokens_are_counted_by_the_api() -> None:
    with ScriptedMessages(tokens=1234) as model:
        provider = House({"p": entry(model.base_url, temperature=0.5)}).make("p")
        asked = request(tools=(READ,), model=CLAUDE, thinking=Thinking(tokens=2000))

        async def counted() -> int | None:
            try:
                return await provider.count(asked)
            finally:
                await provider.close()

        assert run(counted()) == 1234
    (got,) = model.counts
    assert got.path == "/v1/messages/count_tokens"
    assert list(got.json) == ["model", "thinking", "tools", "system", "messages"]
    assert got.headers["x-api-key"] == CANARY


def test_a_server_that_does_not_count_says_none() -> None:
    with ScriptedMessages(tokens=None) as model:
        provider = House({"p": entry(model.base_url)}).make("p")
        assert run(provider.count(request())) is None
        run(provider.close())


# ------------------------------------------------------------------ where to, and with which key


@pytest.mark.parametrize("tail", ["", "/", "/v1", "/v1/", "/gateway"])
def test_base_urls_with_and_without_the_version(tail: str) -> None:
    with ScriptedMessages([{"text": "ok"}]) as model:
        ask(House({"p": entry(model.base_url + tail)}).make("p"), request())
    assert model.requests[0].path == ("/gateway" if "gateway" in tail else "") + "/v1/messages"


def test_the_environment_names_the_place_of_an_entry_that_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedMessages([{"text": "a"}]) as here, ScriptedMessages([{"text": "b"}]) as there:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", here.base_url)
        house = House({"open": entry(), "fixed": entry(there.base_url)})
        assert ask(house.make("open"), request())[0].final_text == "a"
        assert ask(house.make("fixed"), request())[0].final_text == "b"


BETA = "oauth-2025-04-20"


@pytest.mark.parametrize(
    ("variables", "given", "headers"),
    [
        ({"ANTHROPIC_API_KEY": CANARY}, {}, {"x-api-key": CANARY}),
        ({"ANTHROPIC_AUTH_TOKEN": CANARY}, {}, {"authorization": f"Bearer {CANARY}"}),
        (
            {"ANTHROPIC_API_KEY": "another-key", "ANTHROPIC_AUTH_TOKEN": CANARY},
            {},
            {"authorization": f"Bearer {CANARY}"},
        ),
        ({"OWN_KEY": CANARY, "ANTHROPIC_API_KEY": "other-key"}, {"api_key_env": "OWN_KEY"}, {"x-api-key": CANARY}),
        ({"CLAUDE_CODE_OAUTH_TOKEN": CANARY}, {}, {"authorization": f"Bearer {CANARY}", "anthropic-beta": BETA}),
        (
            {"CLAUDE_CODE_OAUTH_TOKEN": CANARY},
            {"headers": {"Anthropic-Beta": "one-2026-01-01"}},
            {"authorization": f"Bearer {CANARY}", "anthropic-beta": f"{BETA},one-2026-01-01"},
        ),
        ({"ANTHROPIC_API_KEY": CANARY}, {"headers": {"X-Mine": "1"}}, {"x-api-key": CANARY, "x-mine": "1"}),
    ],
)
def test_headers(
    variables: dict[str, str], given: dict[str, Any], headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    got = sent(given=given).headers
    named = {"x-api-key", "authorization", "anthropic-beta", "x-mine"}
    assert {name: value for name, value in got.items() if name in named} == headers
    assert got["anthropic-version"] == "2023-06-01"
    assert got["content-type"] == "application/json"


def test_a_socket_takes_the_place_of_the_address_and_of_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "proxy.sock"
    heard: list[bytes] = []
    body = json.dumps({"type": "message", "content": [{"type": "text", "text": "through"}], "stop_reason": "end_turn"})

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            heard.append(connection.recv(65_536))
            head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
            connection.sendall((head + body).encode())

    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.setenv("ANTHROPIC_UNIX_SOCKET", str(path))
    house = House({"p": entry("https://model.invalid")})
    with pytest.raises(ProviderError, match=r"nothing answers at the socket .*proxy\.sock") as caught:
        ask(house.make("p"), request())
    assert caught.value.kind == "network"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        assert ask(house.make("p"), request())[0].final_text == "through"
        thread.join(5)
    assert b"host: model.invalid" in heard[0].lower()
    assert b"x-api-key" not in heard[0].lower()
