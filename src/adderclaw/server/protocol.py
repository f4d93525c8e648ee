"""Connections with limits on slow request heads, unread responses, and the number of connections."""

import asyncio
import socket
import struct
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from adderclaw.server.refusal import Refusal
from adderclaw.storage.text import compact

LINGER_SECONDS = 1.0
LINGER_BYTES = 8 << 20


class ConnectionLimits:
    """Limits the connections of one server. Above the limit, the oldest unauthenticated connection is closed."""

    def __init__(
        self, most: int = 4_096, newcomers: int = 512, *, head_seconds: float = 10, write_seconds: float = 30
    ) -> None:
        """`head_seconds`: time limit for the head of a request, from its first byte or the start of the connection.
        `write_seconds`: time after which the connection of a client that does not read its response is closed."""
        self.most, self.most_newcomers = most, newcomers
        self.head_seconds, self.write_seconds = head_seconds, write_seconds
        self.taken = 0
        self.newcomers: dict[LimitedConnection, None] = {}

    def add(self, connection: "LimitedConnection") -> None:
        self.taken += 1
        self.newcomers[connection] = None
        if len(self.newcomers) > self.most_newcomers or self.taken > self.most:
            next(iter(self.newcomers)).abort()

    def authenticated(self, connection: "LimitedConnection") -> None:
        self.newcomers.pop(connection, None)

    def discard(self, connection: "LimitedConnection") -> None:
        self.taken -= 1
        self.newcomers.pop(connection, None)


class LingeringTransport:
    """A transport that lets a client read why its body was refused.

    Closing at once would reset the connection before the client has read the response, so further input is discarded
    for a second and a few megabytes.
    """

    def __init__(self, transport: asyncio.Transport, connection: h11.Connection) -> None:
        self._transport, self._connection = transport, connection
        self.lingers = False
        self._discarded = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self.lingers or self._transport.is_closing()

    def close(self) -> None:
        if self.is_closing():
            return
        if self._connection.their_state is not h11.SEND_BODY or not self._transport.can_write_eof():
            self._transport.close()
            return
        self.lingers = True
        self._transport.write_eof()
        self._transport.resume_reading()
        asyncio.get_running_loop().call_later(LINGER_SECONDS, self._transport.abort)

    def discard_input(self, data: bytes) -> None:
        self._discarded += len(data)
        if self._discarded > LINGER_BYTES:
            self._transport.abort()


class LimitedConnection(H11Protocol):
    """A connection; `connection_class` makes a subclass with the limits of its server."""

    seats: ConnectionLimits

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._peer = ""
        self._head: asyncio.TimerHandle | None = None
        self._write: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self._lingering = LingeringTransport(transport, self.conn)
        super().connection_made(self._lingering)  # pyright: ignore[reportArgumentType]
        self._peer = _unix_peer(transport)
        self.seats.add(self)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self.seats.discard(self)
        self._head, self._write = _cancelled(self._head), _cancelled(self._write)
        super().connection_lost(exc)

    def abort(self) -> None:
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._lingering.lingers:
            self._lingering.discard_input(data)
            return
        if self._is_idle and self._head is None:
            self._await_head()
        super().data_received(data)

    def handle_events(self) -> None:
        super().handle_events()
        if not self._is_idle:
            self._head = _cancelled(self._head)
            more: dict[str, Any] = self.cycle.scope.setdefault("extensions", {})  # pyright: ignore[reportAssignmentType]
            more |= {"adderclaw.peer": self._peer, "adderclaw.known": self._known}

    @property
    def _is_idle(self) -> bool:
        """Whether no request is under way."""
        return self.cycle is None or self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]

    def _known(self) -> None:
        self.seats.authenticated(self)

    def _await_head(self) -> None:
        self._head = self.loop.call_later(self.seats.head_seconds, self.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        _cancelled(self._write)
        self._write = self.loop.call_later(self.seats.write_seconds, self.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._write = _cancelled(self._write)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - h11's message is not for clients
        """Answers invalid HTTP with the common form of an error."""
        body = compact(Refusal(400, "http", "the request is not valid HTTP").as_json()).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        for event in (h11.Response(status_code=400, headers=headers), h11.Data(data=body), h11.EndOfMessage()):
            if data := self.conn.send(event):
                self.transport.write(data)
        self.transport.close()


def connection_class(seats: ConnectionLimits) -> type[LimitedConnection]:
    return type("GuardedHere", (LimitedConnection,), {"seats": seats})


def _cancelled(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


def _unix_peer(transport: asyncio.Transport) -> str:
    """The process at the other end of a Unix socket, for the log only: a sandboxed command may have the same user."""
    sock = transport.get_extra_info("socket")
    if sock is None or sock.family != socket.AF_UNIX:
        return ""
    try:
        pid, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    except (OSError, AttributeError):
        return "unknown"
    return f"pid {pid} uid {uid}"
