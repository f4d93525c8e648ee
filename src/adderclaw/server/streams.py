"""Streams updates as server-sent events with ids, so that a client can resume after the last one it saw."""

from collections.abc import AsyncGenerator
from typing import Annotated

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.requests import Request

from adderclaw.agent.conversation.watched import Watched
from adderclaw.core.decode import Between
from adderclaw.core.record import record
from adderclaw.server.endpoint import ApiRequest
from adderclaw.server.refusal import Refusal
from adderclaw.storage.text import compact

HEARTBEAT = 15
"""Seconds without an event after which a comment is sent, to detect closed connections and keep proxies from closing
open ones."""


@record
class EventsQuery:
    after: Annotated[int, Between(0, (1 << 63) - 1)] | None = None
    """The id of the last event that was seen; 0: all that are kept. The header Last-Event-ID goes before it."""


def last_event_id(request: Request, after: int | None) -> int | None:
    header = request.headers.get("last-event-id", "").strip()
    if not header:
        return after
    if not header.isascii() or not header.isdecimal() or len(header) > 18:
        raise Refusal(
            400, "invalid", "Last-Event-ID is not an event id of this server: leave it out, and read all events again"
        )
    return int(header)


def stream_watched(request: ApiRequest, watched: Watched) -> EventSourceResponse:
    """Streams the updates of a conversation or a run while the client reads and its token is valid."""
    return event_response(_server_sent_events(watched, last_event_id(request.http, request.body.after)))


def event_response(events: AsyncGenerator[ServerSentEvent]) -> EventSourceResponse:
    """A stream that ends when the client disconnects; the connection applies back-pressure."""
    return EventSourceResponse(events, ping=HEARTBEAT, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})


async def _server_sent_events(watched: Watched, after: int | None) -> AsyncGenerator[ServerSentEvent]:
    async for update in watched.follow(after):
        yield ServerSentEvent(compact(update.as_json()), event=update.kind, id=str(update.id), sep="\n")
