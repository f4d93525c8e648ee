"""Slow, broken and hostile clients, and thousands of them: on real sockets."""

import asyncio
import json
import resource
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from starlette.responses import StreamingResponse

from adderclaw.core.record import record
from adderclaw.server.endpoint import ApiRequest, Endpoint
from adderclaw.server.listening import Listen, bind
from adderclaw.server.protocol import ConnectionLimits
from adderclaw.server.serving import Server as Listening
from adderclaw.server.state import ServerState
from tests.server.conftest import Server

LONG = 60.0
"""Seconds after which a test gives up: none of them takes a second."""


@record
class Given:
    text: str


class Port:
    """A server that listens, and raw clients of it."""

    def __init__(self, number: int, token: str, seats: ConnectionLimits) -> None:
        self.number, self.token, self.seats = number, token, seats

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.number)

    def head(self, method: str, path: str, *more: str) -> bytes:
        lines = (f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {self.token}", *more)
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


@asynccontextmanager
async def listening(server: Server, seats: ConnectionLimits) -> AsyncGenerator[Port]:
    sock = bind(Listen(port=0))
    made = Listening(server.app, [(sock, None)], seats)
    await made.startup()
    ticking = asyncio.ensure_future(made.main_loop())
    try:
        yield Port(sock.getsockname()[1], server.token(), seats)
    finally:
        made.should_exit = True
        await ticking
        made.force_exit = True
        await made.shutdown()


async def _endless(_: ApiRequest) -> object:
    async def parts() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 65_536

    return StreamingResponse(parts())


async def _waits(_: ApiRequest) -> object:
    async def parts() -> AsyncIterator[bytes]:
        yield b"there"
        await asyncio.Event().wait()

    return StreamingResponse(parts())


async def _length(request: ApiRequest) -> object:
    return {"length": len(request.body.text)}


ENDPOINTS = (
    Endpoint("GET", "/endless", "read", _endless, "Endless."),
    Endpoint("GET", "/waits", "read", _waits, "Waits."),
    Endpoint("POST", "/length", "operate", _length, "Length.", takes=Given, gives=dict[str, int], body_limit=100_000),
)


@pytest.fixture
def on(state: ServerState) -> Callable[[ConnectionLimits, Callable[[Port], Awaitable[None]]], None]:
    """`on(seats, work)` runs the work against a server that listens."""

    def run(seats: ConnectionLimits, work: Callable[[Port], Awaitable[None]]) -> None:
        async def whole() -> None:
            async with asyncio.timeout(LONG), listening(Server(state, ENDPOINTS), seats) as port:
                await work(port)

        asyncio.run(whole())

    return run


type On = Callable[[ConnectionLimits, Callable[[Port], Awaitable[None]]], None]


def answer(data: bytes) -> tuple[int, object]:
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    ],
)
def test_what_is_no_http_gets_the_same_form_of_error(on: On, sent: bytes) -> None:
    async def work(port: Port) -> None:
        reader, writer = await port.connect()
        writer.write(sent + b"\r\n\r\n")
        status, body = answer(await reader.read())
        assert (status, body) == (
            400,
            {"error": {"code": "http", "message": "the request is not valid HTTP"}},
        )
        writer.close()

    on(ConnectionLimits(), work)


