"""The Responses adapter: what goes out byte for byte, and what odd servers send back."""

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from adderclaw.config.schema import ModelEntry, ProviderEntry
from adderclaw.core.errors import ConfigError, ProviderError
from adderclaw.core.types import (
    ChatResponse,
    MediaBlock,
    Message,
    OpaqueBlock,
    TextBlock,
    Thinking,
    ToolCall,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
)
from adderclaw.models.providers.responses import OpenAIResponses
from tests.models.providers.making import READ, Heard, House, ask, called, request, result, run, user
from tests.rows import rows
from tests.scripted import Json, Request
from tests.scripted_responses import STARTED, ScriptedResponses

OPEN: Json = {"type": "object", "properties": {"a": {}}}
CLOSED: Json = {**OPEN, "required": ["a"], "additionalProperties": False}
CANARY = "canary-9f8e7d6c5b4a3210"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)


def entry(base_url: str, **more: Any) -> ProviderEntry:
    fields: Json = {"kind": "openai", "base_url": base_url, "model": "gpt-5-mini", **more}
    return ProviderEntry(**fields)


def sent(*messages: Message, settings: Json | None = None, **more: Any) -> Request:
    with ScriptedResponses([{"text": "ok"}]) as model:
        house = House({"p": entry(model.base_url, **(settings or {}))})
        house.config.models["gpt-5-mini"] = ModelEntry(vision=True, pdf=True)
        house.config.models["blind"] = ModelEntry(vision=False, pdf=False)
        ask(house.make("p"), request(*messages, **{"model": "gpt-5-mini", **more}))
    return model.requests[0]


def answer(step: Json, heard: list[Any] | None = None) -> ChatResponse:
    with ScriptedResponses([step]) as model:
        return ask(House({"p": entry(model.base_url)}).make("p"), request(tools=(READ,)), heard=heard)[0]


def events(*events: Json) -> Json:
    return {"raw": "".join(f"data: {json.dumps(event)}\n\n" for event in events)}


def completed(*output: Json, **more: Any) -> Json:
    fixed = {**STARTED, "id": "r", "model": "m", "usage": None}
    response: Json = {**fixed, "status": "completed", "output": list(output), **more}
    return {"type": f"response.{response['status']}", "response": response}


def failure(step: Json, **settings: Any) -> ProviderError:
    limit = settings.pop("max_response_bytes", 1_048_576)
    with ScriptedResponses([step]) as model:
        house = House({"p": entry(model.base_url, **settings)}, max_response_bytes=limit)
        with pytest.raises(ProviderError) as caught:
            ask(house.make("p"), request())
    assert "\n" not in str(caught.value)
    assert CANARY not in f"{caught.value} {caught.value!r} {house.told}"
    return caught.value


# ------------------------------------------------------------------ refusals


def test_no_key_is_said_before_any_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with ScriptedResponses() as model, pytest.raises(ProviderError, match=r"export OPENAI_API_KEY=") as caught:
        ask(House({"p": entry(model.base_url)}).make("p"), request())
    assert caught.value.kind == "missing_key"


def test_a_model_must_be_named() -> None:
    house = House({"p": ProviderEntry(kind="openai", base_url="http://127.0.0.1/v1")})
    house.config = replace(house.config, default_model="")
    with pytest.raises(ConfigError, match="no model is named"):
        house.make("p")


@rows(
    ("step", "kind", "words"),
    [
        ({"html": "<html><h1>Sign in</h1>"}, "malformed", "text/html"),
        ({"broken_json": True}, "malformed", "not a JSON object"),
        ({"broken_json": True, "stream": False}, "malformed", "openai-compatible"),
        ({"raw": ""}, "malformed", "before the answer was whole"),
        ({"raw": "{}", "stream": False}, "malformed", "without `output`"),
        ({"raw": "data: [DONE]\n\n"}, "malformed", "before the answer was whole"),
        (events({"type": "response.created", "response": {}}), "malformed", "before the answer was whole"),
        (events({"type": "response.output_text.delta", "delta": "half"}), "malformed", "whole; ask again"),
        ({"text": "a b c", "cut": 90}, "malformed", "cut the answer off; ask again"),
        ({"reset": True}, "network", "base_url"),
        ({"hang": 30}, "timeout", "timeout_seconds"),
        ({"error": {"status": 404, "body": "<html>nginx"}}, "invalid_request", "openai-compatible"),
        ({"error": {"status": 401, "body": f"no {CANARY}"}}, "authentication_failed", "api_key_env"),
        (events(completed(status="failed", error=None)), "server_error", "failed"),
        (events(completed(status="failed", error={"code": "invalid_image", "message": "x"})), "invalid_request", "x"),
        (events({"error": {"message": "odd", "code": 429}}), "rate_limit", "odd"),
        ({"raw": json.dumps({"error": {"message": "x"}}), "stream": False}, "server_error", "x"),
    ],
)
def test_what_is_no_answer(step: Json, kind: str, words: str) -> None:
    error = failure(step, timeout_seconds=0.5 if "hang" in step else 20)
    assert error.kind == kind
    assert words in str(error)


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_beyond_the_limit_is_refused(stream: bool) -> None:
    error = failure({"text": "word " * 1000, "stream": stream}, max_response_bytes=3000)
    assert (error.kind, "max_response_bytes = 3000" in str(error)) == ("invalid_request", True)


