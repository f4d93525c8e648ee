"""The vendor's SDK as oracle: what we send is what its types allow, what we understand is what it understands."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import anthropic
import pytest
from anthropic import transform_schema
from anthropic.types import MessageCountTokensParams, MessageCreateParams
from pydantic import TypeAdapter, ValidationError

from adderclaw.config.schema import ProviderEntry
from adderclaw.core.errors import ProviderError
from adderclaw.core.types import (
    ChatRequest,
    ChatResponse,
    Json,
    MediaBlock,
    Message,
    OpaqueBlock,
    TextBlock,
    Thinking,
    ToolCall,
    ToolResultBlock,
    ToolUseBlock,
)
from adderclaw.models.providers.anthropic import strict
from adderclaw.tools.specs import specs
from tests.models.providers.making import READ, House, ask, called, request, result, run, user
from tests.rows import rows
from tests.scripted_anthropic import ScriptedMessages, Step

CORPUS = Path(__file__).parents[1] / "corpus" / "anthropic"
STREAMS = sorted(path.name for path in CORPUS.glob("*.sse") if not path.name.startswith("error_"))
CLAUDE = "claude-haiku-4-5"
BODY, COUNTED_BODY = TypeAdapter[Any](MessageCreateParams), TypeAdapter[Any](MessageCountTokensParams)
"""Kept: what is validated while it is read must not outlive its adapter."""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "CLAUDE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary-9f8e7d6c5b4a3210")


def our_provider(base_url: str, **more: Any) -> Any:
    return House({"p": ProviderEntry(kind="anthropic", base_url=base_url, model=CLAUDE, **more)}).make("p")


def sdk(base_url: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=base_url, api_key="canary-9f8e7d6c5b4a3210", max_retries=0, timeout=60)


# ------------------------------------------------------------------ requests


def thought(**more: Any) -> OpaqueBlock:
    return OpaqueBlock("anthropic", {"type": "thinking", "thinking": "hm", "signature": "sig==", **more})


MEDIA = Message("user", (MediaBlock("image/png", "iVBORw0=", "a.png"), MediaBlock("application/pdf", "JVBE", "a.pdf")))
SCHEMA: Json = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}, "required": ["a"]}
BROKEN = ToolUseBlock(ToolCall("b", "Read", None, "{"))
RESULTS = (ToolResultBlock("a", "1", False), ToolResultBlock("b", "no", True), TextBlock("go on"))
TALK = (
    user("ünï 😀"),
    Message("assistant", (OpaqueBlock("anthropic", {"type": "redacted_thinking", "data": "xyz"}), TextBlock("so"))),
    MEDIA,
    Message("assistant", (thought(), TextBlock("look"), ToolUseBlock(ToolCall("a", "Read", {"x": [1]})), BROKEN)),
    Message("user", RESULTS),
)

REQUESTS: list[Any] = [
    request(user("a"), model=CLAUDE),
    request(*TALK, model=CLAUDE, tools=(READ,)),
    request(*TALK, model=CLAUDE, tools=tuple(specs().values()), max_tokens=100),
    request(user("a"), model=CLAUDE, tools=(READ,), tool_choice="Read"),
    request(user("a"), model=CLAUDE, thinking=Thinking(tokens=2000)),
    request(user("a"), model="claude-opus-4-7", thinking=Thinking(tokens=2000), temperature=0.5),
    request(user("a"), model=CLAUDE, response_schema=SCHEMA),
    request(user("a"), called("functions.Read:0", "a.b", {}), result("functions.Read:0", ""), model=CLAUDE),
    request(user(""), model=CLAUDE, system_prompt=""),
]


def plain(value: Any) -> Any:
    """What pydantic made of a body: it validates what is iterable only while that is read."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in cast(Json, value).items()}
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        return value
    return [plain(inner) for inner in cast(Iterable[Any], value)]


@rows("stream", [True, False])
@rows("asked", REQUESTS)
def test_each_body_is_of_the_sdks_own_type(asked: ChatRequest, stream: bool) -> None:
    """A key that the types do not know would be dropped, and the two would differ."""
    with ScriptedMessages([{"text": "ok"}]) as model:
        ask(our_provider(model.base_url, stream=stream), asked)
    body = model.requests[0].json
    assert plain(BODY.validate_python(body)) == body