def test_no_answer_waits_for_the_acknowledgement_of_the_packet_before(on: On) -> None:
    """Head and body are two packets: the second one would wait about 40 ms for the client's delayed ACK."""

    async def work(port: Port) -> None:
        reader, writer = await port.connect()
        writer.write(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 ")
        (connection,) = port.seats.newcomers
        accepted = connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        writer.close()

    on(ConnectionLimits(), work)


def test_a_head_that_comes_slowly_is_not_waited_for(on: On) -> None:
    """At the beginning of a connection, and behind an answer."""

    async def work(port: Port) -> None:
        reader, writer = await port.connect()
        writer.write(b"GET /health HTTP/1.1\r\nHost:")
        assert await reader.read() == b""
        reader, writer = await port.connect()
        assert await reader.read() == b""
        reader, writer = await port.connect()
        writer.write(
            port.head("POST", "/length", "Content-Type: application/json", "Content-Length: 12") + b'{"text":"ab"'
        )
        await writer.drain()
        while b"length" not in (data := await reader.read(10_000)) and data:
            pass
        writer.write(b"GET /wai")
        assert await reader.read() == b""

    on(ConnectionLimits(head_seconds=0.2), work)


def test_a_body_that_is_too_large_is_refused_before_it_is_read(on: On) -> None:
    async def work(port: Port) -> None:
        reader, writer = await port.connect()
        writer.write(port.head("POST", "/length", "Content-Type: application/json", "Content-Length: 1073741824"))
        status, body = answer(await reader.read())
        assert status == 413
        assert "100,000 bytes" in str(body)
        reader, writer = await port.connect()
        writer.write(port.head("POST", "/length", "Content-Type: application/json", "Transfer-Encoding: chunked"))
        told = asyncio.ensure_future(reader.read(10_000))
        sent, part = 0, b"%x\r\n" % 65_536 + b"x" * 65_536 + b"\r\n"
        try:
            while sent < 1 << 30:
                writer.write(part)
                await writer.drain()
                sent += 65_536
        except ConnectionError:
            pass
        assert sent < 1 << 25  # what is thrown away, and what the system keeps of it on both sides
        assert answer(await told)[0] == 413
        for head in (port.head("POST", "/length"), port.head("POST", "/nowhere"), port.head("PUT", "/length")):
            stranger = head.replace(port.token.encode(), b"adk_guessed")  # nor is it read of who is not let in
            reader, writer = await port.connect()
            writer.write(stranger[:-2] + b"Content-Length: 1073741824\r\n\r\n" + b"x" * 10_000)
            status, _ = answer(await reader.read())
            assert status in (401, 404, 405)

    on(ConnectionLimits(), work)


def test_a_body_that_comes_slowly_is_not_waited_for(on: On, state: ServerState) -> None:
    async def work(port: Port) -> None:
        reader, writer = await port.connect()
        writer.write(port.head("POST", "/length", "Content-Type: application/json", "Content-Length: 100") + b"{")
        assert answer(await reader.read())[0] == 408

    state.body_seconds = 0.1
    on(ConnectionLimits(), work)


def test_a_client_that_reads_nothing_is_left_alone(on: On) -> None:
    async def work(port: Port) -> None:
        with socket.create_connection(("127.0.0.1", port.number)) as deaf:
            deaf.sendall(port.head("GET", "/endless"))
            reader, writer = await port.connect()  # accepted behind it
            writer.write(port.head("POST", "/length", "Connection: close", "Content-Length: 0"))
            await reader.read()
            while port.seats.taken:  # noqa: ASYNC110 - only the server's own count says that it is gone
                await asyncio.sleep(0.01)

    on(ConnectionLimits(write_seconds=0.2), work)


def test_thousands_of_connections_keep_no_client_with_a_token_out(on: On) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    async def work(port: Port) -> None:
        reader, first = await port.connect()
        first.write(port.head("GET", "/waits"))
        while b"there" not in await reader.read(10_000):
            pass
        crowd = [await port.connect() for _ in range(2_000)]
        assert port.seats.taken <= 129 + 20
        reader, writer = await port.connect()
        body = b'{"text":"abc"}'
        writer.write(
            port.head(
                "POST", "/length", "Content-Type: application/json", f"Content-Length: {len(body)}", "Connection: close"
            )
            + body
        )
        assert answer(await reader.read()) == (200, {"length": 3})
        assert not first.transport.is_closing()
        for _, one in crowd:
            one.transport.abort()

    try:
        on(ConnectionLimits(newcomers=128), work)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
