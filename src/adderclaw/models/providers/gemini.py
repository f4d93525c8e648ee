"""Google's Gemini API: generateContent, streaming or not, and its own counting of tokens."""

import json
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from urllib.parse import parse_qsl

from adderclaw.core.errors import ProviderErrorKind
from adderclaw.core.history import History
from adderclaw.core.provider_kinds import BY_NAME
from adderclaw.core.redaction import is_secret_name
from adderclaw.core.types import (
    ChatRequest,
    ChatResponse,
    Json,
    MediaBlock,
    Message,
    OnDelta,
    OpaqueBlock,
    ProviderCapabilities,
    TextBlock,
    ToolCall,
    ToolResultBlock,
    ToolSpec,
    ToolUseBlock,
)
from adderclaw.models.providers import Parts, misconfigured, thinking
from adderclaw.models.providers.adapter import (
    Adapter,
    AdapterRequest,
    RequestVariant,
    compact,
    counted,
    endpoint_of,
    ids_without_thoughts,
    left_out,
    require_model,
    warn_unencrypted,
)
from adderclaw.models.providers.faults import advice
from adderclaw.models.providers.gemini_reply import MADE_ID, OVERHEAD, STREAM_OVERHEAD, WIRE, Answer
from adderclaw.models.providers.reading import read
from adderclaw.models.providers.wire import Endpoint, Reply

_KIND = BY_NAME["gemini"]
KEY_VARIABLES = (_KIND.key_variable, "GOOGLE_API_KEY")

FOREIGN_SIGNATURE = "skip_thought_signature_validator"
"""Google's placeholder for calls of other models, because Gemini 3 and newer refuse calls without a signature."""

_VERSION = re.compile(r"/v\d+(alpha|beta)?\d*$")
_MODEL = re.compile(r"(?:(?:models|tunedModels)/)?[A-Za-z0-9][\w.-]*", re.ASCII)
_SIGNED = re.compile(r"(?:models/)?gemini-(?:[3-9]|\d\d)")
_MEDIA = re.compile(r"image/(?:png|jpeg|webp|heic|heif)|application/pdf|text/plain|audio/[\w.+-]+|video/[\w.+-]+")


def make(parts: Parts) -> "Gemini":
    target, query = _place(parts)
    require_model(parts)
    warn_unencrypted(parts, target)
    return Gemini(parts, target, query)


def _place(parts: Parts) -> tuple[Endpoint, str]:
    """The address up to its version, and the query from base_url."""
    target = endpoint_of(parts, parts.entry.base_url or os.environ.get(_KIND.url_variable) or _KIND.base_url, "")
    path, _, query = target.target.partition("?")
    if any(name.lower() == "key" or is_secret_name(name) for name, _ in parse_qsl(query, keep_blank_values=True)):
        fix = "name the key's variable in api_key_env instead, because addresses end up in logs"
        misconfigured(parts.name, "base_url", f"has a key in its query; {fix}")
    return target._replace(target=path if _VERSION.search(path) else f"{path}/v1beta"), query


def _advise(kind: ProviderErrorKind, status: int | None, _words: str) -> str:
    if status == 404:
        return "check the model's name, and base_url if you set it"
    if kind == "malformed":
        return "is base_url a Gemini API? `stream = false` helps with some proxies"
    return advice(kind, status)


