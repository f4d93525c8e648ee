"""OpenAI's Responses API without state on the server: every request contains the whole conversation."""

from collections.abc import Iterator

from adderclaw.config.model_facts.catalogue import never_thinks, thinks
from adderclaw.core.errors import ProviderError, ProviderErrorKind
from adderclaw.core.types import (
    ChatRequest,
    ChatResponse,
    Effort,
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
    AdapterRequest,
    Detail,
    RequestVariant,
    beside,
    compact,
    counted,
    ids_without_thoughts,
    left_out,
)
from adderclaw.models.providers.faults import advice
from adderclaw.models.providers.openai_server import (
    Server,
    arguments,
    data_url,
    function_name,
    openai_endpoint,
    strict,
    told,
    user_items,
)
from adderclaw.models.providers.reading import read
from adderclaw.models.providers.responses_reply import TEXT, Answer
from adderclaw.models.providers.thinking import vendor_of
from adderclaw.models.providers.wire import Endpoint

_NOT_THERE = (400, 404, 405, 501)
"""Status codes of servers or models without token counting."""


def make(parts: Parts) -> "OpenAIResponses":
    return OpenAIResponses(parts, openai_endpoint(parts, "/responses"))


def _advice(kind: ProviderErrorKind, status: int | None, _words: str) -> str:
    if status == 404 or kind == "malformed":
        return 'check base_url and model; for a server without the Responses API set kind = "openai-compatible"'
    return advice(kind, status)


