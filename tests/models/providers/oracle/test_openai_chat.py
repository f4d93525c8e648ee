"""Chat Completions: our requests fit the SDK's types, and it reads the recorded answers as we do."""

from itertools import pairwise
from typing import Any

import openai
import pytest
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)

from adderclaw.config.schema import ModelEntry
from adderclaw.core.errors import ProviderError
from adderclaw.core.types import Message, Thinking
from adderclaw.tools.specs import specs
from tests.models.providers.corpus_files import Recorded, recorded, summary
from tests.models.providers.making import READ, House, ask, called, chat_entry, request, result, user
from tests.models.providers.oracle.openai_sdk import EVERYTHING, SCHEMA, chat_stream, chat_whole, fits
from tests.rows import rows
from tests.scripted import Json, ScriptedModel

FILES = recorded("openai-chat", "openrouter", "ollama", "lm-studio")
ASKED: Json = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


def sent(*messages: Message, stream: bool = True, **more: Any) -> Json:
    with ScriptedModel([{"text": "ok"}]) as model:
        house = House({"p": chat_entry(model.base_url, stream=stream)})
        house.config.models["m"] = ModelEntry(vision=True, pdf=True)
        ask(house.make("p"), request(*messages, **more))
    return model.requests[0].json


@pytest.mark.parametrize("wrong", [{"max_token": 1}, {"messages": [{"role": "user", "contents": "x"}]}])
def test_the_oracle_refuses_what_is_wrong(wrong: Json) -> None:
    with pytest.raises(ValueError, match=r"max_token|contents"):
        fits(CompletionCreateParamsNonStreaming, ASKED | wrong)


@rows("stream", [True, False])
@rows(
    "asked",
    [
        {},
        {"tools": (READ,)},
        {"tools": tuple(specs().values())},
        {"tools": (READ,), "tool_choice": "Read", "temperature": 0.2, "max_tokens": 64},
        {"response_schema": SCHEMA},
        {"model": "gpt-5-mini", "max_tokens": 64, "thinking": Thinking(tokens=20_000)},
    ],
)
def test_requests_fit_the_types_and_come_out_of_the_sdk_as_they_went_in(asked: Json, stream: bool) -> None:
    body = sent(*EVERYTHING, stream=stream, **asked)
    assert fits(CompletionCreateParamsStreaming if stream else CompletionCreateParamsNonStreaming, body) == body
    with ScriptedModel([{"text": "ok"}]) as model:
        (chat_stream if stream else chat_whole)(model.base_url, body)
    assert model.requests[0].json == body


def test_growing_conversations_keep_their_beginning() -> None:
    """Only a second message of the same role in a row changes the one before it: they become one."""
    bodies = [sent(*EVERYTHING[:size], tools=(READ,)) for size in range(1, len(EVERYTHING) + 1)]
    for size, (shorter, longer) in enumerate(pairwise(bodies), 1):
        joined = EVERYTHING[size].role == EVERYTHING[size - 1].role == "user"
        kept = len(shorter["messages"]) - joined
        assert longer["messages"][:kept] == shorter["messages"][:kept]


@rows("one", [one for one in FILES if not one.quirk], ids=str)
def test_the_sdk_reads_the_recorded_answers_as_we_do(one: Recorded) -> None:
    body = {**ASKED, "stream": one.streamed}
    read = chat_stream if one.streamed else chat_whole
    with ScriptedModel([one.step, one.step]) as model:
        provider = House({"p": chat_entry(model.base_url, stream=one.streamed)}).make("p")
        if "error" in one.expected:
            with pytest.raises(openai.OpenAIError):
                read(model.base_url, body)
            with pytest.raises(ProviderError):
                ask(provider, request())
        else:
            assert read(model.base_url, body) == summary(ask(provider, request(tools=(READ,)))[0])


@pytest.mark.parametrize("stream", [True, False])
def test_a_whole_conversation_read_by_both(stream: bool) -> None:
    call = {"name": "Read", "arguments": {"file_path": "ä"}}
    steps: list[Json] = [{"text": "let me look", "tool_calls": [call] * 2}, {"text": "ok"}]
    told = (user("go"), called("call-0-0", "Read", {}), result("call-0-0", "x"))
    with ScriptedModel([*steps, *steps]) as model:
        provider = House({"p": chat_entry(model.base_url, stream=stream)}).make("p")
        ours = ask(provider, request(user("go"), tools=(READ,)), request(*told))
        read = chat_stream if stream else chat_whole
        theirs = [read(model.base_url, one.json) for one in list(model.requests)]
    assert [summary(one) for one in ours] == theirs
