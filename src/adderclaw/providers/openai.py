"""Servers that speak Chat Completions, streaming or not: OpenRouter, Ollama, LM Studio, vLLM, llama.cpp and others."""

import json
import os
from typing import Any

from adderclaw.credentials.redaction import secret_name
from adderclaw.errors import ProviderError
from adderclaw.providers import Parts, misconfigured
from adderclaw.providers.openai_reply import Answer
from adderclaw.providers.sse import Events
from adderclaw.providers.wire import Endpoint, Reply, Wire, endpoint
from adderclaw.types import (
    ChatRequest,
    ChatResponse,
    History,
    Json,
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

_BASE_URLS = {
    "openrouter": "https://openrouter.ai/api/v1",
    "ollama": "http://127.0.0.1:11434/v1",
    "lm-studio": "http://127.0.0.1:1234/v1",
}
_KEY_VARIABLES = {"openrouter": "OPENROUTER_API_KEY"}
_STREAM_OVERHEAD = 32
"""A streamed answer is this much larger on the wire than what it says: a small JSON object around every few letters."""


def make(parts: Parts) -> "OpenAIChat":
    place = _place(parts)
    if not (parts.entry.model or parts.config.default_model):
        misconfigured(parts.name, "model", "no model is named; set it here, or default_model for all")
    if parts.entry.api_key_env and place.scheme == "http" and not place.loopback:
        warning = f"provider {parts.name!r} sends its key without encryption to {place.origin}; use https if you can"
        parts.tell({"event_type": "warning", "message": warning})
    return OpenAIChat(parts, place)


def _place(parts: Parts) -> Endpoint:
    base_url = parts.entry.base_url or _BASE_URLS.get(parts.entry.kind) or os.environ.get("OPENAI_BASE_URL")
    if not base_url:
        fix = "set it to the server's address, such as http://127.0.0.1:8080/v1, or set OPENAI_BASE_URL"
        misconfigured(parts.name, "base_url", f"missing; {fix}")
    try:
        return endpoint(base_url, "/chat/completions")
    except ValueError as error:
        misconfigured(parts.name, "base_url", str(error))


def key_variable(kind: str, api_key_env: str | None) -> str | None:
    """The environment variable that holds the key of a provider of this kind."""
    return api_key_env or _KEY_VARIABLES.get(kind)


def base_url_of(kind: str, base_url: str | None) -> str | None:
    return base_url or _BASE_URLS.get(kind)


class OpenAIChat:
    def __init__(self, parts: Parts, place: Endpoint) -> None:
        self._parts, self._entry, self._place = parts, parts.entry, place
        limit = parts.config.runtime.max_response_bytes
        timeout = parts.entry.timeout_seconds
        self.wire = Wire(parts.name, place, parts.secrets, parts.clock, timeout=timeout, max_bytes=limit)
        self._shape = f"openai-chat/{place.authority}"
        """Names this server's form of the messages: another server's opaque blocks are not for it."""
        self._head: tuple[tuple[object, ...], bytes] | None = None
        self._ids = _Ids()
        self._known_key = ""
        for header, value in parts.entry.headers.items():
            if secret_name(header):
                parts.secrets.add(value)

    @property
    def name(self) -> str:
        return self._parts.name

    def capabilities(self) -> ProviderCapabilities:
        return ProviderCapabilities(streaming=self._entry.stream, context_tokens=self._entry.context_tokens)

    async def chat(self, request: ChatRequest, on_delta: OnDelta) -> ChatResponse:
        reply = await self.wire.post(self._headers(), self._body(request))
        answer = Answer(self.wire, on_delta)
        try:
            await _read(reply, answer, self.wire)
        finally:
            reply.close()
        calls = answer.calls(*self._ids.of(request.messages))
        return ChatResponse(
            final_text=answer.text,
            tool_calls=calls,
            usage=answer.usage,
            stop_reason=answer.stop_reason,
            model=answer.model or request.model,
            provider=self.name,
            opaque=answer.opaque(self._shape),
            raw_provider_payload={"finish_reason": answer.finish or None, "status": reply.status},
        )

    async def count(self, request: ChatRequest) -> int | None:  # noqa: ARG002 - it has no such service
        return None

    async def close(self) -> None:
        await self.wire.close()

    # ------------------------------------------------------------------ the request

    def _headers(self) -> list[tuple[str, str]]:
        headers = [("accept", "text/event-stream, application/json"), ("user-agent", "adderclaw")]
        headers += self._entry.headers.items()
        if key := self._key():
            headers.append(("authorization", f"Bearer {key}"))
        return headers

    def _key(self) -> str:
        """Read at every call: a key that was renewed counts."""
        variable = key_variable(self._entry.kind, self._entry.api_key_env)
        key = os.environ.get(variable, "").strip() if variable else ""
        if key and key != self._known_key:
            self._known_key = key
            self._parts.secrets.add(key)
        elif not key and variable and not self._place.loopback:
            fix = f"set it with `export {variable}=…` before you start adderclaw"
            raise ProviderError(
                "missing_key",
                f"provider {self.name!r} needs its key in the variable {variable}, which is not set; {fix}",
                provider=self.name,
            )
        if not (key.isascii() and key.isprintable()) or " " in key:
            message = (
                f"the value of {variable} cannot be a key: it holds a space, a line break or letters outside ASCII"
            )
            raise ProviderError("authentication_failed", message, provider=self.name)
        return key

    def _body(self, request: ChatRequest) -> bytes:
        messages = request.messages.encoded(self._shape, self._encode)
        return b"".join((self._before_messages(request), b"," if messages else b"", messages, b"]}"))

    def _before_messages(self, request: ChatRequest) -> bytes:
        """Everything up to the first message of the history; made once for requests that differ only in that."""
        entry = self._entry
        wanted = (
            request.system_prompt,
            request.tools,
            request.model or entry.model or self._parts.config.default_model,
            request.temperature if request.temperature is not None else entry.temperature,
            request.max_tokens if request.max_tokens is not None else entry.max_tokens,
            request.tool_choice,
        )
        if self._head is None or self._head[0] != wanted:
            self._head = (wanted, _head(*wanted, stream=entry.stream))
        return self._head[1]

    def _encode(self, message: Message) -> list[bytes]:
        encoded = _assistant(message, self._shape) if message.role == "assistant" else _user(message)
        return [_compact(part) for part in encoded]


def _head(
    system: str,
    tools: tuple[ToolSpec, ...],
    model: str | None,
    temperature: float | None,
    max_tokens: int | None,
    tool_choice: str | None,
    *,
    stream: bool,
) -> bytes:
    head: Json = {"model": model, "stream": stream}
    if stream:
        head["stream_options"] = {"include_usage": True}
    if tools:
        head["tools"] = [_tool(tool) for tool in tools]
    if tool_choice:
        head["tool_choice"] = {"type": "function", "function": {"name": tool_choice}}
    if max_tokens is not None:
        head["max_tokens"] = max_tokens
    if temperature is not None:
        head["temperature"] = temperature
    first = _compact({"role": "system", "content": system})
    return _compact(head)[:-1] + b',"messages":[' + first


def _tool(tool: ToolSpec) -> Json:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _user(message: Message) -> list[Json]:
    """Results first: they must follow the calls that they answer."""
    encoded = [_result(block) for block in message.blocks if isinstance(block, ToolResultBlock)]
    texts = [block.text for block in message.blocks if isinstance(block, TextBlock)]
    if texts or not encoded:
        encoded.append({"role": "user", "content": "\n".join(texts)})
    return encoded


def _result(block: ToolResultBlock) -> Json:
    marked = block.is_error and not block.content.startswith("Error: ")
    return {
        "role": "tool",
        "tool_call_id": block.tool_use_id,
        "content": f"Error: {block.content}" if marked else block.content,
    }


def _assistant(message: Message, shape: str) -> list[Json]:
    ours = [block.payload for block in message.blocks if isinstance(block, OpaqueBlock) and block.wire == shape]
    opaque: Json = {key: value for payload in ours for key, value in payload.items()}
    extra: Json = opaque.pop("extra_content", {})
    calls = [_call(block.call, extra) for block in message.blocks if isinstance(block, ToolUseBlock)]
    encoded: Json = {"role": "assistant", "content": message.text or (None if calls else "")}
    if calls:
        encoded["tool_calls"] = calls
    return [encoded | opaque]


def _call(call: ToolCall, extra: Json) -> Json:
    """Broken arguments go back as {}: servers that parse them would refuse every later request."""
    arguments = json.dumps(call.arguments or {}, separators=(",", ":"), ensure_ascii=False)
    encoded: Json = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
    if call.id in extra:
        encoded["extra_content"] = extra[call.id]
    return encoded


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")


# ---------------------------------------------------------------------- the reply


async def _read(reply: Reply, answer: Answer, wire: Wire) -> None:
    """Read the reply to its end, as a stream or as one object, whichever the server chose to send."""
    if encoding := reply.headers.get("content-encoding", "").replace("identity", ""):
        raise wire.malformed(f"compressed its answer ({encoding}) though that was not asked for", "", b"")
    reply.max_bytes *= 1 if reply.content_type == "application/json" else _STREAM_OVERHEAD
    first = await reply.read()
    if _is_stream(reply.content_type, first):
        await _read_stream(reply, first, answer, wire)
    else:
        await _read_object(reply, first, answer, wire)


def _is_stream(content_type: str, first: bytes) -> bool:
    if content_type == "text/event-stream":
        return True
    return content_type != "application/json" and first.lstrip().startswith((b"data:", b":", b"event:", b"id:"))


async def _read_stream(reply: Reply, piece: bytes, answer: Answer, wire: Wire) -> None:
    events, start = Events(), b""
    try:
        while piece:
            start = start if len(start) > 2048 else start + piece[:2048]
            for data in events.feed(piece):
                answer.take(data)
                if data == "[DONE]":
                    reply.last_read()
                    return
            piece = await reply.read()
        for data in events.end():
            answer.take(data)
    except (ValueError, RecursionError):
        raise wire.malformed("sent an event that is no JSON object", reply.content_type, start) from None
    if not answer.ended:
        raise wire.malformed("ended the stream before the answer was whole", reply.content_type, start)


async def _read_object(reply: Reply, piece: bytes, answer: Answer, wire: Wire) -> None:
    body = bytearray()
    while piece:
        body += piece
        if len(body) > wire.max_bytes:
            raise wire.too_large()
        piece = await reply.read()
    try:
        whole: Any = json.loads(body)
    except (ValueError, RecursionError):
        raise wire.malformed("did not answer with JSON", reply.content_type, bytes(body[:2048])) from None
    if not isinstance(whole, dict) or not ("choices" in whole or "error" in whole):
        raise wire.malformed("answered without `choices`", reply.content_type, bytes(body[:2048]))
    answer.add(whole, "message")  # pyright: ignore[reportUnknownArgumentType]


class _Ids:
    """Which ids the calls of a conversation have: some servers count from the start in every answer."""

    def __init__(self) -> None:
        self._history = History()
        self._seen = self._step = 0
        self._taken: set[str] = set()

    def of(self, history: History) -> tuple[int, set[str]]:
        """The number of the step that is being answered, and the ids taken before it."""
        if history is not self._history:
            self._history, self._seen, self._step, self._taken = history, 0, 0, set()
        for message in history.messages[self._seen :]:
            self._step += message.role == "assistant"
            self._taken |= {block.call.id for block in message.blocks if isinstance(block, ToolUseBlock)}
        self._seen = len(history.messages)
        return self._step + 1, self._taken