def test_a_redirect_is_not_followed() -> None:
    with ScriptedResponses() as elsewhere:
        moved = {"status": 307, "body": "moved", "headers": {"location": f"{elsewhere.base_url}/responses"}}
        assert "redirects are not followed" in str(failure({"error": moved}))
        assert not elsewhere.requests


def test_a_stream_that_falls_silent() -> None:
    with ScriptedResponses([{"text": "a b c d", "piece": 300, "slow_ms": 3000}]) as model:
        provider = House({"p": entry(model.base_url)}).make("p")
        assert isinstance(provider, OpenAIResponses)
        provider.wire.between_seconds = 0.2
        with pytest.raises(ProviderError, match="fell silent") as caught:
            ask(provider, request())
    assert caught.value.kind == "timeout"


# ------------------------------------------------------------------ the request


def test_the_body_is_as_the_api_has_it_with_the_input_last() -> None:
    got = sent(
        tools=(READ,),
        temperature=0.5,
        max_tokens=70,
        tool_choice="Read",
        thinking=Thinking(tokens=20_000),
        response_schema=OPEN,
    )
    assert got.path == "/v1/responses"
    assert got.headers["authorization"] == f"Bearer {CANARY}"
    assert list(got.json)[-1] == "input"
    assert got.json == {
        "model": "gpt-5-mini",
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "instructions": "be good",
        "tools": [
            {
                "type": "function",
                "name": "Read",
                "description": "Reads a file.",
                "parameters": READ.parameters,
                "strict": False,
            }
        ],
        "tool_choice": {"type": "function", "name": "Read"},
        "text": {"format": {"type": "json_schema", "name": "answer", "schema": OPEN, "strict": False}},
        "reasoning": {"effort": "high", "summary": "auto"},
        "max_output_tokens": 70,
        "input": [{"role": "user", "content": "hello"}],
    }


@rows(
    ("model", "thinks"),
    [
        ("o3", True),
        ("o4-mini-2025-04-16", True),
        ("gpt-5.3-codex", True),
        ("gpt-6-astra", True),
        ("gpt-10", True),
        ("codex-mini-latest", True),
        ("openai/gpt-5", True),
        ("gpt-4o", False),
        ("gpt-4.1-mini", False),
        ("ft:gpt-4o:acme", False),
        ("gpt-5-chat-latest", False),
    ],
)
def test_only_models_that_reason_are_asked_for_it(model: str, thinks: bool) -> None:
    got = sent(model=model, thinking=Thinking(tokens=100)).json
    assert ("include" in got, "reasoning" in got) == (thinks, thinks)


@pytest.mark.parametrize(("tokens", "effort"), [(0, "minimal"), (4096, "low"), (4097, "medium"), (30_000, "high")])
def test_effort(tokens: int, effort: str) -> None:
    assert sent(thinking=Thinking(tokens=tokens)).json["reasoning"]["effort"] == effort


@pytest.mark.parametrize("model", ["gpt-oss:20b", "omni-moderation", "my-deployment"])
def test_a_model_of_which_nothing_is_known_is_told_what_the_operator_says_and_nothing_else(model: str) -> None:
    assert sent(model=model).json.keys().isdisjoint({"reasoning", "include"})
    assert sent(model=model, thinking=Thinking(effort="low")).json["reasoning"] == {"effort": "low", "summary": "auto"}


