"""The editor's end of the line: one JSON message a line, of a bounded length, checked before the protocol sees it."""

import asyncio
import json
from contextlib import suppress
from typing import Any, cast

from adderclaw.core.types import Json

MOST_BYTES = 32 << 20
"""Of one message: some pictures. What is longer is read past and answered with an error."""
MOST_AT_ONCE = 128
"""Requests that wait for their answer; one more is refused at once."""
PARSE_ERROR, INVALID_REQUEST, BUSY = -32700, -32600, -32000


class Frames:
    """A transport of the protocol's SDK: what it hands over is an object of the right shape."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """`reader` has the limit MOST_BYTES."""
        self._reader, self._writer = reader, writer
        self._turn = asyncio.Lock()
        self._waiting: set[str | int] = set()
        """Ids of requests that are not answered yet."""
        self.ended = asyncio.Event()
        """The client has closed one of its ends."""

    async def receive(self) -> Json | None:
        while True:
            try:
                raw = await self._reader.readuntil(b"\n")
            except asyncio.IncompleteReadError:  # what stands behind the last end of a line is no message
                self.ended.set()
                return None
            except asyncio.LimitOverrunError as error:
                await self._skip(error.consumed)
                await self._refuse(None, INVALID_REQUEST, f"a message has at most {MOST_BYTES:,} bytes")
                continue
            if not raw.strip():
                continue
            try:
                parsed: Any = json.loads(raw)
            except (ValueError, RecursionError):
                await self._refuse(None, PARSE_ERROR, "this line is no JSON")
                continue
            if (message := await self._checked(parsed)) is not None:
                return message

    async def _skip(self, held: int) -> None:
        """To the end of a line that is too long; nothing of it is kept."""
        await self._reader.readexactly(held)
        while True:
            try:
                await self._reader.readuntil(b"\n")
                return
            except asyncio.LimitOverrunError as error:
                await self._reader.readexactly(error.consumed)
            except asyncio.IncompleteReadError:
                return

    async def _checked(self, parsed: object) -> Json | None:
        """The message, or None for one that was answered here."""
        if not isinstance(parsed, dict):
            await self._refuse(None, INVALID_REQUEST, "a message is one JSON object")
            return None
        message = cast(Json, parsed)
        id = message.get("id")
        known = id if _is_id(id) else None
        if "method" not in message:
            return message if _is_response(message) else None
        params = message.get("params")
        if not isinstance(message["method"], str) or not isinstance(params, dict | None):
            await self._refuse(known, INVALID_REQUEST, "a method is a text, and its params are an object")
            return None
        if "id" in message and known is None:
            await self._refuse(None, INVALID_REQUEST, "an id is a text or a whole number")
            return None
        if known is not None and (known in self._waiting or len(self._waiting) >= MOST_AT_ONCE):
            why = "a request with this id" if known in self._waiting else f"{MOST_AT_ONCE} requests"
            await self._refuse(known, BUSY, f"{why} waits for its answer already")
            return None
        if known is not None:
            self._waiting.add(known)
        # The SDK lays what stands in _meta over the arguments, unchecked.
        arguments = {key: value for key, value in cast(Json, params or {}).items() if key != "_meta"}
        return {**message, "params": arguments}

    async def _refuse(self, id: str | int | None, code: int, message: str) -> None:
        with suppress(OSError):
            await self._write({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})

    async def send(self, message: Json) -> None:
        if "method" not in message and _is_id(id := message.get("id")):
            self._waiting.discard(id)
        await self._write(message)

    async def _write(self, message: Json) -> None:
        """One message after the other; who does not read is waited for, and holds up nothing but its own messages."""
        data = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        async with self._turn:
            if self._writer.is_closing():
                raise ConnectionError("the editor has closed its end")
            try:
                self._writer.write(data)
                await self._writer.drain()
            except OSError:
                self.ended.set()
                raise

    async def close(self) -> None:
        self._writer.close()


def _is_id(id: object) -> bool:
    return isinstance(id, str | int) and not isinstance(id, bool)


def _is_response(message: Json) -> bool:
    """An answer to one of ours; anything else without a method is left alone: there is nobody to tell."""
    id, error = message.get("id"), message.get("error")
    return isinstance(id, int) and not isinstance(id, bool) and isinstance(error, dict | None)
