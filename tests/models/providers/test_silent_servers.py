"""Servers that keep the connection alive and say nothing: each of the seven wires has its limit on that."""

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from adderclaw.config.schema import ProviderEntry
from adderclaw.core.errors import ProviderError
from tests.listening import listening
from tests.models.providers.making import House, ask, request

KINDS = ("anthropic", "openai", "openai-compatible", "openrouter", "ollama", "lm-studio", "gemini")
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n"
SAID: dict[str, tuple[bytes, bytes]] = {
    "comments": (STREAM, b": keep-alive\n\n"),
    "pings": (STREAM, b'event: ping\ndata: {"type": "ping"}\n\n'),
    "empty events": (STREAM, b'data: {"choices": [{"delta": {}}], "candidates": [{"content": {}}]}\n\n'),
    "nothing in mid-stream": (STREAM + b": begun\n\ndata: {", b""),
    "a line that never ends": (STREAM + b"data: {", b" "),
    "blanks before JSON": (JSON, b" \n"),
    "half of a JSON answer": (JSON + b'{"choices": [', b""),
    "heads without end": (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    "an error without end": (b"HTTP/1.1 500 No\r\ncontent-type: text/plain\r\n\r\n", b" "),
}


@pytest.fixture(params=SAID, ids=lambda name: name.replace(" ", "-"))
def base_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Answers each connection with a beginning, and then goes on for as long as somebody listens."""
    first, again = SAID[request.param]
    over = threading.Event()

    def talk(connection: socket.socket) -> None:
        with connection:
            connection.recv(65_536)
            try:
                connection.sendall(first)
                while not over.wait(0.02):
                    connection.sendall(again)
            except OSError:
                pass  # the client gave up

    with listening(talk) as port:
        yield f"http://127.0.0.1:{port}/v1"
        over.set()


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_says_nothing_is_a_timeout(kind: str, base_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "k")
    fields: dict[str, Any] = {"kind": kind, "base_url": base_url, "model": "m", "api_key_env": "A_KEY"}
    entry = ProviderEntry(**fields, timeout_seconds=0.4, idle_timeout_seconds=0.3)
    began = time.monotonic()
    with pytest.raises(ProviderError) as caught:
        ask(House({"p": entry}).make("p"), request(model="m"))
    assert caught.value.kind in ("timeout", "server_error")
    assert caught.value.kind in ProviderError.RETRYABLE
    assert time.monotonic() - began < 30
