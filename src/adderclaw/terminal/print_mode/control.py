"""The link to the client on stdin and stdout: messages, and requests in both directions."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, cast

from adderclaw.clients import stdio
from adderclaw.clients.json_rpc.wire import MAX_LINE, Outbox
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.json_text import reject_constant
from adderclaw.core.types import Json
from adderclaw.terminal.print_mode import user_message
from adderclaw.terminal.print_mode.user_message import UserMessage

MOST_MESSAGES = 1_000
"""How many messages can be queued."""

REFUSED: Mapping[str, str] = {
    "mcp_set_servers": "name MCP servers at the start (mcpServers)",
    "reload_plugins": "changed plugins take effect in the next conversation",
    "reload_skills": "changed skills take effect in the next conversation",
    "reload_output_styles": "there are no output styles",
    "seed_read_state": "Edit needs no earlier Read here",
    "update_settings": "change settings in your own files",
    "set_mcp_permission_mode_override": "use rules for the tools of a server: mcp__SERVER",
    "background_tasks": "interrupt ends what runs in the foreground",
    "cancel_async_message": "every message that was sent is answered",
    "read_file": "the client reads its files itself",
    "get_usage": "each result contains the usage of its turn",
    "get_session_cost": "each result contains total_cost_usd",
}
"""Refused SDK requests, with the alternative to each."""

type Handler = Callable[[Json], Awaitable[Json]]
"""Takes the fields of a request and returns those of the response."""


class ClientGone(OSError):
    """The client closed its end, so no answer will come."""


class RequestRefused(Exception):
    """The client answered with an error."""


class Link:
    """One client. Anything it sends outside the protocol ends the conversation with the reason."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._pending: dict[str, asyncio.Future[Json]] = {}
        self._count = 0
        self._line = 0
        self._has_left = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._messages: asyncio.Queue[UserMessage | None] = asyncio.Queue()
        self._initialize: asyncio.Future[tuple[str, Json] | None] = asyncio.get_running_loop().create_future()
        self.handlers: dict[str, Handler] = {}
        """The handler of each request subtype."""
        self._early: list[Json] = []
        """Requests received after `initialize` while the session was opening."""
        self.problem: AdderClawError | None = None
        """The protocol error of the client, if there was one."""
        self.failed: Callable[[], object] = lambda: None
        """Called when `problem` is set."""
        self.is_over = False
        """Whether the client has closed its end."""

    # ------------------------------------------------------------------ reading

    async def read(self, reader: asyncio.StreamReader) -> None:
        """Handles the lines of the input until its end."""
        try:
            async for line in stdio.lines(reader, _at_once):
                self._line += 1
                if line is None:
                    raise UsageError(self._where(f"a message may have at most {MAX_LINE:,} bytes"))
                if line.strip():
                    self._handle(_parsed(line, self._where))
        except AdderClawError as error:
            self.problem = error
            self.failed()
        finally:
            self._end()

    def _end(self) -> None:
        self.is_over = True
        self._messages.put_nowait(None)
        if not self._initialize.done():
            self._initialize.set_result(None)
        for waiting in self._pending.values():
            if not waiting.done():
                waiting.set_exception(ClientGone("the client has closed its end"))

    def _where(self, problem: str) -> str:
        return f"standard input, line {self._line}: {problem}"

    def _handle(self, message: Json) -> None:
        kind = message.get("type")
        if kind == "user":
            if self._messages.qsize() >= MOST_MESSAGES:
                raise UsageError(self._where(f"more than {MOST_MESSAGES:,} messages are queued"))
            self._messages.put_nowait(user_message.read_user_message(message, self._where))
            if not self._initialize.done():
                self._initialize.set_result(None)
        elif kind == "control_request":
            self._handle_request(message)
        elif kind == "control_response":
            self._handle_response(message.get("response"))
        elif kind == "control_cancel_request" or kind == "keep_alive":
            pass  # requests are answered at once, so there is nothing to cancel
        else:
            raise UsageError(self._where(f"unknown message type {str(kind)[:60]!r}: expected user, control_request, …"))

    def _handle_request(self, message: Json) -> None:
        id, request = message.get("request_id"), message.get("request")
        if not isinstance(id, str) or not isinstance(request, dict):
            raise UsageError(self._where("a control_request needs a request_id and a request"))
        body = cast(Json, request)
        subtype = str(body.get("subtype"))
        if subtype == "initialize" and not self._initialize.done():
            self._initialize.set_result((id, body))
            return
        if not self.handlers and self._initialize.done() and len(self._early) < MOST_MESSAGES:
            self._early.append(message)
            return
        handler = self.handlers.get(subtype)
        if handler is None:
            known = ", ".join(self.handlers) or "only initialize, which comes first"
            why = REFUSED.get(subtype) or f"supported are {known}"
            self.refuse(id, f"{subtype[:60]!r} is not supported here; {why}")
            return
        task = asyncio.create_task(self._run_handler(id, handler, body))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def serve(self, handlers: "Mapping[str, Handler]") -> None:
        """Starts serving requests, beginning with those that arrived early."""
        self.handlers |= handlers
        early, self._early = self._early, []
        for message in early:
            self._handle_request(message)

    async def _run_handler(self, id: str, handler: Handler, request: Json) -> None:
        try:
            self.answer(id, await handler(request))
        except (AdderClawError, ClientGone, RequestRefused) as error:
            self.refuse(id, str(error))

    def _handle_response(self, response: object) -> None:
        if not isinstance(response, dict):
            raise UsageError(self._where("a control_response needs a response"))
        reply = cast(Json, response)
        waiting = self._pending.get(str(reply.get("request_id")))
        if waiting is None or waiting.done():
            return  # a late answer
        if reply.get("subtype") == "error":
            waiting.set_exception(RequestRefused(str(reply.get("error", ""))[:2_000]))
        else:
            body: Any = reply.get("response")
            waiting.set_result(cast(Json, body) if isinstance(body, dict) else {})

    # ------------------------------------------------------------------ sending

    def answer(self, id: str, body: Json) -> None:
        self._outbox.put(
            {"type": "control_response", "response": {"subtype": "success", "request_id": id, "response": body}}
        )

    def refuse(self, id: str, why: str) -> None:
        self._outbox.put({"type": "control_response", "response": {"subtype": "error", "request_id": id, "error": why}})

    async def ask(self, request: Json) -> Json:
        """Sends a request and returns the client's answer. Raises RequestRefused or ClientGone."""
        if self.is_over:
            raise ClientGone("the client has closed its end")
        self._count += 1
        id = f"adderclaw-{self._count}"
        waiting = self._pending[id] = asyncio.get_running_loop().create_future()
        self._outbox.put({"type": "control_request", "request_id": id, "request": request})
        try:
            return await waiting
        except asyncio.CancelledError:
            self._outbox.put({"type": "control_cancel_request", "request_id": id})
            raise
        finally:
            del self._pending[id]

    # ------------------------------------------------------------------ received messages

    async def initialize(self) -> tuple[str, Json] | None:
        """The id and fields of `initialize`; None if the first message came without it."""
        return await asyncio.shield(self._initialize)

    async def messages(self) -> AsyncGenerator[UserMessage]:
        """The user's messages in order."""
        while (message := await self._messages.get()) is not None and not self._has_left:
            yield message

    def leave(self) -> None:
        """Stops accepting messages."""
        self._has_left = True
        self._messages.put_nowait(None)

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


async def _at_once() -> None:
    return None


def _parsed(line: bytes, where: Callable[[str], str]) -> Json:
    try:
        value: object = json.loads(line, parse_constant=reject_constant)
    except (ValueError, RecursionError) as error:
        raise UsageError(where(f"invalid JSON ({error}): {line[:60]!r}")) from None
    if not isinstance(value, dict):
        raise UsageError(where("a message must be a JSON object"))
    return cast(Json, value)
