"""What single servers of the Chat Completions API want otherwise, and say otherwise."""

import json
from dataclasses import replace
from typing import Any

import pytest

from adderclaw.config.schema import ModelEntry, ProviderEntry
from adderclaw.core.errors import ProviderError
from adderclaw.core.types import MediaBlock, Message, TextBlock, Thinking, ToolResultBlock, ToolUseBlock, Usage
from adderclaw.models.providers.faults import retry_after
from adderclaw.models.providers.openai import OpenAIChat
from tests.models.providers.making import READ, House, ask, called, chat_entry, request, result, user
from tests.rows import rows
from tests.scripted import Json, ScriptedModel


def sent(*messages: Message, settings: Json | None = None, **more: Any) -> Json:
    with ScriptedModel([{"text": "ok"}]) as model:
        house = House({"p": chat_entry(model.base_url, **(settings or {}))})
        house.config.models["seeing"] = ModelEntry(vision=True, pdf=True)
        ask(house.make("p"), request(*messages, **more))
    return model.requests[0].json


def chunks(*chunks: Json) -> Json:
    return {"raw": "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"}


def delta(finish: str | None = None, **fields: Any) -> Json:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


# ------------------------------------------------------------------ requests


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("o3-mini", "max_completion_tokens"),
        ("gpt-5", "max_completion_tokens"),
        ("gpt-4o", "max_tokens"),
        ("openai/gpt-5", "max_tokens"),
        ("gpt-oss:20b", "max_tokens"),
        ("qwen3", "max_tokens"),
        ("olmo2", "max_tokens"),
    ],
)
def test_the_name_of_the_longest_answer_by_model(model: str, name: str) -> None:
    got = sent(model=model, max_tokens=9)
    assert {key: value for key, value in got.items() if key.startswith("max_")} == {name: 9}


@pytest.mark.parametrize(
    ("base_url", "new"),
    [
        ("https://api.openai.com/v1", True),
        ("https://acme.openai.azure.com/openai/v1", True),
        ("https://api.openai.com.evil.example/v1", False),
        ("https://openrouter.ai/api/v1", False),
    ],
)
def test_and_by_host(base_url: str, new: bool) -> None:
    provider = House({"p": chat_entry(base_url)}).make("p")
    assert isinstance(provider, OpenAIChat)
    body = json.loads(provider.body(request(model="gpt-4o", max_tokens=9)))
    assert ("max_completion_tokens" in body) is new


def test_thinking_is_asked_for_in_each_servers_words() -> None:
    assert sent(model="o3", thinking=Thinking(tokens=9000))["reasoning_effort"] == "medium"
    assert "reasoning_effort" not in sent(model="gpt-4o", thinking=Thinking(tokens=9000))
    with ScriptedModel([{"text": "ok"}]) as model:
        entry = ProviderEntry(kind="openrouter", base_url=model.base_url, model="m")
        ask(House({"p": entry}).make("p"), request(thinking=Thinking(tokens=9000)))
    assert model.requests[0].json["reasoning"] == {"max_tokens": 9000}


def test_a_schema_for_the_answer() -> None:
    schema: Json = {"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": False}
    described = {"name": "answer", "schema": schema, "strict": True}
    assert sent(response_schema=schema)["response_format"] == {"type": "json_schema", "json_schema": described}


PNG, PDF = MediaBlock("image/png", "aGk=", "a.png"), MediaBlock("application/pdf", "aGk=", "b.pdf")


def test_images_and_documents_where_the_model_takes_them() -> None:
    message = Message("user", (ToolResultBlock("c", "saw", False), TextBlock("see"), PNG, PDF))
    tool, said = sent(message, model="seeing")["messages"][1:]
    assert tool == {"role": "tool", "tool_call_id": "c", "content": "saw"}
    assert said["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
        {"type": "file", "file": {"filename": "b.pdf", "file_data": "data:application/pdf;base64,aGk="}},
    ]
    placeholders = sent(message, model="blind")["messages"][2]["content"]
    assert [part["text"] for part in placeholders] == ["see", "[image: a.png]", "[file: b.pdf]"]


