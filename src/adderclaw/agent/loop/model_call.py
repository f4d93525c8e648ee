"""One model call: budget, retries with backoff, events; the row is written with the reply."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from sqlite3 import Cursor

from adderclaw.agent.loop.tokens import estimated
from adderclaw.agent.session.event_wait import attended
from adderclaw.agent.session.limits import Reservation
from adderclaw.agent.session.prompt import Prompt
from adderclaw.agent.session.session import Session
from adderclaw.config.model_facts.catalogue import Quote, Served, cost
from adderclaw.core.deltas import DeltaRelay, WholeWords
from adderclaw.core.errors import LimitError, ProviderError, Stopped
from adderclaw.core.history import History, message_json
from adderclaw.core.json_text import canonical
from adderclaw.core.overseer import BudgetReserved
from adderclaw.core.provider_kinds import MOCK
from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import settled_length
from adderclaw.core.types import ChatRequest, ChatResponse, Json, OnDelta, Thinking, Usage
from adderclaw.storage import model_calls

SHORT_WAIT = 60.0
"""Seconds. Pauses are part of the work, unless the operator lets a call wait for longer than this."""

WARM_AFTER = 0.1
"""Seconds after which the model surely thinks, so that imports take nothing from the request."""

RAISE_LIMIT = "`max_tokens` of the model's entry in config.toml raises the limit, or ask for less at once"

UNPRICED = "limits.cost_usd does not count a model without a price"
"""What is said once in a home, whatever the model is called."""

PLANNING, ASIDE = {"hint": "plan"}, {"hint": "cheap"}
"""What a `router` is told of a request that is made in plan mode, or beside the conversation."""

BILLED_FAILURES = frozenset({"timeout", "malformed", "max_output_tokens", "unknown"})
"""The request was read and perhaps answered in part; what else fails is refused before it costs anything."""


class Reply(NamedTuple):
    response: ChatResponse
    request_hash: str
    attempts: int
    latency_ms: float
    cost: float | None
    """US dollars; None without a known price."""


def keep(session: Session, cursor: Cursor, reply: Reply, step: int, said: Json, sequence: int | None = None) -> None:
    """The row of a model call that was answered, and what the run has spent with it. `sequence` is its entry's."""
    response = reply.response
    model_calls.record(
        cursor,
        session_id=session.session_id,
        step=step,
        provider=response.provider or session.provider.name,
        model=response.model or session.model,
        request_hash=reply.request_hash,
        response=said,
        usage=response.usage.as_json(),
        attempts=reply.attempts,
        latency_ms=reply.latency_ms,
        status="ok",
        error=None,
        cost=reply.cost,
        run_id=session.bus.run_id,
        entry_sequence=sequence,
    )
    session.keep_spent(cursor)


async def ask(
    session: Session,
    prompt: Prompt,
    on_delta: OnDelta,
    messages: History | None = None,
    *,
    max_tokens: int | None = None,
    goes_on: bool = False,
) -> Reply:
    """Ask with the session's history, or with other messages where the question is not part of the conversation.

    A reply that `goes_on` where one was cut off may have nothing to say.
    """
    messages = session.state.history if messages is None else messages
    request = ChatRequest(
        system_prompt=prompt.system,
        messages=messages,
        tools=prompt.tools,
        model=session.model,
        max_tokens=max_tokens,
        tool_choice=prompt.tool_choice,
        response_schema=prompt.response_schema,
        thinking=_thinking(session, messages),
        metadata=_hint(session, messages),
    )
    request_hash = messages.digest(prompt.head + session.model.encode())
    attempt = 0
    while True:
        attempt += 1
        if prompt.tools and session.scene.stopped():
            raise Stopped("the emergency stop was set; `adderclaw estop --clear` removes it")
        await _paced(session)
        held = await _reserved(session, prompt, messages)
        asked = request if held.answer is None else replace(request, max_tokens=held.answer)
        began = session.clock.monotonic()
        _sent(session, request, request_hash, attempt)
        relay = DeltaRelay(words := WholeWords(on_delta, session.secrets.redact, settled_length))
        try:
            with session.store.write() as cursor:  # before it costs anything: nobody may live to say what it did
                session.keep_spent(cursor)
            asking = _within_budget(session, asked, relay)
            response = await session.tape.asked(session, asking)
            words.end()
            response = _with_estimate(session, response, messages.size + len(prompt.head))
            price = _settle(session, held, response, messages)
            if not goes_on or response.stop_reason not in ("end", "max_tokens"):
                _not_empty(session, response)
        except ProviderError as error:
            if error.kind not in BILLED_FAILURES:
                held.release()
            error.request_hash, error.attempts = request_hash, attempt
            _failed(session, error, attempt)
            if error.kind == "rate_limit":
                session.overseer.report_rate_limit(session.model, error.retry_after)
            await _pause(session, error, attempt)
            relay.reset()
            continue
        finally:
            held.forfeit()  # unless it was settled or released
        latency = (session.clock.monotonic() - began) * 1000
        session.budget.steps += 1
        _received(session, response, attempt, latency, price)
        if session.keep_body is not None:
            _keep_bodies(session.keep_body, session.budget.steps, request, response)
        return Reply(response, request_hash, attempt, latency, price)


