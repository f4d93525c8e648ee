"""A sandbox's only network access: a proxy in AdderClaw's process that allows the hosts that the operator listed.

It listens on a socket that was created inside the sandbox's network and passed out, so no forwarder is needed.
It speaks HTTP (CONNECT and plain requests) and SOCKS 5, resolves a name once, and connects to the checked address.
"""

import asyncio
import contextlib
import re
import socket
from collections.abc import Awaitable, Callable

from adderclaw.models.http import own_server

type Judge = Callable[[str, int, list[str] | None], str | None]
"""Why a host and port must not be reached, or None. Called first with the name, then with its addresses."""
type IsListed = Callable[[str, int], bool]
"""Whether the operator listed exactly this host and port, not only a pattern."""
type Resolver = Callable[[str, int], Awaitable[list[str]]]
type Pipe = tuple[asyncio.StreamReader, asyncio.StreamWriter]

HEAD_BYTES = 65536
CONNECT_WAIT = 20.0
CONNECTIONS = 256
REASON_CHARACTERS = 300
"""Most characters of a refusal in the status line."""
HOST = re.compile(r"[a-z0-9._-]{1,253}|[0-9a-f:.]{2,45}")
"""A name, or an address of either kind; clients send names with other letters in their ASCII form."""
NEVER_FORWARDED = frozenset({b"proxy-connection", b"proxy-authorization", b"connection", b"keep-alive"})


class Refused(Exception):
    """The host must not be reached; the text is the reason."""


async def look_up(host: str, port: int) -> list[str]:
    loop = asyncio.get_running_loop()
    entries = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


class Proxy:
    def __init__(
        self,
        judge: Judge,
        *,
        tell: Callable[[str, str], None],
        look_up: Resolver = look_up,
        named: IsListed = lambda _host, _port: False,
    ) -> None:
        self._judge, self._tell, self._look_up, self._named = judge, tell, look_up, named
        self._listener: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._reported: set[str] = set()

    @staticmethod
    def environment(port: int) -> dict[str, str]:
        """The proxy variables for programs inside, in both spellings, because some programs know only one."""
        http, socks = f"http://127.0.0.1:{port}", f"socks5h://127.0.0.1:{port}"
        upper = {"HTTP_PROXY": http, "HTTPS_PROXY": http, "ALL_PROXY": socks, "NO_PROXY": "localhost,127.0.0.1,::1"}
        return upper | {name.lower(): value for name, value in upper.items()}

    def serve(self, listener: socket.socket) -> None:
        """Serve a listening socket in the running event loop, and take ownership of it."""
        self.close()
        listener.setblocking(False)
        self._listener = listener
        asyncio.get_running_loop().add_reader(listener.fileno(), self._accept, listener)

    def close(self) -> None:
        for task in self._tasks:
            with contextlib.suppress(RuntimeError):  # its loop is already closed
                task.cancel()
        self._tasks.clear()
        if self._listener is not None:
            with contextlib.suppress(RuntimeError):
                asyncio.get_running_loop().remove_reader(self._listener.fileno())
            self._listener.close()
            self._listener = None

    def _accept(self, listener: socket.socket) -> None:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        if len(self._tasks) >= CONNECTIONS:
            client.close()
            return
        task = asyncio.ensure_future(self._serve(client))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, client: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=client, limit=HEAD_BYTES)
        try:
            async with asyncio.timeout(CONNECT_WAIT):
                opened = await self._open_upstream(reader, writer)
            if opened is not None:
                await _copy_both_ways((reader, writer), opened)
        except (OSError, EOFError, TimeoutError, ValueError, Refused, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    async def _open_upstream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, /) -> Pipe | None:
        first = await reader.readexactly(1)
        return await (_Socks if first == b"\x05" else _Http)(self, reader, writer).open_upstream(first)

    async def connect(self, host: str, port: int, scheme: str = "https") -> Pipe:
        """Connect to an allowed host at a checked address."""
        host = host.lower().rstrip(".")
        if not HOST.fullmatch(host):  # the message does not quote it, because it could imitate AdderClaw's own lines
            raise Refused("that is neither a host name nor an address")
        self._check(host, port, None)
        from adderclaw.models.http import upstream  # not before a command connects

        if (above := upstream.of(scheme, host, port)) is not None:
            tunnel = await upstream.tunnel(above, host, port, await self._upstream_target(host, port))
            return await asyncio.open_connection(sock=tunnel, limit=HEAD_BYTES)
        addresses = await self._look_up(host, port)
        self._check(host, port, addresses)
        failure: OSError = OSError(f"{host} has no address")
        for address in addresses[:4]:
            try:
                return await asyncio.open_connection(address, port, limit=HEAD_BYTES)
            except OSError as error:
                failure = error
        raise failure

    async def _upstream_target(self, host: str, port: int) -> str:
        """What to request from the operator's proxy: listed hosts by name, others by a checked address.

        That proxy resolves names itself and could get another address.
        """
        try:
            addresses = await self._look_up(host, port)
        except OSError:
            addresses = []
        named = self._named(host, port)
        if not addresses and not named:
            from adderclaw.models.http.upstream import UNRESOLVED

            self._refuse(host, port, UNRESOLVED.format(host=host, place=host))
        self._check(host, port, addresses)
        return host if named else addresses[0]

    def _check(self, host: str, port: int, addresses: list[str] | None) -> None:
        why = self._judge(host, port, addresses) or own_server.refusal(port, addresses or ())
        if why is not None:
            self._refuse(host, port, why)

    def _refuse(self, host: str, port: int, why: str) -> None:
        address = f"{host}:{port}"
        if address not in self._reported and len(self._reported) < 1000:  # report each address once
            self._reported.add(address)
            self._tell(address, why)
        raise Refused(why)