@rows(
    ("schema", "strict"),
    [
        ({}, False),
        ({"type": "array"}, False),
        (OPEN, False),
        ({**CLOSED, "required": []}, False),
        ({**CLOSED, "properties": {"a": OPEN}}, False),
        ({**CLOSED, "properties": {"a": {"anyOf": [OPEN]}}}, False),
        ({**CLOSED, "properties": {"a": {"items": {"properties": {"b": {}}}}}}, False),
        ({**CLOSED, "$defs": {"B": OPEN}}, False),
        ({**CLOSED, "allOf": []}, False),
        (CLOSED, True),
        ({**CLOSED, "properties": {"a": CLOSED}}, True),
        ({"type": "object", "properties": {"not": {}}, "required": ["not"], "additionalProperties": False}, True),
    ],
)
def test_only_a_schema_that_can_be_promised_is_strict(schema: Json, strict: bool) -> None:
    assert sent(response_schema=schema).json["text"]["format"]["strict"] is strict


ITEM: Json = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
PNG, PDF = MediaBlock("image/png", "aGk=", "a.png"), MediaBlock("application/pdf", "aGk=", "")


@rows(
    ("message", "wire"),
    [
        (user("ünï 😀"), [{"role": "user", "content": "ünï 😀"}]),
        (user("half \ud83d"), [{"role": "user", "content": "half ?"}]),
        (result("c1", "fine"), [{"type": "function_call_output", "call_id": "c1", "output": "fine"}]),
        (result("c1", "no", is_error=True), [{"type": "function_call_output", "call_id": "c1", "output": "Error: no"}]),
        (Message("assistant", (TextBlock("hi"),)), [{"type": "message", "role": "assistant", "content": "hi"}]),
        (Message("assistant", ()), []),
        (
            called("c1", "Read", {"a": "ä"}, "so"),
            [
                {"type": "message", "role": "assistant", "content": "so"},
                {"type": "function_call", "call_id": "c1", "name": "Read", "arguments": '{"a":"ä"}'},
            ],
        ),
        (
            called("c1", "what is this?", None),
            [{"type": "function_call", "call_id": "c1", "name": "what_is_this_", "arguments": "{}"}],
        ),
        (
            called("c1", "", {}),
            [{"type": "function_call", "call_id": "c1", "name": "unnamed", "arguments": "{}"}],
        ),
        (
            Message("user", (ToolResultBlock("c1", "saw", False, (PNG, MediaBlock("audio/wav", "aGk=", "b.wav"))),)),
            [
                {
                    "type": "function_call_output",
                    "call_id": "c1",
                    "output": [
                        {"type": "input_text", "text": "saw"},
                        {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"},
                        {"type": "input_text", "text": "[file: b.wav]"},
                    ],
                }
            ],
        ),
        (
            Message("user", (TextBlock("see"), PNG, PDF, MediaBlock("audio/wav", "aGk=", "b.wav"))),
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "see"},
                        {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"},
                        {
                            "type": "input_file",
                            "filename": "document.pdf",
                            "file_data": "data:application/pdf;base64,aGk=",
                        },
                        {"type": "input_text", "text": "[file: b.wav]"},
                    ],
                }
            ],
        ),
        (
            Message("assistant", (OpaqueBlock("openai-responses/elsewhere", {"item": ITEM, "before": "text"}),)),
            [],
        ),
    ],
)
def test_messages_on_the_wire(message: Message, wire: list[Json]) -> None:
    assert sent(message).json["input"] == wire


def test_a_blind_model_is_told_what_it_cannot_see() -> None:
    got = sent(Message("user", (PNG, PDF)), model="blind").json["input"]
    assert [part["text"] for part in got[0]["content"]] == ["[image: a.png]", "[file: application/pdf]"]


def test_each_body_begins_with_the_one_before_it() -> None:
    with ScriptedResponses([{"text": "ok"}] * 4) as model:
        provider = House({"p": entry(model.base_url)}).make("p")
        asked = request(user("a"), tools=(READ,))

        async def grow() -> None:
            for step in range(4):
                await provider.chat(asked, lambda _: None)
                asked.messages.append(called(f"c{step}", "Read", {"file_path": "x"}))
                asked.messages.append(result(f"c{step}", "y"))
            await provider.close()

        run(grow())
    for shorter, longer in pairwise(one.body for one in model.requests):
        assert longer.startswith(shorter.removesuffix(b"]}"))
    assert {one.connection for one in model.requests} == {1}


