"""The way out of a sandbox: through the proxy, to the hosts that the operator listed, and to nobody else."""

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from adderclaw.models.http.addresses import is_named
from adderclaw.policy import hosts
from adderclaw.sandbox import confinement
from adderclaw.sandbox.bubblewrap import SandboxSpec
from adderclaw.sandbox.proxy import Proxy
from tests.company import LOGIN, company
from tests.rows import rows
from tests.sandbox import escapes
from tests.trial import why_not

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
NAMES = {
    "files.test": ["127.0.0.1"],
    "inner.example.org": ["10.0.0.1"],
    "mixed.example.org": ["93.184.215.14", "169.254.169.254"],
    "deep.sub.example.org": ["::1"],
    "other.test": ["93.184.215.14"],
}
type Ask = Callable[[bytes], Awaitable[bytes]]


@pytest.fixture(autouse=True)
def no_proxy_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


class World:
    """A server of this machine, names that lead to it and elsewhere, and what was said and received."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.received: list[bytes] = []
        self.looked_up: list[str] = []
        self.port = 0

    async def look_up(self, host: str, port: int) -> list[str]:
        self.looked_up.append(host)
        if host not in NAMES:
            raise OSError(f"no such name: {host}")
        return NAMES[host]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.received.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(ANSWER)
        await writer.drain()
        writer.close()

    def proxy(self) -> Proxy:
        allowed = (f"files.test:{self.port}", "*.example.org", "gone.test")
        return Proxy(
            lambda host, port, found: hosts.tunnel_refusal(host, port, found, allowed),
            tell=lambda place, why: self.said.append(f"kept from {place}: {why}"),
            look_up=self.look_up,
            named=lambda host, port: is_named(host, port, allowed),
        )


@asynccontextmanager
async def running() -> AsyncGenerator[World]:
    world = World()
    server = await asyncio.start_server(world.serve, "127.0.0.1", 0)
    world.port = server.sockets[0].getsockname()[1]
    try:
        yield world
    finally:
        server.close()


async def asked(world: World, request: bytes) -> bytes:
    """What a client gets that says all this at once."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    proxy = world.proxy()
    proxy.serve(listener)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request.replace(b"PORT", str(world.port).encode()))
        async with asyncio.timeout(5):
            return await reader.read()
    finally:
        writer.close()
        proxy.close()


def ask(request: bytes) -> tuple[bytes, World]:
    async def once() -> tuple[bytes, World]:
        async with running() as world:
            return await asked(world, request), world

    return asyncio.run(once())


def socks(kind: bytes, host: bytes, port: int, command: int = 1) -> bytes:
    length = bytes((len(host),)) if kind == b"\x03" else b""
    return b"\x05\x01\x00" + bytes((5, command, 0)) + kind + length + host + port.to_bytes(2)


# ------------------------------------------------------------------ refused


@rows(
    ("target", "reason"),
    [
        ("other.test:443", "neither in security.allowed_domains"),
        ("example.org:443", "neither in security.allowed_domains"),
        ("evil-example.org:443", "neither in security.allowed_domains"),
        ("files.test:1", "neither in security.allowed_domains"),
        ("127.0.0.1:PORT", "neither in security.allowed_domains"),
        ("[::1]:PORT", "neither in security.allowed_domains"),
        ("2130706433:PORT", "neither in security.allowed_domains"),
        ("inner.example.org:443", "private or special address 10.0.0.1"),
        ("mixed.example.org:443", "private or special address 169.254.169.254"),
        ("deep.sub.example.org:443", "private or special address ::1"),
        ("mixed.example.org:22", "not a web port"),
        ("other.test@files.test:PORT", "not a host and a port"),
        ("files.test", "not a host and a port"),
    ],
)
def test_a_host_that_is_not_listed_is_refused(target: str, reason: str) -> None:
    answer, world = ask(f"CONNECT {target} HTTP/1.1\r\n\r\n".encode())
    first = answer.decode().splitlines()[0]
    assert first.startswith("HTTP/1.1 403 adderclaw: ")
    assert reason in first, "npm and browsers show nothing but this line"
    assert world.received == []