def _thinking(session: Session, messages: History) -> Thinking:
    """What a skill of this turn wants goes before the session's own; questions beside the turn are not the skill's."""
    if messages is not session.state.history:
        return session.thinking
    return Thinking(session.scene.in_force.effort).with_fallback(session.thinking)


def _hint(session: Session, messages: History) -> dict[str, str]:
    if messages is not session.state.history:
        return ASIDE
    return PLANNING if session.scene.policy.mode == "plan" else {}


def _keep_bodies(keep: Callable[[str, Json], None], step: int, request: ChatRequest, response: ChatResponse) -> None:
    tools = [[tool.name, tool.description, tool.parameters] for tool in request.tools]
    messages = [message_json(message) for message in request.messages.messages]
    asked: Json = {"model": request.model, "system": request.system_prompt, "tools": tools, "messages": messages}
    calls = [[call.id, call.name, call.input] for call in response.tool_calls]
    keep(f"step-{step:04d}-request.json", asked)
    keep(
        f"step-{step:04d}-response.json",
        {"text": response.final_text, "tool_calls": calls, "stop_reason": response.stop_reason},
    )


async def _reserved(session: Session, prompt: Prompt, messages: History) -> Reservation:
    """As soon as there is room for it beside the calls of other runs that are under way."""
    while True:
        try:
            return _reserve(session, prompt, messages)
        except BudgetReserved:
            await session.clock.sleep(0.25)
        if session.scene.stopped():
            raise Stopped("the emergency stop was set while waiting for other calls to end")


def _reserve(session: Session, prompt: Prompt, messages: History) -> Reservation:
    """Hold what the call is expected to take. The history knows its size, so that nothing is encoded for this."""
    quote = session.budget.prices.before(session.provider.name, session.model)
    cached = session.state.cached_tokens if messages is session.state.history else 0
    held = session.budget.reserve(quote, estimated(messages.size + len(prompt.head)), cached=cached)
    if not quote.facts.priced:
        _say_unpriced(session, quote)
    return held


def _with_estimate(session: Session, response: ChatResponse, sent: int) -> ChatResponse:
    """The response with an estimate for each count that its server left out; `sent` is the size of the request.

    A scripted model is not a server: its counts are those of the script, and it is free.
    """
    usage, entry = response.usage, session.config.providers.models.get(response.provider or session.provider.name)
    received = len(response.final_text) + sum(
        len(call.name) + len(canonical(call.input)) for call in response.tool_calls
    )
    received += sum(len(canonical(thought.payload)) for thought in response.opaque)
    if not received or (usage.input and usage.output_tokens) or (entry is not None and entry.kind == MOCK):
        return response
    missing = Usage(0 if usage.input else estimated(sent), 0 if usage.output_tokens else estimated(received))
    return replace(response, usage=usage + replace(missing, estimated=True))


def _settle(session: Session, held: Reservation, response: ChatResponse, messages: History) -> float | None:
    asked, answered = Served(session.provider.name, session.model), Served(response.provider, response.model)
    quote = session.budget.prices.after(asked, answered)
    price = cost(response.usage, quote.facts)
    held.settle(response.usage, price)
    if messages is session.state.history:
        session.state.cached_tokens = response.usage.cache_read_tokens + response.usage.cache_write_tokens
    if price is None:
        _say_unpriced(session, quote)
    return price


def _say_unpriced(session: Session, quote: Quote) -> None:
    """Once per home: the default cost limit does not count this model."""
    model = quote.unpriced
    if not model or model in session.budget.unpriced:
        return
    session.budget.unpriced.add(model)
    from adderclaw.config import shown_once as said

    if not said.not_shown_before(session.home, [UNPRICED]):
        return
    limit = f"limits.tokens ({session.config.limits.tokens:,}) still does"
    fix = f'`[models."{model}"]` with input_per_mtok and output_per_mtok sets it'
    message = f"the price of the model {model!r} is unknown, so limits.cost_usd does not bound it; {limit}; {fix}"
    session.bus.publish({"event_type": "warning", "message": message})


