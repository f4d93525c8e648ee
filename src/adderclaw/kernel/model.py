"""One model call: budget, retries with backoff, events; the row is written with the reply."""

import asyncio
from typing import NamedTuple

from adderclaw.errors import LimitError, ProviderError, Stopped
from adderclaw.kernel.prompt import Prompt
from adderclaw.kernel.session import Session
from adderclaw.types import ChatRequest, ChatResponse, OnDelta

LONGEST_WAIT = 60.0
"""A server that asks for a longer pause than this is an error: an unattended run should say so."""

WARM_AFTER = 0.1
"""Seconds after which the model surely thinks, so that imports take nothing from the request."""


class Reply(NamedTuple):
    response: ChatResponse
    request_hash: str
    attempts: int
    latency_ms: float


async def ask(session: Session, prompt: Prompt, on_delta: OnDelta) -> Reply:
    request = ChatRequest(
        system_prompt=prompt.system,
        messages=session.history,
        tools=prompt.tools,
        model=session.model,
    )
    request_hash = session.history.digest(prompt.head + session.model.encode())
    attempt = 0
    while True:
        attempt += 1
        if prompt.tools and session.scene.stopped():
            raise Stopped("the emergency stop was set; `adderclaw estop --clear` removes it")
        session.budget.before_model_call()
        began = session.clock.monotonic()
        _sent(session, request, request_hash, attempt)
        try:
            response = await _within_budget(session, request, on_delta)
        except ProviderError as error:
            _failed(session, error, attempt)
            await _pause(session, error, attempt)
            continue
        latency = (session.clock.monotonic() - began) * 1000
        session.budget.usage += response.usage
        session.budget.steps += 1
        _received(session, response, attempt, latency)
        return Reply(response, request_hash, attempt, latency)


async def _within_budget(session: Session, request: ChatRequest, on_delta: OnDelta) -> ChatResponse:
    thinking = asyncio.ensure_future(session.provider.chat(request, on_delta))
    warming = asyncio.get_running_loop().call_later(WARM_AFTER, session.warm)
    try:
        deadline = session.clock.monotonic() + session.budget.seconds_left
        while not thinking.done():
            await asyncio.wait({thinking}, timeout=0.5)
            if thinking.done():
                break
            if request.tools and session.scene.stopped():
                raise Stopped("the emergency stop was set while the model was answering")
            if session.clock.monotonic() >= deadline:
                raise LimitError("time limit reached while the model was answering (limits.seconds)")
        response = thinking.result()
    finally:
        warming.cancel()
        if not thinking.done():
            thinking.cancel()
            await asyncio.wait({thinking})
    if not response.final_text.strip() and not response.tool_calls:
        said = f" (stop reason: {response.stop_reason})"
        raise ProviderError("malformed", f"the model answered nothing{said}", provider=session.provider.name)
    return response


async def _pause(session: Session, error: ProviderError, attempt: int) -> None:
    """Wait before the next attempt, or give up with the error."""
    runtime = session.config.runtime
    if not error.retryable or attempt > runtime.max_llm_retries:
        raise error
    delay = min(runtime.retry_max_delay_seconds, runtime.retry_base_delay_seconds * 2 ** (attempt - 1))
    delay *= 0.5 + int.from_bytes(bytes.fromhex(session.ids("jitter")[-4:])) / 0x20000
    if error.retry_after is not None:
        if error.retry_after > LONGEST_WAIT:
            raise error
        delay = max(delay, error.retry_after)
    session.bus.tell(
        {
            "event_type": "llm_retry_scheduled",
            "provider": error.provider or session.provider.name,
            "attempt": attempt + 1,
            "delay_seconds": round(delay, 3),
            "error": error.kind,
            "reason": str(error),
        }
    )
    ends = session.clock.monotonic() + delay
    while (left := ends - session.clock.monotonic()) > 0:
        await session.clock.sleep(min(left, 0.25))
        if session.scene.stopped():
            raise Stopped("the emergency stop was set while waiting to ask the model again")


def _sent(session: Session, request: ChatRequest, request_hash: str, attempt: int) -> None:
    session.bus.span()
    session.bus.tell(
        {
            "event_type": "llm_request_sent",
            "provider": session.provider.name,
            "model": request.model,
            "attempt": attempt,
            "step": session.budget.steps + 1,
            "request_hash": request_hash,
            "messages": len(request.messages.messages),
            "tools": len(request.tools),
        }
    )


def _received(session: Session, response: ChatResponse, attempt: int, latency: float) -> None:
    session.bus.tell(
        {
            "event_type": "llm_response_received",
            "provider": response.provider or session.provider.name,
            "model": response.model or session.model,
            "attempt": attempt,
            "step": session.budget.steps,
            "latency_ms": round(latency, 2),
            "input_tokens": response.usage.input_tokens,
            "output_tokens": response.usage.output_tokens,
            "stop_reason": response.stop_reason,
            "tool_calls": len(response.tool_calls),
            "text": f"{len(response.final_text)} characters",
        }
    )


def _failed(session: Session, error: ProviderError, attempt: int) -> None:
    session.bus.tell(
        {
            "event_type": "llm_request_failed",
            "provider": error.provider or session.provider.name,
            "model": session.model,
            "attempt": attempt,
            "error": error.kind,
            "reason": str(error),
        }
    )
