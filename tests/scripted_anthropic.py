"""A scripted model on 127.0.0.1 that speaks Anthropic's Messages API over real HTTP, and records every request.

    with ScriptedMessages([{"tool_calls": [{"name": "LS", "input": {"path": "."}}]}, {"text": "Done."}]) as model:
        ...  # point a provider of kind "anthropic" at model.base_url
        model.requests[0].json["tools"]

A request beyond the script, and steps left over at the end, fail the test.
"""

import json
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self, TypedDict, cast

from tests.scripted import unframed

type Json = dict[str, Any]


class Fault(TypedDict, total=False):
    """An answer with another status than 200."""

    status: int
    type: str
    message: str
    body: Any
    """A text as it is, anything else as JSON, instead of an error object of that type and message."""
    headers: dict[str, str]


class Step(TypedDict, total=False):
    """What one request gets. Thinking, text and calls may stand together; the others bend or replace the answer."""

    thinking: list[Json]
    """Each {"thinking", "signature"}, or {"data"} for a redacted one."""
    text: str
    """`{{last_result}}` in it is the content of the last tool result."""
    tool_calls: list[Json]
    """Each {"name", "input"}, and perhaps an "id"; an input given as a text is sent as it is."""
    stop_reason: str
    usage: Json
    error: Fault
    raw: str | bytes
    """The whole body, as it is."""
    content_type: str
    stream: bool
    """Answer as a stream or not, whatever was asked for."""
    piece: int
    """Size of the pieces in which the body is sent."""
    slow_ms: int
    """Milliseconds between the pieces."""
    cut: int
    """So many bytes of the body, then the connection ends."""
    stall: int
    """So many bytes of the body, then silence."""


class Request(NamedTuple):
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes
    at: float

    @property
    def json(self) -> Json:
        return cast(Json, json.loads(unframed(self.body)))

    @property
    def messages(self) -> list[Json]:
        return cast(list[Json], self.json["messages"])