def _not_empty(session: Session, response: ChatResponse) -> None:
    if response.final_text.strip() or response.tool_calls:
        return
    if response.stop_reason == "refusal":
        refused = "the model refused to answer, without a word; ask otherwise, or another model"
        raise ProviderError("invalid_request", refused, provider=session.provider.name)
    if response.stop_reason == "max_tokens":
        spent = f"the limit on output tokens was used up before a word was written; {RAISE_LIMIT}"
        raise ProviderError("max_output_tokens", spent, provider=session.provider.name)
    said = f" (stop reason: {response.stop_reason})"
    raise ProviderError("malformed", f"the model answered nothing{said}", provider=session.provider.name)


async def _within_budget(session: Session, request: ChatRequest, on_delta: OnDelta) -> ChatResponse:
    deadline = session.clock.monotonic() + session.budget.seconds_left

    def look() -> Stopped | LimitError | None:
        if request.tools and session.scene.stopped():
            return Stopped("the emergency stop was set while the model was answering")
        if session.clock.monotonic() >= deadline:
            return LimitError("time limit reached while the model was answering (limits.seconds)", "seconds")
        return None

    warming = asyncio.get_running_loop().call_later(WARM_AFTER, session.warm)
    try:
        answer = await attended(session.provider.chat(request, on_delta), look)
    finally:
        warming.cancel()
    if isinstance(answer, ChatResponse):
        return answer
    raise answer


async def _paced(session: Session) -> None:
    """Wait while others are told that the model is asked too often."""
    while (left := session.overseer.seconds_to_wait(session.model)) > 0:
        await session.clock.sleep(min(left, 0.25))
        if session.scene.stopped():
            raise Stopped("the emergency stop was set while waiting to ask the model")


async def _pause(session: Session, error: ProviderError, attempt: int) -> None:
    """Wait before the next attempt, or give up with the error."""
    runtime = session.config.runtime
    if not error.retryable or attempt > runtime.max_llm_retries:
        raise error
    delay = min(runtime.retry_max_delay_seconds, runtime.retry_base_delay_seconds * 2 ** (attempt - 1))
    delay *= 0.5 + int.from_bytes(bytes.fromhex(session.ids("jitter")[-4:])) / 0x20000
    if error.retry_after is not None:
        if error.retry_after > runtime.quota_wait_seconds:
            raise _too_long(error)
        delay = max(delay, error.retry_after)
    session.bus.publish(
        {
            "event_type": "llm_retry_scheduled",
            "provider": error.provider or session.provider.name,
            "attempt": attempt + 1,
            "delay_seconds": round(delay, 3),
            "error": error.kind,
            "reason": str(error),
        }
    )
    began = session.clock.monotonic()
    while (left := began + delay - session.clock.monotonic()) > 0:
        await session.clock.sleep(min(left, 0.25))
        if session.scene.stopped():
            raise Stopped("the emergency stop was set while waiting to ask the model again")
    if error.retry_after is not None and runtime.quota_wait_seconds > SHORT_WAIT:
        session.budget.waited(session.clock.monotonic() - began)


def _too_long(error: ProviderError) -> ProviderError:
    message = (
        f"{error}; it will answer again in {error.retry_after:,.0f} s, and no call waits so long"
        " (runtime.quota_wait_seconds): come back then, or let the run wait with `run --wait-for-quota`"
    )
    return ProviderError(
        error.kind, message, provider=error.provider, status=error.status, retry_after=error.retry_after
    )


def _sent(session: Session, request: ChatRequest, request_hash: str, attempt: int) -> None:
    session.bus.begin_span()
    session.bus.publish_soon(
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


def _received(session: Session, response: ChatResponse, attempt: int, latency: float, price: float | None) -> None:
    told = session.config.telemetry.include_content and session.config.telemetry.enabled
    session.bus.publish_soon(
        {
            "event_type": "llm_response_received",
            "provider": response.provider or session.provider.name,
            "model": response.model or session.model,
            "attempt": attempt,
            "step": session.budget.steps,
            "latency_ms": round(latency, 2),
            "input_tokens": response.usage.input_tokens,
            "output_tokens": response.usage.output_tokens,
            "cost": price,
            "stop_reason": response.stop_reason,
            "tool_calls": len(response.tool_calls),
            "called": [call.name for call in response.tool_calls],
            "text": response.final_text if told else f"{len(response.final_text)} characters",
        }
    )


def _failed(session: Session, error: ProviderError, attempt: int) -> None:
    session.bus.publish(
        {
            "event_type": "llm_request_failed",
            "provider": error.provider or session.provider.name,
            "model": session.model,
            "attempt": attempt,
            "error": error.kind,
            "reason": str(error),
        }
    )
