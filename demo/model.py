"""A model that plays a fixed script: a small Chat Completions server on loopback, streaming as a real one does."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Call(NamedTuple):
    """The model wants a tool."""

    tool: str
    arguments: dict[str, Any]


type Step = Call | str
"""A tool call, or the final text."""


class Model:
    """Answers each request with the next step of its script and keeps the tool results that it was sent."""

    def __init__(self, script: list[Step]) -> None:
        self.left = list(script)
        self.results: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> "Model":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The pieces of one streamed answer."""
        self.results = [message["content"] for message in body["messages"] if message["role"] == "tool"]
        step = self.left.pop(0) if self.left else "(the script is over)"
        if isinstance(step, str):
            for word in step.splitlines(keepends=True):
                yield {"delta": {"content": word}, "finish_reason": None}
            yield {"delta": {}, "finish_reason": "stop"}
            return
        function = {"name": step.tool, "arguments": ""}
        call = {"index": 0, "id": f"call_{len(self.results) + 1}", "type": "function", "function": function}
        yield {"delta": {"role": "assistant", "tool_calls": [call]}, "finish_reason": None}
        rest = {"index": 0, "function": {"arguments": json.dumps(step.arguments)}}
        yield {"delta": {"tool_calls": [rest]}, "finish_reason": None}
        yield {"delta": {}, "finish_reason": "tool_calls"}


def _handler(model: Model) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            for piece in model.answer(body):
                self._send({"id": "demo", "model": body["model"], "choices": [{"index": 0, **piece}]})
            usage = {"prompt_tokens": len(json.dumps(body)) // 4, "completion_tokens": 20}
            self._send({"id": "demo", "model": body["model"], "choices": [], "usage": usage})
            self.wfile.write(b"data: [DONE]\n\n")

        def _send(self, event: dict[str, Any]) -> None:
            self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
