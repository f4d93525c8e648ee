"""Builds an answer of the Responses API from its events or from one JSON object."""

from typing import Any

from adderclaw.core.types import Delta, Json, OnDelta, OpaqueBlock, StopReason, ToolCall, Usage
from adderclaw.models.providers.adapter import stream_error
from adderclaw.models.providers.reading import (
    Growing,
    call_of,
    count_in,
    object_in,
    object_with,
    objects_in,
    text_in,
    whole_characters,
)
from adderclaw.models.providers.wire import Wire

TEXT = "text"
"""What reasoning led to, if not to a call."""

_KEPT = ("type", "id", "summary", "content", "encrypted_content")
"""The keys of a reasoning item that are sent back."""

_OVER = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")


class _Item:
    """One item of the output while it arrives: a message, a call, or reasoning."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.settled = False
        """It is complete; later events about it are ignored."""
        self.text: list[str] = []
        self.thinking: list[str] = []
        self.refused = False
        self.call_id = self.name = self.phase = ""
        self.arguments: list[str] = []
        self.reasoning: Json = {}


class Answer(Growing):
    """The answer so far. Every field is untrusted and checked before use."""

    needs = "output"

    def __init__(self, wire: Wire, on_delta: OnDelta) -> None:
        super().__init__(wire, on_delta)
        self._items: list[_Item] = []
        self._by_id: dict[str, _Item] = {}
        self._by_place: dict[int, _Item] = {}
        self._stopped_by = ""
        self.finish = ""
        self.usage = Usage()

    def take(self, event: Json) -> None:
        kind = text_in(event.get("type"))
        delta = text_in(event.get("delta"))
        if kind == "error" or (not kind and event.get("error")):
            raise stream_error(self._wire, {"error": event.get("error") or event})
        match kind.removeprefix("response."):
            case "output_item.added":
                self._begin(object_in(event.get("item")), event.get("output_index"))
            case "output_item.done":
                item = object_in(event.get("item"))
                self._settle(self._item_of(event, item), item)
            case "output_text.delta" | "refusal.delta" as what:
                item = self._item_of(event)
                item.refused |= what == "refusal.delta"
                self._say("text", delta, item.text)
            case "reasoning_text.delta" | "reasoning_summary_text.delta":
                self._say("thinking", delta, self._item_of(event).thinking)
            case "function_call_arguments.delta":
                self._item_of(event).arguments.append(delta)
                self._size += len(delta)
            case _ if kind in _OVER:
                self._whole(object_in(event.get("response")))
            case _:
                self.model = text_in(object_in(event.get("response")).get("model")) or self.model
        self._check_size()

    def whole(self, body: Any) -> None:
        """Processes a complete response, which the last event also contains."""
        self._whole(object_with(body, self.needs))

    def _whole(self, body: Json) -> None:
        self.finish = text_in(body.get("status"))
        if body.get("error") or self.finish in ("failed", "cancelled"):
            raise stream_error(self._wire, {"error": body.get("error") or f"the response is {self.finish}"})
        self.model = text_in(body.get("model")) or self.model
        self.usage = _usage(object_in(body.get("usage")))
        self._stopped_by = text_in(object_in(body.get("incomplete_details")).get("reason"))
        for index, item in enumerate(objects_in(body.get("output"))):
            known = self._by_id.get(text_in(item.get("id")))
            if known is None and index < len(self._items):
                known = self._items[index]
            self._settle(known or self._begin(item, index), item)
        self._check_size()
        self.ended = self.over = True

    # ------------------------------------------------------------------ items

    def _begin(self, fields: Json, index: Any) -> _Item:
        item = _Item(text_in(fields.get("type")))
        self._items.append(item)
        if item_id := text_in(fields.get("id")):
            self._by_id[item_id] = item
        if isinstance(index, int):
            self._by_place[index] = item
        if item.kind == "function_call" and (name := text_in(fields.get("name"))):
            item.name = name
            self._on_delta(Delta("tool", whole_characters(name)))
        return item

    def _item_of(self, event: Json, fields: Json | None = None) -> _Item:
        """The item of an event. Some servers give each event a new id; others give every item the same index."""
        item_id = text_in(event.get("item_id")) or text_in((fields or {}).get("id"))
        index: Any = event.get("output_index")
        item = self._by_id.get(item_id) or (self._by_place.get(index) if isinstance(index, int) else None)
        if item is None and fields is None and self._items:
            item = self._items[-1]
        return item or self._begin(fields or {}, index)

    def _settle(self, item: _Item, fields: Json) -> None:
        """Completes an item, and shows the part that did not arrive in pieces."""
        if item.settled:
            return
        item.settled = True
        item.kind = text_in(fields.get("type")) or item.kind
        if item.kind == "message":
            self._settle_message(item, fields)
        elif item.kind == "function_call":
            self._settle_call(item, fields)
        elif item.kind == "reasoning":
            item.reasoning = {key: fields[key] for key in _KEPT if fields.get(key) is not None}
            self._size += len(text_in(fields.get("encrypted_content")))
            parts = [*objects_in(fields.get("summary")), *objects_in(fields.get("content"))]
            if not item.thinking:
                self._say("thinking", "\n".join(text_in(part.get("text")) for part in parts), item.thinking)

    def _settle_message(self, item: _Item, fields: Json) -> None:
        parts = objects_in(fields.get("content"))
        item.phase = text_in(fields.get("phase"))
        item.refused |= any(part.get("type") == "refusal" for part in parts)
        final = "".join(text_in(part.get("text")) or text_in(part.get("refusal")) for part in parts)
        shown = "".join(item.text)
        if final.startswith(shown):
            self._say("text", final[len(shown) :], item.text)

    def _settle_call(self, item: _Item, fields: Json) -> None:
        if not item.name and (name := text_in(fields.get("name"))):
            item.name = name
            self._on_delta(Delta("tool", whole_characters(name)))
        item.call_id = text_in(fields.get("call_id"))
        if arguments := text_in(fields.get("arguments")):
            self._size += max(0, len(arguments) - sum(map(len, item.arguments)))
            item.arguments = [arguments]

    # ------------------------------------------------------------------ the result

    @property
    def text(self) -> str:
        return whole_characters("".join("".join(item.text) for item in self._items))

    def calls(self, step: int, taken: set[str]) -> tuple[ToolCall, ...]:
        """The calls in order. A call with a missing or duplicate id gets one from its step and position."""
        calls: list[ToolCall] = []
        for item in self._items:
            if item.kind != "function_call":
                continue
            if not item.call_id or item.call_id in taken:
                item.call_id = f"call_{step}_{len(calls)}"
            item.call_id = whole_characters(item.call_id)
            taken.add(item.call_id)
            calls.append(call_of(item.call_id, item.name, whole_characters("".join(item.arguments))))
        return tuple(calls)

    def opaque(self, wire: str) -> tuple[OpaqueBlock, ...]:
        """The reasoning items with what they led to. Items without any content cannot be sent back."""
        blocks: list[OpaqueBlock] = []
        waiting: list[Json] = []
        for item in self._items:
            if item.kind == "reasoning":
                if item.reasoning.get("encrypted_content") or item.reasoning.get("content"):
                    waiting.append({"summary": [], **item.reasoning})
            elif led_to := item.call_id if item.kind == "function_call" else TEXT * bool(item.text):
                blocks += [OpaqueBlock(wire, {"item": thought, "before": led_to}) for thought in waiting]
                waiting.clear()
            if item.phase:
                blocks.append(OpaqueBlock(wire, {"phase": item.phase}))
        return tuple(blocks)

    @property
    def stop_reason(self) -> StopReason:
        if any(item.refused for item in self._items) or self._stopped_by == "content_filter":
            return "refusal"
        if self.finish == "incomplete":
            return "max_tokens" if self._stopped_by == "max_output_tokens" else "other"
        return "tool_use" if any(item.kind == "function_call" for item in self._items) else "end"


def _usage(usage: Json) -> Usage:
    read, answer = count_in(usage.get("input_tokens")), count_in(usage.get("output_tokens"))
    details = object_in(usage.get("input_tokens_details"))
    cached = min(read, count_in(details.get("cached_tokens")))
    written = min(read - cached, count_in(details.get("cache_write_tokens")))
    return Usage(read - cached - written, answer, cached, written)
