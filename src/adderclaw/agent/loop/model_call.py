"""Calls the model: reserves budget, retries, publishes events, stores the reply; also side questions and counts."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from sqlite3 import Cursor
from typing import TYPE_CHECKING

from adderclaw.agent.session.clock import wait_unless
from adderclaw.agent.session.limits import Reservation
from adderclaw.agent.session.prompt import Prompt, make_prompt
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
from adderclaw.core.types import (
    ChatRequest,
    ChatResponse,
    Delta,
    Json,
    Message,
    OnDelta,
    Provider,
    TextBlock,
    Thinking,
    Usage,
)
from adderclaw.storage import model_calls

if TYPE_CHECKING:
    from adderclaw.agent.session.session import Session

SHORT_WAIT = 60.0
"""Seconds. Waiting counts against the time limit, unless the operator allows waits longer than this."""

WARM_AFTER = 0.1
"""Seconds after which modules are imported in advance: the request has been sent, so nothing is delayed."""

RAISE_LIMIT = "`max_tokens` of the model's entry in config.toml raises the limit, or ask for less at once"

UNPRICED = "limits.cost_usd does not count a model without a price"
"""Key of a warning that is shown once per home folder, regardless of the model."""

PLANNING, SIDE_QUESTION = {"hint": "plan"}, {"hint": "cheap"}
"""Hints for a `router`: the request is made in plan mode, or outside the conversation."""

BILLED_FAILURES = frozenset({"timeout", "malformed", "max_output_tokens", "unknown"})
"""Failures after which the provider may bill the request. All others are refused before they cost anything."""


class Reply(NamedTuple):
    response: ChatResponse
    request_hash: str
    attempts: int
    latency_ms: float
    cost: float | None
    """US dollars; None without a known price."""


def store_reply(
    session: Session, cursor: Cursor, reply: Reply, step: int, response_json: Json, sequence: int | None = None
) -> None:
    """Store the row of an answered model call and what the run has spent. `sequence`: that of the reply's entry."""
    response = reply.response
    model_calls.record(
        cursor,
        session_id=session.session_id,
        step=step,
        provider=response.provider or session.provider.name,
        model=response.model or session.model,
        request_hash=reply.request_hash,
        response=response_json,
        usage=response.usage.as_json(),
        attempts=reply.attempts,
        latency_ms=reply.latency_ms,
        status="ok",
        error=None,
        cost=reply.cost,
        run_id=session.bus.run_id,
        entry_sequence=sequence,
    )
    session.store_spent(cursor)


