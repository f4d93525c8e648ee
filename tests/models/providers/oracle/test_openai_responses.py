"""The Responses API: our requests fit the SDK's types, and it reads the recorded answers as we do."""

from itertools import pairwise
from typing import Any

import openai
import pytest
from openai.types.responses.input_token_count_params import InputTokenCountParams
from openai.types.responses.response_create_params import (
    ResponseCreateParamsNonStreaming,
    ResponseCreateParamsStreaming,
)

from adderclaw.config.schema import ModelEntry, ProviderEntry
from adderclaw.core.errors import ProviderError
from adderclaw.core.types import ChatResponse, Message, TextBlock, Thinking, ToolUseBlock
from adderclaw.tools.specs import specs
from tests.models.providers.corpus_files import Recorded, recorded, summary
from tests.models.providers.making import READ, House, ask, request, result, run, user
from tests.models.providers.oracle.openai_sdk import EVERYTHING, SCHEMA, client, fits, response_stream, response_whole
from tests.rows import rows
from tests.scripted import Json
from tests.scripted_responses import ScriptedResponses

FILES = recorded("openai-responses")
ASKED: Json = {"model": "m", "input": "hello"}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary-9f8e7d6c5b4a3210")


def house(base_url: str, *, stream: bool = True, model: str = "gpt-5-mini") -> House:
    made = House({"p": ProviderEntry(kind="openai", base_url=base_url, model=model, stream=stream)})
    made.config.models["gpt-5-mini"] = ModelEntry(vision=True, pdf=True)
    return made


def sent(*messages: Message, stream: bool = True, **more: Any) -> Json:
    with ScriptedResponses([{"text": "ok"}]) as model:
        ask(house(model.base_url, stream=stream).make("p"), request(*messages, **{"model": "gpt-5-mini", **more}))
    return model.requests[0].json


def said(response: ChatResponse) -> Message:
    """As the kernel keeps an answer."""
    text = (TextBlock(response.final_text),) if response.final_text else ()
    return Message("assistant", (*response.opaque, *text, *map(ToolUseBlock, response.tool_calls)))


@pytest.mark.parametrize("wrong", [{"max_tokens": 1}, {"input": [{"type": "reasoning", "id": "x"}]}])
def test_the_oracle_refuses_what_is_wrong(wrong: Json) -> None:
    with pytest.raises(ValueError, match=r"max_tokens|summary"):
        fits(ResponseCreateParamsNonStreaming, ASKED | wrong)


@rows("stream", [True, False])
@rows(
    "asked",
    [
        {},
        {"tools": (READ,)},
        {"tools": tuple(specs().values())},
        {"tools": (READ,), "tool_choice": "Read", "temperature": 0.2, "max_tokens": 64},
        {"response_schema": SCHEMA, "thinking": Thinking(tokens=9000)},
        {"model": "gpt-4o"},
    ],
)
def test_requests_fit_the_types_and_come_out_of_the_sdk_as_they_went_in(asked: Json, stream: bool) -> None:
    body = sent(*EVERYTHING, stream=stream, **asked)
    assert fits(ResponseCreateParamsStreaming if stream else ResponseCreateParamsNonStreaming, body) == body
    with ScriptedResponses([{"text": "ok"}]) as model:
        (response_stream if stream else response_whole)(model.base_url, body)
    assert model.requests[0].json == body


def test_the_count_is_asked_for_as_the_sdk_does() -> None:
    with ScriptedResponses(counts=[1234, 1234]) as model:
        provider = house(model.base_url).make("p")
        asked = request(
            *EVERYTHING, model="gpt-5-mini", tools=(READ,), response_schema=SCHEMA, thinking=Thinking(tokens=100)
        )

        async def counted() -> int | None:
            try:
                return await provider.count(asked)
            finally:
                await provider.close()

        assert run(counted()) == 1234
        body = model.counted[0].json
        assert fits(InputTokenCountParams, body) == body
        assert client(model.base_url).responses.input_tokens.count(**body).input_tokens == 1234
        ours, theirs = model.counted
        assert (ours.path, ours.json) == (theirs.path, theirs.json)


@rows("one", [one for one in FILES if not one.quirk], ids=str)
def test_the_sdk_reads_the_recorded_answers_as_we_do(one: Recorded) -> None:
    body = {**ASKED, "stream": one.streamed}
    read = response_stream if one.streamed else response_whole
    with ScriptedResponses([one.step, one.step]) as model:
        provider = house(model.base_url, stream=one.streamed).make("p")
        if "error" in one.expected:
            with pytest.raises(openai.OpenAIError):
                read(model.base_url, body)
            with pytest.raises(ProviderError):
                ask(provider, request())
        else:
            assert read(model.base_url, body) == summary(ask(provider, request(tools=(READ,)))[0])


@rows("one", [one for one in FILES if "error" not in one.expected], ids=str)
def test_what_each_answer_leaves_in_the_history_fits_the_types(one: Recorded) -> None:
    with ScriptedResponses([one.step]) as model:
        answer = ask(house(model.base_url, stream=one.streamed).make("p"), request(tools=(READ,)))[0]
        shape = f"openai-responses/127.0.0.1:{model.port}"
    assert {block.wire for block in answer.opaque} <= {shape}
    with ScriptedResponses([{"text": "ok"}]) as model:
        # the same server, at another port: as if it had written the reasoning itself
        ours = [block._replace(wire=f"openai-responses/127.0.0.1:{model.port}") for block in answer.opaque]
        results = [result(call.id, "x") for call in answer.tool_calls]
        kept = said(ChatResponse(answer.final_text, answer.tool_calls, opaque=tuple(ours)))
        ask(house(model.base_url).make("p"), request(user("go"), kept, *results, model="gpt-5-mini"))
    body = model.requests[0].json
    assert fits(ResponseCreateParamsStreaming, body) == body


def test_growing_conversations_keep_their_beginning() -> None:
    bodies = [sent(*EVERYTHING[:size], tools=(READ,)) for size in range(1, len(EVERYTHING) + 1)]
    for shorter, longer in pairwise(bodies):
        assert longer["input"][: len(shorter["input"])] == shorter["input"]


@pytest.mark.parametrize("stream", [True, False])
def test_a_whole_conversation_read_by_both(stream: bool) -> None:
    call = {"name": "Read", "arguments": {"file_path": "ä"}}
    steps: list[Json] = [{"reasoning": "gAAAA", "text": "let me look", "tool_calls": [call] * 2}, {"text": "ok"}]
    with ScriptedResponses([*steps, *steps]) as model:
        made = house(model.base_url, stream=stream)
        first = ask(made.make("p"), request(user("go"), tools=(READ,)))[0]
        told = (user("go"), said(first), *(result(call.id, "x") for call in first.tool_calls))
        second = ask(made.make("p"), request(*told, tools=(READ,)))[0]
        read = response_stream if stream else response_whole
        theirs = [read(model.base_url, one.json) for one in list(model.requests)]
    assert [summary(first), summary(second)] == theirs
