"""The common base of the adapters: an entry's address, connections and key, and a request without its messages."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal, Protocol
from weakref import WeakKeyDictionary

from adderclaw.config.model_facts.catalogue import facts
from adderclaw.config.schema import ProviderEntry
from adderclaw.core.errors import ProviderError
from adderclaw.core.history import History
from adderclaw.core.json_text import json_writer
from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import is_secret_name
from adderclaw.core.types import (
    ChatRequest,
    ChatResponse,
    Json,
    MediaBlock,
    OpaqueBlock,
    StopReason,
    Thinking,
    ToolCall,
    ToolSpec,
    Usage,
)
from adderclaw.models.credentials.sources import Credential
from adderclaw.models.providers import Parts, misconfigured
from adderclaw.models.providers.faults import error_message_of, kind_of, status_in
from adderclaw.models.providers.reading import Ids, read_object
from adderclaw.models.providers.wire import Endpoint, Reply, Wire, endpoint

ACCEPTED = (("accept", "text/event-stream, application/json"), ("user-agent", "adderclaw"))
THINKING_SECONDS = 600.0
"""Seconds that a thinking model may take to begin its answer."""
REFUSALS = (400, 422)
"""Status codes for a setting that the server does not know."""
NO_COUNTING = (404, 405, 501)
"""Status codes of a server without token counting."""
type Detail = Literal["full", "plain", "nothing"]
"""How much of the thinking settings is sent. plain: no summaries, and only levels that every model has."""
DETAILS: tuple[Detail, ...] = ("full", "plain", "nothing")
_text = json_writer()


class AdapterRequest(NamedTuple):
    """A request without its messages, completed from the provider's entry."""

    model: str
    system: str
    tools: tuple[ToolSpec, ...]
    tool_choice: str | None
    schema: Json | None
    thinking: Thinking
    max_tokens: int | None
    temperature: float | None
    detail: Detail = "full"
    """How much of `thinking` is sent."""


class RequestVariant(NamedTuple):
    """A variant of a request: how much of the thinking settings it has, and how many messages are sent without
    thoughts."""

    detail: Detail = "full"
    forgotten: int = 0


FULL_VARIANT = RequestVariant()
"""The variant with all settings and thoughts."""


class Answer(Protocol):
    """A completely read answer."""

    model: str

    @property
    def text(self) -> str: ...
    @property
    def usage(self) -> Usage: ...
    @property
    def stop_reason(self) -> StopReason: ...


class Adapter:
    """An entry's connections to its server, for any API."""

    def __init__(self, parts: Parts, target: Endpoint, variables: tuple[str, ...]) -> None:
        self._parts, self._entry, self._place, self._variables = parts, parts.entry, target, variables
        limit, timeout = parts.config.runtime.max_response_bytes, parts.entry.timeout_seconds
        for header, value in parts.entry.headers.items():
            if is_secret_name(header):
                parts.secrets.add(value)
        self.wire = Wire(
            parts.name,
            target,
            parts.secrets,
            parts.clock,
            timeout=timeout,
            max_bytes=limit,
            between=parts.entry.idle_timeout_seconds,
        )
        self._ids = Ids()
        self._head: tuple[AdapterRequest, bytes] | None = None
        self._details: dict[str, Detail] = {}
        """Model → how much of its thinking settings the server accepts, if not all."""
        self._forgotten: WeakKeyDictionary[History, int] = WeakKeyDictionary()
        """Conversation → how many of its messages the server accepts only without their thoughts."""

    @property
    def name(self) -> str:
        return self._parts.name

    async def credential(self) -> Credential | None:
        """The credential for the next request; raises ProviderError if it is missing."""
        return await self._parts.credentials.get(self.name, self._entry, self._variables)

    async def ready(self) -> None:
        await self.credential()

    async def close(self) -> None:
        await self.wire.close()

    async def _post(self, headers: list[tuple[str, str]], body: bytes, *, target: str | None = None) -> Reply:
        """Send a request; a credential that the server refuses is not used again."""
        try:
            return await self.wire.post([*ACCEPTED, *self._entry.headers.items(), *headers], body, target=target)
        except ProviderError as error:
            if error.kind == "authentication_failed":
                self._parts.credentials.refused(self.name)
            raise

    async def _post_adapting(
        self,
        request: ChatRequest,
        model: str,
        body: Callable[[RequestVariant], bytes],
        post: Callable[[bytes], Awaitable[Reply]],
    ) -> Reply:
        """Post a request. If the server refuses the thinking settings or earlier thoughts, retry without them and omit
        them from then on."""
        self._extend_timeouts(self._wanted(request, model).thinking, model)
        way = RequestVariant(self._details.get(model, "full"), self._forgotten.get(request.messages, 0))
        sent, refused = body(way), list[ProviderError]()
        while True:
            try:
                reply = await post(sent)
                break
            except ProviderError as error:
                variant = self._next_variant(request, way, body, sent, error)
                if variant is None:
                    raise refused[0] if refused and error.status in REFUSALS else error from None
                refused.append(error)
                way, sent = variant
        if refused:
            self._details[model], self._forgotten[request.messages] = way
            sent_now = "fewer thinking options" if way.detail != "full" else "none of its earlier thoughts"
            message = f"{model} is sent {sent_now} from now on, because its server refused the request: {refused[0]}"
            self._parts.tell({"event_type": "warning", "message": message})
        return reply

    def _extend_timeouts(self, chosen: Thinking, model: str) -> None:
        """Extend the timeouts for a thinking model, unless the entry sets them, because servers are silent
        meanwhile."""
        if chosen.is_off or self._entry.timeout_seconds != ProviderEntry.timeout_seconds:
            return
        if not chosen.is_unset or facts(model, self._parts.config).thinking:
            self.wire.first_seconds = THINKING_SECONDS
            if self._entry.idle_timeout_seconds is None:
                self.wire.between_seconds = THINKING_SECONDS / 2

    def _next_variant(
        self,
        request: ChatRequest,
        way: RequestVariant,
        body: Callable[[RequestVariant], bytes],
        sent: bytes,
        error: ProviderError,
    ) -> tuple[RequestVariant, bytes] | None:
        """The next variant to try after such an error, with its request body; None if there is none."""
        if error.status not in REFUSALS or error.kind != "invalid_request":
            return None
        from adderclaw.models.providers.thinking import REFUSED_SETTINGS, REFUSED_THOUGHTS

        message, ways = str(error), list[RequestVariant]()
        if REFUSED_THOUGHTS.search(message):
            ways.append(way._replace(forgotten=len(request.messages.messages)))
        if REFUSED_SETTINGS.search(message):
            ways += [way._replace(detail=detail) for detail in DETAILS[DETAILS.index(way.detail) + 1 :]]
        return next(((candidate, changed) for candidate in ways if (changed := body(candidate)) != sent), None)

    def _model_of(self, request: ChatRequest) -> str:
        return request.model or self._entry.model or self._parts.config.default_model

    def _wanted(self, request: ChatRequest, model: str, detail: Detail = "full") -> AdapterRequest:
        entry = self._entry
        return AdapterRequest(
            model,
            request.system_prompt,
            request.tools,
            request.tool_choice,
            request.response_schema,
            request.thinking.with_fallback(Thinking(entry.effort, entry.thinking, entry.thinking_tokens)),
            request.max_tokens if request.max_tokens is not None else entry.max_tokens,
            request.temperature if request.temperature is not None else entry.temperature,
            detail,
        )

    def _with_extra(self, head: Json) -> Json:
        """A request merged with the entry's `extra_body`: objects are joined, other values replaced."""
        return _joined(head, self._entry.extra_body)

    def _head_of(self, options: AdapterRequest, make: Callable[[AdapterRequest], bytes]) -> bytes:
        """The part before the messages, cached for requests that differ only in their messages."""
        if self._head is None or self._head[0] != options:
            self._head = (options, make(options))
        return self._head[1]

    def _response(
        self, answer: Answer, calls: tuple[ToolCall, ...], opaque: tuple[OpaqueBlock, ...], model: str, raw: Json
    ) -> ChatResponse:
        model = answer.model or model
        return ChatResponse(answer.text, calls, answer.usage, answer.stop_reason, model, self.name, opaque, raw)


