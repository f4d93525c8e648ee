"""Builds an answer of the Gemini API from its chunks, from one JSON object, or from a list of them."""

import json
import re
from collections import defaultdict
from typing import Any, cast

from adderclaw.core.deltas import GrowingText
from adderclaw.core.history import History
from adderclaw.core.types import Delta, Json, OnDelta, OpaqueBlock, StopReason, ToolCall, ToolUseBlock, Usage
from adderclaw.models.providers.adapter import stream_error
from adderclaw.models.providers.faults import delay_in
from adderclaw.models.providers.reading import call_of, count_in, object_in, objects_in, text_in, whole_characters
from adderclaw.models.providers.wire import Wire

WIRE = "gemini"
MADE_ID = "gemini_"
"""Ids that begin so are ours, for calls that came without one; they are not sent."""

OVERHEAD = 8
STREAM_OVERHEAD = 64
"""A streamed answer is this much larger on the wire: usage and safety ratings come with every few words."""
_STOP_REASONS: dict[str, StopReason] = {"STOP": "end", "MAX_TOKENS": "max_tokens"}
_REFUSED = frozenset(
    (
        *("SAFETY", "RECITATION", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "LANGUAGE", "MODEL_ARMOR"),
        *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
    )
)
_BROKEN = frozenset(("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"))
_PLAIN_ID = re.compile(r"[\w.-]{1,128}", re.ASCII)


