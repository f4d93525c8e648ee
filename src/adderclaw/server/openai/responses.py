"""`/v1/responses`: like chat completions, but a response can be continued by its id."""

from collections.abc import AsyncGenerator
from typing import Any, Literal, TypedDict

from starlette.responses import Response, StreamingResponse

from adderclaw.server.endpoint import ApiRequest
from adderclaw.server.openai import requests
from adderclaw.server.openai.chat import ALIVE, CachedTokens, event
from adderclaw.server.openai.requests import ResponsesBody
from adderclaw.server.openai.turn import (
    Heartbeat,
    Reason,
    TextDelta,
    Turn,
    TurnEnd,
    conversation_of_response,
    response_id,
)
from adderclaw.server.refusal import Refusal


class Part(TypedDict):
    type: Literal["output_text"]
    text: str
    annotations: list[Any]


class Output(TypedDict):
    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    status: Literal["completed", "incomplete", "in_progress"]
    content: list[Part]


class ReasoningTokens(TypedDict):
    reasoning_tokens: int


class ResponseUsage(TypedDict):
    input_tokens: int
    input_tokens_details: CachedTokens
    output_tokens: int
    output_tokens_details: ReasoningTokens
    total_tokens: int


class ResponseError(TypedDict):
    code: str
    message: str


class Incomplete(TypedDict):
    reason: Literal["max_output_tokens", "content_filter"]
    """max_output_tokens: a limit of the agent ended it; content_filter: the agent was denied what it tried last."""


INCOMPLETE: dict[Reason, Literal["max_output_tokens", "content_filter"]] = {
    "length": "max_output_tokens",
    "content_filter": "content_filter",
}
"""How a turn ended → the reason of an incomplete response."""


class ResponseAnswer(TypedDict):
    id: str
    """What `previous_response_id` may name."""
    object: Literal["response"]
    created_at: int
    status: Literal["in_progress", "completed", "incomplete", "failed"]
    error: ResponseError | None
    incomplete_details: Incomplete | None
    instructions: str | None
    max_output_tokens: int | None
    metadata: dict[str, str]
    model: str
    output: list[Output]
    parallel_tool_calls: bool
    previous_response_id: str | None
    store: bool
    temperature: float | None
    text: dict[str, Any]
    tool_choice: Literal["none"]
    tools: list[Any]
    top_p: float | None
    truncation: Literal["disabled"]
    usage: ResponseUsage | None


async def response(request: ApiRequest) -> ResponseAnswer | Response:
    body: ResponsesBody = request.body
    request.http.scope[requests.IGNORED_KEY] = requests.ignored_parameters(body)
    completion_request = requests.read_responses(body)
    resume = None if body.previous_response_id is None else conversation_of_response(request, body.previous_response_id)
    turn = await Turn.begin(request, completion_request, body.model, resume)
    if body.stream:
        return StreamingResponse(_events(turn, body), media_type="text/event-stream")
    return _answer(turn, body, await turn.wait_for_end())


def _answer(
    turn: Turn, body: ResponsesBody, ended: TurnEnd | None, error: ResponseError | None = None
) -> ResponseAnswer:
    """The response in its current state: in progress, ended, or failed."""
    conversation = turn.conversation.id
    cut = INCOMPLETE.get(ended.reason) if ended is not None else None
    status = "failed" if error else "in_progress" if ended is None else "incomplete" if cut else "completed"
    return {
        "id": response_id(turn),
        "object": "response",
        "created_at": turn.created,
        "status": status,
        "error": error,
        "incomplete_details": {"reason": cut} if cut else None,
        "instructions": body.instructions,
        "max_output_tokens": None,
        "metadata": ended.metadata if ended is not None else {},
        "model": turn.model,
        "output": [_message(conversation, ended.answer)] if ended is not None else [],
        "parallel_tool_calls": False,
        "previous_response_id": body.previous_response_id,
        "store": True,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "none",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": _usage(ended) if ended is not None else None,
    }


def _message(conversation: str, text: str) -> Output:
    part: Part = {"type": "output_text", "text": text, "annotations": []}
    return {
        "id": f"msg_{conversation}",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def _usage(ended: TurnEnd) -> ResponseUsage:
    used = ended.usage
    return {
        "input_tokens": used.input,
        "input_tokens_details": {"cached_tokens": used.cached},
        "output_tokens": used.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": used.input + used.output,
    }


async def _events(turn: Turn, body: ResponsesBody) -> AsyncGenerator[str]:
    number = -1
    message = _message(turn.conversation.id, "")
    position = {"item_id": message["id"], "output_index": 0, "content_index": 0}
    sent = ""

    def numbered_event(kind: str, **data: Any) -> str:
        nonlocal number
        number += 1
        return event({"type": kind, "sequence_number": number, **data}, kind)

    updates = turn.updates()
    try:
        yield numbered_event("response.created", response=_answer(turn, body, None))
        yield numbered_event("response.in_progress", response=_answer(turn, body, None))
        begun: Output = {**message, "status": "in_progress", "content": []}
        yield numbered_event("response.output_item.added", output_index=0, item=begun)
        yield numbered_event("response.content_part.added", **position, part=message["content"][0])
        async for update in updates:
            if isinstance(update, Heartbeat):
                yield ALIVE
                continue
            text = update.text if isinstance(update, TextDelta) else update.rest
            sent += text
            if text:
                yield numbered_event("response.output_text.delta", **position, delta=text, logprobs=[])
            if isinstance(update, TurnEnd):
                message = _message(turn.conversation.id, sent)
                yield numbered_event("response.output_text.done", **position, text=sent, logprobs=[])
                yield numbered_event("response.content_part.done", **position, part=message["content"][0])
                yield numbered_event("response.output_item.done", output_index=0, item=message)
                answer = {**_answer(turn, body, update), "output": [message]}
                kind = "response.incomplete" if update.reason in INCOMPLETE else "response.completed"
                yield numbered_event(kind, response=answer)
    except Refusal as refusal:
        error: ResponseError = {"code": refusal.code, "message": refusal.as_json()["error"]["message"]}
        yield numbered_event("response.failed", response=_answer(turn, body, None, error))
    finally:
        await updates.aclose()
