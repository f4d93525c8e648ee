"""MCP servers inside the client, reached through control requests."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from adderclaw.core.types import Json
from adderclaw.terminal.print_mode.control import ClientGone, Link, RequestRefused

type Inward = MemoryObjectSendStream[SessionMessage | Exception]


class Bridge:
    """A transport for the MCP client, which can be reopened after the connection is lost."""

    def __init__(self, link: Link, name: str) -> None:
        self._link, self._name = link, name
        self._open: AbstractAsyncContextManager[TransportStreams] | None = None

    async def __aenter__(self) -> TransportStreams:
        self._open = _connect(self._link, self._name)
        return await self._open.__aenter__()

    async def __aexit__(self, *error: Any) -> bool | None:
        opened, self._open = self._open, None
        return await opened.__aexit__(*error) if opened is not None else None


@asynccontextmanager
async def _connect(link: Link, name: str) -> AsyncGenerator[TransportStreams]:
    inward, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outward = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_forward, link, name, outward, inward, tasks)
            try:
                yield read, write
            finally:
                tasks.cancel_scope.cancel()
    finally:
        for stream in (inward, read, write, outward):
            stream.close()


async def _forward(
    link: Link, name: str, outward: MemoryObjectReceiveStream[SessionMessage], inward: Inward, tasks: Any
) -> None:
    """Forwards every message at once, so that a slow call does not block others."""
    async with outward:
        async for message in outward:
            body = message.message.model_dump(mode="json", by_alias=True, exclude_unset=True)
            tasks.start_soon(_send, link, name, body, inward)


async def _send(link: Link, name: str, message: Json, inward: Inward) -> None:
    """Sends one message to the server and returns its answer if it was a request."""
    try:
        reply = await link.ask({"subtype": "mcp_message", "server_name": name, "message": message})
    except (ClientGone, RequestRefused) as error:
        reply: Json = {"mcp_response": _error(message, str(error))}
    if "id" not in message or "method" not in message:
        return
    answer: Any = reply.get("mcp_response")
    try:
        parsed = jsonrpc_message_adapter.validate_python(answer, by_name=False)
    except ValueError:
        parsed = jsonrpc_message_adapter.validate_python(_error(message, "the server sent an invalid message"))
    try:
        await inward.send(SessionMessage(parsed))
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return


def _error(message: Json, why: str) -> Json:
    return {"jsonrpc": "2.0", "id": message.get("id"), "error": {"code": -32000, "message": why[:500]}}
