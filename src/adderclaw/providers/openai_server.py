"""One server that speaks an API of OpenAI's: its address, its key, and how an answer of it is read to the end."""

import os
import re
from collections.abc import Callable, Iterator
from typing import Any

from adderclaw.credentials.sources import KEY_VARIABLES, Credential
from adderclaw.errors import ProviderError
from adderclaw.json_text import json_writer
from adderclaw.providers import Parts, misconfigured
from adderclaw.providers.faults import kind_of, said_by, status_in
from adderclaw.providers.making import wire_of
from adderclaw.providers.reading import object_in, objects_in
from adderclaw.providers.wire import Endpoint, Reply, Wire, endpoint
from adderclaw.types import (
    ChatRequest,
    Json,
    MediaBlock,
    Message,
    ProviderCapabilities,
    TextBlock,
    ToolCall,
    ToolResultBlock,
)

_text = json_writer()
BASE_URLS = {
    "openai": "https://api.openai.com/v1",
    "openrouter": "https://openrouter.ai/api/v1",
    "ollama": "http://127.0.0.1:11434/v1",
    "lm-studio": "http://127.0.0.1:1234/v1",
}
_URL_VARIABLES = {
    "openai": "OPENAI_BASE_URL",
    "openai-compatible": "OPENAI_BASE_URL",
    "lm-studio": "LM_STUDIO_BASE_URL",
}

ROUTED = ("", "lm_studio_server_routed")
"""Model names that leave the choice to LM Studio, or to the variable LM_STUDIO_MODEL."""


def key_variable(kind: str, api_key_env: str | None) -> str | None:
    """The environment variable that holds the key of a provider of this kind."""
    return api_key_env or KEY_VARIABLES.get(kind)


def base_url_of(kind: str, base_url: str | None) -> str | None:
    return base_url or os.environ.get(_URL_VARIABLES.get(kind, "")) or BASE_URLS.get(kind)


def place_of(parts: Parts, tail: str) -> Endpoint:
    """Where this provider's requests go; a configuration error when the entry does not say so."""
    entry = parts.entry
    if not (entry.model or parts.config.default_model or entry.kind == "lm-studio"):
        misconfigured(parts.name, "model", "no model is named; set it here, or default_model for all")
    base_url = base_url_of(entry.kind, entry.base_url)
    if not base_url:
        fix = "set it to the server's address, such as http://127.0.0.1:8080/v1, or set OPENAI_BASE_URL"
        misconfigured(parts.name, "base_url", f"missing; {fix}")
    try:
        place = endpoint(base_url, tail)
    except ValueError as error:
        misconfigured(parts.name, "base_url", str(error))
    if key_variable(entry.kind, entry.api_key_env) and place.scheme == "http" and not place.loopback:
        warning = f"provider {parts.name!r} sends its key without encryption to {place.origin}; use https if you can"
        parts.tell({"event_type": "warning", "message": warning})
    return place


class Server:
    """What both adapters have in common: connections, headers, key, and the model that is meant."""

    def __init__(self, parts: Parts, place: Endpoint) -> None:
        self.parts, self.place = parts, place
        self.wire = wire_of(parts, place)

    @property
    def owned_by_openai(self) -> bool:
        return self.place.host == "api.openai.com" or self.place.host.endswith(".openai.azure.com")

    def model_of(self, request: ChatRequest) -> str:
        """The model's name; "" leaves it out of the request, where the server routes to the one that it has loaded."""
        model = request.model or self.parts.entry.model or self.parts.config.default_model
        if self.parts.entry.kind == "lm-studio" and model in ROUTED:
            return os.environ.get("LM_STUDIO_MODEL", "").strip()
        return model

    def capabilities(self) -> ProviderCapabilities:
        from adderclaw.config.model_catalogue import facts_of  # reads a file: not on the way to the first request

        model = self.parts.entry.model or self.parts.config.default_model
        known = facts_of(self.parts.name, model, self.parts.config)
        return ProviderCapabilities(
            streaming=self.parts.entry.stream, images=known.vision, context_tokens=known.context_tokens
        )

    def takes(self, media: MediaBlock, model: str) -> bool:
        """Whether the model takes an image or a document, as far as the list of models knows it."""
        from adderclaw.config.model_catalogue import facts

        known = facts(model, self.parts.config)
        if media.media_type.startswith("image/"):
            return known.vision
        return known.pdf and media.media_type == "application/pdf"

    async def credential(self) -> Credential | None:
        """What the next request is made with; raises ProviderError where it is missing."""
        variable = KEY_VARIABLES.get(self.parts.entry.kind)
        return await self.parts.credentials.get(self.parts.name, self.parts.entry, (variable,) if variable else ())

    async def post(self, body: bytes, *, target: str | None = None) -> Reply:
        headers = [("accept", "text/event-stream, application/json"), ("user-agent", "adderclaw")]
        headers += self.parts.entry.headers.items()
        sources, name = self.parts.credentials, self.parts.name
        credential = await self.credential()
        if credential is not None:
            headers.append(("authorization", f"Bearer {credential.value}"))
        try:
            return await self.wire.post(headers, body, target=target)
        except ProviderError as error:
            if error.kind == "authentication_failed":
                sources.refused(name)
            raise


