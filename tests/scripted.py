"""A scripted model on 127.0.0.1: speaks Chat Completions over real HTTP, plays steps, records every request.

    with ScriptedModel([{"tool_calls": [{"name": "LS", "arguments": {"path": "."}}]}, {"text": "Done."}]) as model:
        ...  # point a provider at model.base_url
        model.requests[0].json["tools"]

A request beyond the script, and steps left over at the end, fail the test. As a program (for demonstrations):

    python -m tests.scripted script.json        # {"steps": [...]}; prints {"base_url": ...}, serves until stdin ends
"""

import argparse
import json
import re
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, Self, TypedDict, cast

from tests.listening import accepting, left

type Json = dict[str, Any]


class Fault(TypedDict, total=False):
    """An answer with another status than 200."""

    status: int
    body: Any
    """A text as it is, anything else as JSON; by default an error object as servers send it."""
    retry_after: str | int
    headers: dict[str, str]


class Step(TypedDict, total=False):
    """What one request gets. `text` and `tool_calls` may stand together; the others bend or replace the answer."""

    text: str
    """`{{last_result}}` in it is the content of the last tool message, `{{last_user}}` of the last user message."""
    parts: list[str]
    """A text in the parts in which it arrives."""
    tool_calls: list[Json]
    """Each {"name", "arguments"}, and perhaps an "id"; arguments given as a text are sent as they are."""
    finish_reason: str | None
    usage: Json | None
    error: Fault
    hang: float
    """Seconds of silence, then the connection ends."""
    cut: int
    """So many bytes of the body, then the connection ends."""
    reset: bool
    """The connection is reset when the request has been read."""
    broken_json: bool
    html: str
    raw: str
    """The whole body, as it is."""
    content_type: str
    slow_ms: int
    """Milliseconds between pieces of `piece` bytes (1 by default)."""
    piece: int
    close: bool
    """The connection is closed after the answer, which does not announce it."""
    stream: bool
    """Answer as a stream or not, whatever was asked for."""


def unframed(body: bytes) -> bytes:
    """A request's JSON without the frames around what came from outside, for tests that look at what is in them."""
    return re.sub(rb"<outside-([0-9a-f]{16})>(?:\\n)?(.*?)(?:\\n)?</outside-\1>", rb"\2", body)


