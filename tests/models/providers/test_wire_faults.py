"""Servers that fail: each way has its kind, one line with the fix, and no key in it."""

import asyncio
import gc
import socket
import ssl
import subprocess
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adderclaw.core.errors import ProviderError
from adderclaw.models.providers.openai import OpenAIChat
from tests.models.providers.making import House, ask, chat_entry, request, run, user
from tests.rows import rows
from tests.scripted import Fault, ScriptedModel, Step

CANARY = "canary-9f8e7d6c5b4a3210"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", CANARY)


def failure(base_url: str, **more: Any) -> ProviderError:
    house = House({"p": chat_entry(base_url, api_key_env="SOME_KEY", **more)})
    with pytest.raises(ProviderError) as caught:
        ask(house.make("p"), request())
    shown = f"{caught.value} {caught.value!r} {caught.value.__cause__!r} {house.told}"
    assert CANARY not in shown
    assert "\n" not in str(caught.value)
    assert caught.value.provider == "p"
    return caught.value


def fault_of(fault: Fault) -> ProviderError:
    with ScriptedModel([{"error": fault}]) as model:
        return failure(model.base_url)


@rows(
    ("status", "body", "kind", "words"),
    [
        (400, None, "invalid_request", "scripted error 400"),
        (400, {"error": {"message": "too big", "code": "context_length_exceeded"}}, "context_overflow", "too big"),
        (400, {"error": "the request exceeds the available context size"}, "context_overflow", "context size"),
        (401, {"error": {"message": f"bad key {CANARY}"}}, "authentication_failed", "api_key_env"),
        (401, f"bad key Bearer {CANARY}", "authentication_failed", "api_key_env"),
        (402, None, "billing_error", "credit"),
        (403, None, "authentication_failed", "api_key_env"),
        (404, {"error": {"message": "model 'm' not found"}}, "invalid_request", "model 'm' not found"),
        (404, "<html>nginx</html>", "invalid_request", "/v1"),
        (405, None, "invalid_request", "405"),
        (408, None, "server_error", "408"),
        (409, None, "server_error", "409"),
        (413, {"message": "prompt is too long"}, "context_overflow", "prompt is too long"),
        (422, {"detail": [{"msg": "field required"}]}, "invalid_request", "field required"),
        (429, None, "rate_limit", "429"),
        (429, {"error": {"message": "x", "code": "insufficient_quota"}}, "billing_error", "credit"),
        (500, "oh no \x1b[31m", "server_error", "oh no \\u{1b}[31m"),
        (502, "<html>bad gateway</html>", "server_error", "502"),
        (503, [1, 2], "server_error", "503"),
        (529, None, "server_error", "529"),
        (418, "x" * 100_000, "invalid_request", "418"),
        (500, f"{'x' * 290}{CANARY}", "server_error", "500"),
    ],
)
def test_statuses(status: int, body: Any, kind: str, words: str) -> None:
    error = fault_of({"status": status, "body": body} if body is not None else {"status": status})
    assert (error.kind, error.status) == (kind, status)
    assert words in str(error)
    assert "canary" not in str(error)
    assert len(str(error)) < 600


