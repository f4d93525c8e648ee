"""Updates as a stream of server-sent events: each with its id, so that who comes back says what was seen last."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated, Any

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.requests import Request

from adderclaw.channels.hosted import Update, Watched
from adderclaw.channels.server import door
from adderclaw.channels.server.endpoint import Called
from adderclaw.channels.server.refusal import Refusal
from adderclaw.decode import Between
from adderclaw.record import record
from adderclaw.store import clients
from adderclaw.store.text import compact

HEARTBEAT = 15
"""Seconds after which a comment is sent, where nothing else was: who is gone is noticed, and proxies keep it open."""
LOOK_AGAIN = 15.0
"""Seconds after which the token of a stream is looked at again: one that was revoked follows nothing any more."""


@record
class Followed:
    after: Annotated[int, Between(0, (1 << 63) - 1)] | None = None
    """The id of the last event that was seen; 0: all that are kept. The header Last-Event-ID goes before it."""


def last_seen(request: Request, given: int | None) -> int | None:
    header = request.headers.get("last-event-id", "").strip()
    if not header:
        return given
    if not header.isascii() or not header.isdecimal() or len(header) > 18:
        raise Refusal(400, "invalid", "Last-Event-ID is no id of an event of ours: leave it out, and read it anew")
    return int(header)


def of_watched(called: Called, one: Watched) -> EventSourceResponse:
    """The updates of a conversation or a run, for as long as the client reads and its token counts."""
    return response(_sent(called, one.follow(last_seen(called.request, called.given.after))))


def response(events: AsyncGenerator[ServerSentEvent]) -> EventSourceResponse:
    """A client that is gone ends it; what nobody reads is held back by the connection alone."""
    return EventSourceResponse(events, ping=HEARTBEAT, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})


async def _sent(called: Called, updates: AsyncGenerator[Update]) -> AsyncGenerator[ServerSentEvent]:
    async for update in while_valid(called, updates):
        yield ServerSentEvent(compact(update.as_json()), event=update.kind, id=str(update.id), sep="\n")


async def while_valid[T](called: Called, source: AsyncGenerator[T]) -> AsyncGenerator[T]:
    """What comes, until the token of the request counts no more."""
    waiting: asyncio.Future[T] | None = None
    checked = called.house.clock.monotonic()
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(anext(source))
            await asyncio.wait({waiting}, timeout=LOOK_AGAIN)
            if called.house.clock.monotonic() - checked >= LOOK_AGAIN:
                checked = called.house.clock.monotonic()
                if not _counts(called):
                    return
            if waiting.done():
                done, waiting = waiting, None
                try:
                    value = done.result()
                except StopAsyncIteration:
                    return
                yield value
    finally:
        if waiting is not None:
            waiting.cancel()
            await asyncio.wait({waiting})
        await source.aclose()


def _counts(called: Called) -> bool:
    house: Any = called.house
    token, _ = door.token_of(house, called.request)
    return clients.found(house.store, house.key, token, house.clock.now()) is not None
