"""Endpoints of conversations: opened, listed, read, talked to, followed, interrupted, copied, gone back in, closed."""

import asyncio
from dataclasses import replace
from typing import Annotated, Any, Literal

from adderclaw.agent import queries
from adderclaw.agent.conversation import asking
from adderclaw.agent.conversation.conversation import Conversation
from adderclaw.agent.view import wire
from adderclaw.agent.view.items import Call
from adderclaw.agent.view.rows import Rows
from adderclaw.agent.view.wire import ItemJson
from adderclaw.core.decode import Between
from adderclaw.core.errors import UsageError
from adderclaw.core.record import record
from adderclaw.core.types import Json
from adderclaw.server import bounds, client_scope, streams
from adderclaw.server.answers import Given, Settled, settle
from adderclaw.server.endpoint import Called, Endpoint
from adderclaw.server.pictures import Picture, decoded
from adderclaw.server.refusal import Refusal, missing
from adderclaw.storage import threads, transcript

MOST_LISTED = 500
MESSAGE_BYTES = 24 << 20
"""Of a message with its pictures."""

type State = Literal["idle", "working", "asking", "ended"]


@record
class Row:
    id: str
    workspace: str
    title: str
    created_at: str
    last_active: str
    phase: str
    entries: int
    state: State
    turn: str
    """The turn at hand."""
    questions: int
    """How many wait for an answer."""
    steers: bool
    """Whether this client may send messages to it."""
    came_from: str
    """The sender and the channel, where a chat system sent it; else empty."""


@record
class Listing:
    conversations: list[Row]


@record
class Listed:
    limit: Annotated[int, Between(1, MOST_LISTED)] = 50
    workspace: str | None = None
    """Only those that are held in this folder."""


@record
class ConversationRequest:
    workspace: str | None = None
    resume: str | None = None
    """The id of one that goes on."""
    go_on: bool = False
    """Finish the turn in which it was interrupted."""
    profile: Literal["supervised", "sandboxed", "readonly", "permissive"] | None = None
    provider: str | None = None
    model: str | None = None
    text: str | None = None
    """The first message."""


@record
class Shown:
    id: str
    workspace: str
    title: str
    state: State
    turn: str
    queued: int
    client: str
    """The id of the client that opened it; empty: none did."""
    came_from: str
    """The sender and the channel, where a chat system sent it; else empty."""
    steers: bool
    """Whether this client may send messages to it."""
    awake: bool
    """Whether its run is open; a message wakes it."""
    run_id: str
    session_id: str
    provider: str
    model: str
    questions: list[dict[str, Any]]
    last_event_id: int


@record
class Paged:
    start: Annotated[int, Between(0)] | None = None
    """The number of the first item; without it, the latest are given."""
    limit: Annotated[int, Between(1, 1_000)] = 200


@record
class Items:
    items: list[ItemJson]
    start: int
    """The number of the first of them."""
    total: int
    partial: str
    """What came so far of an answer that arrives."""
    last_event_id: int
    """Following after this id misses nothing that is not in them."""


@record
class Said:
    text: str
    images: list[Picture] | None = None


@record
class Queued:
    turn: str
    state: State


@record
class Which:
    turn: str | None = None
    """The turn at hand, or one whose message waits; without it, the one at hand."""


@record
class Interrupted:
    interrupted: bool


@record
class Waited:
    seconds: Annotated[int, Between(0, 60)] = 60
    """How long to wait for its end."""


@record
class Result:
    turn: str
    outcome: str | None
    """None: it has not ended yet."""
    answer: str
    reason: str


# ------------------------------------------------------------------ which one


def found(called: Called) -> Conversation:
    """The conversation of the path."""
    return called.house.conversations.find(called.path["id"])


def folder_of(one: Conversation) -> str:
    return one.options.workspace or ""


def steers(called: Called, one: Conversation) -> bool:
    return called.client.steers(one.client, folder_of(one))


