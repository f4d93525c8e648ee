"""Servers that speak Chat Completions, streaming or not: OpenRouter, Ollama, LM Studio, vLLM, llama.cpp and others."""

from collections.abc import Iterator

from adderclaw.config.model_facts.catalogue import thinks
from adderclaw.core.errors import ProviderErrorKind
from adderclaw.core.provider_kinds import OPENROUTER
from adderclaw.core.types import (
    ChatRequest,
    ChatResponse,
    Json,
    MediaBlock,
    Message,
    OnDelta,
    OpaqueBlock,
    TextBlock,
    ToolCall,
    ToolResultBlock,
    ToolSpec,
    ToolUseBlock,
)
from adderclaw.models.providers import Parts
from adderclaw.models.providers.adapter import (
    FULL_VARIANT,
    AdapterRequest,
    RequestVariant,
    compact,
    ids_without_thoughts,
    left_out,
)
from adderclaw.models.providers.faults import advice
from adderclaw.models.providers.openai_reply import Answer
from adderclaw.models.providers.openai_server import (
    Server,
    arguments,
    base_url_of,
    data_url,
    function_name,
    key_variable,
    media_of_results,
    openai_endpoint,
    strict,
    told,
    user_items,
)
from adderclaw.models.providers.reading import read
from adderclaw.models.providers.wire import Endpoint

__all__ = ["OpenAIChat", "base_url_of", "key_variable", "make"]


def make(parts: Parts) -> "OpenAIChat":
    return OpenAIChat(parts, openai_endpoint(parts, "/chat/completions"))


def _advice(kind: ProviderErrorKind, status: int | None, words: str) -> str:
    if "does not support tools" in words:
        return "choose a model that can call tools, or another server for it with text_tool_calls = true"
    return advice(kind, status)


