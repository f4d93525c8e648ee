"""Anthropic's Messages API, and the servers that speak it, streaming or not."""

import hashlib
import json
import os
import re

from adderclaw.config.model_facts.catalogue import ModelFacts, facts
from adderclaw.core.errors import ProviderError, ProviderErrorKind
from adderclaw.core.provider_kinds import ANTHROPIC, BY_NAME, SOCKET_VARIABLE
from adderclaw.core.types import (
    Block,
    ChatRequest,
    ChatResponse,
    Effort,
    Json,
    MediaBlock,
    Message,
    OnDelta,
    OpaqueBlock,
    ProviderCapabilities,
    TextBlock,
    Thinking,
    ToolCall,
    ToolResultBlock,
    ToolUseBlock,
)
from adderclaw.models.credentials.sources import API_KEY, AUTH_TOKEN, Credential
from adderclaw.models.providers import Parts, thinking
from adderclaw.models.providers.adapter import (
    ACCEPTED,
    NO_COUNTING,
    Adapter,
    AdapterRequest,
    RequestVariant,
    beside,
    compact,
    counted,
    endpoint_of,
    ids_without_thoughts,
    left_out,
    require_model,
    warn_unencrypted,
)
from adderclaw.models.providers.anthropic_reply import AFTER, WIRE, Answer, shape_of
from adderclaw.models.providers.faults import advice
from adderclaw.models.providers.reading import read
from adderclaw.models.providers.thinking import Claude
from adderclaw.models.providers.wire import Endpoint

VERSION = "2023-06-01"
OAUTH_BETA = "oauth-2025-04-20"
"""Required for tokens from a login."""

USUAL_TOKENS = 8192
"""Maximum answer for an unknown model. The API requires a number, and every model accepts this one."""
MOST_TOKENS = 32_000
"""Default maximum answer, although many models can give more, because its cost is reserved in advance."""
ROOM_TO_ANSWER = 1024
_NO_THOUGHTS = Thinking(mode="disabled")

_MARK = {"type": "ephemeral"}
_MARKED_END = b',"cache_control":{"type":"ephemeral"}}]}'
_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_NO_ID = re.compile(r"[^a-zA-Z0-9_-]")


def make(parts: Parts) -> "Anthropic":
    entry = parts.entry
    model = require_model(parts)
    base_url = base_url_of(entry.base_url)
    versioned = base_url.rstrip("/").endswith("/v1")  # addresses with and without /v1 are common
    target = endpoint_of(parts, base_url, "/messages" if versioned else "/v1/messages")
    warn_unencrypted(parts, target)
    if entry.temperature is not None and not _takes_temperature(model):
        warning = f"provider {parts.name!r}: {model} takes no temperature, so it is not sent; remove it from the entry"
        parts.tell({"event_type": "warning", "message": warning})
    return Anthropic(parts, target)


def base_url_of(base_url: str | None) -> str:
    return base_url or os.environ.get(BY_NAME[ANTHROPIC].url_variable) or BY_NAME[ANTHROPIC].base_url


def _authorization(credential: Credential | None) -> dict[str, str]:
    if credential is None:
        return {}
    if credential.scheme == "api_key":
        return {"x-api-key": credential.value}
    bearer = {"authorization": f"Bearer {credential.value}"}
    logged_in = credential.source != f"environment {AUTH_TOKEN}"
    return {**bearer, "anthropic-beta": OAUTH_BETA} if logged_in else bearer


# ---------------------------------------------------------------------- the provider