def test_reasoning_goes_back_right_before_what_it_led_to() -> None:
    def thought(name: str) -> Json:
        return {"type": "reasoning", "id": name, "summary": [], "encrypted_content": f"enc {name}", "status": None}

    def call(name: str) -> Json:
        return {"type": "function_call", "id": f"f{name}", "call_id": name, "name": "Read", "arguments": "{}"}

    words = {"type": "output_text", "text": "look"}
    message = {"type": "message", "id": "m", "role": "assistant", "phase": "commentary", "content": [words]}
    output = [thought("r1"), message, thought("r2"), call("c1"), call("c2"), thought("r3"), thought("r4"), call("c3")]
    output += [thought("dangling"), {"type": "web_search_call", "id": "w"}]
    with ScriptedResponses([events(completed(*output)), {"text": "ok"}, {"text": "ok"}]) as model:
        house = House({"p": entry(model.base_url)})
        first = ask(house.make("p"), request())[0]
        calls = [ToolUseBlock(one) for one in first.tool_calls]
        kept = Message("assistant", (*first.opaque, TextBlock(first.final_text), *calls))
        ask(house.make("p"), request(user("a"), kept, model="gpt-5"), request(user("a"), kept, model="gpt-4o"))
    back, plain = (one.json["input"][1:] for one in model.requests[1:])
    assert [item.get("id") or item.get("call_id") or item["content"] for item in back] == [
        "r1", "look", "r2", "c1", "c2", "r3", "r4", "c3",
    ]  # fmt: skip
    assert back[0] == {"type": "reasoning", "id": "r1", "summary": [], "encrypted_content": "enc r1"}
    assert back[1] == {"type": "message", "role": "assistant", "content": "look", "phase": "commentary"}
    # a model that does not reason is refused another's reasoning
    assert [item.get("type") for item in plain] == ["message", "function_call", "function_call", "function_call"]


