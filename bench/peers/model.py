"""A scripted model for other agents: asks for N commands over the agent's own wire, then says that all is done.

`python bench/peers/model.py CALLS` prints its port, serves until stdin closes, then prints what it saw as JSON.
"""

import gzip
import json
import sys
import threading
import zlib
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from time import monotonic
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from wires import Call, Gemini, Json, Wire, arguments, compact, minimal, shell, wanted_schema, wire_of

from bench.measuring import Prompts, serve

FINAL = "All turns are done."


class Script:
    """What to answer, and what was seen so far."""

    def __init__(self, calls: int) -> None:
        self.calls, self.issued = calls, 0
        self.received: list[float] = []
        self.answered: list[float] = []
        self.bodies: list[int] = []
        self.prompts = Prompts()
        self.lost: list[int] = []
        self.others: set[str] = set()
        self.tools, self.aside = 0, 0
        self.pending: Call | None = None
        self._lock = threading.Lock()

    def answer(self, wire: Wire, raw: bytes, body: Json, at: float, *, stream: bool) -> tuple[bytes, bool]:
        """The reply, and whether it is one of the script: titles and the like come without a shell."""
        with self._lock:
            tools = wire.tools(body)
            found = shell(tools)
            number = len(self.received) + self.aside
            if found is None:
                self.aside += 1
                schema = wanted_schema(body)  # a text in place of the JSON would be asked for again and again
                text = compact(minimal(schema)) if schema else "ok"
                return wire.reply(body, number, text, None, stream=stream), False
            self.tools = self.tools or len(tools)
            self.received.append(at)
            self.bodies.append(len(raw))
            self.prompts.add("\n".join(compact(_unmarked(part)) for part in wire.prompt(body)))
            if self.pending is not None and f"turn-{self.issued}" not in wire.result(body, self.pending):
                self.lost.append(self.issued)
            self.pending = None
            if self.issued >= self.calls:
                return wire.reply(body, number, FINAL, None, stream=stream), True
            self.issued += 1
            self.pending = Call(f"call_{self.issued:06d}", found, arguments(found, f"echo turn-{self.issued}"))
            return wire.reply(body, number, "", self.pending, stream=stream), True

    def seen(self) -> Json:
        return {
            "received": self.received, "answered": self.answered, "bodies": self.bodies, "kept": self.prompts.kept,
            "lost": self.lost, "tools": self.tools, "aside": self.aside, "others": sorted(self.others),
            "issued": self.issued,
        }  # fmt: skip


def _unmarked(value: Any) -> Any:
    """Without the marks that say where a provider may cache."""
    if isinstance(value, dict):
        items = cast("Json", value)
        return {key: _unmarked(one) for key, one in items.items() if key != "cache_control"}
    if isinstance(value, list):
        parts = cast("list[Any]", value)
        return [_unmarked(one) for one in parts]
    return value


def handler(script: Script) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            raw = self._body()
            at = monotonic()
            url = urlsplit(self.path)
            wire = wire_of(url.path)
            if wire is None:
                script.others.add(f"POST {url.path}")
                counted = url.path.endswith(("count_tokens", ":countTokens"))
                self._send(200 if counted else 404, "application/json", b'{"input_tokens":100,"totalTokens":100}')
                return
            body: Json = json.loads(raw)
            stream = "streamGenerateContent" in url.path if isinstance(wire, Gemini) else bool(body.get("stream"))
            reply, counts = script.answer(wire, raw, body, at, stream=stream)
            kind = "text/event-stream" if stream else "application/json"
            if stream and isinstance(wire, Gemini) and parse_qs(url.query).get("alt") != ["sse"]:
                kind, reply = "application/json", b"[" + reply[6:].strip() + b"]"
            self._send(200, kind, reply)
            if counts:
                script.answered.append(monotonic())

        def do_GET(self) -> None:
            script.others.add(f"{self.command} {urlsplit(self.path).path}")
            listed = {"object": "list", "data": [{"id": "scripted", "object": "model"}]}
            self._send(200, "application/json", compact(listed).encode())

        def do_HEAD(self) -> None:
            self.do_GET()

        def _body(self) -> bytes:
            raw = b""
            if "chunked" in self.headers.get("transfer-encoding", "").lower():
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    raw += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
            else:
                raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            encoding = self.headers.get("content-encoding", "")
            return (
                gzip.decompress(raw) if encoding == "gzip" else zlib.decompress(raw) if encoding == "deflate" else raw
            )

        def _send(self, status: int, kind: str, reply: bytes) -> None:
            head = f"HTTP/1.1 {status} {'OK' if status == 200 else 'Not Found'}\r\ncontent-type: {kind}\r\n"
            if kind == "text/event-stream":
                framed = f"{len(reply):x}\r\n".encode() + reply + b"\r\n0\r\n\r\n"
                self.wfile.write(f"{head}transfer-encoding: chunked\r\n\r\n".encode() + framed)
            else:
                shown = b"" if self.command == "HEAD" else reply
                self.wfile.write(f"{head}content-length: {len(reply)}\r\n\r\n".encode() + shown)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


def main() -> None:
    script = Script(int(sys.argv[1]))
    serve(script, handler(script))


if __name__ == "__main__":
    main()
