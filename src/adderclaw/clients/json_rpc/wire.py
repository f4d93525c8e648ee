"""JSON-RPC 2.0 with one message per line: parses requests, and queues output in bounded memory."""

import asyncio
import json
from collections import deque
from math import isfinite
from typing import Any, NamedTuple, cast

from adderclaw.core.json_text import reject_constant
from adderclaw.core.types import Json

MAX_LINE = 8 << 20
"""Maximum bytes of a message."""
MAX_BATCH = 100
MAX_WAITING = 4_096
"""Messages that are queued for a slow client; further events are counted and dropped."""
MAX_WAITING_BYTES = 32 << 20
"""The same in bytes."""
MAX_ANSWERS = 1_024
"""Answers that are queued for a slow client; at this number no further messages are read from it."""
MAX_ANSWER_BYTES = 8 << 20
"""The same in bytes."""

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RUN_REFUSED = -32000
"""The run could not begin: configuration, trust, a missing workspace."""
NO_SUCH_RUN = -32001
NO_SUCH_APPROVAL = -32002
"""There is no such approval or question."""
ALREADY_ANSWERED = -32003
TOO_MANY_RUNS = -32004
NOT_COUNTED = -32005
"""The answer does not count: it is too late, about another call, or must be given at a terminal."""
NOT_MOVED = -32006
"""A phase cannot be entered, or a plan or report cannot be approved."""

type Id = str | int | float | None


class RpcError(Exception):
    """An error to be sent as the answer."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data

    def as_json(self) -> Json:
        error: Json = {"code": self.code, "message": self.message}
        return error if self.data is None else error | {"data": self.data}


class Call(NamedTuple):
    method: str
    params: Json | list[Any]
    id: Id
    notification: bool


def parse(line: bytes) -> object:
    """Parse a line; raises RpcError if it is not JSON."""
    try:
        return cast(object, json.loads(line, parse_constant=reject_constant))
    except (ValueError, RecursionError) as error:
        raise RpcError(PARSE_ERROR, f"Parse error: {error}") from error


def call_of(message: object) -> Call:
    """Decode a request or a notification; raises RpcError if it is neither."""
    if not isinstance(message, dict):
        raise RpcError(INVALID_REQUEST, "Invalid Request: a message must be an object")
    request = cast(Json, message)
    if request.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, 'Invalid Request: "jsonrpc" must be "2.0"')
    if not isinstance(method := request.get("method"), str):
        raise RpcError(INVALID_REQUEST, 'Invalid Request: "method" must be a string')
    if "id" in request and not is_id(request["id"]):
        raise RpcError(INVALID_REQUEST, 'Invalid Request: "id" must be a string, a number or null')
    params: Any = request.get("params", {})
    if not isinstance(params, (dict, list)):
        raise RpcError(INVALID_REQUEST, 'Invalid Request: "params" must be an object or a list')
    return Call(method, cast("Json | list[Any]", params), request.get("id"), "id" not in request)


def is_id(value: object) -> bool:
    """Whether this is a valid id that JSON can represent."""
    if isinstance(value, float):
        return isfinite(value)
    return value is None or (isinstance(value, (str, int)) and not isinstance(value, bool))


def answer(id: Id, result: object) -> Json:
    return {"jsonrpc": "2.0", "id": id, "result": result}


def failure(id: Id, error: RpcError) -> Json:
    return {"jsonrpc": "2.0", "id": id, "error": error.as_json()}


def notice(method: str, params: Json) -> Json:
    return {"jsonrpc": "2.0", "method": method, "params": params}


class Outbox:
    """Output to the client, in order. Answers and questions are always sent, events only while there is room."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._waiting: deque[tuple[bytes, bool]] = deque()
        """Lines, and whether each is an event."""
        self._bytes = 0
        self._answers = self._answer_bytes = 0
        self._room = asyncio.Event()
        self._room.set()
        self._wake = asyncio.Event()
        self._empty = asyncio.Event()
        self._dropped = 0
        self.gone = asyncio.Event()
        """Set when the client has closed its end."""

    def put(self, message: Json | list[Json], *, event: bool = False) -> None:
        if self._dropped and not event:
            lost, self._dropped = self._dropped, 0
            self.put(notice("events_dropped", {"events": lost}))
        line = json.dumps(message, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
        self._waiting.append((line, event))
        self._bytes += len(line)
        self._count(line, event, 1)
        self._empty.clear()
        self._wake.set()

    @property
    def is_full(self) -> bool:
        """Whether so much is queued that events are dropped."""
        return len(self._waiting) >= MAX_WAITING or self._bytes >= MAX_WAITING_BYTES

    def _count(self, line: bytes, event: bool, by: int) -> None:
        if not event:
            self._answers += by
            self._answer_bytes += by * len(line)
        if self._answers >= MAX_ANSWERS or self._answer_bytes >= MAX_ANSWER_BYTES:
            self._room.clear()
        else:
            self._room.set()

    def put_event(self, params: Json) -> None:
        if self.is_full:
            self._dropped += 1
            return
        if self._dropped:
            params, self._dropped = {**params, "dropped": self._dropped}, 0
        self.put(notice("event", params), event=True)

    async def room(self) -> None:
        """Wait until the client has taken enough of its answers."""
        await self._room.wait()

    async def run(self) -> None:
        """Write until the client disconnects; `drain` waits for a slow client."""
        try:
            while True:
                while self._waiting:
                    line, event = self._waiting.popleft()
                    self._writer.write(line)
                    await self._writer.drain()
                    self._bytes -= len(line)
                    self._count(line, event, -1)
                self._empty.set()
                self._wake.clear()
                await self._wake.wait()
        except (ConnectionError, OSError):
            self.gone.set()

    async def flush(self, seconds: float) -> None:
        """Wait up to this time for the client to read the rest."""
        waits = [asyncio.ensure_future(event.wait()) for event in (self._empty, self.gone)]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
