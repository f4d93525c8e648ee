"""A scripted model on 127.0.0.1 that speaks OpenAI's Responses API; otherwise as `tests.scripted`.

    with ScriptedResponses([{"tool_calls": [{"name": "LS", "arguments": {}}]}, {"text": "Done."}]) as model:
        ...  # point a provider of kind "openai" at model.base_url

A step may also have "reasoning" (a text: it becomes an encrypted item before the rest), "refusal" (a text) and
"incomplete" (the reason why the answer ends early). `POST …/responses/input_tokens` answers with `model.counts`, one by
one.
"""

import json
import re
import socket
from collections.abc import Mapping, Sequence
from typing import Any, cast

from tests.scripted import Json, Request, ScriptedModel, Step

STARTED: Json = {
    "object": "response",
    "created_at": 1_763_193_600,
    "error": None,
    "incomplete_details": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "temperature": 1.0,
    "tool_choice": "auto",
    "top_p": 1.0,
}


EMPTY: dict[str, Json] = {"message": {"content": []}, "function_call": {"arguments": ""}}
"""How an item begins."""


class ScriptedResponses(ScriptedModel):
    def __init__(self, steps: Sequence[Mapping[str, object]] = (), *, counts: Sequence[object] = ()) -> None:
        super().__init__(steps)
        self.counts = list(counts)
        """Each a number, or an error's status and body."""
        self.counted: list[Request] = []

    def _answer(self, connection: socket.socket, request: Request) -> bool:
        path = request.path.partition("?")[0]
        if path.endswith("/responses/input_tokens"):
            self.counted.append(request)
            return self._play(connection, counted_step(self.counts.pop(0)), request)
        if request.method != "POST" or not path.endswith("/responses"):
            return super()._answer(connection, request)
        with self._lock:
            self.requests.append(request)
            if self._played == len(self._steps):
                self.complaints.append(f"request {len(self.requests)} came after the last of {self._played} steps")
                exhausted: Step = {"error": {"status": 400, "body": {"error": {"message": "the script is exhausted"}}}}
                return self._play(connection, exhausted, request)
            step = self._steps[self._played]
            self._played += 1
        return self._play(connection, rendered(step, request.json), request)


def counted_step(count: object) -> Step:
    if isinstance(count, int):
        body = json.dumps({"object": "response.input_tokens", "input_tokens": count})
        return {"raw": body, "content_type": "application/json"}
    status, body = cast(tuple[int, Any], count)
    return {"error": {"status": status, "body": body}}


def rendered(step: Step, asked: Json) -> Step:
    """The step with its answer made; how it is sent stays as it was said."""
    if step.keys() & {"raw", "html", "broken_json", "error", "hang", "reset"}:
        return step
    streamed = step.get("stream", bool(asked.get("stream")))
    body = stream_of(step, asked) if streamed else dumped(response_of(step, asked))
    kind = step.get("content_type", "text/event-stream" if streamed else "application/json")
    return cast(Step, {**step, "raw": body, "content_type": kind})


def response_of(step: Mapping[str, Any], asked: Json) -> Json:
    """The answer as one object."""
    incomplete = step.get("incomplete")
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 120,
    }
    return {
        **STARTED,
        "id": "resp_scripted",
        "model": asked.get("model", "scripted"),
        "tools": asked.get("tools", []),
        "status": "incomplete" if incomplete else "completed",
        "incomplete_details": {"reason": incomplete} if incomplete else None,
        "output": items_of(step, asked),
        "usage": step.get("usage", usage),
    }


def items_of(step: Mapping[str, Any], asked: Json) -> list[Json]:
    turn = sum(item.get("type") == "function_call" for item in asked.get("input", []))
    items: list[Json] = []
    if reasoning := step.get("reasoning"):
        items.append({"id": f"rs_{turn}", "type": "reasoning", "summary": [], "encrypted_content": reasoning})
    parts: list[Json] = []
    if text := filled(step.get("text", ""), asked):
        parts.append({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
    if refusal := step.get("refusal"):
        parts.append({"type": "refusal", "refusal": refusal})
    if parts:
        message = {"id": f"msg_{turn}", "type": "message", "role": "assistant", "status": "completed"}
        items.append({**message, "content": parts})
    for index, call in enumerate(step.get("tool_calls", ())):
        given = call.get("arguments", {})
        fields = {
            "id": f"fc_{turn}_{index}",
            "type": "function_call",
            "status": "completed",
            "call_id": call.get("id", f"call-{turn}-{index}"),
            "name": call["name"],
            "arguments": given if isinstance(given, str) else json.dumps(given),
        }
        items.append(fields)
    return items


def stream_of(step: Mapping[str, Any], asked: Json) -> str:
    """The answer as server-sent events: a delta per word, the arguments of a call in two pieces."""
    whole = response_of(step, asked)
    begun: Json = {**whole, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    events: list[Json] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for index, item in enumerate(whole["output"]):
        opening: Json = {**item, "status": "in_progress"} | EMPTY.get(item["type"], {})
        events.append({"type": "response.output_item.added", "output_index": index, "item": opening})
        events += [{**delta, "item_id": item["id"], "output_index": index} for delta in deltas_of(item)]
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": f"response.{whole['status']}", "response": whole})
    numbered = ({**event, "sequence_number": number} for number, event in enumerate(events))
    return "".join(f"event: {event['type']}\ndata: {dumped(event)}\n\n" for event in numbered)


def deltas_of(item: Json) -> list[Json]:
    made: list[Json] = []
    for place, part in enumerate(item.get("content", ()) if item["type"] == "message" else ()):
        kind = "output_text" if part["type"] == "output_text" else "refusal"
        opened: Json = {**part, "text" if kind == "output_text" else "refusal": ""}
        made.append({"type": "response.content_part.added", "content_index": place, "part": opened})
        for word in re.findall(r"\S+\s*|\s+", part.get("text") or part.get("refusal")):
            delta: Json = {"type": f"response.{kind}.delta", "content_index": place, "delta": word}
            made.append(delta | ({"logprobs": []} if kind == "output_text" else {}))
    if item["type"] == "function_call":
        written = item["arguments"]
        middle = len(written) // 2
        pieces = (written[:middle], written[middle:])
        made += [{"type": "response.function_call_arguments.delta", "delta": piece} for piece in pieces]
        made.append({"type": "response.function_call_arguments.done", "arguments": written, "name": item["name"]})
    return made


def filled(text: str, asked: Json) -> str:
    """`{{last_result}}` is the output of the last call."""
    outputs = [item["output"] for item in asked.get("input", []) if item.get("type") == "function_call_output"]
    return text.replace("{{last_result}}", str(outputs[-1]) if outputs else "")


def dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
