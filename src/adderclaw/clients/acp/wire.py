"""The transport to the editor: one JSON message per line, of bounded length, checked before the SDK sees it."""

import asyncio
import json
from contextlib import suppress
from typing import Any, cast

from adderclaw.clients.stdio import skip_line
from adderclaw.core.types import Json

MOST_BYTES = 32 << 20
"""Maximum bytes of a message, enough for several images. A longer one is skipped and answered with an error."""
MOST_AT_ONCE = 128
"""Maximum number of requests in progress; further requests are refused."""
PARSE_ERROR, INVALID_REQUEST, BUSY = -32700, -32600, -32000


class Frames:
    """A transport for the protocol's SDK, which passes on only well-formed messages."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """`reader` has the limit MOST_BYTES."""
        self._reader, self._writer = reader, writer
        self._turn = asyncio.Lock()
        self._waiting: set[str | int] = set()
        """Ids of requests in progress."""
        self.ended = asyncio.Event()
        """The client has closed one of its ends."""

    async def receive(self) -> Json | None:
        while True:
            try:
                raw = await self._reader.readuntil(b"\n")
            except asyncio.IncompleteReadError:  # the end of the input; an incomplete line is not a message
                self.ended.set()
                return None
            except asyncio.LimitOverrunError as error:
                await skip_line(self._reader, error.consumed)
                await self._refuse(None, INVALID_REQUEST, f"a message may have at most {MOST_BYTES:,} bytes")
                continue
            if not raw.strip():
                continue
            try:
                parsed: Any = json.loads(raw)
            except (ValueError, RecursionError):
                await self._refuse(None, PARSE_ERROR, "this line is not JSON")
                continue
            if (message := await self._checked(parsed)) is not None:
                return message

    async def _checked(self, parsed: object) -> Json | None:
        """The message; None if it was refused or ignored here."""
        if not isinstance(parsed, dict):
            await self._refuse(None, INVALID_REQUEST, "a message must be a JSON object")
            return None
        message = cast(Json, parsed)
        id = message.get("id")
        known = id if _is_id(id) else None
        if "method" not in message:
            return message if _is_response(message) else None
        params = message.get("params")
        if not isinstance(message["method"], str) or not isinstance(params, dict | None):
            await self._refuse(known, INVALID_REQUEST, "method must be a string, and params an object")
            return None
        if "id" in message and known is None:
            await self._refuse(None, INVALID_REQUEST, "id must be a string or an integer")
            return None
        if known is not None and (known in self._waiting or len(self._waiting) >= MOST_AT_ONCE):
            why = "a request with this id is" if known in self._waiting else f"{MOST_AT_ONCE} requests are"
            await self._refuse(known, BUSY, f"{why} already in progress")
            return None
        if known is not None:
            self._waiting.add(known)
        # the SDK would let _meta override the arguments, unchecked
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
        """Write one message after the other. A client that does not read delays only its own messages."""
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
    """Whether this is a response to one of our requests; anything else without a method is ignored."""
    id, error = message.get("id"), message.get("error")
    return isinstance(id, int) and not isinstance(id, bool) and isinstance(error, dict | None)
