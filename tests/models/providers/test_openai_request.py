"""What goes over the wire to a chat completions server, byte for byte where it matters."""

import json
from itertools import pairwise
from typing import Any

import pytest

from adderclaw.config.schema import ProviderEntry
from adderclaw.core.errors import ConfigError, ProviderError
from adderclaw.core.types import Message, OpaqueBlock, TextBlock, ToolCall, ToolResultBlock, ToolUseBlock
from tests.models.providers.making import READ, House, ask, called, chat_entry, request, result, run, user
from tests.rows import rows
from tests.scripted import Request, ScriptedModel

CANARY = "sk-canary-0123456789abcdef"


def sent(*messages: Message, entry: dict[str, Any] | None = None, **more: Any) -> Request:
    with ScriptedModel([{"text": "ok"}]) as model:
        house = House({"p": chat_entry(model.base_url, **(entry or {}))})
        ask(house.make("p"), request(*messages, **more))
    return model.requests[0]


# ------------------------------------------------------------------ refusals: nothing is sent


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (ProviderEntry(kind="openai-compatible", model="m"), ["base_url", "missing", "OPENAI_BASE_URL"]),
        (chat_entry("ftp://example.com/v1"), ["base_url", "http://"]),
        (chat_entry("example.com/v1"), ["base_url", "http://"]),
        (chat_entry("http:///v1"), ["base_url"]),
        (chat_entry("http://me:hunter22@example.com/v1"), ["base_url", "password", "api_key_env"]),
        (chat_entry("http://example.com:99999/v1"), ["base_url"]),
        (chat_entry("http://exämple.com/v1"), ["base_url", "ASCII"]),
        (chat_entry("http://example.com/v 1"), ["base_url", "space"]),
        (chat_entry("http://example.com/\r\nx-evil: 1"), ["base_url"]),
        (ProviderEntry(kind="reliable", providers=[]), ["providers", "empty"]),
        (ProviderEntry(kind="reliable", providers=["p"]), ["contains itself"]),
        (ProviderEntry(kind="reliable", providers=["nobody"]), ["nobody", "known"]),
    ],
)
def test_wrong_entries_are_configuration_errors(
    entry: ProviderEntry, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(ConfigError) as caught:
        House({"p": entry}).make("p")
    assert all(word in str(caught.value) for word in words), caught.value
    assert "hunter22" not in str(caught.value)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="no provider has the name 'x'; known: a, b"):
        House({"a": ProviderEntry(kind="mock"), "b": ProviderEntry(kind="mock")}).make("x")
    with pytest.raises(ConfigError, match=r"known: a; `adderclaw onboard --provider openai` adds it$"):
        House({"a": ProviderEntry(kind="mock")}).make("openai")


def test_a_missing_key_is_said_before_any_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOME_KEY", raising=False)
    # .invalid has no address: any attempt to connect would be an error of another kind
    provider = House({"p": chat_entry("https://model.invalid/v1", api_key_env="SOME_KEY")}).make("p")
    with pytest.raises(ProviderError, match=r"SOME_KEY.*export SOME_KEY=") as caught:
        ask(provider, request())
    assert caught.value.kind == "missing_key"
    assert not caught.value.retryable


def test_openrouter_asks_for_its_own_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "   ")
    provider = House({"p": ProviderEntry(kind="openrouter", model="m")}).make("p")
    with pytest.raises(ProviderError, match="OPENROUTER_API_KEY"):
        ask(provider, request())