class OpenAIResponses(Server):
    def __init__(self, parts: Parts, target: Endpoint) -> None:
        super().__init__(parts, target)
        self.wire.advise = _advice
        self._shape = f"openai-responses/{target.authority}"
        """The shape of this server's messages. Another server could not decrypt the reasoning."""
        self._counts = True

    async def chat(self, request: ChatRequest, on_delta: OnDelta) -> ChatResponse:
        model = self._model_of(request)

        def body(way: RequestVariant) -> bytes:
            options = self._wanted(request, model, way.detail)
            head = self._head_of(options, lambda options: compact(self._with_extra(self._settings(options))))
            return self._body(head, request, model, way.forgotten)

        reply = await self._post_adapting(request, model, body, self._post_with_key)
        answer = Answer(self.wire, on_delta)
        await read(reply, answer, self.wire)
        calls = answer.calls(*self._ids.of(request.messages))
        raw: Json = {"finish_reason": answer.finish or None, "status": reply.status}
        return self._response(answer, calls, answer.opaque(self._shape_of(model)), model, raw)

    async def count(self, request: ChatRequest) -> int | None:
        """The server's own count of input tokens; None if it has none."""
        if not self._counts:
            return None
        model = self._model_of(request)
        options = self._wanted(request, model, self._details.get(model, "full"))
        forgotten = self._forgotten.get(request.messages, 0)
        body = self._body(compact(self._counted(options)), request, model, forgotten)
        try:
            reply = await self._post_with_key(body, target=beside(self._place.target, "input_tokens"))
        except ProviderError as error:
            if error.status in _NOT_THERE and error.kind != "context_overflow":
                self._counts = False
                return None
            raise
        return max(0, await counted(reply, self.wire, "input_tokens") or 0) or None

    # ------------------------------------------------------------------ the request

    def _shape_of(self, model: str) -> str:
        """Names the reasoning of this server's models by one vendor: another's is not for them."""
        vendor = vendor_of(model)
        return self._shape if vendor in ("", "openai") else f"{self._shape} {vendor}"

    def _body(self, head: bytes, request: ChatRequest, model: str, forgotten: int) -> bytes:
        # What a model takes decides on the form of images and reasoning, so that each model has its own.
        without, shape = ids_without_thoughts(request.messages, forgotten), self._shape_of(model)
        items = request.messages.encoded(
            f"{self._shape} {model} without={forgotten}",
            lambda message: self._encode(message, model, "" if id(message) in without else shape),
        )
        return b"".join((head[:-1], b',"input":[', items, b"]}"))

    def _settings(self, options: AdapterRequest) -> Json:
        settings: Json = {"model": options.model, "stream": self._entry.stream, "store": False}
        if thinks(options.model):
            settings["include"] = ["reasoning.encrypted_content"]
        settings |= self._counted(options)
        if options.max_tokens is not None:
            settings["max_output_tokens"] = options.max_tokens
        if options.temperature is not None and settings.get("reasoning", {}).get("effort", "none") == "none":
            settings["temperature"] = options.temperature  # refused for a model that reasons
        return settings

    def _counted(self, options: AdapterRequest) -> Json:
        """The settings that the model reads and that count as tokens."""
        settings = _counted(options)
        if (effort := self._effort(options)) is not None:
            settings["reasoning"] = {"effort": effort} | _summary(effort, options.detail)
        return settings

    # ------------------------------------------------------------------ messages

    def _encode(self, message: Message, model: str, shape: str) -> list[bytes]:
        items = self._assistant(message, model, shape) if message.role == "assistant" else self._user(message, model)
        return [compact(item) for item in items]

    def _user(self, message: Message, model: str) -> Iterator[Json]:
        results = [self._result(block, model) for block in message.blocks if isinstance(block, ToolResultBlock)]
        blocks = [block for block in message.blocks if isinstance(block, (TextBlock, MediaBlock))]
        return user_items(results, blocks, lambda block: self._part(block, model))

    def _result(self, block: ToolResultBlock, model: str) -> Json:
        text = told(block)
        result: Json = {"type": "function_call_output", "call_id": block.tool_use_id, "output": text}
        if block.media:
            texts = [TextBlock(text)] if text else []
            result["output"] = [self._part(part, model) for part in (*texts, *block.media)]
        return result

    def _part(self, block: TextBlock | MediaBlock, model: str) -> Json:
        if isinstance(block, TextBlock):
            return {"type": "input_text", "text": block.text}
        if not self._takes(block, model):
            return {"type": "input_text", "text": left_out(block)}
        if block.media_type.startswith("image/"):
            return {"type": "input_image", "image_url": data_url(block), "detail": "auto"}
        return {"type": "input_file", "filename": block.name or "document.pdf", "file_data": data_url(block)}

    def _assistant(self, message: Message, model: str, shape: str) -> Iterator[Json]:
        """Reasoning items go directly before what they led to; the API refuses them elsewhere."""
        opaque = [block for block in message.blocks if isinstance(block, OpaqueBlock)]
        ours = [block.payload for block in opaque if block.wire == shape]
        calls = [block.call for block in message.blocks if isinstance(block, ToolUseBlock)]
        led_to = {call.id for call in calls} | ({TEXT} if message.text else set[str]())
        thoughts: dict[str, list[Json]] = {}
        for payload in ours:
            if "item" in payload and payload.get("before") in led_to and not never_thinks(model):
                thoughts.setdefault(payload["before"], []).append(payload["item"])
        if message.text:
            phase = next((payload["phase"] for payload in ours if "phase" in payload), None)
            yield from thoughts.get(TEXT, ())
            # OpenAI does not require the type, but some other servers do
            encoded = {"type": "message", "role": "assistant", "content": message.text}
            yield encoded | ({"phase": phase} if phase else {})
        for call in calls:
            yield from thoughts.get(call.id, ())
            yield _call(call)


def _counted(options: AdapterRequest) -> Json:
    """The settings that the model reads and that count as tokens."""
    settings: Json = {"model": options.model, "instructions": options.system}
    if options.tools:
        settings["tools"] = [_tool(tool) for tool in options.tools]
    if options.tool_choice:
        settings["tool_choice"] = {"type": "function", "name": options.tool_choice}
    if (schema := options.schema) is not None:
        described = {"type": "json_schema", "name": "answer", "schema": schema, "strict": strict(schema)}
        settings["text"] = {"format": described}
    return settings


def _summary(effort: Effort, detail: Detail) -> Json:
    """The setting for summaries, which OpenAI refuses to unverified organisations."""
    return {"summary": "auto"} if detail == "full" and effort != "none" else {}


def _tool(tool: ToolSpec) -> Json:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": False,
    }


def _call(call: ToolCall) -> Json:
    name = function_name(call.name)
    return {"type": "function_call", "call_id": call.id, "name": name, "arguments": arguments(call)}
