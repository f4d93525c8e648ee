"""A scripted Chat Completions server: asks for N shell calls, then says "done", and keeps when each byte came and went.

`python bench/model.py CALLS PORT [COMMAND]` prints its port, serves until stdin closes, then prints what it saw
as JSON. `{}` in the command is the number of the call; it prints `turn-` and that number.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from time import monotonic
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.measuring import Prompts, serve

SHELLS = ("Bash", "shell")


class Script:
    """What to answer, and what was seen so far."""

    def __init__(self, calls: int, command: str = "echo turn-{}") -> None:
        self.calls, self.command = calls, command
        self.received: list[float] = []
        self.answered: list[float] = []
        self.bodies: list[int] = []
        self.prompts = Prompts()
        self.tools = 0
        self.lost: list[int] = []

    def answer(self, raw: bytes) -> dict[str, Any]:
        """The message for one request; the request's number is the number of tool results in it."""
        body: dict[str, Any] = json.loads(raw)
        results = [message for message in body["messages"] if message["role"] == "tool"]
        if results and f"turn-{len(results)}" not in str(results[-1]["content"]):
            self.lost.append(len(results))
        self.prompts.add("\n".join(json.dumps(part) for part in (body.get("tools"), *body["messages"])))
        self.bodies.append(len(raw))
        if len(results) >= self.calls:
            return {"role": "assistant", "content": "done"}
        names = [tool["function"]["name"] for tool in body["tools"]]
        self.tools = len(names)
        number = len(results) + 1
        function = {
            "name": next(name for name in SHELLS if name in names),
            "arguments": json.dumps({"command": self.command.replace("{}", str(number))}),
        }
        call = {"id": f"call_{number}", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}

    def seen(self) -> dict[str, Any]:
        return {
            "received": self.received,
            "answered": self.answered,
            "bodies": self.bodies,
            "kept": self.prompts.kept,
            "tools": self.tools,
            "lost": self.lost,
        }


def chunks(message: dict[str, Any]) -> bytes:
    """The message as a stream of events: role, the call's head, its arguments (or the text), the end, the usage."""
    calls: list[dict[str, Any]] = message.get("tool_calls", [])
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": message["content"]}]
    for index, call in enumerate(calls):
        function = call["function"]
        deltas.append(
            {"tool_calls": [{"index": index, **call, "function": {"name": function["name"], "arguments": ""}}]}
        )
        deltas.append({"tool_calls": [{"index": index, "function": {"arguments": function["arguments"]}}]})
    choices: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"})
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    head: dict[str, Any] = {"id": "c", "object": "chat.completion.chunk", "model": "scripted"}
    events: list[dict[str, Any]] = [
        *({**head, "choices": [choice]} for choice in choices),
        {**head, "choices": [], "usage": usage},
    ]
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n\n"


def whole(message: dict[str, Any]) -> bytes:
    finish = "tool_calls" if "tool_calls" in message else "stop"
    choice = {"index": 0, "message": message, "finish_reason": finish}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    reply = {"id": "c", "object": "chat.completion", "model": "scripted", "choices": [choice], "usage": usage}
    return json.dumps(reply).encode()


def handler(script: Script) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["content-length"]))
            script.received.append(monotonic())
            message = script.answer(raw)
            streamed = json.loads(raw).get("stream", False)
            reply = chunks(message) if streamed else whole(message)
            kind = "text/event-stream" if streamed else "application/json"
            head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(reply)}\r\n\r\n"
            self.wfile.write(head.encode() + reply)
            script.answered.append(monotonic())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


def main() -> None:
    script = Script(int(sys.argv[1]), *sys.argv[3:])
    serve(script, handler(script), int(sys.argv[2]))


if __name__ == "__main__":
    main()
