"""Answers the requests of MCP servers: roots, questions to the operator, sampling, and change notices."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp.client.session import (
    ClientRequestContext,
    ElicitationFnT,
    IncomingMessage,
    ListRootsFnT,
    MessageHandlerFnT,
    SamplingFnT,
)
from mcp_types import (
    INTERNAL_ERROR,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
    ErrorData,
    ListRootsResult,
    Root,
    TextContent,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from adderclaw.config.servers import Entry
from adderclaw.core.errors import AdderClawError
from adderclaw.core.types import Json

if TYPE_CHECKING:
    from mcp import Client

    from adderclaw.tools.mcp.setup import Elicit, Sample

MAX_TOKENS = 4_096
"""Most tokens of one sampled answer."""


def silence_sdk_logging() -> None:
    """Keeps the SDK's logs off stderr."""
    for name in ("mcp", "client", "httpx2"):
        logger = logging.getLogger(name)
        logger.propagate = False
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())


def roots_handler(folders: tuple[str, ...]) -> ListRootsFnT:
    async def answer(context: ClientRequestContext) -> ListRootsResult:  # noqa: ARG001
        return ListRootsResult(roots=[Root(uri=Path(folder).as_uri(), name=Path(folder).name) for folder in folders])  # pyright: ignore[reportArgumentType]

    return answer


def elicitation_handler(entry: Entry, elicit: "Elicit") -> ElicitationFnT:
    async def answer(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult | ErrorData:  # noqa: ARG001
        question: Json = {"mcp_server_name": entry.name, "message": params.message, "mode": params.mode}
        if isinstance(params, ElicitRequestURLParams):
            question |= {"url": params.url}
            if params.elicitation_id is not None:
                question |= {"elicitation_id": params.elicitation_id}
        else:
            question |= {"requested_schema": params.requested_schema}
        answered = await elicit(entry.name, question)
        content = answered.get("content") if answered["action"] == "accept" and params.mode == "form" else None
        return ElicitResult(action=answered["action"], content=content)

    return answer


def sampling_handler(entry: Entry, sample: "Sample") -> SamplingFnT:
    async def answer(
        context: ClientRequestContext,  # noqa: ARG001
        params: CreateMessageRequestParams,
    ) -> CreateMessageResult | ErrorData:
        messages: list[tuple[str, str]] = []
        for message in params.messages:
            blocks: list[Any] = message.content if isinstance(message.content, list) else [message.content]
            if any(block.type != "text" for block in blocks):
                return ErrorData(code=INTERNAL_ERROR, message="only text can be sampled here")
            messages.append((message.role, "\n".join(block.text for block in blocks)))
        try:
            text, model, is_cut = await sample(
                entry.name, params.system_prompt or "", messages, min(params.max_tokens, MAX_TOKENS)
            )
        except AdderClawError as error:
            return ErrorData(code=INTERNAL_ERROR, message=str(error))
        why = "maxTokens" if is_cut else "endTurn"
        return CreateMessageResult(
            role="assistant", content=TextContent(type="text", text=text), model=model, stop_reason=why
        )

    return answer


def changes_handler(changed: asyncio.Event) -> MessageHandlerFnT:
    async def hear(message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            changed.set()

    return hear


def must_listen(client: "Client") -> bool:
    """Whether changes must be subscribed to: since protocol 2026-07-28 servers notify only subscribers."""
    tools = client.server_capabilities.tools
    return client.protocol_version in MODERN_PROTOCOL_VERSIONS and tools is not None and bool(tools.list_changed)


async def listen_for_changes(
    client: "Client", changed: asyncio.Event, again: Callable[["Client"], Awaitable[None]]
) -> None:
    from mcp import MCPError
    from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

    pause = 1.0
    while pause < 120:
        try:
            async with client.listen(tools_list_changed=True) as subscription:
                async for _ in subscription:
                    changed.clear()
                    await again(client)
                    await asyncio.sleep(1.0)
            return
        except ListenNotSupportedError:
            return
        except (SubscriptionLost, MCPError, TimeoutError):
            await asyncio.sleep(pause)
            pause *= 2