class Gemini(Adapter):
    def __init__(self, parts: Parts, target: Endpoint, query: str) -> None:
        super().__init__(parts, target, KEY_VARIABLES)
        self._query = query
        self.wire.advise = _advise

    def capabilities(self) -> ProviderCapabilities:
        context = self._entry.context_tokens
        return ProviderCapabilities(
            streaming=self._entry.stream, images=True, context_tokens=context, structured="json"
        )

    async def chat(self, request: ChatRequest, on_delta: OnDelta) -> ChatResponse:
        model = self._model_path(request)
        method = "streamGenerateContent?alt=sse" if self._entry.stream else "generateContent"
        reply = await self._post_adapting(
            request,
            model,
            lambda way: b"{" + self._inner(request, model, way) + b"}",
            lambda body: self._call(model, method, body),
        )
        answer = Answer(self.wire, on_delta)
        await read(reply, answer, self.wire, overhead=OVERHEAD, streamed=STREAM_OVERHEAD)
        calls = answer.calls(request.messages)
        finish, blocked = answer.finish or None, answer.blocked or None
        raw: Json = {"finish_reason": finish, "block_reason": blocked, "status": reply.status}
        return self._response(answer, calls, answer.opaque(calls), request.model, raw)

    async def count(self, request: ChatRequest) -> int | None:
        """The token count of everything that a chat would send: instructions, tools and contents."""
        model = self._model_path(request)
        named = json.dumps(model).encode()
        way = RequestVariant(self._details.get(model, "full"), self._forgotten.get(request.messages, 0))
        body = b'{"generateContentRequest":{"model":%s,%s}}' % (named, self._inner(request, model, way))
        reply = await self._call(model, "countTokens", body)
        total = await counted(reply, self.wire, "totalTokens")
        if total is None:
            raise self.wire.malformed("counted without `totalTokens`", reply.content_type, b"")
        return total

    # ------------------------------------------------------------------ address and credentials

    def _model_path(self, request: ChatRequest) -> str:
        """The model in the path: `models/NAME` or `tunedModels/NAME`."""
        named = self._model_of(request)
        if not _MODEL.fullmatch(named):
            message = f"{named!r} is not a valid model name; use one of Google's, such as gemini-2.5-flash"
            raise self.wire.fault("invalid_request", message)
        return named if "/" in named else f"models/{named}"

    async def _call(self, model: str, method: str, body: bytes) -> Reply:
        headers: list[tuple[str, str]] = []
        credential = await self.credential()
        if credential is not None and credential.scheme == "bearer":
            headers.append(("authorization", f"Bearer {credential.value}"))
        elif credential is not None:
            headers.append(("x-goog-api-key", credential.value))
        joined = "&" if "?" in method else "?"
        target = f"{self._place.target}/{model}:{method}" + (f"{joined}{self._query}" if self._query else "")
        return await self._post(headers, body, target=target)

    # ------------------------------------------------------------------ the request

    def _inner(self, request: ChatRequest, model: str, way: RequestVariant) -> bytes:
        """The members of the request's object. Contents come last, so that a growing request keeps its prefix."""
        signed = bool(_SIGNED.match(model))
        head = self._head_of(self._wanted(request, model, way.detail), self._make_head)
        shape = f"{WIRE}{'/signed' if signed else ''} without={way.forgotten}"
        without = ids_without_thoughts(request.messages, way.forgotten)
        contents = request.messages.encoded(shape, _encoder(request.messages, without, signed=signed))
        return b"".join((head, b'"contents":[', contents, b"]"))

    def _make_head(self, options: AdapterRequest) -> bytes:
        model = options.model.rpartition("/")[2]
        able = thinking.can_think(model, self._parts.config, by_name=thinking.gemini_version(model) > (2, 0))
        head = _head(options, thinking.gemini(model, options.thinking, thinks=able, detail=options.detail))
        head = self._with_extra(head)
        return compact(head)[1:-1] + b"," if head else b""


def _head(options: AdapterRequest, thinking_setting: Json | None) -> Json:
    head: Json = {}
    if options.system:
        head["systemInstruction"] = {"parts": [{"text": options.system}]}
    if options.tools:
        head["tools"] = [{"functionDeclarations": [_tool(tool) for tool in options.tools]}]
    if options.tool_choice:
        forced = {"mode": "ANY", "allowedFunctionNames": [options.tool_choice]}
        head["toolConfig"] = {"functionCallingConfig": forced}
    if settings := _settings(options):
        head["generationConfig"] = settings
    if thinking_setting:
        head["generationConfig"] = {**settings, "thinkingConfig": thinking_setting}
    return head


def _tool(tool: ToolSpec) -> Json:
    return {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters}


def _settings(options: AdapterRequest) -> Json:
    settings: Json = {}
    if options.temperature is not None:
        settings["temperature"] = options.temperature
    if options.max_tokens is not None:
        settings["maxOutputTokens"] = options.max_tokens
    if options.schema is not None:
        settings["responseMimeType"] = "application/json"
        settings["responseJsonSchema"] = options.schema
    return settings


# ---------------------------------------------------------------------- contents


def _encoder(history: History, without: frozenset[int], *, signed: bool) -> Callable[[Message], list[bytes]]:
    """Returns an encoder for the messages of a history, in order. It remembers calls, because results name theirs."""
    calls: dict[str, str] = {}

    def known(results: Iterable[str]) -> dict[str, str]:
        if not calls.keys() >= set(results):  # the calls were encoded with an earlier request
            for message in history.messages:
                calls.update(_names(message))
        return calls

    def encode(message: Message) -> list[bytes]:
        if message.role == "user":
            return _user(message, known, signed=signed)
        calls.update(_names(message))
        if id(message) in without:
            message = replace(
                message, blocks=tuple(block for block in message.blocks if not isinstance(block, OpaqueBlock))
            )
        parts = _model_parts(message, signed=signed)
        return [compact({"role": "model", "parts": parts})] if parts else []

    return encode