async def ask(
    session: Session,
    prompt: Prompt,
    on_delta: OnDelta,
    messages: History | None = None,
    *,
    max_tokens: int | None = None,
    goes_on: bool = False,
) -> Reply:
    """Ask the model, with the session's history or with other messages.

    `goes_on`: the reply continues one that was cut off, so it may be empty.
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
        metadata=_router_hint(session, messages),
    )
    request_hash = messages.digest(prompt.head + session.model.encode())
    attempt = 0
    while True:
        attempt += 1
        if prompt.tools and session.environment.stopped():
            raise Stopped("the emergency stop was set; `adderclaw estop --clear` removes it")
        await _wait_for_pace(session)
        held = await _wait_for_reservation(session, prompt, messages)
        asked = request if held.answer is None else replace(request, max_tokens=held.answer)
        began = session.clock.monotonic()
        _announce_request(session, request, request_hash, attempt)
        relay = DeltaRelay(words := WholeWords(on_delta, session.secrets.redact, settled_length))
        try:
            with session.store.write() as cursor:  # first: the process may be killed during the call
                session.store_spent(cursor)
            asking = _within_budget(session, asked, relay)
            response = await session.tape.ask_model(session, asking)
            words.end()
            response = _with_estimate(session, response, messages.size + len(prompt.head))
            price = _settle(session, held, response, messages)
            if not goes_on or response.stop_reason not in ("end", "max_tokens"):
                _require_content(session, response)
        except ProviderError as error:
            if error.kind not in BILLED_FAILURES:
                held.release()
            error.request_hash, error.attempts = request_hash, attempt
            _announce_failure(session, error, attempt)
            if error.kind == "rate_limit":
                session.supervisor.report_rate_limit(session.model, error.retry_after)
            await _wait_before_retry(session, error, attempt)
            relay.reset()
            continue
        finally:
            held.forfeit()  # unless it was settled or released
        latency = (session.clock.monotonic() - began) * 1000
        session.budget.steps += 1
        _announce_response(session, response, attempt, latency, price)
        if session.save_body is not None:
            _save_bodies(session.save_body, session.budget.steps, request, response)
        return Reply(response, request_hash, attempt, latency, price)


def _thinking(session: Session, messages: History) -> Thinking:
    """The effective thinking. A skill's effort overrides the session's, except for questions outside the
    conversation."""
    if messages is not session.state.history:
        return session.thinking
    return Thinking(session.environment.active_policy.effort).with_fallback(session.thinking)


def _router_hint(session: Session, messages: History) -> dict[str, str]:
    if messages is not session.state.history:
        return SIDE_QUESTION
    return PLANNING if session.environment.policy.mode == "plan" else {}


def _save_bodies(keep: Callable[[str, Json], None], step: int, request: ChatRequest, response: ChatResponse) -> None:
    tools = [[tool.name, tool.description, tool.parameters] for tool in request.tools]
    messages = [message_json(message) for message in request.messages.messages]
    asked: Json = {"model": request.model, "system": request.system_prompt, "tools": tools, "messages": messages}
    calls = [[call.id, call.name, call.input] for call in response.tool_calls]
    keep(f"step-{step:04d}-request.json", asked)
    keep(
        f"step-{step:04d}-response.json",
        {"text": response.final_text, "tool_calls": calls, "stop_reason": response.stop_reason},
    )


async def _wait_for_reservation(session: Session, prompt: Prompt, messages: History) -> Reservation:
    """Reserve budget for the call, and wait while the calls of other runs take up the shared limit."""
    while True:
        try:
            return _reserve(session, prompt, messages)
        except BudgetReserved:
            await session.clock.sleep(0.25)
        if session.environment.stopped():
            raise Stopped("the emergency stop was set while waiting for other calls to end")


def _reserve(session: Session, prompt: Prompt, messages: History) -> Reservation:
    """Reserve what the call is expected to cost, estimated from the size of the history."""
    quote = session.budget.prices.before(session.provider.name, session.model)
    cached = session.state.cached_tokens if messages is session.state.history else 0
    held = session.budget.reserve(quote, estimate_tokens(messages.size + len(prompt.head)), cached=cached)
    if not quote.facts.priced:
        _warn_unpriced(session, quote)
    return held


def _with_estimate(session: Session, response: ChatResponse, sent: int) -> ChatResponse:
    """Estimate each token count that the server left out. `sent`: the size of the request.

    The counts of a scripted model are those of its script, and are not estimated.
    """
    usage, entry = response.usage, session.config.providers.models.get(response.provider or session.provider.name)
    received = len(response.final_text) + sum(
        len(call.name) + len(canonical(call.input)) for call in response.tool_calls
    )
    received += sum(len(canonical(thought.payload)) for thought in response.opaque)
    if not received or (usage.input and usage.output_tokens) or (entry is not None and entry.kind == MOCK):
        return response
    missing = Usage(
        0 if usage.input else estimate_tokens(sent), 0 if usage.output_tokens else estimate_tokens(received)
    )
    return replace(response, usage=usage + replace(missing, estimated=True))


def _settle(session: Session, held: Reservation, response: ChatResponse, messages: History) -> float | None:
    asked, answered = Served(session.provider.name, session.model), Served(response.provider, response.model)
    quote = session.budget.prices.after(asked, answered)
    price = cost(response.usage, quote.facts)
    held.settle(response.usage, price)
    if messages is session.state.history:
        session.state.cached_tokens = response.usage.cache_read_tokens + response.usage.cache_write_tokens
    if price is None:
        _warn_unpriced(session, quote)
    return price


def _warn_unpriced(session: Session, quote: Quote) -> None:
    """Warn once per home folder that the default cost limit does not count this model."""
    model = quote.unpriced
    if not model or model in session.budget.unpriced:
        return
    session.budget.unpriced.add(model)
    from adderclaw.config import shown_once

    if not shown_once.not_shown_before(session.home, [UNPRICED]):
        return
    limit = f"limits.tokens ({session.config.limits.tokens:,}) still does"
    fix = f'`[models."{model}"]` with input_per_mtok and output_per_mtok sets it'
    message = f"the price of the model {model!r} is unknown, so limits.cost_usd does not bound it; {limit}; {fix}"
    session.bus.publish({"event_type": "warning", "message": message})


def _require_content(session: Session, response: ChatResponse) -> None:
    if response.final_text.strip() or response.tool_calls:
        return
    if response.stop_reason == "refusal":
        refused = "the model refused to answer, without a word; ask otherwise, or another model"
        raise ProviderError("invalid_request", refused, provider=session.provider.name)
    if response.stop_reason == "max_tokens":
        spent = f"the limit on output tokens was used up before a word was written; {RAISE_LIMIT}"
        raise ProviderError("max_output_tokens", spent, provider=session.provider.name)
    stop_reason = f" (stop reason: {response.stop_reason})"
    raise ProviderError("malformed", f"the model answered nothing{stop_reason}", provider=session.provider.name)


async def _within_budget(session: Session, request: ChatRequest, on_delta: OnDelta) -> ChatResponse:
    deadline = session.clock.monotonic() + session.budget.seconds_left

    def look() -> Stopped | LimitError | None:
        if request.tools and session.environment.stopped():
            return Stopped("the emergency stop was set while the model was answering")
        if session.clock.monotonic() >= deadline:
            return LimitError("time limit reached while the model was answering (limits.seconds)", "seconds")
        return None

    warming = asyncio.get_running_loop().call_later(WARM_AFTER, session.warm)
    try:
        answer = await wait_unless(session.provider.chat(request, on_delta), look)
    finally:
        warming.cancel()
    if isinstance(answer, ChatResponse):
        return answer
    raise answer


async def _wait_for_pace(session: Session) -> None:
    """Wait while other workers are being rate limited for this model."""
    while (remaining := session.supervisor.seconds_to_wait(session.model)) > 0:
        await session.clock.sleep(min(remaining, 0.25))
        if session.environment.stopped():
            raise Stopped("the emergency stop was set while waiting to ask the model")


async def _wait_before_retry(session: Session, error: ProviderError, attempt: int) -> None:
    """Wait before the next attempt; raises the error if there is none."""
    runtime = session.config.runtime
    if not error.retryable or attempt > runtime.max_llm_retries:
        raise error
    delay = min(runtime.retry_max_delay_seconds, runtime.retry_base_delay_seconds * 2 ** (attempt - 1))
    delay *= 0.5 + int.from_bytes(bytes.fromhex(session.ids("jitter")[-4:])) / 0x20000
    if error.retry_after is not None:
        if error.retry_after > runtime.quota_wait_seconds:
            raise _quota_wait_too_long(error)
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
    while (remaining := began + delay - session.clock.monotonic()) > 0:
        await session.clock.sleep(min(remaining, 0.25))
        if session.environment.stopped():
            raise Stopped("the emergency stop was set while waiting to ask the model again")
    if error.retry_after is not None and runtime.quota_wait_seconds > SHORT_WAIT:
        session.budget.exclude_wait(session.clock.monotonic() - began)


def _quota_wait_too_long(error: ProviderError) -> ProviderError:
    message = (
        f"{error}; it will answer again in {error.retry_after:,.0f} s, and no call waits so long"
        " (runtime.quota_wait_seconds): come back then, or let the run wait with `run --wait-for-quota`"
    )
    return ProviderError(
        error.kind, message, provider=error.provider, status=error.status, retry_after=error.retry_after
    )


def _announce_request(session: Session, request: ChatRequest, request_hash: str, attempt: int) -> None:
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


def _announce_response(
    session: Session, response: ChatResponse, attempt: int, latency: float, price: float | None
) -> None:
    with_content = session.config.telemetry.include_content and session.config.telemetry.enabled
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
            "text": response.final_text if with_content else f"{len(response.final_text)} characters",
        }
    )


def _announce_failure(session: Session, error: ProviderError, attempt: int) -> None:
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


# ------------------------------------------------------------------ counting tokens

BYTES_PER_TOKEN = 4
SAFETY = 1.2
"""Factor by which an estimate is raised before anything is cut to fit, since it may be too low."""


class Count(NamedTuple):
    tokens: int
    exact: bool
    """Whether the provider counted them; else `tokens` is a high estimate."""


def estimate_tokens(size: int) -> int:
    """The estimated number of tokens of so many bytes, rounded up."""
    return -(-size // BYTES_PER_TOKEN)


async def count_tokens(provider: Provider, request: ChatRequest, head: int = 0) -> Count:
    """Count the tokens of a request. `head`: the size of the prompt before the messages, for the estimate."""
    try:
        tokens = await provider.count(request)
    except ProviderError:
        tokens = None  # estimate instead
    if tokens is not None:
        return Count(tokens, exact=True)
    return Count(int(estimate_tokens(request.messages.size + head) * SAFETY), exact=False)


def context_parts(session: "Session") -> dict[str, int]:
    """Part of the next request → its estimated tokens."""
    import json

    tools = sum(len(json.dumps(tool.parameters)) + len(tool.description) for tool in session.prompt.tools)
    files = len(session.instructions.text) if session.instructions is not None else 0
    sizes = {
        "system prompt": len(session.prompt.system.encode()) - files,
        "instruction files": files,
        f"{len(session.prompt.tools)} tools": tools,
        "conversation": session.state.history.size,
    }
    return {name: estimate_tokens(size) for name, size in sizes.items()}


# ------------------------------------------------------------------ side questions


async def ask_aside(
    session: Session,
    instructions: str,
    text: str,
    *,
    purpose: str,
    provider: Provider | None = None,
    named: str = "",
    max_tokens: int | None = None,
) -> str:
    """Ask a question; returns the answer without secrets. `provider` and its model `named` replace the session's own.

    Raises ProviderError or LimitError.
    """
    # The budget is shared, so that the cost counts against the session.
    asking = session if provider is None else replace(session, provider=provider, model=named)
    response = await ask_and_record(
        asking, instructions, History([Message("user", (TextBlock(text),))]), purpose, max_tokens
    )
    if not response.final_text.strip():
        raise ProviderError("malformed", "the small model answered without a word", provider=asking.provider.name)
    return response.final_text


async def ask_and_record(
    session: Session, instructions: str, messages: History, purpose: str, max_tokens: int | None = None
) -> ChatResponse:
    """Ask with these messages in place of the conversation's; the answer has no secrets and is stored before use."""
    session = replace(session, thinking=Thinking(mode="disabled"))  # thoughts would use up a short answer's limit
    # Several questions may run concurrently. Each reserves its part of the budget and is settled without an await.
    reply = await ask(session, make_prompt(instructions, ()), _ignore_delta, messages, max_tokens=max_tokens)
    response = replace(reply.response, final_text=session.secrets.scrub(reply.response.final_text))
    extra: Json = {"stop_reason": response.stop_reason} if response.stop_reason != "end" else {}
    if response.tool_calls:  # tool calls of a side question are not run
        extra["calls"] = len(response.tool_calls)
    with session.store.write() as cursor:
        store_reply(
            session,
            cursor,
            reply,
            session.budget.steps,
            {"text": response.final_text, "purpose": purpose, **extra},
        )
    return response


def _ignore_delta(_delta: Delta) -> None:
    """Ignore the parts of an answer that is not for the user."""
