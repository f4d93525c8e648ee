"""`/v1/chat/completions`: each request is a new conversation, answered whole or as a stream."""

from collections.abc import AsyncGenerator
from typing import Any, Literal, TypedDict

from starlette.responses import Response, StreamingResponse

from adderclaw import __version__
from adderclaw.server.endpoint import ApiRequest
from adderclaw.server.openai import requests
from adderclaw.server.openai.requests import ChatBody
from adderclaw.server.openai.turn import Heartbeat, TextDelta, Turn, TurnEnd, Usage
from adderclaw.server.refusal import Refusal
from adderclaw.storage.text import compact


class ChatAnswer(TypedDict):
    role: Literal["assistant"]
    content: str
    refusal: None


class Choice(TypedDict):
    index: int
    message: ChatAnswer
    finish_reason: Literal["stop", "length", "content_filter"]
    """length: a limit of the agent ended it; content_filter: the agent was denied what it tried last."""
    logprobs: None


class CachedTokens(TypedDict):
    cached_tokens: int


class ChatUsage(TypedDict):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens


class ChatCompletion(TypedDict):
    id: str
    """`chatcmpl-` and the id of the conversation."""
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[Choice]
    usage: ChatUsage
    system_fingerprint: str
    metadata: dict[str, str]
    """`outcome` and `reason` of anything but a success, and `denied`: the calls that were denied."""


def _usage(used: Usage) -> ChatUsage:
    return {
        "prompt_tokens": used.input,
        "completion_tokens": used.output,
        "total_tokens": used.input + used.output,
        "prompt_tokens_details": {"cached_tokens": used.cached},
    }


async def completion(request: ApiRequest) -> ChatCompletion | Response:
    body: ChatBody = request.body
    request.http.scope[requests.IGNORED_KEY] = requests.ignored_parameters(body)
    turn = await Turn.begin(request, requests.read_chat(body), body.model)
    if body.stream:
        with_usage = body.stream_options is not None and body.stream_options.include_usage
        return StreamingResponse(_chunks(turn, with_usage=with_usage), media_type="text/event-stream")
    ended = await turn.wait_for_end()
    return {
        "id": f"chatcmpl-{turn.conversation.id}",
        "object": "chat.completion",
        "created": turn.created,
        "model": turn.model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": ended.answer, "refusal": None},
                "finish_reason": ended.reason,
                "logprobs": None,
            }
        ],
        "usage": _usage(ended.usage),
        "system_fingerprint": f"adderclaw-{__version__}",
        "metadata": ended.metadata,
    }


async def _chunks(turn: Turn, *, with_usage: bool) -> AsyncGenerator[str]:
    def chunk(delta: dict[str, Any] | None, ended: TurnEnd | None = None, used: ChatUsage | None = None) -> str:
        payload: dict[str, Any] = {
            "id": f"chatcmpl-{turn.conversation.id}",
            "object": "chat.completion.chunk",
            "created": turn.created,
            "model": turn.model,
            "system_fingerprint": f"adderclaw-{__version__}",
        }
        reason = ended.reason if ended is not None else None
        payload["choices"] = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": reason}]
        payload |= {"metadata": ended.metadata} if ended is not None else {}
        return event(payload | ({"usage": used} if with_usage else {}))

    updates = turn.updates()
    try:
        yield chunk({"role": "assistant", "content": ""})
        async for update in updates:
            if isinstance(update, TextDelta):
                yield chunk({"content": update.text})
            elif isinstance(update, Heartbeat):
                yield ALIVE
            else:
                if update.rest:
                    yield chunk({"content": update.rest})
                yield chunk({}, update)
                if with_usage:
                    yield chunk(None, used=_usage(update.usage))
        yield "data: [DONE]\n\n"
    except Refusal as refusal:  # the response has begun, so the error is its last event
        yield event(refusal.as_openai())
    finally:
        await updates.aclose()


ALIVE = ": the agent works\n\n"


def event(data: object, name: str = "") -> str:
    """An event of a stream; compact JSON contains no line breaks."""
    return f"{f'event: {name}\n' if name else ''}data: {compact(data)}\n\n"