def shown(called: Called, one: Conversation) -> Shown:
    session = one.run.session if one.run is not None else None
    return Shown(
        id=one.id,
        workspace=queries.clean(folder_of(one)),
        title=queries.clean(transcript.title(called.house.store, one.id)),
        state=one.state,
        turn=one.turn,
        queued=len(one.queued),
        client=one.client,
        came_from=queries.clean(threads.describe_sender(one.client)),
        steers=steers(called, one),
        awake=one.run is not None,
        run_id=one.run.run_id if one.run is not None else "",
        session_id=session.session_id if session is not None else "",
        provider=session.provider.name if session is not None else "",
        model=queries.clean(session.model) if session is not None else "",
        questions=[asking.as_json(request) for request in one.questions.values()],
        last_event_id=one.updates.last,
    )


# ------------------------------------------------------------------ looking


async def listing(called: Called) -> Listing:
    given: Listed = called.given
    wanted = client_scope.places(called)
    if given.workspace is not None:
        wanted = (given.workspace,) if not wanted or given.workspace in wanted else client_scope.NONE

    def read() -> list[tuple[transcript.Conversation, str]]:
        with queries.reading(called.house.options) as store:
            rows = transcript.conversations(store, given.limit, wanted)
            return [(one, transcript.client_of(store, one.id)) for one in rows]

    found = await asyncio.to_thread(read)
    return Listing([_row(called, *one) for one in found])


def _row(called: Called, one: transcript.Conversation, owner: str) -> Row:
    here = called.house.conversations.get(one.id)
    return Row(
        id=one.id,
        workspace=queries.clean(one.project_dir),
        title=queries.clean(one.title),
        created_at=one.created_at,
        last_active=one.last_active,
        phase=one.phase,
        entries=one.entries,
        state=here.state if here is not None else "idle",
        turn=here.turn if here is not None else "",
        questions=len(here.questions) if here is not None else 0,
        steers=called.client.steers(owner, one.project_dir),
        came_from=queries.clean(threads.describe_sender(owner)),
    )


async def show(called: Called) -> Shown:
    return shown(called, found(called))


async def items(called: Called) -> Items:
    one, given = found(called), called.given
    last, partial, running = one.updates.last, one.partial, one.running

    def read() -> tuple[list[Json], int, int]:
        with queries.reading(called.house.options) as store:
            made = list(Rows(store, queries.clean, folder_of(one)).conversation(one.id))
        start = max(0, len(made) - given.limit) if given.start is None else given.start
        chosen = made[start : start + given.limit]
        latest = [running.get(item.key, item) if isinstance(item, Call) else item for item in chosen]
        return [wire.to_json(item) for item in latest], start, len(made)

    return Items(*await asyncio.to_thread(read), partial=partial, last_event_id=last)


async def events(called: Called) -> object:
    return streams.of_watched(called, found(called))


# ------------------------------------------------------------------ steering


async def open_one(called: Called) -> Shown:
    given: ConversationRequest = called.given
    here, client = called.house.conversations, called.client
    if given.resume is not None:
        earlier = here.find(given.resume)
        folder, granted = called.house.folder_for(client, folder_of(earlier)), steers(called, earlier)
        if given.workspace is not None and called.house.folder_for(client, given.workspace) != folder:
            raise UsageError(f"{earlier.id} is held in {folder}: leave `workspace` out, or begin another one there")
    else:
        folder, granted = called.house.folder_for(client, given.workspace), False
    options = replace(called.house.options, workspace=folder)
    await asyncio.to_thread(bounds.require_profile, client, options, given.profile)
    await asyncio.to_thread(bounds.require_provider, options, given.provider)
    one = await here.open(
        client.id,
        workspace=folder,
        resume=given.resume,
        go_on=given.go_on,
        profile=given.profile,
        provider=given.provider,
        model=given.model,
        granted=granted,
    )
    if given.go_on or given.text is not None:
        await bounds.require_own(called, one)
    if given.go_on and given.resume is not None:
        await one.go_on(client.id, granted=granted)
    if given.text is not None:
        await one.send(given.text, client=client.id, granted=granted)
    return shown(called, one)


