"""Builds an answer of the Chat Completions API from its chunks or from one JSON object."""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

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

if TYPE_CHECKING:
    from adderclaw.models.providers.text_calls import TextCallFilter

_STOP_REASONS: dict[str, StopReason] = {
    "stop": "end",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}


class _Call:
    """A tool call while it arrives."""

    def __init__(self, call_id: str, name: str = "", arguments: str = "") -> None:
        self.id, self.name = call_id, name
        self.pieces: list[str] = [arguments]
        self.extra: Json = {}


class Answer(Growing):
    """The answer so far. Every field is untrusted and checked before use."""

    needs = "choices"

    def __init__(self, wire: Wire, on_delta: OnDelta, text_tools: frozenset[str] = frozenset()) -> None:
        super().__init__(wire, on_delta)
        self._text_tools = text_tools
        """Tools that may also be called in the text."""
        self._filter = _text_call_filter() if text_tools else None
        self._text: list[str] = []
        self._remains: str | None = None
        self._thinking: list[str] = []
        self._thinking_key = ""
        self._details: list[Json] = []
        self._detail_texts: list[dict[str, list[str]]] = []
        """The received pieces of the same blocks' texts."""
        self._calls: dict[int, _Call] = {}
        self._places: dict[int, int] = {}
        self._last = -1
        self._refused = False
        self.finish = ""
        self.usage = Usage()
        self.extra: Json = {}
        """The provider and the price as reported by a router."""

    def take(self, event: Json) -> None:
        if event.get("type") == "[DONE]":
            self.ended = self.over = True
        else:
            self._add(event, "delta")

    def whole(self, body: Any) -> None:
        self._add(object_with(body, self.needs), "message")

    def _add(self, chunk: Json, part: str) -> None:
        """Adds a chunk (`part` is `delta`) or a complete answer (`message`)."""
        if chunk.get("error"):
            raise stream_error(self._wire, {"error": chunk["error"]})
        self.model = text_in(chunk.get("model")) or self.model
        if isinstance(chunk.get("provider"), str):
            self.extra["provider"] = chunk["provider"]
        if usage := object_in(chunk.get("usage")):
            self.usage = _usage(usage)
            if isinstance(usage.get("cost"), (int, float)):
                self.extra["cost"] = usage["cost"]
        for choice in objects_in(chunk.get("choices"))[:1]:
            self._choice(choice, part)
        self._check_size()

    def _choice(self, choice: Json, part: str) -> None:
        finish = text_in(choice.get("finish_reason"))
        if choice.get("error") or finish == "error":
            raise stream_error(self._wire, {"error": choice.get("error") or "the model's server failed"})
        message = object_in(choice.get(part))
        if not message and not self._text and not self._calls:
            part, message = "message", object_in(choice.get("message"))  # a complete answer sent as an event
        self._message(message, whole=part == "message")
        if finish:
            self.finish, self.ended = finish, True

    # ------------------------------------------------------------------ pieces

    def _message(self, message: Json, *, whole: bool) -> None:
        for key in ("reasoning_content", "reasoning"):
            if thought := text_in(message.get(key)):
                self._thinking_key = key
                self._say("thinking", thought, self._thinking)
                break
        for detail in objects_in(message.get("reasoning_details")):
            self._detail(detail)
        content: Any = message.get("content")
        if isinstance(content, list):  # some servers send parts instead of a text
            content = "".join(text_in(part.get("text")) for part in objects_in(cast(Any, content)))
        self._say("text", text_in(content), self._text)
        if refusal := text_in(message.get("refusal")):
            self._refused = True
            self._say("text", refusal, self._text)
        for piece in objects_in(message.get("tool_calls")):
            # in a complete message each element is a call, whatever its index
            self._piece_of_call(piece | {"index": len(self._calls)} if whole else piece)

    def _say(self, kind: Any, text: str, pieces: list[str]) -> None:
        if not text:
            return
        pieces.append(text)
        self._size += len(text)
        shown = self._filter.show(text) if self._filter and kind == "text" else text
        if shown:
            self._on_delta(Delta(kind, whole_characters(shown)))

    def _detail(self, detail: Json) -> None:
        """Adds a piece of a reasoning block. Pieces with the same index belong to one block."""
        last = self._details[-1] if self._details else {}
        same = detail.get("index") is not None and all(last.get(key) == detail.get(key) for key in ("index", "type"))
        if not same:
            self._details.append(dict(detail))
            self._detail_texts.append({})
        for key, value in detail.items():
            if not isinstance(value, str):
                continue
            self._size += len(value)
            if same:
                last[key] = value
            if key in ("text", "summary", "data"):
                self._detail_texts[-1].setdefault(key, []).append(value)

    def _piece_of_call(self, piece: Json) -> None:
        function = object_in(piece.get("function"))
        name = text_in(function.get("name"))
        call = self._call_of(piece.get("index"), text_in(piece.get("id")), name)
        if name and name != call.name:
            call.name += name
            self._size += len(call.name)
            self._on_delta(Delta("tool", whole_characters(call.name)))
        arguments: Any = function.get("arguments")
        if isinstance(arguments, (dict, list)):
            arguments = json.dumps(arguments, ensure_ascii=False)
        if text_in(arguments):
            call.pieces.append(arguments)
            self._size += len(arguments)
        if extra := object_in(piece.get("extra_content")):
            call.extra |= extra

    def _call_of(self, index: Any, call_id: str, name: str) -> _Call:
        """The call that a piece belongs to. Some servers omit the index or give every call the same one."""
        position = self._places.get(index, index) if isinstance(index, int) else self._last
        if position not in self._calls:
            position = position if isinstance(index, int) else 0
        elif self._begins(self._calls[position], call_id, name, indexed=isinstance(index, int)):
            position = max(self._calls) + 1
        if isinstance(index, int):
            self._places[index] = position
        self._last = position
        call = self._calls.setdefault(position, _Call(call_id))
        call.id = call.id or call_id
        return call

    @staticmethod
    def _begins(current: _Call, call_id: str, name: str, *, indexed: bool) -> bool:
        """Whether a piece starts a new call instead of continuing the current one."""
        if call_id and call_id == current.id:
            return False
        if indexed:
            return bool(call_id and name and current.id)
        return bool(call_id or (name and current.name))

    # ------------------------------------------------------------------ the result

    @property
    def text(self) -> str:
        return whole_characters("".join(self._text)) if self._remains is None else self._remains

    def read_text_calls(self, results: Iterable[str]) -> None:
        """Extracts calls from the text, unless the model made proper ones, and shows the text that was held back."""
        if self._filter is None:
            return
        if not self._calls and not self._refused:
            from adderclaw.models.providers.text_calls import split

            self._remains, text_calls = split(self.text, self._text_tools, results)
            for position, call in enumerate(text_calls):
                self._calls[position] = _Call("", call.name, call.arguments)
                self._on_delta(Delta("tool", call.name))
        if rest := self._filter.rest(self.text):
            self._on_delta(Delta("text", whole_characters(rest)))

    def calls(self, step: int, taken: set[str]) -> tuple[ToolCall, ...]:
        """The calls in order. A call with a missing or duplicate id gets one from its step and position."""
        calls: list[ToolCall] = []
        for position, (_, call) in enumerate(sorted(self._calls.items())):
            if not call.id or call.id in taken:
                call.id = f"call_{step}_{position}"
            taken.add(call.id)
            calls.append(call_of(call.id, call.name, whole_characters("".join(call.pieces))))
        return tuple(calls)

    def opaque(self, wire: str) -> tuple[OpaqueBlock, ...]:
        """The server's reasoning, to be sent back with the next request."""
        payload: Json = {}
        if self._details:
            texts = ({key: "".join(pieces) for key, pieces in detail.items()} for detail in self._detail_texts)
            payload["reasoning_details"] = [
                {**detail, **text} for detail, text in zip(self._details, texts, strict=True)
            ]
        elif self._thinking and self._calls:
            payload[self._thinking_key] = whole_characters("".join(self._thinking))
        if extra := {call.id: call.extra for call in self._calls.values() if call.extra}:
            payload["extra_content"] = extra
        return (OpaqueBlock(wire, payload),) if payload else ()

    @property
    def stop_reason(self) -> StopReason:
        if self._refused:
            return "refusal"
        reason = _STOP_REASONS.get(self.finish, "other") if self.finish else "end"
        return "tool_use" if reason == "end" and self._calls else reason


def _text_call_filter() -> "TextCallFilter":
    from adderclaw.models.providers.text_calls import TextCallFilter  # rarely needed

    return TextCallFilter()


def _usage(usage: Json) -> Usage:
    """The usage. Cached tokens, whose key differs between servers, are part of the prompt."""
    prompt, answer = count_in(usage.get("prompt_tokens")), count_in(usage.get("completion_tokens"))
    details = object_in(usage.get("prompt_tokens_details"))
    cached = count_in(details.get("cached_tokens")) or count_in(usage.get("prompt_cache_hit_tokens"))
    cached = min(prompt, cached)
    written = min(prompt - cached, count_in(details.get("cache_write_tokens")))
    thought = count_in(object_in(usage.get("completion_tokens_details")).get("reasoning_tokens"))
    if thought and count_in(usage.get("total_tokens")) >= prompt + answer + thought:
        answer += thought  # counted separately from the answer, but billed like it
    return Usage(prompt - cached - written, answer, cached, written)