@pytest.mark.parametrize("key", ["two words-here", "line\nbreak-here", "clé-secrète-99"])
def test_a_key_that_cannot_be_one_is_not_sent(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", key)
    provider = House({"p": chat_entry("https://model.invalid/v1", api_key_env="SOME_KEY")}).make("p")
    with pytest.raises(ProviderError, match="SOME_KEY") as caught:
        ask(provider, request())
    assert caught.value.kind == "authentication_failed"
    assert key not in str(caught.value)


def test_a_header_that_would_inject_another_is_refused() -> None:
    with ScriptedModel() as model:
        provider = House({"p": chat_entry(model.base_url, headers={"x-a": "1\r\nx-b: 2"})}).make("p")
        with pytest.raises(ProviderError, match="header") as caught:
            ask(provider, request())
    assert caught.value.kind == "invalid_request"


def test_a_key_over_plain_http_to_another_machine_warns() -> None:
    house = House({"p": chat_entry("http://192.0.2.1/v1", api_key_env="SOME_KEY")})
    house.make("p")
    assert [body["event_type"] for body in house.told] == ["warning"]


# ------------------------------------------------------------------ the body


def test_the_body_is_as_the_api_has_it_with_messages_last() -> None:
    got = sent(tools=(READ,), temperature=0.5, max_tokens=7, tool_choice="Read")
    assert got.path == "/v1/chat/completions"
    assert list(got.json) == [
        "model", "stream", "stream_options", "tools", "tool_choice", "max_tokens", "temperature", "messages",
    ]  # fmt: skip
    assert got.json == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            {
                "type": "function",
                "function": {"name": "Read", "description": "Reads a file.", "parameters": READ.parameters},
            }
        ],
        "tool_choice": {"type": "function", "function": {"name": "Read"}},
        "max_tokens": 7,
        "temperature": 0.5,
        "messages": [{"role": "system", "content": "be good"}, {"role": "user", "content": "hello"}],
    }
    assert int(got.headers["content-length"]) == len(got.body)
    assert got.headers["content-type"] == "application/json"


def test_the_entry_fills_in_what_the_request_leaves_open() -> None:
    got = sent(entry={"stream": False, "temperature": 0.0, "max_tokens": 9}, model="").json
    assert (got["stream"], got["temperature"], got["max_tokens"], got["model"]) == (False, 0.0, 9, "m")
    assert "stream_options" not in got
    assert "tools" not in got


@rows(
    ("message", "wire"),
    [
        (user("ünï \u2028 😀"), [{"role": "user", "content": "ünï \u2028 😀"}]),
        (user("half \ud83d"), [{"role": "user", "content": "half ?"}]),
        (Message("user", (TextBlock("a"), TextBlock("b"))), [{"role": "user", "content": "a\nb"}]),
        (result("c1", "fine"), [{"role": "tool", "tool_call_id": "c1", "content": "fine"}]),
        (result("c1", "no", is_error=True), [{"role": "tool", "tool_call_id": "c1", "content": "Error: no"}]),
        (result("c1", "Error: no", is_error=True), [{"role": "tool", "tool_call_id": "c1", "content": "Error: no"}]),
        (
            Message("user", (TextBlock("and"), ToolResultBlock("a", "1", False), ToolResultBlock("b", "2", False))),
            [
                {"role": "tool", "tool_call_id": "a", "content": "1"},
                {"role": "tool", "tool_call_id": "b", "content": "2"},
                {"role": "user", "content": "and"},
            ],
        ),
        (Message("assistant", (TextBlock("hi"),)), [{"role": "assistant", "content": "hi"}]),
        (Message("assistant", ()), [{"role": "assistant", "content": ""}]),
        (
            called("c1", "Read", {"file_path": "ä"}),
            [
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {"id": "c1", "type": "function", "function": {"name": "Read", "arguments": '{"file_path":"ä"}'}}
                    ],
                }
            ],
        ),
        (
            called("c1", "Read", None, "so"),
            [
                {
                    "role": "assistant",
                    "content": "so",
                    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "Read", "arguments": "{}"}}],
                }
            ],
        ),
    ],
)
def test_messages_on_the_wire(message: Message, wire: list[dict[str, Any]]) -> None:
    assert sent(message).messages[1:] == wire


def test_each_body_begins_with_the_one_before_it() -> None:
    with ScriptedModel([{"text": "ok"}] * 4) as model:
        provider = House({"p": chat_entry(model.base_url)}).make("p")
        asked = request(user("a"), tools=(READ,))

        async def grow() -> None:
            for step in range(4):
                await provider.chat(asked, lambda _: None)
                asked.messages.append(called(f"c{step}", "Read", {"file_path": "x"}))
                asked.messages.append(result(f"c{step}", "y"))
            await provider.close()

        run(grow())
    bodies = [one.body for one in model.requests]
    for shorter, longer in pairwise(bodies):
        assert longer.startswith(shorter.removesuffix(b"]}"))
    assert {one.connection for one in model.requests} == {1}