class Anthropic(Adapter):
    def __init__(self, parts: Parts, target: Endpoint) -> None:
        super().__init__(parts, target, (API_KEY,))
        self.wire.advise = self._advise
        self._source = ""
        self._known: dict[str, ModelFacts] = {}

    def capabilities(self) -> ProviderCapabilities:
        known = self._facts("")
        forces = Claude(self._entry.model or self._parts.config.default_model).forces_tools
        return ProviderCapabilities(
            streaming=self._entry.stream,
            tool_choice=forces,
            structured="tool" if forces else "json",
            images=known.vision,
            context_tokens=self._entry.context_tokens or known.context_tokens,
        )

    async def chat(self, request: ChatRequest, on_delta: OnDelta) -> ChatResponse:
        model = self._model_of(request)
        answer = Answer(self.wire, on_delta, shape_of(self.wire, model))
        claude = Claude(model)

        def body(way: RequestVariant) -> bytes:
            options = self._wanted(request, model, way.detail)
            if not claude.forces_tools:
                options = options._replace(tool_choice=None)
            elif not claude.is_adaptive and _continues_without_thoughts(request, way.forgotten, self._ours(model)):
                options = options._replace(thinking=_NO_THOUGHTS)
            head = self._head_of(options, lambda options: self._make_head(options, self._entry.stream))
            return self._with_messages(request, head, way.forgotten)

        try:
            headers = await self._headers()
            reply = await self._post_adapting(request, model, body, lambda sent: self.wire.post(headers, sent))
            await read(reply, answer, self.wire)
        except ProviderError as error:
            if error.status == 401:
                self._parts.credentials.refused(self.name)
            raise self._with_model(error, model) from None
        raw: Json = {
            "id": answer.id,
            "request_id": reply.headers.get("request-id"),
            "stop_reason": answer.stop or None,
            "status": reply.status,
        }
        calls = answer.calls(self._ids.of(request.messages)[1])
        return self._response(answer, calls, answer.opaque, model, raw)

    async def count(self, request: ChatRequest) -> int | None:
        """The API's own token count; None if the server has none."""
        model = self._model_of(request)
        options = self._wanted(request, model, self._details.get(model, "full"))
        head, forgotten = self._make_head(options, None), self._forgotten.get(request.messages, 0)
        target = beside(self._place.target, "count_tokens")
        try:
            reply = await self.wire.post(
                await self._headers(), self._with_messages(request, head, forgotten), target=target
            )
            return await counted(reply, self.wire, "input_tokens")
        except ProviderError as error:
            if error.status in NO_COUNTING:
                return None
            raise

    # ------------------------------------------------------------------ the request

    async def _headers(self) -> list[tuple[str, str]]:
        credential = await self.credential()
        self._source = credential.source if credential else ""
        self.wire.socket = self._parts.credentials.socket(self._entry)
        headers = {**dict(ACCEPTED), "anthropic-version": VERSION, **_authorization(credential)}
        for name, value in self._entry.headers.items():
            same = name.lower()
            both = same == "anthropic-beta" and same in headers
            headers[same] = f"{headers[same]},{value}" if both else value
        return list(headers.items())

    def _make_head(self, options: AdapterRequest, stream: bool | None) -> bytes:
        """The request before its messages. Missing settings follow from the facts about the model."""
        model, longest, claude = options.model, options.max_tokens, Claude(options.model)
        takes_temperature = options.temperature is not None and _takes_temperature(model)
        thinks = thinking.can_think(model, self._parts.config, by_name=claude.has_thinking)
        if takes_temperature and options.thinking.is_unset:
            thinks = False  # a chosen temperature has priority: no Claude accepts one while it thinks
        if longest is None:
            longest = _longest(self._facts(model), thinking.thinking_tokens(model, options.thinking, thinks=thinks))
        thinking_setting, effort = thinking.anthropic(
            model,
            options.thinking,
            longest - ROOM_TO_ANSWER,
            thinks=thinks,
            forced=options.tool_choice is not None,
            detail=options.detail,
        )
        silent = thinking_setting is None or thinking_setting["type"] not in ("adaptive", "enabled")
        temperature = min(1.0, options.temperature or 0.0) if takes_temperature and silent else None
        head = _head(
            options._replace(max_tokens=longest, temperature=temperature), thinking_setting, effort, stream=stream
        )
        if stream is not None:
            head = self._with_extra(head)
        return compact(head)[:-1] + b',"messages":['

    def _ours(self, model: str) -> tuple[str, ...]:
        """The shapes of thoughts that may be sent back to the model."""
        return (shape_of(self.wire, model), WIRE)

    def _with_messages(self, request: ChatRequest, head: bytes, forgotten: int) -> bytes:
        """Adds the messages. The cache mark is always on the last one, so it is not part of the cached encoding."""
        known, model = self._facts(request.model), self._model_of(request)
        shape = f"{shape_of(self.wire, model)} images={known.vision} pdf={known.pdf} without={forgotten}"
        ours, without = self._ours(model), ids_without_thoughts(request.messages, forgotten)
        messages = request.messages.encoded(
            shape, lambda message: _encoded(message, known, () if id(message) in without else ours)
        )
        if not messages or request.messages.messages[-1].role != "user":
            return b"".join((head, messages, b"]}"))
        return b"".join((head, messages[:-3], _MARKED_END, b"]}"))

    def _facts(self, model: str) -> ModelFacts:
        model = model or self._entry.model or self._parts.config.default_model
        if model not in self._known:
            self._known[model] = facts(model, self._parts.config)
        return self._known[model]

    # ------------------------------------------------------------------ errors

    def _advise(self, kind: ProviderErrorKind, status: int | None, _words: str) -> str:
        match kind:
            case "authentication_failed" if self._source:
                return f"check the key (from {self._source}) and what it may use"
            case "authentication_failed":
                return f"the program at {SOCKET_VARIABLE} sent no credential that the server accepts"
            case "malformed":
                return "is base_url a server of Anthropic's Messages API? `stream = false` helps with some"
            case _ if status == 404:
                return "check base_url and the model's name"
            case _:
                return advice(kind, status)

    def _with_model(self, error: ProviderError, model: str) -> ProviderError:
        """Adds the requested model, and how to choose another, to a 404."""
        if error.status != 404:
            return error
        asked = f"the requested model was {self._parts.secrets.clean(model)!r}"
        message = f"{error}; {asked}; choose another with --model, or with `model` in this provider's entry"
        return ProviderError(error.kind, message, provider=error.provider, status=error.status)