async def send(called: Called) -> Queued:
    one, given = found(called), called.given
    await bounds.require_own(called, one)
    pictures = decoded(given.images or [])
    turn = await one.send(given.text, client=called.client.id, images=pictures, granted=steers(called, one))
    return Queued(turn, one.state)


async def result(called: Called) -> Result:
    """Waits for the end of the turn, and not for ever: who asked may be gone."""
    one, turn = found(called), called.path["turn"]
    try:
        async with asyncio.timeout(called.given.seconds):
            ended = await one.ended(turn)
    except TimeoutError:
        return Result(turn, None, "", "")
    return Result(turn, ended.outcome, ended.answer, ended.reason)


async def interrupt(called: Called) -> Interrupted:
    one = found(called)
    why = f"interrupted by {called.client.name}"
    if not one.interrupt(called.client.id, turn=called.given.turn, granted=steers(called, one), why=why):
        raise Refusal(409, "idle", "there is nothing to interrupt: the turn has ended, or none has begun")
    return Interrupted(True)


async def branch(called: Called) -> Shown:
    """Who may look at a conversation may go on in a copy of it."""
    one = found(called)
    folder = called.house.folder_for(called.client, folder_of(one))
    made = await called.house.conversations.open(
        called.client.id, resume=one.id, fork=True, workspace=folder, granted=True
    )
    return shown(called, made)


async def close(called: Called) -> Shown:
    one = found(called)
    one.require(called.client.id, granted=steers(called, one))
    await one.close(f"closed by {called.client.name}")
    return shown(called, one)


async def answer(called: Called) -> Settled:
    """By the client that opened it, or that is its operator otherwise."""
    one, id = found(called), called.path["question"]
    settled = settle(called, one, id, granted=steers(called, one))
    if settled is None:
        raise missing("question", id)
    return settled


ENDPOINTS = (
    Endpoint("GET", "/conversations", "read", listing, "Conversations.", takes=Listed, gives=Listing, reach="filtered"),
    Endpoint(
        "POST",
        "/conversations",
        "operate",
        open_one,
        "Open a conversation.",
        takes=ConversationRequest,
        gives=Shown,
        status=201,
        reach="filtered",
    ),
    Endpoint(
        "GET",
        "/conversations/{id}",
        "read",
        show,
        "A conversation, and what it does now.",
        gives=Shown,
        reach="conversation",
    ),
    Endpoint(
        "GET",
        "/conversations/{id}/items",
        "read",
        items,
        "What happened in it.",
        takes=Paged,
        gives=Items,
        reach="conversation",
    ),
    Endpoint(
        "GET",
        "/conversations/{id}/events",
        "read",
        events,
        "What happens in it, as server-sent events.",
        takes=streams.Followed,
        media_type="text/event-stream",
        reach="conversation",
    ),
    Endpoint(
        "POST",
        "/conversations/{id}/messages",
        "operate",
        send,
        "Send a message; while a turn works it waits for its own.",
        takes=Said,
        gives=Queued,
        status=202,
        body_limit=MESSAGE_BYTES,
        reach="conversation",
    ),
    Endpoint(
        "GET",
        "/conversations/{id}/turns/{turn}",
        "read",
        result,
        "How a turn ended, once it has.",
        takes=Waited,
        gives=Result,
        reach="conversation",
    ),
    Endpoint(
        "POST",
        "/conversations/{id}/interrupt",
        "operate",
        interrupt,
        "End the turn at hand, or one that waits.",
        takes=Which,
        gives=Interrupted,
        reach="conversation",
    ),
    Endpoint(
        "POST",
        "/conversations/{id}/branch",
        "operate",
        branch,
        "Go on in a copy of it.",
        gives=Shown,
        status=201,
        reach="conversation",
    ),
    Endpoint(
        "POST",
        "/conversations/{id}/close",
        "operate",
        close,
        "End it at a safe point.",
        gives=Shown,
        reach="conversation",
    ),
    Endpoint(
        "POST",
        "/conversations/{id}/questions/{question}/answer",
        "operate",
        answer,
        "Answer a question of a conversation that the client opened.",
        takes=Given,
        gives=Settled,
        reach="conversation",
    ),
)