@rows(
    "wrong",
    [
        {"max_tokens": "many"},
        {"extra": 1},
        {"tools": [{"name": "Read"}]},
        {"thinking": {"type": "enabled"}},
        {"messages": [{"role": "tool", "content": "x"}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "x", "extra": 1}]}]},
        {"messages": [{"role": "user", "content": [{"type": "tool_result", "content": "x"}]}]},
        {"messages": [{"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]}]},
    ],
)
def test_the_oracle_notices_what_is_wrong(wrong: Json) -> None:
    body: Json = {"model": CLAUDE, "max_tokens": 1, "stream": True, "messages": [], **wrong}
    try:
        read = plain(BODY.validate_python(body))
    except ValidationError:
        return
    assert read != body


@rows("asked", REQUESTS)
def test_each_body_goes_through_the_sdk_unchanged(asked: ChatRequest) -> None:
    with ScriptedMessages([{"text": "ok"}] * 2) as model:
        ask(our_provider(model.base_url, stream=False), asked)
        sdk(model.base_url).messages.create(**model.requests[0].json)
    ours, theirs = model.requests
    assert ours.json == theirs.json
    assert ours.path == theirs.path
    assert ours.headers["content-type"] == theirs.headers["content-type"]
    # The SDK names a later version of the API and sends a key as a bearer; we speak the version that all servers know.
    assert ours.headers["anthropic-version"] == "2023-06-01"


@rows("asked", REQUESTS)
def test_counting_is_as_the_sdk_counts(asked: ChatRequest) -> None:
    with ScriptedMessages(tokens=77) as model:
        provider = our_provider(model.base_url)
        counted = run(provider.count(asked))
        run(provider.close())
        body = model.counts[0].json
        theirs = sdk(model.base_url).messages.count_tokens(**body)
    assert counted == theirs.input_tokens == 77
    assert plain(COUNTED_BODY.validate_python(body)) == body
    assert model.counts[1].json == body
    assert model.counts[1].path == model.counts[0].path


def test_a_strict_schema_leaves_the_sdk_nothing_to_change() -> None:
    schema: Json = {
        "type": "object",
        "$defs": {"Thing": {"type": "object", "properties": {"n": {"type": "number", "maximum": 3}}}},
        "properties": {
            "kind": {"enum": ["a", "b"]},
            "things": {"type": "array", "items": {"$ref": "#/$defs/Thing"}, "minItems": 2},
            "when": {"type": "string", "format": "date-time"},
            "odd": {"type": "string", "format": "zip-code", "pattern": "^x"},
            "maybe": {"oneOf": [{"type": "integer", "default": 3}, {"type": "null"}]},
        },
        "required": ["kind"],
    }
    made = strict(schema)
    assert transform_schema(json.loads(json.dumps(made))) == made


# ------------------------------------------------------------------ answers


def ours_of(step: Step) -> ChatResponse:
    with ScriptedMessages([step]) as model:
        return ask(our_provider(model.base_url, stream=step.get("stream", True)), request(model=CLAUDE))[0]


def theirs_of(step: Step) -> anthropic.types.Message:
    asked: Any = {"model": CLAUDE, "max_tokens": 10, "messages": [{"role": "user", "content": "a"}]}
    with ScriptedMessages([step]) as model:
        client = sdk(model.base_url)
        if not step.get("stream", True):
            return cast(anthropic.types.Message, client.messages.create(**asked))
        with client.messages.stream(**asked) as stream:
            return stream.get_final_message()


def check_agreement(step: Step) -> None:
    ours, theirs = ours_of(step), theirs_of(step)
    blocks: list[Json] = [block.to_dict() for block in theirs.content]
    assert ours.final_text == "".join(block["text"] for block in blocks if block["type"] == "text")
    thoughts = [block for block in blocks if block["type"] in ("thinking", "redacted_thinking")]
    assert [{k: v for k, v in block.payload.items() if k != "after"} for block in ours.opaque] == thoughts
    calls = [block for block in blocks if block["type"] == "tool_use"]
    assert [(call.id, call.name) for call in ours.tool_calls] == [(block["id"], block["name"]) for block in calls]
    for call, block in zip(ours.tool_calls, calls, strict=True):
        # the SDK guesses at an input that was cut; we say that it is broken
        assert call.arguments == block["input"] or (call.arguments is None and theirs.stop_reason == "max_tokens")
    usage = theirs.usage
    assert ours.usage.input_tokens == usage.input_tokens
    assert ours.usage.output_tokens == usage.output_tokens
    assert ours.usage.cache_read_tokens == (usage.cache_read_input_tokens or 0)
    assert ours.usage.cache_write_tokens == (usage.cache_creation_input_tokens or 0)
    assert ours.raw_provider_payload is not None
    assert ours.raw_provider_payload["stop_reason"] == theirs.stop_reason
    assert (ours.raw_provider_payload["id"], ours.model) == (theirs.id, theirs.model)


@rows("name", STREAMS)
def test_recorded_streams_mean_the_same_to_both(name: str) -> None:
    check_agreement({"raw": (CORPUS / name).read_bytes(), "content_type": "text/event-stream"})


def test_the_recorded_object_means_the_same_to_both() -> None:
    check_agreement({"raw": (CORPUS / "message.json").read_bytes(), "stream": False})


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "step",
    [
        {"text": "a  b\n"},
        {"thinking": [{"thinking": "x y", "signature": "s"}, {"data": "d"}], "tool_calls": [{"name": "A"}] * 2},
        {"text": "é", "tool_calls": [{"name": "A", "input": {"ü": [1, {"b": None}]}}]},
    ],
)
def test_scripted_answers_mean_the_same_to_both(step: Step, stream: bool) -> None:
    check_agreement({**step, "stream": stream})


def test_the_recorded_error_is_an_error_to_both() -> None:
    step: Step = {"raw": (CORPUS / "error_overloaded.sse").read_bytes(), "content_type": "text/event-stream"}
    with pytest.raises(anthropic.APIStatusError, match="Overloaded"):
        theirs_of(step)
    with pytest.raises(ProviderError, match="Overloaded"):
        ours_of(step)