# ---------------------------------------------------------------------- what a model accepts


def _takes_temperature(model: str) -> bool:
    """Whether the model accepts a temperature. Models from 4.7 on answer 400 to any."""
    return Claude(model).version < (4, 7)


def _continues_without_thoughts(request: ChatRequest, forgotten: int, ours: tuple[str, ...]) -> bool:
    """Whether a turn continues that started without a thought, so that an older Claude may not start to think."""
    first: Message | None = None
    for index, message in reversed(list(enumerate(request.messages.messages))):
        if message.role == "assistant":
            first = message if index >= forgotten else Message("assistant", ())
        elif not any(isinstance(block, ToolResultBlock) for block in message.blocks):
            break
    return first is not None and not any(isinstance(part, OpaqueBlock) and part.wire in ours for part in first.blocks)


def _longest(known: ModelFacts, thinking: int) -> int:
    """The maximum answer. Thinking counts as answer, so its tokens are added, up to the limit of the model."""
    can = known.max_output_tokens or max(USUAL_TOKENS, thinking + ROOM_TO_ANSWER)
    return min(can, MOST_TOKENS + thinking)


# ---------------------------------------------------------------------- the request before its messages


def _head(
    options: AdapterRequest, thinking_setting: Json | None, effort: Effort | None, *, stream: bool | None
) -> Json:
    """Everything but the messages. `stream` is None for counting tokens, which accepts fewer settings."""
    head: Json = {"model": options.model}
    if stream is not None:
        head |= {"max_tokens": options.max_tokens, "stream": stream}
        if options.temperature is not None:
            head["temperature"] = options.temperature
    if thinking_setting:
        head["thinking"] = thinking_setting
    if effort is not None:
        head["output_config"] = {"effort": effort}
    if options.schema is not None:
        form = {"type": "json_schema", "schema": strict(options.schema)}
        head["output_config"] = {**head.get("output_config", {}), "format": form}
    if options.tool_choice:
        head["tool_choice"] = {"type": "tool", "name": options.tool_choice}
    if options.tools:
        head["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in options.tools
        ]
        head["tools"][-1]["cache_control"] = _MARK
    if options.system.strip():
        head["system"] = [{"type": "text", "text": options.system, "cache_control": _MARK}]
    return head


_KEPT = frozenset({"type", "enum", "const", "required", "description", "title", "$ref"})
_KEPT_VALUES: dict[str, tuple[object, ...]] = {
    "format": ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"),
    "minItems": (0, 1),
}