def _names(message: Message) -> dict[str, str]:
    return {block.call.id: block.call.name for block in message.blocks if isinstance(block, ToolUseBlock)}


def _user(message: Message, known: Callable[[Iterable[str]], dict[str, str]], *, signed: bool) -> list[bytes]:
    """Encodes a user message: first the results alone, in the order of their calls, which matches them without ids.

    From Gemini 3 on, a result may contain images and documents; for older models they follow the results.
    """
    results = [block for block in message.blocks if isinstance(block, ToolResultBlock)]
    names = known(block.tool_use_id for block in results)
    positions = {call_id: position for position, call_id in enumerate(names)} if len(results) > 1 else {}
    results.sort(key=lambda block: positions.get(block.tool_use_id, len(positions)))
    responses: list[Json] = []
    parts: list[Json] = []
    for block in results:
        name = names.get(block.tool_use_id)
        if name is None:  # its call is no longer part of the conversation
            parts.append({"text": f"Result of an earlier call: {block.model_text}"})
        else:
            inside = [part for media in block.media if signed and (part := _inline(media)) is not None]
            responses.append({"functionResponse": _response(block, name) | ({"parts": inside} if inside else {})})
        parts += [
            _user_part(media) or {} for media in block.media if name is None or not signed or _inline(media) is None
        ]
    parts += [part for block in message.blocks if (part := _user_part(block)) is not None]
    if not parts and not responses:
        parts.append({"text": " "})  # an empty text is refused
    return [compact({"role": "user", "parts": each}) for each in (responses, parts) if each]


def _response(block: ToolResultBlock, name: str) -> Json:
    response: Json = {"name": _name(name), "response": {"error" if block.is_error else "output": block.model_text}}
    return response if block.tool_use_id.startswith(MADE_ID) else {"id": block.tool_use_id, **response}


def _inline(media: MediaBlock) -> Json | None:
    if _MEDIA.fullmatch(media.media_type):
        return {"inlineData": {"mimeType": media.media_type, "data": media.data}}
    return None


def _user_part(block: object) -> Json | None:
    match block:
        case TextBlock(text) if text:
            return {"text": text}
        case MediaBlock():
            return _inline(block) or {"text": left_out(block)}
        case _:
            return None


def _model_parts(message: Message, *, signed: bool) -> list[Json]:
    """The parts in the stored order of the model's answer, or else text, then calls."""
    calls = {block.call.id: block.call for block in message.blocks if isinstance(block, ToolUseBlock)}
    text = message.text
    parts: list[Json] = []
    for item in _account(message):
        match item:
            case {"text": int(length)}:
                part: Json = {"text": text[:length]}
                text = text[length:]
            case {"call_id": str(call_id)} if call_id in calls:
                part = _call(calls.pop(call_id))
            case {"part": dict(part)}:  # pyright: ignore[reportUnknownVariableType]
                pass
            case _:
                continue
        if signature := item.get("signature"):
            part["thoughtSignature"] = signature
        elif part == {"text": ""}:
            continue  # an empty text is refused
        parts.append(part)  # pyright: ignore[reportUnknownArgumentType]
    if text:
        parts.append({"text": text})
    parts += [_call(call) for call in calls.values()]
    if signed:
        _sign_foreign(parts)
    return parts


def _account(message: Message) -> list[Json]:
    ours = [block.payload for block in message.blocks if isinstance(block, OpaqueBlock) and block.wire == WIRE]
    return [item for payload in ours for item in payload.get("parts", [])]


def _call(call: ToolCall) -> Json:
    function: Json = {"name": _name(call.name), "args": call.arguments or {}}
    return {"functionCall": function if call.id.startswith(MADE_ID) else {"id": call.id, **function}}


def _sign_foreign(parts: list[Json]) -> None:
    """Signs the first call of a step, which must have a signature, if another model made it."""
    first = next((part for part in parts if "functionCall" in part), None)
    if first is not None:
        first.setdefault("thoughtSignature", FOREIGN_SIGNATURE)


def _name(name: str) -> str:
    """A valid function name, because the history may contain any name that a model has called."""
    valid = re.sub(r"[^\w.:-]", "_", name, flags=re.ASCII)[:128]
    return valid if re.match(r"[A-Za-z_]", valid) else f"_{valid}"[:128]
