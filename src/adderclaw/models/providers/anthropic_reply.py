"""Builds an answer of the Messages API from the events of its stream or from one JSON object."""

import json
from typing import Any

from adderclaw.core.errors import ProviderError
from adderclaw.core.types import Delta, Json, OnDelta, OpaqueBlock, StopReason, ToolCall, Usage
from adderclaw.models.providers import arguments_of
from adderclaw.models.providers.adapter import stream_error
from adderclaw.models.providers.reading import Growing, object_in, objects_in, text_in, whole_characters
from adderclaw.models.providers.thinking import vendor_of
from adderclaw.models.providers.wire import Wire

WIRE = "anthropic"
AFTER = "after"
"""Key in a stored thought that was not first: [characters of text, number of calls] before it."""


def shape_of(wire: Wire, model: str) -> str:
    """The shape of thoughts of one vendor's models on this server, because their signatures are only valid there."""
    vendor = vendor_of(model)
    return f"{WIRE}/{wire.place.authority}" + (f" {vendor}" if vendor not in ("", "anthropic") else "")


_STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refusal",
    "pause_turn": "other",
}
_STATUS_OF = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The equivalent status of an error inside a stream, by its type."""
_PIECES = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("tool_use", "partial_json"),
}
"""Type of a delta → the kind of its block, and the key of its text."""
_REFUSED = "The model's provider refused to answer this."


class _Block:
    """One content block while it arrives."""

    def __init__(self, kind: str, began: Json) -> None:
        self.kind, self.began = kind, began
        self.signature = text_in(began.get("signature"))
        self.pieces: list[str] = []

    @property
    def text(self) -> str:
        return whole_characters("".join(self.pieces))

    def call(self, spare_id: str, taken: set[str], *, cut: bool) -> ToolCall:
        """The call. Its arguments are unknown, not empty, if the answer was cut before them."""
        began: Any = self.began.get("input")
        raw = self.text or (json.dumps(began) if began else "")
        arguments = None if cut and not raw else arguments_of(raw)
        name, call_id = text_in(self.began.get("name")), text_in(self.began.get("id"))
        if not call_id or call_id in taken:
            call_id = spare_id if spare_id not in taken else f"{spare_id}_{len(taken)}"
        shown = "" if arguments is not None else raw
        return ToolCall(whole_characters(call_id), whole_characters(name), arguments, shown)

    def thought(self) -> Json | None:
        """The thought as it must be sent back; None without a signature, which the API would refuse."""
        if self.kind == "redacted_thinking":
            return {"type": self.kind, "data": text_in(self.began.get("data"))}
        if self.kind == "thinking" and self.signature:
            return {"type": self.kind, "thinking": self.text, "signature": self.signature}
        return None


class Answer(Growing):
    """The answer so far. Every field is untrusted and checked before use."""

    def __init__(self, wire: Wire, on_delta: OnDelta, shape: str = "") -> None:
        super().__init__(wire, on_delta)
        self._shape = shape or shape_of(wire, "")
        self._blocks: dict[int, _Block] = {}
        self._counts: dict[str, int] = {}
        self._explanation = ""
        self.stop = ""
        self.id = ""

    def take(self, event: Json) -> None:
        """Processes one event of the stream. Unknown events are ignored."""
        self._event(event)
        self._check_size()

    def whole(self, body: Any) -> None:
        """Processes a complete message."""
        message = object_in(body)
        if message.get("type") == "error" or "error" in message:
            raise self.error(message)
        if not isinstance(message.get("content"), list):
            raise ValueError("answered without `content`")
        self._opened(message)
        for index, block in enumerate(objects_in(message.get("content"))):
            self._begin(index, block)
        self._ends(message)

    def _event(self, event: Json) -> None:
        match event.get("type"):
            case "message_start":
                self._opened(object_in(event.get("message")))
            case "content_block_start":
                self._begin(event.get("index"), object_in(event.get("content_block")))
            case "content_block_delta":
                self._piece(event.get("index"), object_in(event.get("delta")))
            case "message_delta":
                self._count(event.get("usage"))
                self._ends(object_in(event.get("delta")))
            case "message_stop":
                self.ended = self.over = True
            case "message":
                self.whole(event)
            case "error":
                raise self.error(event)
            case _ if "error" in event:
                raise self.error(event)
            case _:
                pass  # ping, content_block_stop and unknown events

    # ------------------------------------------------------------------ pieces

    def _opened(self, message: Json) -> None:
        self.model, self.id = text_in(message.get("model")), text_in(message.get("id"))
        self._count(message.get("usage"))

    def _begin(self, index: Any, began: Json) -> None:
        position = index if isinstance(index, int) else len(self._blocks)
        block = self._blocks[position] = _Block(text_in(began.get("type")), began)
        match block.kind:
            case "text":
                self._grow(block, "text", text_in(began.get("text")))
            case "thinking":
                self._grow(block, "thinking", text_in(began.get("thinking")))
            case "tool_use":
                self._size += len(json.dumps(began.get("input")))
                self._on_delta(Delta("tool", whole_characters(text_in(began.get("name")))))
            case _:
                self._size += len(text_in(began.get("data")))

    def _piece(self, index: Any, delta: Json) -> None:
        kind = text_in(delta.get("type"))
        block = self._blocks.get(index) if isinstance(index, int) else None
        if kind == "signature_delta" and block is not None:
            block.signature = text_in(delta.get("signature"))
        elif kind in _PIECES:
            owner, key = _PIECES[kind]
            if block is None and owner != "tool_use":
                self._begin(index, {"type": owner})  # some servers omit content_block_start
                block = self._blocks[index if isinstance(index, int) else len(self._blocks) - 1]
            if block is not None and block.kind == owner:
                self._grow(block, owner, text_in(delta.get(key)))

    def _grow(self, block: _Block, kind: str, text: str) -> None:
        if text:
            block.pieces.append(text)
            self._size += len(text)
            if kind != "tool_use":
                self._on_delta(Delta("text" if kind == "text" else "thinking", whole_characters(text)))

    def _ends(self, delta: Json) -> None:
        if reason := text_in(delta.get("stop_reason")):
            self.stop, self.ended = reason, True
            self._explanation = text_in(object_in(delta.get("stop_details")).get("explanation"))

    def _count(self, usage: Any) -> None:
        """Updates the counts. They are totals, and unchanged ones may be missing."""
        for name, value in object_in(usage).items():
            if isinstance(value, int):
                self._counts[name] = max(0, value)

    # ------------------------------------------------------------------ the result

    @property
    def _in_order(self) -> list[_Block]:
        return [self._blocks[index] for index in sorted(self._blocks)]

    @property
    def text(self) -> str:
        text = whole_characters("".join(block.text for block in self._in_order if block.kind == "text"))
        if self.stop_reason == "refusal" and not text.strip():
            return whole_characters(self._explanation) or _REFUSED
        return text

    def calls(self, taken: set[str]) -> tuple[ToolCall, ...]:
        """The calls; none of a refused answer. A call with a missing or duplicate id gets a new one."""
        if self.stop == "refusal":
            return ()
        blocks = self._in_order
        cut = self.stop_reason == "max_tokens"
        calls: list[ToolCall] = []
        for position, block in enumerate(blocks):
            if block.kind == "tool_use":
                calls.append(block.call(f"call_{self.id}_{position}", taken, cut=cut and block is blocks[-1]))
                taken.add(calls[-1].id)
        return tuple(calls)

    @property
    def opaque(self) -> tuple[OpaqueBlock, ...]:
        thoughts: list[OpaqueBlock] = []
        characters = calls = 0
        for block in self._in_order:
            if block.kind == "text":
                characters += len(block.text)
            elif block.kind == "tool_use":
                calls += 1
            elif thought := block.thought():
                position: Json = {AFTER: [characters, calls]} if characters or calls else {}
                thoughts.append(OpaqueBlock(self._shape, thought | position))
        return tuple(thoughts)

    @property
    def stop_reason(self) -> StopReason:
        reason = _STOP_REASONS.get(self.stop, "other") if self.stop else "end"
        called = any(block.kind == "tool_use" for block in self._blocks.values())
        return "tool_use" if reason == "end" and called else reason

    @property
    def usage(self) -> Usage:
        count = self._counts.get
        return Usage(
            input_tokens=count("input_tokens", 0),
            output_tokens=count("output_tokens", 0),
            cache_read_tokens=count("cache_read_input_tokens", 0),
            cache_write_tokens=count("cache_creation_input_tokens", 0),
        )

    def error(self, event: Json) -> ProviderError:
        status = _STATUS_OF.get(text_in(object_in(event.get("error")).get("type")))
        return stream_error(self._wire, event, status=status)