class ScriptedMessages:
    """Serves in threads of its own; safe to use from any thread."""

    def __init__(self, steps: Sequence[Mapping[str, object]] = (), *, tokens: int | None = 42) -> None:
        """`tokens` is what the counting answers; without it there is no counting here."""
        self.requests: list[Request] = []
        """Those that played a step, in order."""
        self.counts: list[Request] = []
        self.complaints: list[str] = []
        self.tokens = tokens
        self.ended = threading.Event()
        self._steps = [cast(Step, step) for step in steps]
        self._played = 0
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.model = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self.base_url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        if kind is None:
            left = len(self._steps) - self._played
            if left:
                self.complaints.append(f"{left} of {len(self._steps)} steps were left over")
            assert not self.complaints, "scripted model: " + "; ".join(self.complaints)

    def next_step(self, request: Request) -> Step:
        with self._lock:
            self.requests.append(request)
            if self._played == len(self._steps):
                self.complaints.append(f"request {len(self.requests)} came after the last of {self._played} steps")
                return {"error": {"status": 400, "message": "the script is exhausted"}}
            self._played += 1
            return self._steps[self._played - 1]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a client may keep its connection
    model: ScriptedMessages

    def handle_error(self, request: Any, client_address: Any) -> None:
        """The client went away, as some tests want it to."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""

    def do_POST(self) -> None:
        model = cast(_Server, self.server).model
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", 0)))
        request = Request(self.path, headers, body, time.monotonic())
        path = self.path.partition("?")[0]
        if path.endswith("/v1/messages"):
            self._play(model, model.next_step(request), request)
        elif path.endswith("/v1/messages/count_tokens") and model.tokens is not None:
            model.counts.append(request)
            self._whole(200, "application/json", _bytes({"input_tokens": model.tokens}))
        else:
            self._fault({"status": 404, "type": "not_found_error", "message": "Not found"})

    def _play(self, model: ScriptedMessages, step: Step, request: Request) -> None:
        if "error" in step:
            self._fault(step["error"])
            return
        kind, body = _body(step, request.json)
        if "cut" in step or "stall" in step:
            self._head(200, kind, {"content-length": str(len(body))})
            self.wfile.write(body[: step.get("cut", step.get("stall", 0))])
            if "stall" in step:
                model.ended.wait(30)
            self.close_connection = True
        elif kind == "text/event-stream" or "piece" in step:
            size = step.get("piece", len(body) or 1)
            self._head(200, kind, {"transfer-encoding": "chunked"})
            for start in range(0, len(body), size):
                part = body[start : start + size]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                if "slow_ms" in step and model.ended.wait(step["slow_ms"] / 1000):
                    return
            self.wfile.write(b"0\r\n\r\n")
        else:
            self._whole(200, kind, body)

    def _fault(self, fault: Fault) -> None:
        status = fault.get("status", 500)
        error = {"type": fault.get("type", "api_error"), "message": fault.get("message", f"scripted error {status}")}
        body: Any = fault.get("body", {"type": "error", "error": error, "request_id": "req_scripted"})
        if isinstance(body, str):
            kind = "text/html" if body.startswith("<") else "text/plain"
            self._whole(status, kind, body.encode(), fault.get("headers", {}))
        else:
            self._whole(status, "application/json", _bytes(body), fault.get("headers", {}))

    def _whole(self, status: int, kind: str, body: bytes, more: Mapping[str, str] | None = None) -> None:
        self._head(status, kind, {"content-length": str(len(body)), **(more or {})})
        self.wfile.write(body)

    def _head(self, status: int, kind: str, more: Mapping[str, str]) -> None:
        self.send_response_only(status, "Scripted")
        for name, value in {"content-type": kind, "request-id": "req_scripted", **more}.items():
            self.send_header(name, value)
        self.end_headers()


# ---------------------------------------------------------------------- Messages


def _body(step: Step, asked: Json) -> tuple[str, bytes]:
    stream = step.get("stream", bool(asked.get("stream")))
    kind = step.get("content_type", "text/event-stream" if stream else "application/json")
    if "raw" in step:
        raw = step["raw"]
        return kind, raw if isinstance(raw, bytes) else raw.encode()
    message = message_of(step, asked)
    return kind, (stream_of(message) if stream else _bytes(_parsed(message)))


def message_of(step: Step, asked: Json) -> Json:
    """The answer as one object; an input that the script gave as a text is still one."""
    content = [*_thoughts(step)]
    if text := step.get("text", "").replace("{{last_result}}", _last_result(asked)):
        content.append({"type": "text", "text": text})
    content += _calls(step, asked)
    reason = step.get("stop_reason", "tool_use" if step.get("tool_calls") else "end_turn")
    return {
        "id": f"msg_{len(asked.get('messages', [])):04}",
        "type": "message",
        "role": "assistant",
        "model": asked.get("model", "scripted"),
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": step.get("usage", {"input_tokens": 100, "output_tokens": 20}),
    }


def stream_of(message: Json) -> bytes:
    """The answer as server-sent events: a delta per word, the input of a call in two pieces."""
    return b"".join(b"event: %s\ndata: %s\n\n" % (one["type"].encode(), _bytes(one)) for one in _events(message))


def _events(message: Json) -> Iterator[Json]:
    usage: Json = message["usage"]
    opening: Json = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield {"type": "message_start", "message": opening}
    yield {"type": "ping"}
    for index, block in enumerate(message["content"]):
        empty, deltas = _pieces(block)
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": usage.get("output_tokens", 0)}}
    yield {"type": "message_stop"}


def _pieces(block: Json) -> tuple[Json, list[Json]]:
    """How a block opens, and what is added to it."""
    match block["type"]:
        case "text":
            return {**block, "text": ""}, [{"type": "text_delta", "text": word} for word in _words(block["text"])]
        case "thinking":
            thoughts = [{"type": "thinking_delta", "thinking": word} for word in _words(block["thinking"])]
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*thoughts, signed]
        case "tool_use":
            text = block["input"] if isinstance(block["input"], str) else json.dumps(block["input"])
            middle = len(text) // 2
            halves = ["", text[:middle], text[middle:]] if text != "{}" else [""]
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": half} for half in halves]
        case _:
            return block, []


def _words(text: str) -> list[str]:
    return re.findall(r"\S+\s*|\s+", text)


def _thoughts(step: Step) -> Iterator[Json]:
    for thought in step.get("thinking", []):
        yield {"type": "redacted_thinking" if "data" in thought else "thinking", **thought}


def _calls(step: Step, asked: Json) -> Iterator[Json]:
    turn = sum(message["role"] == "assistant" for message in asked.get("messages", []))
    for index, call in enumerate(step.get("tool_calls", [])):
        call_id = call.get("id", f"toolu_{turn}_{index}")
        yield {"type": "tool_use", "id": call_id, "name": call["name"], "input": call.get("input", {})}


def _parsed(message: Json) -> Json:
    content = [
        {**block, "input": json.loads(block["input"])} if isinstance(block.get("input"), str) else block
        for block in message["content"]
    ]
    return {**message, "content": content}


def _last_result(asked: Json) -> str:
    contents = [message["content"] for message in asked.get("messages", []) if isinstance(message["content"], list)]
    results = [block for content in contents for block in content if block["type"] == "tool_result"]
    return str(results[-1]["content"]) if results else ""


def _bytes(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