class Answer:
    """What has come so far. Everything in it was written by a server: each field is looked at before it is used."""

    def __init__(self, wire: Wire, on_delta: OnDelta) -> None:
        self._wire, self._on_delta = wire, on_delta
        self._text: list[str] = []
        self._calls: list[Json] = []
        self._parts: list[Json] = []
        """The parts in their order: texts by their length, calls by their place, the rest as it came."""
        self._thoughts: defaultdict[int, GrowingText] = defaultdict(GrowingText)
        """Place among the parts → the text of a thought that comes in pieces."""
        self._usage: Json = {}
        self._size = 0
        self._response_id = ""
        self._why = ""
        self.finish = self.blocked = self.model = ""

    over = False
    """The end of the connection says it, nothing before."""

    @property
    def size(self) -> int:
        return self._size

    def take(self, event: Json) -> None:
        if event.get("type") != "[DONE]":  # not Google's, but some proxies'
            self.add(event)

    def whole(self, body: Any) -> None:
        """One object; or a list of chunks, which is what the API streams without `alt=sse`."""
        chunks = cast(list[Any], body) if isinstance(body, list) else [body]
        for chunk in chunks:
            if not isinstance(chunk, dict):
                raise ValueError("answered without `candidates`")
            self.add(cast(Json, chunk))
        self.end()

    def add(self, chunk: Json) -> None:
        """A chunk or a whole answer: both have the same form."""
        if chunk.get("error"):
            raise stream_error(self._wire, {"error": chunk["error"]}, wait=delay_in(chunk))
        self.model = text_in(chunk.get("modelVersion")) or self.model
        self._response_id = text_in(chunk.get("responseId")) or self._response_id
        self._usage |= object_in(chunk.get("usageMetadata"))
        self.blocked = text_in(object_in(chunk.get("promptFeedback")).get("blockReason")) or self.blocked
        for candidate in objects_in(chunk.get("candidates"))[:1]:
            for part in objects_in(object_in(candidate.get("content")).get("parts")):
                self._part(part)
            self.finish = text_in(candidate.get("finishReason")) or self.finish
            self._why = text_in(candidate.get("finishMessage")) or self._why
        if self._size > self._wire.max_bytes:
            raise self._wire.too_large()

    def end(self) -> None:
        """Checks the answer at the end of the stream."""
        if self.finish in _BROKEN:
            reason = self._wire.excerpt(self._why, 200)
            message = f"the model wrote an invalid call ({self.finish}{f': {reason}' if reason else ''})"
            raise self._wire.fault("malformed", f"{message}; retrying or another model may help")
        if not self.finish and not self.blocked:
            raise ValueError("ended before the answer was whole")

    # ------------------------------------------------------------------ pieces

    def _part(self, part: Json) -> None:
        signature, text = text_in(part.get("thoughtSignature")), text_in(part.get("text"))
        if part.get("thought") is True:
            self._tell("thinking", text)
            self._place_thought(part, text, signature)
        elif isinstance(part.get("functionCall"), dict):
            call = object_in(part["functionCall"])
            self._tell("tool", text_in(call.get("name")), len(json.dumps(call)))
            self._place({"call": len(self._calls)}, signature)
            self._calls.append(call)
        elif isinstance(part.get("text"), str):
            self._tell("text", text)
            self._text.append(text)
            self._place_text(len(text), signature)
        elif part:
            self._size += len(json.dumps(part))
            self._place({"part": part}, "")

    def _tell(self, kind: Any, text: str, size: int = 0) -> None:
        self._size += size or len(text)
        if text:
            self._on_delta(Delta(kind, whole_characters(text)))

    def _place(self, item: Json, signature: str) -> None:
        self._parts.append({**item, "signature": signature} if signature else item)

    def _place_text(self, length: int, signature: str) -> None:
        """Records a text. Pieces are joined to one part, but a signed part is kept as it is."""
        last = self._parts[-1] if self._parts else {}
        if not signature and "text" in last and "signature" not in last:
            last["text"] += length
        elif length or signature:
            self._place({"text": length}, signature)

    def _place_thought(self, part: Json, text: str, signature: str) -> None:
        last = object_in(self._parts[-1].get("part")) if self._parts else {}
        if not signature and _is_plain_thought(part) and _is_plain_thought(last):
            self._thoughts[len(self._parts) - 1].add(text)
        else:
            self._place({"part": dict(part)}, "")
            if _is_plain_thought(part):
                self._thoughts[len(self._parts) - 1].add(text)

    # ------------------------------------------------------------------ the result

    @property
    def text(self) -> str:
        return whole_characters("".join(self._text))

    def calls(self, history: History) -> tuple[ToolCall, ...]:
        """The calls in order. A call with a missing or duplicate id gets a new one."""
        if not self._calls:
            return ()
        blocks = (block for message in history.messages for block in message.blocks)
        taken = {block.call.id for block in blocks if isinstance(block, ToolUseBlock)}
        unique = self._response_id if _PLAIN_ID.fullmatch(self._response_id) else str(len(history.messages))
        calls: list[ToolCall] = []
        for index, call in enumerate(self._calls):
            call_id = text_in(call.get("id"))
            if not _PLAIN_ID.fullmatch(call_id) or call_id in taken:
                call_id = f"{MADE_ID}{unique}_{index}"
                while call_id in taken:
                    call_id += "x"
            taken.add(call_id)
            raw = json.dumps(call["args"]) if call.get("args") is not None else "{}"
            calls.append(call_of(call_id, text_in(call.get("name")), raw))
        return tuple(calls)

    def opaque(self, calls: tuple[ToolCall, ...]) -> tuple[OpaqueBlock, ...]:
        """Thoughts and signatures for the next request, with their positions among the parts."""
        if not any("part" in item or "signature" in item for item in self._parts):
            return ()
        for index, thought in self._thoughts.items():
            self._parts[index]["part"]["text"] = str(thought)
        return (OpaqueBlock(WIRE, {"parts": [_account(item, calls) for item in self._parts]}),)

    @property
    def usage(self) -> Usage:
        """The usage. The prompt's count includes cached tokens; thoughts are billed as output."""
        used = self._usage
        prompt = count_in(used.get("promptTokenCount")) + count_in(used.get("toolUsePromptTokenCount"))
        cached = min(prompt, count_in(used.get("cachedContentTokenCount")))
        answer = count_in(used.get("candidatesTokenCount")) + count_in(used.get("thoughtsTokenCount"))
        return Usage(prompt - cached, answer, cached)

    @property
    def stop_reason(self) -> StopReason:
        if self.blocked or self.finish in _REFUSED:
            return "refusal"
        reason = _STOP_REASONS.get(self.finish, "other")
        return "tool_use" if reason == "end" and self._calls else reason


def _is_plain_thought(part: Json) -> bool:
    return part.keys() == {"text", "thought"} and isinstance(part["text"], str)


def _account(item: Json, calls: tuple[ToolCall, ...]) -> Json:
    if "call" not in item:
        return item
    signed = {"signature": item["signature"]} if "signature" in item else {}
    return {"call_id": calls[int(item["call"])].id, **signed}