class OpenAIChat(Server):
    def __init__(self, parts: Parts, target: Endpoint) -> None:
        super().__init__(parts, target)
        self.wire.advise = _advice
        self._shape = f"openai-chat/{target.authority}"
        """The shape of this server's messages. Opaque blocks of another server are not sent to it."""

    async def chat(self, request: ChatRequest, on_delta: OnDelta) -> ChatResponse:
        model = self._model_of(request)
        reply = await self._post_adapting(request, model, lambda way: self.body(request, way), self._post_with_key)
        text_tools = frozenset(tool.name for tool in request.tools if self._entry.text_tool_calls)
        answer = Answer(self.wire, on_delta, text_tools)
        await read(reply, answer, self.wire)
        answer.read_text_calls(_results(request))
        calls = answer.calls(*self._ids.of(request.messages))
        raw: Json = {"finish_reason": answer.finish or None, "status": reply.status, **answer.extra}
        return self._response(answer, calls, answer.opaque(self._shape_of(model)), model, raw)

    async def count(self, request: ChatRequest) -> int | None:  # noqa: ARG002 - the API has no token counting
        return None

    # ------------------------------------------------------------------ the request

    def _shape_of(self, model: str) -> str:
        """The shape of thoughts of one vendor's models on this server."""
        from adderclaw.models.providers.thinking import vendor_of  # once there are thoughts

        return f"{self._shape} {vendor_of(model)}".strip()

    def body(self, request: ChatRequest, way: RequestVariant = FULL_VARIANT) -> bytes:
        """The body of the request."""
        model = self._model_of(request)
        without = ids_without_thoughts(request.messages, way.forgotten)
        # Which media a model accepts affects the encoding, so each model has its own.
        messages = request.messages.encoded(
            f"{self._shape} {model} without={way.forgotten}",
            lambda message: self._encode(message, model, thinks=id(message) not in without),
            take_turns=True,
        )
        head = self._head_of(self._wanted(request, model, way.detail), self._make_head)
        return b"".join((head, b"," if messages else b"", messages, b"]}"))

    def _make_head(self, options: AdapterRequest) -> bytes:
        head: Json = {"model": options.model} if options.model else {}
        head["stream"] = self._entry.stream
        if self._entry.stream:
            head["stream_options"] = {"include_usage": True}
        if options.tools:
            head["tools"] = [_tool(tool) for tool in options.tools]
        if options.tool_choice:
            head["tool_choice"] = {"type": "function", "function": {"name": options.tool_choice}}
        if options.max_tokens is not None:
            head[self._limit_key(options.model)] = options.max_tokens
        if options.temperature is not None:
            head["temperature"] = options.temperature
        if (schema := options.schema) is not None:
            described = {"name": "answer", "schema": schema, "strict": strict(schema)}
            head["response_format"] = {"type": "json_schema", "json_schema": described}
        head |= self._thinking(options)
        if head.get("reasoning_effort", "none") != "none":
            head.pop("temperature", None)  # refused for a model that reasons
        head = self._with_extra(head)
        first = compact({"role": "system", "content": options.system})
        return compact(head)[:-1] + b',"messages":[' + first

    def _limit_key(self, model: str) -> str:
        """The key of the answer limit. OpenAI, also behind a proxy, refuses the old one; others only know that."""
        new = self._owned_by_openai or ("/" not in model and thinks(model))
        return "max_completion_tokens" if new else "max_tokens"

    def _thinking(self, options: AdapterRequest) -> Json:
        if self._entry.kind == OPENROUTER:
            from adderclaw.models.providers.thinking import can_think, openrouter

            able = can_think(options.model, self._parts.config, by_name=thinks(options.model))
            reasoning = openrouter(options.thinking, thinks=able, detail=options.detail)
            return {} if reasoning is None else {"reasoning": reasoning}
        effort = self._effort(options)
        if options.tools and thinks(options.model) and (self._owned_by_openai or options.detail == "nothing"):
            from adderclaw.models.providers.thinking import gpt_version, level, levels

            # with OpenAI's chat completions, newer models accept tools only if they do not reason
            effort = level("none", levels(options.model)) if gpt_version(options.model) >= (5, 4) else effort
        return {} if effort is None else {"reasoning_effort": effort}

    def _encode(self, message: Message, model: str, *, thinks: bool) -> list[bytes]:
        if message.role == "assistant":
            thoughts = thinks and any(isinstance(block, OpaqueBlock) for block in message.blocks)
            return [compact(_assistant(message, self._shape_of(model) if thoughts else ""))]
        return [compact(part) for part in self._user(message, model)]

    def _user(self, message: Message, model: str) -> Iterator[Json]:
        results = [_result(block) for block in message.blocks if isinstance(block, ToolResultBlock)]
        blocks = [
            *media_of_results(message),
            *(block for block in message.blocks if isinstance(block, (TextBlock, MediaBlock))),
        ]
        return user_items(results, blocks, lambda block: self._part(block, model))

    def _part(self, block: TextBlock | MediaBlock, model: str) -> Json:
        if isinstance(block, TextBlock):
            return {"type": "text", "text": block.text}
        if not self._takes(block, model):
            return {"type": "text", "text": left_out(block)}
        if block.media_type.startswith("image/"):
            return {"type": "image_url", "image_url": {"url": data_url(block)}}
        return {"type": "file", "file": {"filename": block.name or "document.pdf", "file_data": data_url(block)}}


def _tool(tool: ToolSpec) -> Json:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _result(block: ToolResultBlock) -> Json:
    return {"role": "tool", "tool_call_id": block.tool_use_id, "content": told(block)}


def _results(request: ChatRequest) -> Iterator[str]:
    blocks = (block for message in request.messages.messages for block in message.blocks)
    return (block.content for block in blocks if isinstance(block, ToolResultBlock))


def _assistant(message: Message, shape: str) -> Json:
    ours = [block.payload for block in message.blocks if isinstance(block, OpaqueBlock) and block.wire == shape]
    opaque: Json = {key: value for payload in ours for key, value in payload.items()}
    extra: Json = opaque.pop("extra_content", {})
    calls = [_call(block.call, extra) for block in message.blocks if isinstance(block, ToolUseBlock)]
    encoded: Json = {"role": "assistant", "content": message.text or (None if calls else "")}
    if calls:
        encoded["tool_calls"] = calls
    return encoded | opaque


def _call(call: ToolCall, extra: Json) -> Json:
    function = {"name": function_name(call.name), "arguments": arguments(call)}
    encoded: Json = {"id": call.id, "type": "function", "function": function}
    if call.id in extra:
        encoded["extra_content"] = extra[call.id]
    return encoded
