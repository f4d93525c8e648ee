"""OpenAI's SDK as an oracle: its types judge our requests, and it reads the same bytes as we do."""

from collections.abc import Iterator
from typing import Any, cast

import openai
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response
from pydantic import ConfigDict, TypeAdapter

from adderclaw.core.types import MediaBlock, Message, OpaqueBlock, TextBlock, ToolCall, ToolResultBlock, ToolUseBlock
from adderclaw.models.providers import arguments_of
from tests.models.providers.making import user
from tests.scripted import Json

SCHEMA: Json = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
PNG = MediaBlock("image/png", "iVBORw0KGgo=", "shot.png")
PDF = MediaBlock("application/pdf", "JVBERi0xLjQ=", "paper.pdf")
CALLS = (ToolCall("c1", "Read", {"x": "ä"}), ToolCall("c2", "no such tool!", None, "{"))
EVERYTHING = (
    user("look"),
    Message("user", (TextBlock("at this"), PNG, PDF)),
    Message("assistant", (TextBlock("so"), *map(ToolUseBlock, CALLS))),
    Message("user", (ToolResultBlock("c1", "fine", False), ToolResultBlock("c2", "no", True), TextBlock("and on"))),
    Message("assistant", (OpaqueBlock("anthropic", {"signature": "x"}), TextBlock("done"))),
    user("thanks"),
)
"""A conversation with each kind of block in it."""


def client(base_url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=base_url, api_key="oracle-key-1234", max_retries=0, timeout=60)


def fits(kind: Any, body: Json) -> Json:
    """The body as the SDK's type takes it: a value of the wrong type and a key that it does not know are errors."""
    adapter: TypeAdapter[Any] = TypeAdapter(cast(Any, tuple)[kind], config=ConfigDict(extra="forbid"))
    checked = cast(tuple[Json], adapter.validate_python((body,)))
    return cast(Json, forced(checked[0]))


def forced(value: Any) -> Any:
    """pydantic checks the elements of an `Iterable` only when somebody asks for them."""
    if isinstance(value, dict):
        return {key: forced(inner) for key, inner in cast(Json, value).items()}
    if isinstance(value, (list, tuple, Iterator)):
        return [forced(inner) for inner in cast(Iterator[Any], value)]
    return value


# ------------------------------------------------------------------ what it reads


def chat_summary(completion: ChatCompletion) -> Json:
    choice, usage = completion.choices[0], completion.usage
    message = choice.message
    calls = [call for call in message.tool_calls or () if call.type != "custom"]
    cached = (usage.prompt_tokens_details.cached_tokens if usage and usage.prompt_tokens_details else 0) or 0
    reasons = {"stop": "end", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}
    return {
        "text": (message.content or "") + (message.refusal or ""),
        "calls": [[call.id, call.function.name, arguments_of(call.function.arguments)] for call in calls],
        "usage": [usage.prompt_tokens - cached, usage.completion_tokens, cached, 0] if usage else [0, 0, 0, 0],
        "stop_reason": "refusal" if message.refusal else reasons[choice.finish_reason],
    }


def chat_stream(base_url: str, body: Json) -> Json:
    state: ChatCompletionStreamState[Any] = ChatCompletionStreamState()
    usage = None
    with cast(Any, client(base_url).chat.completions).create(**body) as stream:
        for chunk in stream:
            assert isinstance(chunk, ChatCompletionChunk)
            usage = chunk.usage or usage
            state.handle_chunk(chunk)
    whole = state.current_completion_snapshot
    return chat_summary(whole.model_copy(update={"usage": usage}))


def chat_whole(base_url: str, body: Json) -> Json:
    return chat_summary(cast(Any, client(base_url).chat.completions).create(**body))


def response_summary(response: Response) -> Json:
    calls = [item for item in response.output if item.type == "function_call"]
    parts = [part for item in response.output if item.type == "message" for part in item.content]
    refusals = [part.refusal for part in parts if part.type == "refusal"]
    usage, why = response.usage, response.incomplete_details.reason if response.incomplete_details else None
    assert usage is not None
    cached, written = usage.input_tokens_details.cached_tokens, usage.input_tokens_details.cache_write_tokens
    reason = "tool_use" if calls else "end"
    if response.status == "incomplete":
        reason = "max_tokens" if why == "max_output_tokens" else "refusal"
    return {
        "text": response.output_text + "".join(refusals),
        "calls": [[call.call_id, call.name, arguments_of(call.arguments)] for call in calls],
        "usage": [usage.input_tokens - cached - written, usage.output_tokens, cached, written],
        "stop_reason": "refusal" if refusals else reason,
    }


def response_stream(base_url: str, body: Json) -> Json:
    """Both of what its events say piece by piece and of what the last one says as a whole; they must agree."""
    text: list[str] = []
    final: Response | None = None
    with cast(Any, client(base_url).responses).create(**body) as stream:
        for event in stream:
            match event.type:
                case "response.output_text.delta" | "response.refusal.delta":
                    text.append(event.delta)
                case "response.completed" | "response.incomplete":
                    final = event.response
                case "response.failed" | "error":
                    raise openai.OpenAIError(event.type)
                case _:
                    pass
    assert final is not None
    summary = response_summary(final)
    assert "".join(text) == summary["text"]
    return summary


def response_whole(base_url: str, body: Json) -> Json:
    return response_summary(cast(Any, client(base_url).responses).create(**body))