class Request(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes
    connection: int
    """Which connection it came on, counted from 1."""
    at: float

    @property
    def json(self) -> Json:
        return cast(Json, json.loads(unframed(self.body)))

    @property
    def messages(self) -> list[Json]:
        return cast(list[Json], self.json["messages"])


class ScriptedModel:
    """Serves in threads of its own; safe to use from any thread."""

    def __init__(
        self,
        steps: Sequence[Mapping[str, object]] = (),
        *,
        port: int = 0,
        aside: Mapping[str, Mapping[str, object]] | None = None,
    ) -> None:
        self._aside = {mark.encode(): cast(Step, step) for mark, step in (aside or {}).items()}
        """Steps out of turn: played whenever a request holds the mark, as often as that happens."""
        self.requests: list[Request] = []
        """Those that played a step, in order."""
        self.others: list[Request] = []
        """Requests for anything but chat completions."""
        self.complaints: list[str] = []
        self._steps = [cast(Step, step) for step in steps]
        self.most_at_once = 0
        """The largest number of requests that were being answered at the same moment."""
        self._answering = 0
        self._played = 0
        self._connections = 0
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._ended = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", port), backlog=64)
        self._thread: threading.Thread | None = None
        self.port = int(self._socket.getsockname()[1])
        self.base_url = f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Self:
        self._thread = accepting(self._socket, self._take)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.stop()
        if kind is None:
            self.check()

    def add(self, *steps: Step) -> None:
        with self._lock:
            self._steps += steps

    @property
    def left(self) -> int:
        return len(self._steps) - self._played

    def check(self) -> None:
        """AssertionError when the script and what was asked for did not match."""
        if self.left:
            self.complaints.append(f"{self.left} of {len(self._steps)} steps were left over")
        assert not self.complaints, "scripted model: " + "; ".join(self.complaints)

    def stop(self) -> None:
        self._ended.set()
        left(self._socket, self._thread)
        for one in tuple(self._open):  # each is closed by the thread that serves it
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    # ------------------------------------------------------------------ connections

    def _take(self, connection: socket.socket) -> None:
        self._connections += 1
        self._open.add(connection)
        threading.Thread(target=self._serve, args=(connection, self._connections), daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with connection.makefile("rb") as source:
                while (request := _read(source, number)) is not None and self._answer(connection, request):
                    pass
        except OSError:
            pass  # the client went away, as some tests want it to
        finally:
            connection.close()
            self._open.discard(connection)

    def _answer(self, connection: socket.socket, request: Request) -> bool:
        """Whether the connection goes on."""
        if request.method != "POST" or not request.path.partition("?")[0].endswith("/chat/completions"):
            self.others.append(request)
            known = request.path.endswith("/models")
            body = {"object": "list", "data": [{"id": "scripted", "object": "model"}]} if known else {}
            connection.sendall(_plain(200 if known else 404, "application/json", _bytes(body)))
            return True
        with self._lock:
            self.requests.append(request)
            beside = next((step for mark, step in self._aside.items() if mark in request.body), None)
            if beside is None and self._played == len(self._steps):
                self.complaints.append(f"request {len(self.requests)} came after the last of {self._played} steps")
                connection.sendall(_plain(400, "application/json", b'{"error":{"message":"the script is exhausted"}}'))
                return True
            step = self._steps[self._played] if beside is None else beside
            self._played += beside is None
            self._answering += 1
            self.most_at_once = max(self.most_at_once, self._answering)
        try:
            return self._play(connection, step, request)
        finally:
            with self._lock:
                self._answering -= 1

    def _play(self, connection: socket.socket, step: Step, request: Request) -> bool:
        if "hang" in step:
            self._ended.wait(step["hang"])
            return False
        if step.get("reset"):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        content_type, body = _body(step, request)
        if "error" in step:
            connection.sendall(_fault(step["error"]))
        elif "cut" in step:
            connection.sendall(_head(200, content_type, len(body)) + body[: step["cut"]])
            return False
        elif "slow_ms" in step or "piece" in step:
            self._slowly(connection, step, content_type, body)
        elif content_type == "text/event-stream":
            connection.sendall(_head(200, content_type, None) + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        else:
            connection.sendall(_plain(200, content_type, body))
        return not step.get("close")

    def _slowly(self, connection: socket.socket, step: Step, content_type: str, body: bytes) -> None:
        size, pause = step.get("piece", 1), step.get("slow_ms", 0) / 1000
        connection.sendall(_head(200, content_type, None))
        for start in range(0, len(body), size):
            piece = body[start : start + size]
            connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
            if self._ended.wait(pause):
                return
        connection.sendall(b"0\r\n\r\n")


# ---------------------------------------------------------------------- HTTP


def _read(source: BinaryIO, number: int) -> Request | None:
    line = source.readline().decode("latin-1").split(" ")
    if len(line) < 3:
        return None
    headers: dict[str, str] = {}
    while (header := source.readline()) not in (b"\r\n", b""):
        name, _, value = header.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    body = source.read(int(headers.get("content-length", 0)))
    return Request(line[0], line[1], headers, body, number, time.monotonic())


def _head(status: int, content_type: str, length: int | None, more: Json | None = None) -> bytes:
    framing = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
    lines = [f"HTTP/1.1 {status} Scripted", f"content-type: {content_type}", framing]
    lines += [f"{name}: {value}" for name, value in (more or {}).items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _plain(status: int, content_type: str, body: bytes, more: Json | None = None) -> bytes:
    return _head(status, content_type, len(body), more) + body


def _fault(fault: Fault) -> bytes:
    status = fault.get("status", 500)
    body = fault.get("body", {"error": {"message": f"scripted error {status}", "type": "scripted"}})
    more: Json = dict(fault.get("headers", {}))
    if "retry_after" in fault:
        more["retry-after"] = fault["retry_after"]
    if isinstance(body, str):
        return _plain(status, "text/html" if body.startswith("<") else "text/plain", body.encode(), more)
    return _plain(status, "application/json", _bytes(body), more)


# ---------------------------------------------------------------------- Chat Completions


def _body(step: Step, request: Request) -> tuple[str, bytes]:
    asked = request.json
    stream = step.get("stream", bool(asked.get("stream")))
    kind = step.get("content_type", "text/event-stream" if stream else "application/json")
    if "html" in step:
        return step.get("content_type", "text/html"), step["html"].encode()
    if "raw" in step:
        return kind, step["raw"].encode()
    if step.get("broken_json"):
        return kind, b'data: {"choices": [{"del\n\n' if stream else b'{"choices": [{"mess'
    filled = cast(Step, {**step, "text": _filled(step.get("text", ""), asked)})
    return kind, (stream_of(filled, asked) if stream else _bytes(completion_of(filled, asked)))


def stream_of(step: Step, asked: Json) -> bytes:
    """The answer as server-sent events: a chunk per word, the arguments of a call in two pieces."""

    def event(delta: Json, finish: str | None = None) -> Json:
        return {**_envelope(asked, "chat.completion.chunk"), "choices": [_choice("delta", delta, finish)]}

    events = [event({"role": "assistant", "content": ""})]
    events += [
        event({"content": part}) for part in step.get("parts") or re.findall(r"\S+\s*|\s+", step.get("text", ""))
    ]
    for index, call in enumerate(_calls(step, asked)):
        function = call["function"]
        middle = len(function["arguments"]) // 2
        opening = {**call, "function": {**function, "arguments": function["arguments"][:middle]}}
        events.append(event({"tool_calls": [{"index": index, **opening}]}))
        rest = {"index": index, "function": {"arguments": function["arguments"][middle:]}}
        events.append(event({"tool_calls": [rest]}))
    events.append(event({}, _finish(step)))
    if asked.get("stream_options", {}).get("include_usage") and step.get("usage", {}) is not None:
        events.append({**_envelope(asked, "chat.completion.chunk"), "choices": [], "usage": _usage(step)})
    return b"".join(b"data: %s\n\n" % _bytes(one) for one in events) + b"data: [DONE]\n\n"


def completion_of(step: Step, asked: Json) -> Json:
    """The answer as one object."""
    message: Json = {"role": "assistant", "content": step.get("text") or None}
    if calls := list(_calls(step, asked)):
        message["tool_calls"] = calls
    whole = {**_envelope(asked, "chat.completion"), "choices": [_choice("message", message, _finish(step))]}
    return whole if step.get("usage", {}) is None else {**whole, "usage": _usage(step)}


def _envelope(asked: Json, kind: str) -> Json:
    return {
        "id": "chatcmpl-scripted",
        "object": kind,
        "created": 1_700_000_000,
        "model": asked.get("model", "scripted"),
    }


def _choice(part: str, message: Json, finish: str | None) -> Json:
    return {"index": 0, part: message, "finish_reason": finish, "logprobs": None}


def _calls(step: Step, asked: Json) -> Iterator[Json]:
    turn = sum(message["role"] == "assistant" for message in asked.get("messages", []))
    for index, call in enumerate(step.get("tool_calls", [])):
        arguments = call.get("arguments", {})
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        call_id = call.get("id", f"call-{turn}-{index}")
        yield {"id": call_id, "type": "function", "function": {"name": call["name"], "arguments": text}}


def _finish(step: Step) -> str | None:
    return step.get("finish_reason", "tool_calls" if step.get("tool_calls") else "stop")


def _usage(step: Step) -> Json:
    return step.get("usage") or {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


def _filled(text: str, asked: Json) -> str:
    roles = {"last_result": "tool", "last_user": "user"}

    def last(found: re.Match[str]) -> str:
        said = [message for message in asked["messages"] if message["role"] == roles[found[1]]]
        return str(said[-1]["content"]) if said else ""

    return re.sub(r"{{(last_result|last_user)}}", last, text)


def _bytes(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


# ---------------------------------------------------------------------- as a program


def main(arguments: Sequence[str] | None = None, wait: Callable[[], object] = sys.stdin.read) -> int:
    parser = argparse.ArgumentParser(description="Serve a scripted model on 127.0.0.1 until standard input ends.")
    parser.add_argument("script", type=Path, help='JSON file: {"steps": [...]}')
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args(arguments)
    steps = json.loads(options.script.read_text(encoding="utf-8"))["steps"]
    model = ScriptedModel(steps, port=options.port)
    try:
        with model:
            print(json.dumps({"base_url": model.base_url}), flush=True)
            wait()
    except AssertionError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