@pytest.mark.parametrize("name", ["other.test", "inner.example.org"])
def test_each_refused_host_is_said_once(name: str) -> None:
    _, world = ask(f"GET http://{name}/ HTTP/1.1\r\nHost: files.test:PORT\r\n\r\n".encode())
    assert len(world.said) == 1
    assert f"kept from {name}:80" in world.said[0]


def test_a_name_that_is_not_listed_is_not_even_looked_up() -> None:
    _, world = ask(b"CONNECT secret-in-a-name.other.test:443 HTTP/1.1\r\n\r\n")
    assert world.looked_up == []


@rows(
    "request_",
    [
        b"GET / HTTP/1.1\r\nHost: files.test:PORT\r\n\r\n",
        b"GET https://files.test:PORT/ HTTP/1.1\r\n\r\n",
        b"GET http://x@files.test:PORT/ HTTP/1.1\r\n\r\n",
        b"GET http://files.test:PORT\\@other.test/ HTTP/1.1\r\n\r\n",
        b"GET http://files.test:PORT/ HTTP/1.1\r\nA: b\nHost: other.test\r\n\r\n",
        b"GET http://files.test:PORT/ HTTP/1.1\r\nA: b\rHost: other.test\r\n\r\n",
        b"GET http://files.test:PORT/ HTTP/1.1\r\nA: b\r\n Host: other.test\r\n\r\n",
        b"GET http://files.test:PORT/ HTTP/1.1\r\nHost : other.test\r\n\r\n",
        b"GET http://files.test:PORT/ HTTP/1.1\r\nnonsense\r\n\r\n",
        b"nonsense\r\n\r\n",
    ],
)
def test_what_is_no_request_to_a_proxy_is_refused(request_: bytes) -> None:
    answer, world = ask(request_)
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 403 "))
    assert world.received == []


def test_a_second_request_on_the_same_connection_reaches_nobody_else() -> None:
    again = b"GET http://other.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n"
    _, world = ask(b"GET http://files.test:PORT/ HTTP/1.1\r\nProxy-Authorization: x\r\n\r\n" + again)
    assert world.looked_up == ["files.test"]
    assert b"Connection: close" in world.received[0]
    assert b"Proxy-Authorization" not in world.received[0]


@rows(
    ("request_", "code"),
    [
        (socks(b"\x03", b"other.test", 443), 2),
        (socks(b"\x01", b"\x7f\x00\x00\x01", 80), 2),
        (socks(b"\x04", b"\x00" * 15 + b"\x01", 80), 2),
        (socks(b"\x04", b"\x00" * 10 + b"\xff\xff\x7f\x00\x00\x01", 80), 2),
        (socks(b"\x03", b"files.test\x00.example.org", 443), 2),
        (socks(b"\x03", b"a.example.org\r\nX", 443), 2),
        (socks(b"\x03", b"gone.test", 443), 4),
        (socks(b"\x03", b"other.test", 443, command=2), 7),
        (socks(b"\x09", b"", 443), 7),
    ],
)
def test_socks_refuses_too(request_: bytes, code: int) -> None:
    answer, world = ask(request_)
    assert answer[:4] == bytes((5, 0, 5, code))
    assert world.received == []


@pytest.mark.parametrize("host", [b"other.test\r\nadderclaw: all is well", b"\x1b[2Jother.test", b"[files.test]"])
def test_what_is_no_name_of_a_host_is_not_repeated(host: bytes) -> None:
    """A command could write lines of ours with it."""
    answer, world = ask(socks(b"\x03", host, 443))
    assert answer[:4] == bytes((5, 0, 5, 2))
    assert (world.said, world.looked_up) == ([], [])


