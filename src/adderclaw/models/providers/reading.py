"""Reading a server's answer, as a stream or as one body, and fields of it that may be anything."""

import json
from collections.abc import Iterable
from typing import Any, Literal, Protocol, cast

from adderclaw.core.history import History
from adderclaw.core.types import Delta, Json, OnDelta, ToolCall, ToolUseBlock
from adderclaw.models.providers import arguments_of
from adderclaw.models.providers.wire import Reply, Wire

STREAM_OVERHEAD = 32
"""A streamed answer is this much larger on the wire than what it says: a small JSON object around every few letters."""


MOST_EMPTY = 16
"""Maximum events without content that extend the deadline. An answer has some at its start and between parts."""


class Answering(Protocol):
    """An answer while it arrives. Raises ValueError for invalid content."""

    @property
    def over(self) -> bool:
        """Nothing of interest comes any more."""
        ...

    @property
    def size(self) -> int:
        """How much of the answer has come."""
        ...

    @property
    def model(self) -> str:
        """The model that the server names; empty before it has."""
        ...

    def take(self, event: Json) -> None:
        """One event of a stream."""
        ...

    def whole(self, body: Any) -> None:
        """The answer as one JSON value."""
        ...

    def end(self) -> None:
        """The stream is over: was that an answer?"""
        ...


class Growing:
    """What the answers of all APIs have in common while they arrive: a size, a listener, an end."""

    def __init__(self, wire: Wire, on_delta: OnDelta) -> None:
        self._wire, self._on_delta = wire, on_delta
        self._size = 0
        self.model = ""
        self.over = False
        self.ended = False
        """The server named the reason of the end: nothing of the answer is missing."""

    @property
    def size(self) -> int:
        return self._size

    def end(self) -> None:
        if not self.ended:
            raise ValueError("ended the stream before the answer was whole")

    def _say(self, kind: Literal["text", "thinking"], text: str, pieces: list[str]) -> None:
        if text:
            pieces.append(text)
            self._size += len(text)
            self._on_delta(Delta(kind, whole_characters(text)))

    def _check_size(self) -> None:
        if self._size > self._wire.max_bytes:
            raise self._wire.too_large()


def call_of(call_id: str, name: str, raw: str) -> ToolCall:
    """A call as the model wrote it; broken arguments are kept as their text."""
    arguments = arguments_of(raw)
    shown = "" if arguments is not None else raw
    return ToolCall(whole_characters(call_id), whole_characters(name), arguments, shown)


async def read(
    reply: Reply, answer: Answering, wire: Wire, *, overhead: int = 1, streamed: int = STREAM_OVERHEAD
) -> None:
    """Read a reply to its end and let it go. The overheads say how much more bytes may come than an answer has."""
    try:
        uncompressed(reply, wire)
        reply.max_bytes *= overhead if reply.content_type == "application/json" else streamed
        first = await reply.read()
        if _is_stream(reply.content_type, first):
            await _read_stream(reply, first, answer, wire)
        else:
            value, start = await _json(reply, first, wire)
            try:
                answer.whole(value)
            except ValueError as error:
                raise wire.malformed(str(error), reply.content_type, start) from None
    finally:
        reply.close()


async def read_object(reply: Reply, wire: Wire) -> Json:
    """A whole reply as one JSON object."""
    uncompressed(reply, wire)
    value, start = await _json(reply, await reply.read(), wire)
    if not isinstance(value, dict):
        raise wire.malformed("did not answer with a JSON object", reply.content_type, start)
    return cast(Json, value)


def uncompressed(reply: Reply, wire: Wire) -> None:
    if encoding := reply.headers.get("content-encoding", "").replace("identity", ""):
        raise wire.malformed(f"compressed its answer ({encoding}) though that was not asked for", "", b"")


def _is_stream(content_type: str, first: bytes) -> bool:
    if content_type == "text/event-stream":
        return True
    return content_type != "application/json" and first.lstrip().startswith((b"data:", b":", b"event:", b"id:"))