def test_what_a_tool_showed_follows_its_result_as_a_message() -> None:
    message = Message("user", (ToolResultBlock("c", "saw", False, (PNG,)), ToolResultBlock("d", "ok", False)))
    first, second, said = sent(message, model="seeing")["messages"][1:]
    assert (first["content"], second["content"], said["role"]) == ("saw", "ok", "user")
    assert said["content"] == [
        {"type": "text", "text": "(from the result of the tool call c)"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
    ]
    noted = sent(message, model="blind")["messages"][3]["content"]
    assert noted[1] == {"type": "text", "text": "[image: a.png]"}


def test_the_form_of_an_image_follows_the_model_within_one_history() -> None:
    seeing = request(Message("user", (PNG,)), model="seeing")
    with ScriptedModel([{"text": "ok"}] * 2) as model:
        house = House({"p": chat_entry(model.base_url)})
        house.config.models["seeing"] = ModelEntry(vision=True)
        ask(house.make("p"), seeing, replace(seeing, model="blind"))
    assert [one.messages[1]["content"][0]["type"] for one in model.requests] == ["image_url", "text"]


def test_a_name_that_no_server_takes_back_is_bent() -> None:
    got = sent(user("a"), called("c", "what is this?" + "x" * 80, {}), result("c", "no"))
    assert got["messages"][2]["tool_calls"][0]["function"]["name"] == ("what_is_this_" + "x" * 80)[:64]


@pytest.mark.parametrize(
    ("asked", "variable", "sent_model"),
    [
        ("lm_studio_server_routed", "qwen", "qwen"),
        ("lm_studio_server_routed", "", None),
        ("gemma", "qwen", "gemma"),
    ],
)
def test_lm_studio_routes(asked: str, variable: str, sent_model: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LM_STUDIO_MODEL", variable)
    with ScriptedModel([{"text": "ok"}]) as model:
        monkeypatch.setenv("LM_STUDIO_BASE_URL", model.base_url)
        ask(House({"p": ProviderEntry(kind="lm-studio", model=asked)}).make("p"), request(model=asked))
    assert model.requests[0].json.get("model") == sent_model


# ------------------------------------------------------------------ answers


def test_what_a_router_says_of_itself_is_kept() -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "cost": 0.25}
    step = chunks({**delta("stop", content="hi"), "provider": "Azure"}, {"choices": [], "usage": usage})
    with ScriptedModel([step]) as model:
        response = ask(House({"p": chat_entry(model.base_url)}).make("p"), request())[0]
    assert response.raw_provider_payload == {"finish_reason": "stop", "status": 200, "provider": "Azure", "cost": 0.25}


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 10, "prompt_cache_hit_tokens": 8, "completion_tokens": 1}, Usage(2, 1, 8)),
        (
            {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 5}},
            Usage(2, 0, 3, 5),
        ),
        (
            {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 9, "cache_write_tokens": 9}},
            Usage(0, 0, 9, 1),
        ),
    ],
)
def test_cached_tokens_in_other_words(usage: Json, expected: Usage) -> None:
    with ScriptedModel([chunks(delta("stop", content="a"), {"choices": [], "usage": usage})]) as model:
        assert ask(House({"p": chat_entry(model.base_url)}).make("p"), request())[0].usage == expected


def test_reasoning_in_pieces_goes_back_as_one_block() -> None:
    def piece(index: int | None, **fields: Any) -> Json:
        return delta(reasoning_details=[{"type": "reasoning.text", "index": index, **fields}])

    call = {"index": 0, "id": "c", "function": {"name": "Read", "arguments": "{}"}}
    step = chunks(
        piece(0, text="a"),
        piece(0, text="b"),
        piece(0, text=None, signature="s"),
        piece(1, text="c"),
        delta(reasoning_details=[{"type": "reasoning.encrypted", "data": "x", "index": 1}]),
        piece(None, text="d"),
        piece(None, text="e"),
        delta("tool_calls", tool_calls=[call]),
    )
    with ScriptedModel([step, {"text": "ok"}]) as model:
        house = House({"p": chat_entry(model.base_url)})
        first = ask(house.make("p"), request(tools=(READ,)))[0]
        kept = Message("assistant", (*first.opaque, ToolUseBlock(first.tool_calls[0])))
        ask(house.make("p"), request(user("a"), kept, result("c", "r")))
    details = model.requests[1].messages[2]["reasoning_details"]
    assert [one.get("text") or one.get("data") for one in details] == ["ab", "c", "x", "d", "e"]
    assert details[0]["signature"] == "s"


def test_thoughts_go_back_under_the_name_that_they_came_with() -> None:
    call = {"index": 0, "id": "c", "function": {"name": "Read", "arguments": "{}"}}
    with ScriptedModel([chunks(delta(reasoning="hm"), delta("tool_calls", tool_calls=[call]))]) as model:
        response = ask(House({"p": chat_entry(model.base_url)}).make("p"), request(tools=(READ,)))[0]
    assert [block.payload for block in response.opaque] == [{"reasoning": "hm"}]


def test_an_end_by_error_without_a_reason_is_one() -> None:
    with ScriptedModel([chunks(delta("error", content="par"))]) as model, pytest.raises(ProviderError) as caught:
        ask(House({"p": chat_entry(model.base_url)}).make("p"), request())
    assert caught.value.kind == "server_error"


def test_a_model_without_tools_is_told_apart() -> None:
    fault = {"status": 400, "body": {"error": {"message": "library/gemma:2b does not support tools"}}}
    with ScriptedModel([{"error": fault}]) as model, pytest.raises(ProviderError, match="text_tool_calls"):
        ask(House({"p": chat_entry(model.base_url)}).make("p"), request(tools=(READ,)))


# ------------------------------------------------------------------ when to come back


@rows(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"reset-requests": "20s", "remaining-requests": "0", "reset-tokens": "6m0s", "remaining-tokens": "9"}, 20.0),
        ({"reset-requests": "20s", "remaining-requests": "4", "reset-tokens": "6m0s", "remaining-tokens": "0"}, 360.0),
        ({"reset-requests": "20s", "remaining-requests": "0", "reset-tokens": "120ms", "remaining-tokens": "0"}, 20.0),
        ({"reset-requests": "20s", "remaining-requests": "4", "reset-tokens": "120ms", "remaining-tokens": "9"}, 0.12),
        ({"reset-tokens": "1h2m3.5s"}, 3723.5),
        ({"reset-tokens": "1d"}, 86400.0),
        ({"reset-tokens": "soon"}, None),
        ({"reset-tokens": "5s later"}, None),
        ({"reset-tokens": ""}, None),
    ],
)
def test_openais_reset_times(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after({f"x-ratelimit-{name}": value for name, value in headers.items()}, 0.0) == seconds


def test_retry_after_goes_before_reset_times() -> None:
    assert retry_after({"retry-after": "3", "x-ratelimit-reset-tokens": "6m0s"}, 0.0) == 3.0