def test_reasoning_that_could_not_be_found_again_is_not_kept() -> None:
    thought = {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": "hm"}]}
    words = {"type": "message", "content": [{"type": "output_text", "text": "a"}]}
    heard = Heard()
    assert answer(events(completed(thought, words)), heard).opaque == ()
    assert [one.text for one in heard if one.kind == "thinking"] == ["hm"]


# ------------------------------------------------------------------ the answer


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("given", [True, False])
def test_streaming_or_not_whatever_was_asked(asked: bool, given: bool) -> None:
    call = {"name": "Read", "arguments": {"file_path": "ä"}}
    heard = Heard()
    with ScriptedResponses([{"text": "let me  look\n", "tool_calls": [call, call], "stream": given}]) as model:
        provider = House({"p": entry(model.base_url, stream=asked)}).make("p")
        response = ask(provider, request(tools=(READ,)), heard=heard)[0]
    assert response.final_text == heard.text == "let me  look\n"
    assert [call.arguments for call in response.tool_calls] == [{"file_path": "ä"}] * 2
    assert response.tool_calls[0].id != response.tool_calls[1].id
    assert (response.stop_reason, response.usage) == ("tool_use", Usage(100, 20))
    assert [one.text for one in heard if one.kind == "tool"] == ["Read", "Read"]


def text_delta(text: str, **more: Any) -> Json:
    return {"type": "response.output_text.delta", "delta": text, **more}


def added(kind: str, item_id: str, place: int, **more: Any) -> Json:
    return {"type": "response.output_item.added", "output_index": place, "item": {"type": kind, "id": item_id, **more}}


def done(kind: str, item_id: str, place: int, **more: Any) -> Json:
    return {"type": "response.output_item.done", "output_index": place, "item": {"type": kind, "id": item_id, **more}}


def words(text: str) -> list[Json]:
    return [{"type": "output_text", "text": text}]


ODD: list[Any] = [
    # nothing but the last event
    ([completed({"type": "message", "content": words("all")})], "all", []),
    # nothing in the last event
    ([added("message", "m", 0), text_delta("a", item_id="m"), text_delta("b", item_id="m"), completed()], "ab", []),
    # pieces that belong nowhere
    ([text_delta("a"), text_delta("b"), completed()], "ab", []),
    # another id with every event
    (
        [
            added("message", "x1", 0),
            text_delta("a", item_id="x2", output_index=0),
            done("message", "x3", 0, content=words("ab")),
            completed({"type": "message", "id": "x4", "content": words("ab")}),
        ],
        "ab",
        [],
    ),
    # every item at place 0
    (
        [
            added("message", "m", 0),
            text_delta("hi", item_id="m", output_index=0),
            added("function_call", "f", 0, name="Read", call_id="c"),
            {"type": "response.function_call_arguments.delta", "item_id": "f", "output_index": 0, "delta": "{}"},
            done("message", "m", 0, content=words("hi")),
            done("function_call", "f", 0, name="Read", call_id="c", arguments="{}"),
            completed(),
        ],
        "hi",
        [("c", "Read", {})],
    ),
    # no ids at all
    (
        [completed({"type": "function_call", "name": "Read", "arguments": '{"a":1}'}, {"type": "function_call"})],
        "",
        [("call_1_0", "Read", {"a": 1}), ("call_1_1", "", {})],
    ),
    # broken arguments
    ([completed({"type": "function_call", "call_id": "c", "arguments": '{"a":'})], "", [("c", "", None)]),
    # surrogates in two pieces, unknown events, nonsense
    ([text_delta("\ud83d"), text_delta("\ude00"), {"type": "response.new_thing"}, {"type": 7}, completed()], "😀", []),
    ([added("message", "m", 0), {**text_delta("x"), "delta": 7}, completed({"type": "message", "content": 7})], "", []),
    ([{"type": "response.completed", "response": {"status": "completed", "output": None, "usage": 3}}], "", []),
]


@rows(("stream", "text", "calls"), ODD)
def test_odd_streams(stream: list[Json], text: str, calls: list[tuple[str, str, Any]]) -> None:
    heard = Heard()
    response = answer(events(*stream), heard)
    assert response.final_text == text
    assert [(call.id, call.name, call.arguments) for call in response.tool_calls] == calls
    assert response.stop_reason == ("tool_use" if calls else "end")


@pytest.mark.parametrize(
    ("why", "reason"), [("max_output_tokens", "max_tokens"), ("content_filter", "refusal"), ("strange", "other")]
)
def test_why_it_ended_early(why: str, reason: str) -> None:
    assert answer({"text": "a", "incomplete": why}).stop_reason == reason


def test_a_refusal_is_shown_as_one() -> None:
    heard = Heard()
    response = answer({"refusal": "I will not."}, heard)
    assert (response.final_text, heard.text, response.stop_reason) == ("I will not.", "I will not.", "refusal")


def test_an_id_used_before_in_the_conversation_is_replaced() -> None:
    told = (user("a"), called("c", "Read", {}), result("c", "x"))
    with ScriptedResponses([{"reasoning": "gAAA", "tool_calls": [{"name": "Read", "id": "c"}]}]) as model:
        response = ask(House({"p": entry(model.base_url)}).make("p"), request(*told))[0]
    assert response.tool_calls == (ToolCall("call_2_0", "Read", {}),)
    assert response.opaque[0].payload["before"] == "call_2_0"


# ------------------------------------------------------------------ counting


def counted(*counts: object, times: int = 1) -> tuple[list[int | None], list[Request]]:
    async def each() -> list[int | None]:
        try:
            return [await provider.count(request(model="gpt-5")) for _ in range(times)]
        finally:
            await provider.close()

    with ScriptedResponses(counts=counts) as model:
        provider = House({"p": entry(f"{model.base_url}?api-version=1")}).make("p")
        return run(each()), model.counted


@pytest.mark.parametrize("status", [400, 404, 405, 501])
def test_a_server_that_does_not_count_is_asked_once(status: int) -> None:
    numbers, asked = counted((status, {"error": {"message": "no"}}), times=3)
    assert (numbers, len(asked)) == ([None, None, None], 1)


@pytest.mark.parametrize(
    ("status", "kind"), [(401, "authentication_failed"), (429, "rate_limit"), (500, "server_error")]
)
def test_another_error_while_counting_is_one(status: int, kind: str) -> None:
    with pytest.raises(ProviderError) as caught:
        counted((status, {"error": {"message": "no"}}))
    assert caught.value.kind == kind


def test_a_conversation_that_is_too_long_to_be_counted_is_said_to_be() -> None:
    with pytest.raises(ProviderError) as caught:
        counted((400, {"error": {"message": "x", "code": "context_length_exceeded"}}))
    assert caught.value.kind == "context_overflow"


def test_counting() -> None:
    numbers, asked = counted(512, 513, times=2)
    assert numbers == [512, 513]
    assert asked[0].path == "/v1/responses/input_tokens?api-version=1"
    assert asked[0].json.keys() == {"model", "instructions", "input"}