@rows(
    ("status", "value", "seconds"),
    [
        (429, "7", 7.0),
        (429, 0, 0.0),
        (503, "1.5", 1.5),
        (429, "-3", 0.0),
        (429, "Mon, 12 Jan 1970 13:47:10 GMT", 30.0),  # the clock of these tests stands at 1,000,000 seconds
        (429, "Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        (429, "soon", None),
        (429, "inf", None),
        (429, "", None),
        (400, "7", None),
    ],
)
def test_retry_after(status: int, value: str | int, seconds: float | None) -> None:
    assert fault_of({"status": status, "retry_after": value}).retry_after == seconds


def test_retry_after_in_milliseconds() -> None:
    assert fault_of({"status": 429, "headers": {"retry-after-ms": "250"}}).retry_after == 0.25


def test_nothing_listens() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        error = failure(f"http://127.0.0.1:{port}/v1")
    assert error.kind == "network"
    assert f"nothing listens at http://127.0.0.1:{port}" in str(error)


def test_nothing_listens_at_a_host_with_several_addresses() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        error = failure(f"http://localhost:{unused.getsockname()[1]}/v1")
    assert "nothing listens at http://localhost:" in str(error)


def test_a_host_without_an_address() -> None:
    error = failure("http://model.invalid/v1", timeout_seconds=20)
    assert error.kind in ("network", "timeout")
    assert "model.invalid" in str(error)


@pytest.mark.parametrize(
    ("step", "kind"),
    [({"reset": True}, "network"), ({"hang": 0}, "network"), ({"hang": 30}, "timeout")],
)
def test_connections_that_end_or_stay_silent(step: Step, kind: str) -> None:
    with ScriptedModel([step]) as model:
        began = time.monotonic()
        assert failure(model.base_url, timeout_seconds=0.3).kind == kind
        assert time.monotonic() - began < 30


def raw_server(
    talk: Callable[[socket.socket], object], tls: ssl.SSLContext | None = None
) -> tuple[str, threading.Thread]:
    """A server for what no HTTP server would say: talks on its first connection, then closes it."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = server.accept()
        with server, connection:
            try:
                if tls:
                    with tls.wrap_socket(connection, server_side=True) as secured:
                        talk(secured)
                else:
                    connection.recv(65_536)
                    talk(connection)
            except OSError:
                pass  # the client went away

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return f"{'https' if tls else 'http'}://127.0.0.1:{server.getsockname()[1]}/v1", thread


@rows(
    ("said", "kind"),
    [
        (b"SSH-2.0-OpenSSH_9.0\r\n\r\n", "malformed"),
        (b"HTTP/1.1 200 OK\r\ncontent-", "malformed"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000, "malformed"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello", "malformed"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", "malformed"),
        (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n", "malformed"),
        (b'HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {"choices"', "malformed"),
        (b"", "network"),
    ],
)
def test_what_is_not_http(said: bytes, kind: str) -> None:
    url, thread = raw_server(lambda connection: connection.sendall(said))
    assert failure(url, timeout_seconds=5).kind == kind
    thread.join(5)


def test_a_stream_that_falls_silent() -> None:
    head = b'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {"choices":[]}\n\n'

    def talk(connection: socket.socket) -> None:
        connection.sendall(head)
        connection.settimeout(10)
        connection.recv(1)  # returns when the client gives up

    url, thread = raw_server(talk)
    house = House({"p": chat_entry(url)})
    provider = house.make("p")
    assert isinstance(provider, OpenAIChat)
    provider.wire.between_seconds = 0.2
    with pytest.raises(ProviderError, match=r"fell silent for 0\.2 seconds") as caught:
        ask(provider, request())
    assert caught.value.kind == "timeout"
    thread.join(5)
    assert not thread.is_alive()


def test_http_1_0_until_the_connection_ends() -> None:
    body = b'{"choices":[{"message":{"content":"old"},"finish_reason":"stop"}]}'
    url, thread = raw_server(
        lambda one: one.sendall(b"HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n" + body)
    )
    assert ask(House({"p": chat_entry(url)}).make("p"), request())[0].final_text == "old"
    thread.join(5)


def test_a_100_continue_before_the_answer_is_passed_over() -> None:
    body = b'{"choices":[{"message":{"content":"hi"}}]}'
    said = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    url, thread = raw_server(lambda one: one.sendall(said))
    assert ask(House({"p": chat_entry(url)}).make("p"), request())[0].final_text == "hi"
    thread.join(5)


# ------------------------------------------------------------------ TLS


def certificate(folder: Path, openssl: str) -> tuple[Path, Path]:
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, *names, "-keyout", key, "-out", cert], check=True, capture_output=True)
    return key, cert


def test_tls_is_verified(tmp_path: Path, needs: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    key, cert = certificate(tmp_path, needs("openssl"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    heard: list[bytes] = []

    def talk(connection: socket.socket) -> None:
        heard.append(connection.recv(65_536))
        while not heard[-1].endswith(b"]}"):
            heard[-1] += connection.recv(65_536)
        body = b'{"choices":[{"message":{"content":"safe"}}]}'
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))

    url, thread = raw_server(talk, context)
    error = failure(url)
    assert error.kind == "network"
    assert "certificate" in str(error)
    assert "SSL_CERT_FILE" in str(error)
    thread.join(5)
    assert heard == []

    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    url, thread = raw_server(talk, context)
    provider = House({"p": chat_entry(url, api_key_env="SOME_KEY")}).make("p")
    assert ask(provider, request())[0].final_text == "safe"
    thread.join(5)
    assert f"Bearer {CANARY}".encode() in heard[0]


def test_a_plain_server_behind_https_is_an_error() -> None:
    with ScriptedModel() as model:
        assert failure(model.base_url.replace("http:", "https:"), timeout_seconds=5).kind in ("network", "timeout")


# ------------------------------------------------------------------ kept connections


def test_one_connection_serves_many_requests_streaming_or_not() -> None:
    steps: list[Step] = [{"text": "a b", "stream": index % 2 == 0} for index in range(6)]
    steps.insert(3, {"text": "a b", "piece": 5})
    with ScriptedModel(steps) as model:
        answers = ask(House({"p": chat_entry(model.base_url)}).make("p"), *[request()] * 7)
    assert [one.final_text for one in answers] == ["a b"] * 7
    assert {one.connection for one in model.requests} <= {1, 2}


def test_a_connection_closed_while_idle_is_opened_again_once() -> None:
    with ScriptedModel([{"text": "a", "close": True}, {"text": "b", "close": True}, {"text": "c"}]) as model:
        answers = ask(House({"p": chat_entry(model.base_url)}).make("p"), *[request()] * 3)
    assert [one.final_text for one in answers] == ["a", "b", "c"]
    assert [one.connection for one in model.requests] == [1, 2, 3]


def test_a_connection_reset_at_the_second_request_is_tried_on_a_new_one() -> None:
    with ScriptedModel([{"text": "a"}, {"reset": True}, {"text": "b"}]) as model:
        answers = ask(House({"p": chat_entry(model.base_url)}).make("p"), *[request()] * 2)
    assert [one.final_text for one in answers] == ["a", "b"]
    assert [one.connection for one in model.requests] == [1, 1, 2]


def test_but_not_a_second_time() -> None:
    steps: list[Step] = [{"text": "a"}, {"reset": True}, {"reset": True}]
    with ScriptedModel(steps) as model, pytest.raises(ProviderError) as caught:
        ask(House({"p": chat_entry(model.base_url)}).make("p"), *[request()] * 2)
    assert caught.value.kind == "network"


def test_nor_when_the_answer_had_begun() -> None:
    steps: list[Step] = [{"text": "a"}, {"text": "b", "cut": 30}]
    with ScriptedModel(steps) as model, pytest.raises(ProviderError, match="cut") as caught:
        ask(House({"p": chat_entry(model.base_url)}).make("p"), *[request()] * 2)
    assert caught.value.kind == "malformed"


def test_an_error_keeps_the_connection_and_the_next_answer_is_right() -> None:
    async def twice() -> str:
        with pytest.raises(ProviderError):
            await provider.chat(request(), lambda _: None)
        answer = await provider.chat(request(), lambda _: None)
        await provider.close()
        return answer.final_text

    with ScriptedModel([{"error": {"status": 500}}, {"text": "fine"}]) as model:
        provider = House({"p": chat_entry(model.base_url)}).make("p")
        assert run(twice()) == "fine"
    assert [one.connection for one in model.requests] == [1, 1]


def test_another_event_loop_gets_its_own_connection() -> None:
    async def once() -> str:
        return (await provider.chat(request(), lambda _: None)).final_text

    with ScriptedModel([{"text": "a"}, {"text": "b"}]) as model:
        provider = House({"p": chat_entry(model.base_url)}).make("p")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # nobody closed the provider before its first loop ended
            assert [run(once()), run(once())] == ["a", "b"]
            gc.collect()
    assert [one.connection for one in model.requests] == [1, 2]


def test_requests_at_the_same_time_do_not_mix() -> None:
    async def all_at_once() -> list[str]:
        answers = await asyncio.gather(*(provider.chat(request(), lambda _: None) for _ in range(8)))
        await provider.close()
        return sorted(one.final_text for one in answers)

    with ScriptedModel([{"text": f"answer {index}", "piece": 9, "slow_ms": 1} for index in range(8)]) as model:
        provider = House({"p": chat_entry(model.base_url)}).make("p")
        assert run(all_at_once()) == [f"answer {index}" for index in range(8)]
    assert len({one.connection for one in model.requests}) == 8


def test_cancelling_ends_the_connection_and_the_next_request_works() -> None:
    async def cancelled_then_asked() -> str:
        task = asyncio.ensure_future(provider.chat(request(), lambda _: None))
        while not model.requests:  # noqa: ASYNC110 - the model's thread notes it
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        answer = await provider.chat(request(), lambda _: None)
        await provider.close()
        return answer.final_text

    with ScriptedModel([{"text": "slow " * 50, "slow_ms": 20}, {"text": "next"}]) as model:
        provider = House({"p": chat_entry(model.base_url)}).make("p")
        assert run(cancelled_then_asked()) == "next"
    assert [one.connection for one in model.requests] == [1, 2]


def test_a_large_request_and_a_slow_reader() -> None:
    text = "ä" * 2_000_000
    with ScriptedModel([{"text": "ok"}]) as model:
        ask(House({"p": chat_entry(model.base_url)}).make("p"), request(user(text)))
    assert model.requests[0].messages[1]["content"] == text
