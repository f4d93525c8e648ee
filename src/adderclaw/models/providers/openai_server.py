"""A server with one of OpenAI's APIs: its address, key and capabilities, and the conversions that both APIs share."""

import os
import re
from collections.abc import Callable, Iterator
from typing import Any

from adderclaw.config.model_facts.catalogue import never_thinks, thinks
from adderclaw.core.provider_kinds import BY_NAME, KEY_VARIABLES
from adderclaw.core.types import (
    ChatRequest,
    Effort,
    Json,
    MediaBlock,
    Message,
    ProviderCapabilities,
    TextBlock,
    ToolCall,
    ToolResultBlock,
)
from adderclaw.models.providers import Parts, misconfigured
from adderclaw.models.providers.adapter import (
    Adapter,
    AdapterRequest,
    compact,
    endpoint_of,
    require_model,
    warn_unencrypted,
)
from adderclaw.models.providers.reading import object_in, objects_in
from adderclaw.models.providers.wire import Endpoint, Reply

ROUTED = ("", "lm_studio_server_routed")
"""Model names that leave the choice to LM Studio, or to the variable LM_STUDIO_MODEL."""


def key_variable(kind: str, api_key_env: str | None) -> str | None:
    """The environment variable that holds the key of a provider of this kind."""
    return api_key_env or KEY_VARIABLES.get(kind)


def base_url_of(kind: str, base_url: str | None) -> str | None:
    return base_url or os.environ.get(BY_NAME[kind].url_variable) or BY_NAME[kind].base_url or None


def openai_endpoint(parts: Parts, tail: str) -> Endpoint:
    """The endpoint of a provider; raises ConfigError if the entry has no address."""
    entry = parts.entry
    if not BY_NAME[entry.kind].routes:
        require_model(parts)
    base_url = base_url_of(entry.kind, entry.base_url)
    if not base_url:
        fix = "set it to the server's address, such as http://127.0.0.1:8080/v1, or set OPENAI_BASE_URL"
        misconfigured(parts.name, "base_url", f"missing; {fix}")
    target = endpoint_of(parts, base_url, tail)
    if key_variable(entry.kind, entry.api_key_env):
        warn_unencrypted(parts, target)
    return target


class Server(Adapter):
    """The common part of both adapters: key, capabilities and model name."""

    def __init__(self, parts: Parts, target: Endpoint) -> None:
        variable = KEY_VARIABLES.get(parts.entry.kind)
        super().__init__(parts, target, (variable,) if variable else ())

    @property
    def _owned_by_openai(self) -> bool:
        return self._place.host == "api.openai.com" or self._place.host.endswith(".openai.azure.com")

    def _model_of(self, request: ChatRequest) -> str:
        """The model's name; "" omits it from the request, so that the server uses the model that it has loaded."""
        model = super()._model_of(request)
        if BY_NAME[self._entry.kind].routes and model in ROUTED:
            return os.environ.get("LM_STUDIO_MODEL", "").strip()
        return model

    def capabilities(self) -> ProviderCapabilities:
        from adderclaw.config.model_facts.catalogue import facts_of  # reads a file, so not before the first request

        model = self._entry.model or self._parts.config.default_model
        known = facts_of(self.name, model, self._parts.config)
        return ProviderCapabilities(
            streaming=self._entry.stream, images=known.vision, context_tokens=known.context_tokens
        )

    def _effort(self, options: AdapterRequest) -> Effort | None:
        """The effort to send, if any. An unknown model gets only an effort that the operator set."""
        chosen, model = options.thinking, options.model
        if chosen.is_unset and not thinks(model):
            return None
        from adderclaw.models.providers import (
            thinking,  # rarely needed, so not before the first request
        )

        if thinks(model):
            able = not chosen.is_unset or thinking.can_think(model, self._parts.config, by_name=True)
            return thinking.openai(model, chosen, options.detail) if able else None
        if never_thinks(model) or options.detail == "nothing":
            return None
        effort = None if chosen.mode == "disabled" and chosen.effort != "none" else thinking.effort_in(chosen)
        return thinking.level(effort, thinking.PLAIN) if effort and options.detail == "plain" else effort

    def _takes(self, media: MediaBlock, model: str) -> bool:
        """Whether the model accepts an image or a document, according to the model catalogue."""
        from adderclaw.config.model_facts.catalogue import facts

        known = facts(model, self._parts.config)
        if media.media_type.startswith("image/"):
            return known.vision
        return known.pdf and media.media_type == "application/pdf"

    async def _post_with_key(self, body: bytes, *, target: str | None = None) -> Reply:
        credential = await self.credential()
        headers = [] if credential is None else [("authorization", f"Bearer {credential.value}")]
        return await self._post(headers, body, target=target)


# ---------------------------------------------------------------------- conversions


_LOOSE = frozenset(
    {"allOf", "oneOf", "not", "if", "prefixItems", "patternProperties", "propertyNames", "dependentRequired"}
)


def strict(schema: Json) -> bool:
    """Whether OpenAI can enforce a JSON Schema: every object is closed, and all its keys are required."""
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
    return (closed or not is_object) and all(_strict(subschema) for subschema in inner)


def function_name(name: str) -> str:
    """A tool name that the API accepts: the history may contain calls with arbitrary names."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "unnamed"


def data_url(media: MediaBlock) -> str:
    return f"data:{media.media_type};base64,{media.data}"


def told(block: ToolResultBlock) -> str:
    """The text of a result, with errors marked, for APIs without an error flag."""
    marked = block.is_error and not block.content.startswith("Error: ")
    return f"Error: {block.model_text}" if marked else block.model_text


def arguments(call: ToolCall) -> str:
    """The arguments as JSON; invalid ones become {}, because some servers would refuse every later request."""
    return compact(call.arguments or {}).decode()


def user_items(
    results: list[Json], blocks: list[TextBlock | MediaBlock], part: Callable[[TextBlock | MediaBlock], Json]
) -> Iterator[Json]:
    """The tool results, which must follow their calls, and then the user's message, in parts if it contains media."""
    yield from results
    if any(isinstance(block, MediaBlock) for block in blocks):
        yield {"role": "user", "content": [part(block) for block in blocks]}
    elif blocks or not results:
        yield {"role": "user", "content": "\n".join(block.text for block in blocks if isinstance(block, TextBlock))}


def media_of_results(message: Message) -> list[TextBlock | MediaBlock]:
    """The media of tool results with their origin, for APIs whose results are only text: they follow the results."""
    shown: list[TextBlock | MediaBlock] = []
    for block in message.blocks:
        if isinstance(block, ToolResultBlock) and block.media:
            shown += [TextBlock(f"(from the result of the tool call {block.tool_use_id})"), *block.media]
    return shown