async def _read_stream(reply: Reply, piece: bytes, answer: Answering, wire: Wire) -> None:
    events, start, empty = Events(), b"", 0
    try:
        while piece:
            start = start if len(start) > 2048 else start + piece[:2048]
            for data in events.feed(piece):
                event, before = _event(data), answer.size
                answer.take(event)
                empty += answer.size == before
                if answer.size != before or (empty <= MOST_EMPTY and event.get("type") != "ping"):
                    reply.extend_deadline()
                if answer.over:
                    reply.mark_finished()
                    return
            piece = await reply.read()
        for data in events.end():
            answer.take(_event(data))
    except (ValueError, RecursionError):
        if _has_begun(answer):
            raise wire.broken_off("sent an event that is not a JSON object in the middle of its answer") from None
        raise wire.malformed("sent an event that is not a JSON object", reply.content_type, start) from None
    try:
        answer.end()
    except ValueError as error:
        if _has_begun(answer):
            raise wire.broken_off(str(error)) from None
        raise wire.malformed(str(error), reply.content_type, start) from None


def _has_begun(answer: Answering) -> bool:
    """Whether part of the answer was understood, so the server speaks this API."""
    return bool(answer.size or answer.model)


def _event(data: str) -> Json:
    if data.strip() == "[DONE]":
        return {"type": "[DONE]"}
    event: Any = json.loads(data)
    if not isinstance(event, dict):
        raise ValueError("not an object")
    return cast(Json, event)


async def _json(reply: Reply, piece: bytes, wire: Wire) -> tuple[Any, bytes]:
    body = bytearray()
    while piece:
        body += piece
        if not piece.isspace():
            reply.extend_deadline()
        if len(body) > reply.max_bytes:
            raise wire.too_large()
        piece = await reply.read()
    start = bytes(body[:2048])
    try:
        return json.loads(body), start
    except (ValueError, RecursionError):
        raise wire.malformed("did not answer with JSON", reply.content_type, start) from None


# ------------------------------------------------------------------ fields


def count_in(value: Any) -> int:
    return max(0, value) if isinstance(value, int) else 0


def text_in(value: Any) -> str:
    return value if isinstance(value, str) else ""


def object_in(value: Any) -> Json:
    return cast(Json, value) if isinstance(value, dict) else {}


def object_with(value: Any, key: str) -> Json:
    """An object that has the key, or an `error`; ValueError when it is not one."""
    table = object_in(value)
    if key not in table and "error" not in table:
        raise ValueError(f"answered without `{key}`")
    return table


def objects_in(value: Any) -> list[Json]:
    items = cast(Iterable[Any], value) if isinstance(value, list) else ()
    return [cast(Json, item) for item in items if isinstance(item, dict)]


def whole_characters(text: str) -> str:
    """Joins surrogate pairs that came in two pieces, and replaces halves: neither a file nor SQLite would take them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class Ids:
    """Which ids the calls of a conversation have: some servers count from the start in every answer."""

    def __init__(self) -> None:
        self._history = History()
        self._seen = self._step = 0
        self._taken: set[str] = set()

    def of(self, history: History) -> tuple[int, set[str]]:
        """The number of the step that is being answered, and the ids taken before it."""
        if history is not self._history:
            self._history, self._seen, self._step, self._taken = history, 0, 0, set()
        for message in history.messages[self._seen :]:
            self._step += message.role == "assistant"
            self._taken |= {block.call.id for block in message.blocks if isinstance(block, ToolUseBlock)}
        self._seen = len(history.messages)
        return self._step + 1, self._taken


class Events:
    """Takes pieces of the stream and returns the data of the events that are complete."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._data: list[bytes] = []
        self._begun = False

    def feed(self, piece: bytes) -> list[str]:
        ends_line = b"\n" in piece or b"\r" in piece or self._rest.endswith(b"\r")
        self._rest += piece
        if not ends_line:
            return []
        # A CR at the very end waits, because its LF may come with the next piece.
        whole = max(self._rest.rfind(b"\n"), self._rest.rfind(b"\r", 0, len(self._rest) - 1)) + 1
        lines = bytes(self._rest[:whole]).splitlines()  # of bytes: splits at CR, LF and CRLF only
        del self._rest[:whole]
        return self._take(lines)

    def end(self) -> list[str]:
        """The data of an event at the end of the stream without its closing blank line."""
        lines = bytes(self._rest).splitlines()
        self._rest.clear()
        return self._take([*lines, b""])

    def _take(self, lines: list[bytes]) -> list[str]:
        complete: list[str] = []
        for line in lines:
            if not self._begun:
                self._begun = True
                line = line.removeprefix(b"\xef\xbb\xbf")
            if not line:
                if self._data:
                    complete.append(b"\n".join(self._data).decode("utf-8", "replace"))
                    self._data.clear()
            elif line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif line == b"data":
                self._data.append(b"")
        return complete
