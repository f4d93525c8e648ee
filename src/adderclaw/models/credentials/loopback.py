"""A local listener for the redirect from the authorization server after a login in the browser."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import NamedTuple

PATH = "/callback"
HEAD_BYTES = 16_384
HEAD_SECONDS = 10.0

_PAGE = (
    "<!doctype html><meta charset=utf-8><title>AdderClaw</title><body style='font:1.2em sans-serif;margin:4em'>"
    "<p>{}</p></body>"
)
_HEADERS = (
    "Content-Type: text/html; charset=utf-8\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
    "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\nX-Content-Type-Options: nosniff\r\n"
    "Connection: close\r\n"
)


class Listener(NamedTuple):
    redirect_uri: str
    answer: asyncio.Future[str]
    """The query of the single request to the exact path."""


@asynccontextmanager
async def listening(port: int = 0) -> AsyncGenerator[Listener]:
    """Listen on 127.0.0.1, on a random port by default, until the answer arrives."""
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    authority: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            status, text, query = await _heard(reader, authority[0], taken=answer.done())
            page = _PAGE.format(text).encode()
            head = f"HTTP/1.1 {status}\r\n{_HEADERS}Content-Length: {len(page)}\r\n\r\n"
            writer.write(head.encode() + page)
            await writer.drain()
            if query is not None and not answer.done():
                answer.set_result(query)
        except (OSError, TimeoutError):
            pass  # the client disconnected
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port, limit=HEAD_BYTES)
    authority.append(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
    try:
        yield Listener(f"http://{authority[0]}{PATH}", answer)
    finally:
        server.close()
        answer.cancel()


async def _heard(reader: asyncio.StreamReader, authority: str, *, taken: bool) -> tuple[str, str, str | None]:
    """The reply to a request, and its query if it is the expected redirect."""
    try:
        async with asyncio.timeout(HEAD_SECONDS):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return "400 Bad Request", "This was no request.", None
    first, *lines = head.split("\r\n")
    words = first.split(" ")
    hosts = [value.strip() for name, _, value in (line.partition(":") for line in lines) if name.lower() == "host"]
    if len(words) != 3 or words[0] != "GET" or hosts != [authority]:
        return "400 Bad Request", "This was not the browser that is waited for.", None
    path, _, query = words[1].partition("?")
    if path != PATH:
        return "404 Not Found", "There is nothing here.", None
    if taken:
        return "410 Gone", "This login is over.", None
    return "200 OK", "AdderClaw has got the answer. You can close this window and go back to the terminal.", query