def endpoint_of(parts: Parts, base_url: str, tail: str) -> Endpoint:
    """The endpoint of an entry; raises ConfigError if its address is invalid."""
    try:
        return endpoint(base_url, tail)
    except ValueError as error:
        misconfigured(parts.name, "base_url", str(error))


def require_model(parts: Parts) -> str:
    model = parts.entry.model or parts.config.default_model
    if not model:
        misconfigured(parts.name, "model", "no model is named; set it here, or default_model for all")
    return model


def warn_unencrypted(parts: Parts, target: Endpoint) -> None:
    if target.scheme == "http" and not target.loopback:
        warning = f"provider {parts.name!r} sends its key without encryption to {target.origin}; use https if you can"
        parts.tell({"event_type": "warning", "message": warning})


def beside(target: str, name: str) -> str:
    """A path below another, with the same query."""
    path, mark, query = target.partition("?")
    return f"{path}/{name}{mark}{query}"


async def counted(reply: Reply, wire: Wire, key: str) -> int | None:
    """The count in a complete reply."""
    try:
        tokens: Any = (await read_object(reply, wire)).get(key)
    finally:
        reply.close()
    return tokens if isinstance(tokens, int) else None


def stream_error(wire: Wire, event: Json, *, status: int | None = None, wait: float | None = None) -> ProviderError:
    """The error for one inside an answer with the status 200."""
    description, words = error_message_of(event)
    status = status or status_in(event.get("error"))
    kind = kind_of(status, words)
    quoted = wire.excerpt(description, 300) or "unnamed"
    message = f"{wire.place.origin} broke off with an error: {quoted}; {wire.advise(kind, status, words)}"
    return wire.fault(kind, message, status=status, retry_after=wait if kind in ProviderError.RETRYABLE else None)


def left_out(media: MediaBlock, otherwise: str = "file") -> str:
    """The placeholder for a medium that the model does not accept."""
    kind = "image" if media.media_type.startswith("image/") else otherwise
    return f"[{kind}: {media.name or media.media_type}]"


def compact(value: Any) -> bytes:
    return _text(value).encode("utf-8", "replace")


def _joined(base: Json, over: Json) -> Json:
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _joined(merged[key], value) if both else value  # pyright: ignore[reportUnknownArgumentType]
    return merged


def ids_without_thoughts(history: History, forgotten: int) -> frozenset[int]:
    """The identities of the messages that go without their thoughts."""
    return frozenset(id(message) for message in history.messages[:forgotten])