# ---------------------------------------------------------------------- what models take


_PLAIN = re.compile(r"(?:gpt-[34]|chatgpt|gpt-5-chat|davinci|babbage)")
_THINKING = re.compile(r"o\d|gpt-[5-9]|gpt-\d\d|codex|computer-use")


def thinks(model: str) -> bool:
    """Whether an OpenAI model surely reasons, by its name: the API refuses the settings of that for the others."""
    return bool(_THINKING.match(_bare(model))) and not never_thinks(model)


def never_thinks(model: str) -> bool:
    """Whether an OpenAI model surely does not reason: the API refuses to be shown another model's reasoning then."""
    return bool(_PLAIN.match(_bare(model)))


def _bare(model: str) -> str:
    return model.rpartition("/")[2].removeprefix("ft:")


def effort_of(thinking_tokens: int) -> str:
    """OpenAI counts thinking in words. These three are known to every model that thinks."""
    if thinking_tokens <= 4096:
        return "low"
    return "medium" if thinking_tokens <= 16384 else "high"


_LOOSE = frozenset(
    {"allOf", "oneOf", "not", "if", "prefixItems", "patternProperties", "propertyNames", "dependentRequired"}
)


def strict(schema: Json) -> bool:
    """Whether a JSON Schema is one that OpenAI can promise to keep: closed objects, every key of them required."""
    return schema.get("type") == "object" and _strict(schema)


def _strict(schema: Any) -> bool:
    node = object_in(schema)
    if node.keys() & _LOOSE:
        return False
    properties = object_in(node.get("properties"))
    is_object = node.get("type") == "object" or bool(properties)
    closed = node.get("additionalProperties") is False and set(node.get("required") or ()) == properties.keys()
    inner = [*properties.values(), *object_in(node.get("$defs")).values(), *objects_in(node.get("anyOf"))]
    if "items" in node:
        inner.append(node["items"])
    return (closed or not is_object) and all(_strict(one) for one in inner)


def function_name(name: str) -> str:
    """A name that the API takes back: a model may have called a tool by any text, and the history keeps that call."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "unnamed"


def data_url(media: MediaBlock) -> str:
    return f"data:{media.media_type};base64,{media.data}"


def left_out(media: MediaBlock) -> str:
    """What stands in a message for a medium that the model does not take."""
    kind = "image" if media.media_type.startswith("image/") else "file"
    return f"[{kind}: {media.name or media.media_type}]"


def told(block: ToolResultBlock) -> str:
    """A result's text, for a wire that does not say what failed."""
    marked = block.is_error and not block.content.startswith("Error: ")
    return f"Error: {block.told}" if marked else block.told


def arguments(call: ToolCall) -> str:
    """Broken arguments go back as {}: servers that parse them would refuse every later request."""
    return _text(call.arguments or {})


def from_user(
    results: list[Json], said: list[TextBlock | MediaBlock], part: Callable[[TextBlock | MediaBlock], Json]
) -> Iterator[Json]:
    """Results first: they must follow the calls that they answer. Then what the user said, in parts if it must be."""
    yield from results
    if any(isinstance(block, MediaBlock) for block in said):
        yield {"role": "user", "content": [part(block) for block in said]}
    elif said or not results:
        yield {"role": "user", "content": "\n".join(block.text for block in said if isinstance(block, TextBlock))}


def shown_by(message: Message) -> list[TextBlock | MediaBlock]:
    """What tools showed beside their text, for a wire whose results are text: it follows them, with its origin."""
    shown: list[TextBlock | MediaBlock] = []
    for block in message.blocks:
        if isinstance(block, ToolResultBlock) and block.media:
            shown += [TextBlock(f"(from the result of the tool call {block.tool_use_id})"), *block.media]
    return shown


# ---------------------------------------------------------------------- fields that a server wrote


def compact(value: Any) -> bytes:
    return _text(value).encode("utf-8", "replace")


def broke_off(wire: Wire, error: Any) -> ProviderError:
    """An error that came inside an answer with the status 200."""
    said, words = said_by({"error": error})
    status = status_in(error)
    kind = kind_of(status, words)
    quoted = wire.excerpt(said, 300) or "unnamed"
    message = f"{wire.place.origin} broke off with an error: {quoted}; {wire.advise(kind, status, words)}"
    return wire.fault(kind, message, status=status)