def strict(schema: Json) -> Json:
    """A schema for structured output: objects are closed, and unsupported limits become part of the description."""
    supported: Json = {}
    unsupported: list[str] = []
    for key, value in schema.items():
        match key:
            case "properties" | "$defs":
                supported[key] = {name: strict(inner) for name, inner in value.items()}
            case "items":
                supported[key] = strict(value)
            case "anyOf" | "oneOf" | "allOf":
                supported["anyOf" if key == "oneOf" else key] = [strict(inner) for inner in value]
            case "additionalProperties":
                pass
            case _ if key in _KEPT or value in _KEPT_VALUES.get(key, ()):
                supported[key] = value
            case _:
                unsupported.append(f"{key}: {json.dumps(value)}")
    if supported.get("type") == "object":
        supported["additionalProperties"] = False
    if unsupported:
        supported["description"] = f"{supported.get('description', '')} ({', '.join(unsupported)})".strip()
    return supported


# ---------------------------------------------------------------------- messages


def _encoded(message: Message, known: ModelFacts, ours: tuple[str, ...]) -> list[bytes]:
    """The encoded message; empty for an assistant's message without content, which would be refused."""
    content = _assistant(message, ours) if message.role == "assistant" else _user(message, known)
    return [compact({"role": message.role, "content": content})] if content else []


def _user(message: Message, known: ModelFacts) -> list[Json]:
    """The content of a user message. Results come first, because they must follow their calls."""
    content = [_result(block, known) for block in message.blocks if isinstance(block, ToolResultBlock)]
    for block in message.blocks:
        content += _content(block, known)
    return content or [{"type": "text", "text": "(an empty message)"}]


def _result(block: ToolResultBlock, known: ModelFacts) -> Json:
    result: Json = {"type": "tool_result", "tool_use_id": _id(block.tool_use_id), "content": block.model_text}
    if block.is_error:  # whose content may not be empty
        result |= {"content": block.model_text or "failed without a word", "is_error": True}
    if block.media:
        shown = [part for media in block.media for part in _content(media, known)]
        result["content"] = [*_text(result["content"]), *shown]
    return result


def _content(block: Block, known: ModelFacts) -> list[Json]:
    match block:
        case TextBlock(text):
            return _text(text)
        case MediaBlock(media_type, data, _) if media_type in _IMAGES and known.vision:
            return [{"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}]
        case MediaBlock("application/pdf", data, name) if known.pdf:
            source = {"type": "base64", "media_type": "application/pdf", "data": data}
            return [{"type": "document", "source": source} | ({"title": name} if name else {})]
        case MediaBlock():
            return [{"type": "text", "text": left_out(block, "document")}]
        case _:
            return []


def _text(text: str) -> list[Json]:
    """A text block; none for blank text, which the API refuses."""
    return [{"type": "text", "text": text}] if text.strip() else []


def _assistant(message: Message, ours: tuple[str, ...]) -> list[Json]:
    """The content of an assistant message. Thoughts go back unchanged: first, or at their recorded position."""
    thoughts = [block.payload for block in message.blocks if isinstance(block, OpaqueBlock) and block.wire in ours]
    text = message.text
    calls = [_call(block.call) for block in message.blocks if isinstance(block, ToolUseBlock)]
    content: list[Json] = []
    spoken = encoded_calls = 0
    for thought in thoughts:
        characters, count = thought.get(AFTER, (0, 0))
        content += [*_text(text[spoken:characters]), *calls[encoded_calls:count]]
        spoken, encoded_calls = max(spoken, characters), max(encoded_calls, count)
        content.append({key: value for key, value in thought.items() if key != AFTER})
    content += [*_text(text[spoken:]), *calls[encoded_calls:]]
    while content and content[-1]["type"] in ("thinking", "redacted_thinking"):
        content.pop()  # a message may not end with a thought
    return content


def _call(call: ToolCall) -> Json:
    name = _NO_ID.sub("_", call.name)[:128] or "unnamed"
    return {"type": "tool_use", "id": _id(call.id), "name": name, "input": call.input}


def _id(call_id: str) -> str:
    """A valid id. One of another provider with invalid characters is always replaced by the same hash."""
    if call_id and not _NO_ID.search(call_id):
        return call_id
    return f"toolu_{hashlib.sha256(call_id.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"