def test_other_tools_make_another_head() -> None:
    with ScriptedModel([{"text": "ok"}] * 2) as model:
        ask(House({"p": chat_entry(model.base_url)}).make("p"), request(tools=(READ,)), request())
    assert ["tools" in one.json for one in model.requests] == [True, False]


def test_what_only_the_provider_understands_goes_back_to_it_alone() -> None:
    chunk = {
        "choices": [
            {
                "delta": {
                    "reasoning": "hm",
                    "reasoning_details": [{"type": "reasoning.encrypted", "data": "xyz"}],
                    "tool_calls": [
                        {
                            "index": 0,
                            "id": "c1",
                            "function": {"name": "Read", "arguments": "{}"},
                            "extra_content": {"google": {"thought_signature": "sig"}},
                        }
                    ],
                },
                "finish_reason": "tool_calls",
            }
        ]
    }
    with ScriptedModel([{"raw": f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n"}, {"text": "ok"}]) as model:
        house = House({"p": chat_entry(model.base_url)})
        response = ask(house.make("p"), request())[0]
        message = Message("assistant", (*response.opaque, ToolUseBlock(response.tool_calls[0])))
        foreign = Message("assistant", (OpaqueBlock("another", {"signature": "z"}), TextBlock("x")))
        ask(house.make("p"), request(user("a"), message, result("c1", "r"), foreign))
    first, _, second = model.requests[1].messages[2:]
    assert first["reasoning_details"] == [{"type": "reasoning.encrypted", "data": "xyz"}]
    assert first["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "sig"}}
    assert second == {"role": "assistant", "content": "x"}


# ------------------------------------------------------------------ keys


def test_the_key_goes_out_as_a_bearer_and_is_read_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedModel([{"text": "ok"}] * 3) as model:
        house = House({"p": chat_entry(model.base_url, api_key_env="SOME_KEY")})
        for value in ("first-key-123", " second-key-123\n", ""):
            monkeypatch.setenv("SOME_KEY", value)
            ask(house.make("p"), request())
    keys = [one.headers.get("authorization") for one in model.requests]
    assert keys == ["Bearer first-key-123", "Bearer second-key-123", None]
    assert house.secrets.scrub("first-key-123 second-key-123") == "[redacted] [redacted]"


def test_a_redirect_is_not_followed_and_the_key_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", CANARY)
    with ScriptedModel() as elsewhere:
        for status in (301, 302, 303, 307, 308):
            moved = {"status": status, "headers": {"location": f"{elsewhere.base_url}/chat/completions"}}
            with ScriptedModel([{"error": {**moved, "body": "moved"}}]) as model:
                provider = House({"p": chat_entry(model.base_url, api_key_env="SOME_KEY")}).make("p")
                with pytest.raises(ProviderError, match="redirects are not followed") as caught:
                    ask(provider, request())
            assert (caught.value.kind, caught.value.status) == ("invalid_request", status)
        assert not elsewhere.requests
        assert not elsewhere.others


def test_own_headers_are_added_but_cannot_replace_the_framing() -> None:
    got = sent(entry={"headers": {"X-Title": "adder", "Content-Length": "1", "Host": "evil", "Transfer-Encoding": "x"}})
    assert got.headers["x-title"] == "adder"
    assert got.headers["host"].startswith("127.0.0.1:")
    assert "transfer-encoding" not in got.headers


def test_tool_calls_keep_their_ids_over_the_wire() -> None:
    call = ToolCall("toolu_1", "Read", {})
    got = sent(Message("assistant", (ToolUseBlock(call),)), result("toolu_1", "x"))
    assert got.messages[1]["tool_calls"][0]["id"] == got.messages[2]["tool_call_id"] == "toolu_1"
