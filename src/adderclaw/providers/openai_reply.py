"""An answer of the Chat Completions API, put together from its chunks or from one JSON object."""

import json
from collections.abc import Iterable
from typing import Any, cast

from adderclaw.errors import ProviderError
from adderclaw.providers import arguments_of
from adderclaw.providers.faults import advice, kind_of, said_by, status_in
from adderclaw.providers.wire import Wire
from adderclaw.types import Delta, Json, OnDelta, OpaqueBlock, StopReason, ToolCall, Usage

_STOP_REASONS: dict[str, StopReason] = {
    "stop": "end",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}


class _Call:
    """A tool call while it arrives."""

    def __init__(self, call_id: str) -> None:
        self.id, self.name = call_id, ""
        self.pieces: list[str] = []
        self.extra: Json = {}


class Answer:
    """What has come so far. Everything in it was written by a server: each field is looked at before it is used."""

    def __init__(self, wire: Wire, on_delta: OnDelta) -> None:
        self._wire, self._on_delta = wire, on_delta
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._details: list[Any] = []
        self._calls: dict[int, _Call] = {}
        self._places: dict[int, int] = {}
        self._last = -1
        self._size = 0
        self._refused = False
        self.finish = ""
        self.model = ""
        self.usage = Usage()
        self.ended = False
        """The server said that the answer is whole."""
        self.chunks = 0

    def take(self, data: str) -> None:
        """One event of the stream; ValueError when it is no JSON object."""
        if data.strip() == "[DONE]":
            self.ended = True
            return
        chunk: Any = json.loads(data)
        if not isinstance(chunk, dict):
            raise ValueError("not an object")
        self.add(cast(Json, chunk), "delta")

    def add(self, chunk: Json, part: str) -> None:
        """A chunk (its choices hold a `delta`) or a whole completion (its choices hold a `message`)."""
        self.chunks += 1
        if chunk.get("error"):
            raise self._error(chunk["error"])
        self.model = _text(chunk.get("model")) or self.model
        if isinstance(chunk.get("usage"), dict):
            self.usage = _usage(chunk["usage"])
        for choice in _objects(chunk.get("choices"))[:1]:
            if choice.get("error"):
                raise self._error(choice["error"])
            message = _object(choice.get(part))
            if not message and not self._text and not self._calls:
                message = _object(choice.get("message"))  # a whole completion, sent as an event
            self._message(message)
            if finish := _text(choice.get("finish_reason")):
                self.finish, self.ended = finish, True
        if self._size > self._wire.max_bytes:
            raise self._wire.too_large()

    # ------------------------------------------------------------------ pieces

    def _message(self, message: Json) -> None:
        if thought := _text(message.get("reasoning_content")) or _text(message.get("reasoning")):
            self._say("thinking", thought, self._thinking)
        self._details += _objects(message.get("reasoning_details"))
        content: Any = message.get("content")
        if isinstance(content, list):  # some servers send parts instead of a text
            content = "".join(_text(part.get("text")) for part in _objects(cast(Any, content)))
        self._say("text", _text(content), self._text)
        if refusal := _text(message.get("refusal")):
            self._refused = True
            self._say("text", refusal, self._text)
        for piece in _objects(message.get("tool_calls")):
            self._piece_of_call(piece)

    def _say(self, kind: Any, text: str, kept: list[str]) -> None:
        if text:
            kept.append(text)
            self._size += len(text)
            self._on_delta(Delta(kind, whole_characters(text)))

    def _piece_of_call(self, piece: Json) -> None:
        function = _object(piece.get("function"))
        name = _text(function.get("name"))
        call = self._call_of(piece.get("index"), _text(piece.get("id")), name)
        if name and name != call.name:
            call.name += name
            self._on_delta(Delta("tool", whole_characters(call.name)))
        arguments: Any = function.get("arguments")
        if isinstance(arguments, (dict, list)):
            arguments = json.dumps(arguments, ensure_ascii=False)
        if _text(arguments):
            call.pieces.append(arguments)
            self._size += len(arguments)
        if extra := _object(piece.get("extra_content")):
            call.extra |= extra

    def _call_of(self, index: Any, call_id: str, name: str) -> _Call:
        """The call that a piece belongs to. Servers leave out the index, or give every call the same one."""
        place = self._places.get(index, index) if isinstance(index, int) else self._last
        if place not in self._calls:
            place = place if isinstance(index, int) else 0
        elif self._begins(self._calls[place], call_id, name, indexed=isinstance(index, int)):
            place = max(self._calls) + 1
        if isinstance(index, int):
            self._places[index] = place
        self._last = place
        call = self._calls.setdefault(place, _Call(call_id))
        call.id = call.id or call_id
        return call

    @staticmethod
    def _begins(current: _Call, call_id: str, name: str, *, indexed: bool) -> bool:
        """Whether a piece begins another call than the one that its index, or the piece before it, points to."""
        if call_id and call_id == current.id:
            return False
        if indexed:
            return bool(call_id and name and current.id)
        return bool(call_id or (name and current.name))

    # ------------------------------------------------------------------ the whole

    @property
    def text(self) -> str:
        return whole_characters("".join(self._text))

    def calls(self, step: int, taken: set[str]) -> tuple[ToolCall, ...]:
        """The calls in their order. One without an id, or with an id that is taken, gets one made of step and place."""
        made: list[ToolCall] = []
        for place, (_, call) in enumerate(sorted(self._calls.items())):
            raw = whole_characters("".join(call.pieces))
            arguments = arguments_of(raw)
            if not call.id or call.id in taken:
                call.id = f"call_{step}_{place}"
            taken.add(call.id)
            name = whole_characters(call.name)
            made.append(ToolCall(whole_characters(call.id), name, arguments, "" if arguments is not None else raw))
        return tuple(made)

    def opaque(self, wire: str) -> tuple[OpaqueBlock, ...]:
        """What the server wants to see again with the next request: its own account of the reasoning."""
        payload: Json = {}
        if self._details:
            payload["reasoning_details"] = self._details
        elif self._thinking and self._calls:
            payload["reasoning_content"] = whole_characters("".join(self._thinking))
        if extra := {call.id: call.extra for call in self._calls.values() if call.extra}:
            payload["extra_content"] = extra
        return (OpaqueBlock(wire, payload),) if payload else ()

    @property
    def stop_reason(self) -> StopReason:
        if self._refused:
            return "refusal"
        reason = _STOP_REASONS.get(self.finish, "other") if self.finish else "end"
        return "tool_use" if reason == "end" and self._calls else reason

    def _error(self, error: Any) -> ProviderError:
        said, words = said_by({"error": error})
        status = status_in(error)
        kind = kind_of(status, words)
        quoted = self._wire.excerpt(said, 300) or "unnamed"
        message = f"{self._wire.place.origin} broke off with an error: {quoted}; {advice(kind, status)}"
        return self._wire.fault(kind, message, status=status)


def whole_characters(text: str) -> str:
    """Joins surrogate pairs that came in two pieces, and replaces halves: neither a file nor SQLite would take them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _usage(usage: Json) -> Usage:
    prompt, answer = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    cached = min(prompt, _count(_object(usage.get("prompt_tokens_details")).get("cached_tokens")))
    return Usage(prompt - cached, answer, cached)


def _count(value: Any) -> int:
    return max(0, value) if isinstance(value, int) else 0


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _object(value: Any) -> Json:
    return cast(Json, value) if isinstance(value, dict) else {}


def _objects(value: Any) -> list[Json]:
    items = cast(Iterable[Any], value) if isinstance(value, list) else ()
    return [cast(Json, item) for item in items if isinstance(item, dict)]
