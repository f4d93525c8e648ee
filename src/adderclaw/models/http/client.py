"""One HTTP exchange: resolves the host once, checks every address, and connects to a checked address.

Follows no redirects and stores no cookies; bodies are capped after decompression. Uses the operator's proxy if the
environment names one (`upstream`).
"""

import asyncio
import socket
import ssl
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from typing import Any, NamedTuple, cast

import httpcore2
import httpx2

from adderclaw.core.errors import PathRefused
from adderclaw.core.types import HostFact
from adderclaw.models.http import own_network, own_server, upstream
from adderclaw.models.http.addresses import is_named
from adderclaw.models.http.urls import Hosts

ADDRESSES = 4
"""Most addresses of a name that are tried."""


class Answer(NamedTuple):
    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes
    cut: bool
    """Whether there was more than the limit."""


class Failed(Exception):
    """The request failed; the text is the reason."""


class Undecodable(Failed):
    """The body does not match its headers."""


class Checked(httpcore2.AsyncNetworkBackend):
    """Connects to an allowed address of a host; TLS still verifies the name."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._sockets = cast(httpcore2.AsyncNetworkBackend, httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        if (above := self._above(host, port)) is not None:
            return await self._tunnel(above, host, port, timeout)
        addresses = await _resolve(host, port)
        if why := own_server.refusal(port, addresses):
            raise PathRefused(why)
        self._hosts.check(host, port, addresses)
        failure: Exception = Failed(f"{host} has no address")
        for address in addresses[:ADDRESSES]:
            try:
                return await self._sockets.connect_tcp(address, port, timeout, local_address, socket_options)
            except httpcore2.ConnectError as error:
                failure = error
        raise failure

    def _above(self, host: str, port: int) -> upstream.Upstream | None:
        try:
            return upstream.of("http" if port == 80 else "https", host, port)
        except upstream.Unusable as error:
            raise Failed(str(error)) from None

    async def _tunnel(
        self, above: upstream.Upstream, host: str, port: int, timeout: float | None
    ) -> httpcore2.AsyncNetworkStream:
        """Connect through a proxy: to a listed host by name, to others by a checked address."""
        named = is_named(host, port, self._hosts.allowed)
        try:
            addresses = await _resolve(host, port)
        except Failed:
            if not named:
                raise PathRefused(upstream.UNRESOLVED.format(host=host, place=host)) from None
            addresses = []
        if why := own_server.refusal(port, addresses):
            raise PathRefused(why)
        self._hosts.check(host, port, addresses)
        target = host if named else addresses[0]
        try:
            stream, head = await self._sockets.connect_tcp(above.host, above.port, timeout), b""
        except httpcore2.ConnectError as error:
            raise Failed(f"the proxy {above.host}:{above.port} is not reached ({error})") from None
        try:
            await stream.write(above.request(target, port), timeout)
            while not head.endswith(b"\r\n\r\n"):  # one byte at a time: what follows is the host's
                part = await stream.read(1, timeout)
                if not part or len(head) > upstream.HEAD_BYTES:
                    break
                head += part
            above.check(head, upstream.described(host, port, target))
        except BaseException as error:
            await stream.aclose()
            if isinstance(error, upstream.Unusable):
                raise Failed(str(error)) from None
            raise
        return stream


def trusted() -> ssl.SSLContext:
    """A TLS context with the system's authorities and the operator's own."""
    return own_network.extended(httpcore2.default_ssl_context())


async def _resolve(host: str, port: int) -> list[str]:
    loop = asyncio.get_running_loop()
    try:
        entries = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except (OSError, UnicodeError) as error:
        raise Failed(f"the name {host} cannot be resolved ({error})") from None
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


class Transport(httpx2.AsyncBaseTransport):
    """Sends httpx2 requests over a pool with the given network backend."""

    def __init__(
        self, backend: httpcore2.AsyncNetworkBackend, trust: ssl.SSLContext | None, *, connections: int = 1
    ) -> None:
        self._pool = httpcore2.AsyncConnectionPool(trust, network_backend=backend, max_connections=connections)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        answer = await self._pool.handle_async_request(
            httpcore2.Request(
                method=request.method,
                url=httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                headers=request.headers.raw,
                content=cast(AsyncIterable[bytes], request.stream),
                extensions=request.extensions,
            )
        )
        return httpx2.Response(
            status_code=answer.status,
            headers=answer.headers,
            stream=Body(answer),
            extensions=cast(Any, answer).extensions,
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


class Body(httpx2.AsyncByteStream):
    def __init__(self, answer: httpcore2.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._answer.aiter_stream():
            yield part

    async def aclose(self) -> None:
        await self._answer.aclose()


async def request(
    target: HostFact,
    *,
    headers: Mapping[str, str],
    hosts: Hosts,
    seconds: float,
    limit: int,
    content: bytes = b"",
    trust: ssl.SSLContext | None = None,
) -> Answer:
    """Send one request and return its answer within `seconds` in total. Raises PathRefused or Failed.

    `trust`: replaces the system's certificates.
    """
    try:
        async with asyncio.timeout(seconds):
            return await exchange(target, headers, content, hosts, limit, trust)
    except TimeoutError:
        raise Failed(f"no answer within {seconds:g} seconds") from None


async def exchange(
    target: HostFact,
    headers: Mapping[str, str],
    content: bytes,
    hosts: Hosts,
    limit: int,
    trust: ssl.SSLContext | None = None,
) -> Answer:
    """Send one request and return its answer. Raises PathRefused, Failed or Undecodable."""
    # Each request has its own client, so that nothing is carried from one to the next.
    if trust is None and target.scheme == "https":
        trust = await asyncio.to_thread(trusted)
    transport = Transport(Checked(hosts), trust)
    async with httpx2.AsyncClient(transport=transport, trust_env=False, timeout=None) as client:
        request = client.build_request(target.method, target.url, headers=dict(headers), content=content or None)
        try:
            response = await client.send(request, stream=True, follow_redirects=False)
            try:
                body, cut = await _read(response, limit)
            finally:
                await response.aclose()
        except (httpx2.HTTPError, httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException) as error:
            raise Failed(str(error) or type(error).__name__) from None
    return Answer(response.status_code, response.reason_phrase, dict(response.headers), body, cut)


async def _read(response: httpx2.Response, limit: int) -> tuple[bytes, bool]:
    """The decompressed body up to the limit, and whether there was more."""
    unpack = _unpacker(response.headers.get("content-encoding", "identity").strip().lower())
    body = bytearray()
    async for part in response.aiter_raw():
        body += unpack(part, limit + 1 - len(body))
        if len(body) > limit:
            return bytes(body[:limit]), True
    return bytes(body), False


def _unpacker(encoding: str) -> Callable[[bytes, int], bytes]:
    if encoding in ("", "identity"):
        return lambda part, limit: part[:limit]
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise Undecodable(f"its body is compressed as {encoding!r}, which was not asked for")
    stream = zlib.decompressobj(wbits=32 + zlib.MAX_WBITS)

    def unpack(part: bytes, limit: int) -> bytes:
        try:
            return stream.decompress(part, limit)
        except zlib.error as error:
            raise Undecodable(f"its body is not valid {encoding}: {error}") from None

    return unpack