def test_a_name_without_an_address_is_said() -> None:
    answer, _ = ask(b"CONNECT gone.test:443 HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert b"no such name" in answer


# ------------------------------------------------------------------ the operator's own proxy


@rows(
    ("target", "reached", "said"),
    [
        ("gone.test:443", "gone.test:443", "200 "),  # listed by its name: the proxy alone knows its address
        ("public.example.org:443", "93.184.215.14:443", "200 "),  # by a pattern: at the address that was checked
        ("inner.example.org:443", "", "private or special address 10.0.0.1"),
        ("unknown.example.org:443", "", "has no address on this machine"),
        ("other.test:443", "", "neither in security.allowed_domains"),
        (
            "away.example.org:443",
            "93.184.215.15:443",
            "answered 403 Not at work for away.example.org:443 at 93.184.215.15 (by its name",
        ),
    ],
)
def test_through_a_proxy_of_the_operator(monkeypatch: pytest.MonkeyPatch, target: str, reached: str, said: str) -> None:
    monkeypatch.setitem(NAMES, "public.example.org", ["93.184.215.14"])
    monkeypatch.setitem(NAMES, "away.example.org", ["93.184.215.15"])

    async def whole() -> tuple[bytes, list[str]]:
        async with running() as world:
            with company(None, {"gone.test": world.port, "93.184.215.14": world.port}) as gate:
                monkeypatch.setenv("HTTPS_PROXY", gate.url)
                return await asked(
                    world, f"CONNECT {target} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n".encode()
                ), gate.asked

    answer, seen = asyncio.run(whole())
    assert said in answer.decode()
    assert seen == [reached][: bool(reached)]
    assert LOGIN[1].encode() not in answer


# ------------------------------------------------------------------ let through


def test_a_listed_host_is_reached() -> None:
    answer, world = ask(b"CONNECT files.test:PORT HTTP/1.1\r\n\r\nGET /x HTTP/1.1\r\n\r\n")
    assert answer == b"HTTP/1.1 200 Connection established\r\n\r\n" + ANSWER
    assert world.received == [b"GET /x HTTP/1.1\r\n\r\n"]


def test_a_plain_request_is_passed_on_to_the_host_of_its_url() -> None:
    answer, world = ask(b"GET http://files.test:PORT/x?y HTTP/1.1\r\nHost: other.test\r\nAccept: */*\r\n\r\n")
    assert answer == ANSWER
    assert world.received[0].startswith(b"GET /x?y HTTP/1.1\r\nHost: files.test:")
    assert b"other.test" not in world.received[0]


def test_socks_reaches_a_listed_host() -> None:
    async def once() -> bytes:
        async with running() as world:
            return await asked(world, socks(b"\x03", b"files.test", world.port) + b"GET / HTTP/1.1\r\n\r\n")

    assert asyncio.run(once()) == b"\x05\x00" + b"\x05\x00\x00\x01" + bytes(6) + ANSWER


def test_from_inside_the_sandbox(home: Path, tmp_path: Path) -> None:
    if why := why_not("bubblewrap"):
        pytest.skip(f"bubblewrap does not start on this machine: {why}")
    root = tmp_path / "ws"
    root.mkdir()
    fetch = f"{escapes.PYTHON} -c 'import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=60).read())'"

    async def inside() -> tuple[list[bytes], World]:
        async with running() as world:
            box = confinement.create_box(
                "bubblewrap", SandboxSpec((str(root),)), proxy=world.proxy(), tell=world.said.append
            )
            good = await escapes.bash(f"{fetch} http://files.test:{world.port}/", box, root)
            bad = await escapes.bash(f"{fetch} http://other.test/ 2>&1 | tail -1", box, root)
            around = f"exec 3<>/dev/tcp/127.0.0.1/{world.port} || NO_PROXY='*' {fetch} http://127.0.0.1:{world.port}/"
            past = await escapes.bash(around, box, root)
            box.close()
            return [good.stdout, bad.stdout, b"%d" % past.returncode], world

    (good, bad, past), world = asyncio.run(inside())
    assert good == b"b'hello'\n"
    assert b"403" in bad
    assert past == b"1"
    assert len(world.received) == 1
    assert [line for line in world.said if "kept from other.test:80" in line]
