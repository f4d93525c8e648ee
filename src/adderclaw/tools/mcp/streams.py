"""The SDK's streamable HTTP transport over a client with checked hosts and limited answers."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, cast

import httpcore2
import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client

from adderclaw.core.errors import PathRefused
from adderclaw.core.json_text import MOST_CONTAINERS
from adderclaw.models.http import urls
from adderclaw.models.http.client import Checked, Failed, Transport, trusted
from adderclaw.models.http.urls import Hosts

CONNECTIONS = 16
"""Most connections to one server: a stream of events and concurrent calls."""

BODY_BYTES = 32 << 20
"""Longest answer that is not a stream of events; a stream's single events are bounded by the SDK."""


@asynccontextmanager
async def http_streams(
    url: str, headers: dict[str, str], network: httpx2.AsyncBaseTransport, login: httpx2.Auth | None
) -> AsyncGenerator[TransportStreams]:
    timeout = httpx2.Timeout(30.0, read=300.0)
    client = httpx2.AsyncClient(
        transport=Capped(network, open_door=login is None),
        headers=headers,
        timeout=timeout,
        auth=login,
        trust_env=False,
    )
    async with client, streamable_http_client(url, http_client=client) as streams:
        yield streams


async def network_transport(url: str, allowed: Iterable[str]) -> httpx2.AsyncBaseTransport:
    """A transport that reaches the server's own host, and otherwise only public and allowed hosts."""
    target = urls.parse(url)
    hosts = Hosts(Hosts.named_by_operator(target).allowed | Hosts.listed(allowed).allowed)
    trust = await asyncio.to_thread(trusted)
    return Transport(Checked(hosts), trust, connections=CONNECTIONS)


class Capped(httpx2.AsyncBaseTransport):
    """Wraps a transport and limits the length of its answers."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, *, open_door: bool) -> None:
        self._inner, self._open_door = inner, open_door

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._inner.handle_async_request(request)
        except (Failed, PathRefused, httpcore2.NetworkError, httpcore2.ProtocolError) as error:
            raise httpx2.ConnectError(str(error) or type(error).__name__) from None
        if self._open_door and response.status_code == 401:  # the SDK would only say that it is an error
            await response.aclose()
            raise httpx2.ConnectError("it answers 401")
        if "text/event-stream" in response.headers.get("content-type", ""):
            return response
        body = cast(httpx2.AsyncByteStream, response.stream)
        return httpx2.Response(
            status_code=response.status_code,
            headers=response.headers.raw,
            stream=_Body(body),
            extensions=cast(Any, response).extensions,
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Body(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left, containers = BODY_BYTES, MOST_CONTAINERS
        async for part in self._inner:
            left -= len(part)
            containers -= part.count(b"[") + part.count(b"{")
            if left < 0 or containers < 0:
                most = f"{BODY_BYTES} bytes" if left < 0 else f"{MOST_CONTAINERS} lists and objects"
                raise httpx2.ReadError(f"the answer has more than {most}")
            yield part

    async def aclose(self) -> None:
        await self._inner.aclose()
