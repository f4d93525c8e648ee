"""A scripted model that speaks Gemini's generateContent, streaming or not, and countTokens.

    with ScriptedGemini([{"tool_calls": [{"name": "LS", "arguments": {"path": "."}}]}, {"text": "Done."}]) as model:
        ...  # point a provider of kind gemini at model.base_url
        model.asked[0].json["contents"]

Steps are those of `tests.scripted`; besides, `parts` are sent as they are, each in a chunk of its own.
"""

import json
import re
import socket
from collections.abc import Mapping, Sequence
from typing import Any, cast

from tests.scripted import Json, Request, ScriptedModel, Step

USAGE: Json = {"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120}


class ScriptedGemini(ScriptedModel):
    def __init__(self, steps: Sequence[Mapping[str, object]] = (), *, counts: int | bytes | None = None) -> None:
        super().__init__(steps)
        self.base_url = f"http://127.0.0.1:{self.port}"
        self.asked: list[Request] = []
        """The requests that played a step."""
        self.counted: list[Request] = []
        self._counts = counts
        """What countTokens answers: a number, or a body as it is."""

    def _answer(self, connection: socket.socket, request: Request) -> bool:
        path = request.path.partition("?")[0]
        if path.endswith(":countTokens") and self._counts is not None:
            self.counted.append(request)
            counts = self._counts
            body = counts if isinstance(counts, bytes) else json.dumps({"totalTokens": counts}).encode()
            head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)
            return True
        if path.endswith((":generateContent", ":streamGenerateContent")):
            self.asked.append(request)
            # The script is played under the path that the plain scripted model knows.
            return super()._answer(connection, request._replace(path=f"/chat/completions?{request.path}"))
        return super()._answer(connection, request)

    def _play(self, connection: socket.socket, step: Step, request: Request) -> bool:
        given = cast(Json, step)
        stream = given.get("stream", ":streamGenerateContent" in request.path)
        kind = "text/event-stream" if stream else "application/json"
        if step.get("broken_json"):
            given = {**given, "raw": 'data: {"candidates": [{"con\r\n\r\n' if stream else '{"candidates": [{"con'}
        elif not given.keys() & {"raw", "html", "error", "hang", "reset"}:
            chunks = chunks_of(given)
            given = {**given, "raw": stream_of(chunks) if stream else json.dumps(joined(chunks))}
        if "html" not in given:
            given = {"content_type": kind, **given}
        return super()._play(connection, cast(Step, given), request)


def chunks_of(step: Json) -> list[Json]:
    """A chunk per word, a chunk per call, and what ends the answer in the last."""
    parts = [{"text": word} for word in re.findall(r"\S+\s*|\s+", step.get("text", ""))]
    parts += step.get("parts", [])
    for call in step.get("tool_calls", []):
        function = {"name": call["name"], "args": call.get("arguments", {})}
        part = {"functionCall": {"id": call["id"], **function} if "id" in call else function}
        parts.append({**part, "thoughtSignature": call["signature"]} if "signature" in call else part)
    contents: list[Json] = [{"content": {"parts": [part], "role": "model"}, "index": 0} for part in parts]
    contents.append({"content": {"parts": [{"text": ""}], "role": "model"}, "index": 0})
    contents[-1]["finishReason"] = step.get("finish_reason", "STOP")
    envelope = {"modelVersion": "gemini-scripted", "responseId": step.get("response_id", "scripted")}
    usage = step.get("usage", USAGE)
    return [{"candidates": [one], "usageMetadata": usage, **envelope} for one in contents]


def joined(chunks: Sequence[Json]) -> Json:
    """The same answer in one piece."""
    parts = [part for chunk in chunks for part in chunk["candidates"][0]["content"]["parts"] if part != {"text": ""}]
    last = chunks[-1]
    return {**last, "candidates": [{**last["candidates"][0], "content": {"parts": parts, "role": "model"}}]}


def stream_of(chunks: Sequence[Any]) -> str:
    """As Google writes it: one line each, CRLF, and nothing that marks the end."""
    return "".join(f"data: {json.dumps(chunk, ensure_ascii=False)}\r\n\r\n" for chunk in chunks)