class FixedForward(Proxy):
    """Forwards every connection to its listening socket to one host and port."""

    def __init__(self, judge: Judge, address: tuple[str, int]) -> None:
        super().__init__(judge, tell=lambda _address, _why: None)
        self._address = address

    async def _open_upstream(self, _reader: asyncio.StreamReader, _writer: asyncio.StreamWriter, /) -> Pipe | None:
        return await self.connect(*self._address)


async def _copy_both_ways(client: Pipe, server: Pipe) -> None:
    try:
        await asyncio.gather(_copy(client[0], server[1]), _copy(server[0], client[1]))
    finally:
        server[1].close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()


class _Http:
    """CONNECT, and plain requests with an absolute URL. One request per connection, so that each is checked."""

    def __init__(self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy, self._reader, self._writer = proxy, reader, writer

    async def open_upstream(self, first: bytes) -> Pipe | None:
        head = first + await self._reader.readuntil(b"\r\n\r\n")
        line, *headers = head[:-4].split(b"\r\n")
        request = re.fullmatch(rb"([A-Z]+) (\S+) HTTP/1\.[01]", line)
        if request is None:
            return await self._answer(400, "this is a proxy for HTTP and SOCKS 5")
        method, target = request[1], request[2].decode("ascii", "replace")
        try:
            if method == b"CONNECT":
                host, port = _authority(target, None)
                pipe = await self._proxy.connect(host, port)
                self._writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                return pipe
            return await self._forward_request(method, target, headers)
        except Refused as error:
            return await self._answer(403, f"adderclaw: {error}")
        except OSError as error:
            return await self._answer(502, f"adderclaw: {error}")

    async def _forward_request(self, method: bytes, target: str, headers: list[bytes]) -> Pipe | None:
        url = re.fullmatch(r"http://([^/?#@\\]+)([/?].*)?", target)
        if url is None:
            return await self._answer(400, "the URL of a plain request must be absolute and start with http://")
        if not all(re.fullmatch(rb"[!#-'*+.^-z|~A-Z0-9-]+:[^\r\n\0]*", line) for line in headers):
            return await self._answer(400, "a header is ambiguous: two servers could read it differently")
        host, port = _authority(url[1], 80)
        pipe = await self._proxy.connect(host, port, "http")
        forwarded = [
            line for line in headers if line.partition(b":")[0].strip().lower() not in NEVER_FORWARDED | {b"host"}
        ]
        path = url[2] or "/"
        path = path if path.startswith("/") else f"/{path}"
        lines = [method + b" " + path.encode("ascii") + b" HTTP/1.1", b"Host: " + url[1].encode("ascii"), *forwarded]
        pipe[1].write(b"\r\n".join([*lines, b"Connection: close", b"", b""]))
        return pipe

    async def _answer(self, status: int, text: str) -> None:
        # npm and browsers show only the reason phrase
        reason = re.sub(r"[^ -~]+", "?", text)[:REASON_CHARACTERS].encode("ascii")
        body = f"{text}\n".encode()
        head = b"HTTP/1.1 %d %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (status, reason, len(body))
        self._writer.write(head + body)
        await self._writer.drain()


def _authority(text: str, port: int | None) -> tuple[str, int]:
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]@/]+)(?::(\d{1,5}))?", text)
    if match is None or (match[2] is None and port is None):
        raise Refused(f"{text[:200]!r} is not a host and a port")
    return match[1].strip("[]"), int(match[2]) if match[2] else int(port or 0)


class _Socks:
    """SOCKS 5, CONNECT only. It needs no password, because only the sandbox can reach it."""

    def __init__(self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy, self._reader, self._writer = proxy, reader, writer

    async def open_upstream(self, first: bytes) -> Pipe | None:  # noqa: ARG002 - the version is known to be 5
        await self._reader.readexactly((await self._reader.readexactly(1))[0])
        self._writer.write(b"\x05\x00")
        _, command, _, kind = await self._reader.readexactly(4)
        host = await self._host(kind)
        port = int.from_bytes(await self._reader.readexactly(2))
        if command != 1 or not host:
            return await self._answer(7)
        try:
            pipe = await self._proxy.connect(host, port)
        except Refused:
            return await self._answer(2)
        except OSError:
            return await self._answer(4)
        await self._answer(0)
        return pipe

    async def _host(self, kind: int) -> str:
        if kind == 3:
            return (await self._reader.readexactly((await self._reader.readexactly(1))[0])).decode("ascii")
        if kind in (1, 4):
            family = socket.AF_INET if kind == 1 else socket.AF_INET6
            return socket.inet_ntop(family, await self._reader.readexactly(4 if kind == 1 else 16))
        return ""

    async def _answer(self, code: int) -> None:
        self._writer.write(bytes((5, code, 0, 1, 0, 0, 0, 0, 0, 0)))
        await self._writer.drain()
