"""Endpoints of conversations: open, list, read, send messages, follow, interrupt, branch and close."""

import asyncio
import base64
import binascii
from collections.abc import Sequence
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
from adderclaw.core.types import Json, MediaBlock
from adderclaw.server import bounds, client_scope, streams
from adderclaw.server.answers import AnswerBody, SettledQuestion, answer_watched
from adderclaw.server.endpoint import ApiRequest, Endpoint
from adderclaw.server.refusal import Refusal, not_found
from adderclaw.storage import threads, transcript
from adderclaw.tools import images

MOST_PICTURES = 10


@record
class Picture:
    data: str
    """Base64 of a PNG, JPEG, GIF or WebP file."""
    name: str = ""


def decode_pictures(pictures: Sequence[Picture]) -> tuple[MediaBlock, ...]:
    """Checks the content of each picture, whatever its name says."""
    if len(pictures) > MOST_PICTURES:
        raise Refusal(400, "pictures", f"{len(pictures)} pictures: a message has at most {MOST_PICTURES}")
    return tuple(_decode_picture(number, picture) for number, picture in enumerate(pictures, 1))


def _decode_picture(number: int, picture: Picture) -> MediaBlock:
    try:
        data = base64.b64decode(picture.data, validate=True)
        size = images.measure_image(data)
    except (binascii.Error, ValueError) as error:
        raise Refusal(400, "pictures", f"picture {number}: {error}") from error
    if len(data) > images.MAX_BYTES:
        raise Refusal(400, "pictures", f"picture {number} has more than {images.MAX_BYTES:,} bytes")
    return MediaBlock(size.media_type, base64.b64encode(data).decode(), picture.name[:200])


MOST_LISTED = 500
MESSAGE_BYTES = 24 << 20
"""The largest message with its pictures, in bytes."""

type State = Literal["idle", "working", "asking", "ended"]


@record
class ConversationRow:
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
class ConversationList:
    conversations: list[ConversationRow]


@record
class ConversationsQuery:
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
class ConversationState:
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
class ItemsQuery:
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
class MessageRequest:
    text: str
    images: list[Picture] | None = None


@record
class QueuedMessage:
    turn: str
    state: State


@record
class InterruptRequest:
    turn: str | None = None
    """The turn at hand, or one whose message waits; without it, the one at hand."""


@record
class Interrupted:
    interrupted: bool


@record
class ResultQuery:
    seconds: Annotated[int, Between(0, 60)] = 60
    """How long to wait for its end."""


@record
class TurnResult:
    turn: str
    outcome: str | None
    """None: it has not ended yet."""
    answer: str
    reason: str


# ------------------------------------------------------------------ finding


def find_conversation(request: ApiRequest) -> Conversation:
    """The conversation of the path."""
    return request.state.conversations.find(request.path["id"])


def folder_of(conversation: Conversation) -> str:
    return conversation.options.workspace or ""


def steers(request: ApiRequest, conversation: Conversation) -> bool:
    return request.client.steers(conversation.client, folder_of(conversation))


def describe(request: ApiRequest, conversation: Conversation) -> ConversationState:
    session = conversation.run.session if conversation.run is not None else None
    return ConversationState(
        id=conversation.id,
        workspace=queries.clean(folder_of(conversation)),
        title=queries.clean(transcript.title(request.state.store, conversation.id)),
        state=conversation.state,
        turn=conversation.turn,
        queued=len(conversation.queued),
        client=conversation.client,
        came_from=queries.clean(threads.describe_sender(conversation.client)),
        steers=steers(request, conversation),
        awake=conversation.run is not None,
        run_id=conversation.run.run_id if conversation.run is not None else "",
        session_id=session.session_id if session is not None else "",
        provider=session.provider.name if session is not None else "",
        model=queries.clean(session.model) if session is not None else "",
        questions=[asking.as_json(question) for question in conversation.questions.values()],
        last_event_id=conversation.updates.last,
    )


# ------------------------------------------------------------------ reading


async def list_conversations(request: ApiRequest) -> ConversationList:
    query: ConversationsQuery = request.body
    folders = client_scope.visible_folders(request)
    if query.workspace is not None:
        folders = (query.workspace,) if not folders or query.workspace in folders else client_scope.NO_FOLDERS

    def read() -> list[tuple[transcript.Conversation, str]]:
        with queries.reading(request.state.options) as store:
            rows = transcript.conversations(store, query.limit, folders)
            return [(row, transcript.client_of(store, row.id)) for row in rows]

    return ConversationList([_row(request, *row) for row in await asyncio.to_thread(read)])


def _row(request: ApiRequest, row: transcript.Conversation, owner: str) -> ConversationRow:
    here = request.state.conversations.get(row.id)
    return ConversationRow(
        id=row.id,
        workspace=queries.clean(row.project_dir),
        title=queries.clean(row.title),
        created_at=row.created_at,
        last_active=row.last_active,
        phase=row.phase,
        entries=row.entries,
        state=here.state if here is not None else "idle",
        turn=here.turn if here is not None else "",
        questions=len(here.questions) if here is not None else 0,
        steers=request.client.steers(owner, row.project_dir),
        came_from=queries.clean(threads.describe_sender(owner)),
    )


async def show(request: ApiRequest) -> ConversationState:
    return describe(request, find_conversation(request))


async def list_items(request: ApiRequest) -> Items:
    conversation, page = find_conversation(request), request.body
    last, partial, running = conversation.updates.last, conversation.partial, conversation.running

    def read() -> tuple[list[Json], int, int]:
        with queries.reading(request.state.options) as store:
            rows = list(Rows(store, queries.clean, folder_of(conversation)).conversation(conversation.id))
        start = max(0, len(rows) - page.limit) if page.start is None else page.start
        chosen = rows[start : start + page.limit]
        latest = [running.get(item.key, item) if isinstance(item, Call) else item for item in chosen]
        return [wire.item_to_json(item) for item in latest], start, len(rows)

    return Items(*await asyncio.to_thread(read), partial=partial, last_event_id=last)


async def events(request: ApiRequest) -> object:
    return streams.stream_watched(request, find_conversation(request))


# ------------------------------------------------------------------ steering


async def open_conversation(request: ApiRequest) -> ConversationState:
    body: ConversationRequest = request.body
    here, client = request.state.conversations, request.client
    if body.resume is not None:
        earlier = here.find(body.resume)
        folder, granted = request.state.folder_for(client, folder_of(earlier)), steers(request, earlier)
        if body.workspace is not None and request.state.folder_for(client, body.workspace) != folder:
            raise UsageError(f"{earlier.id} belongs to {folder}: leave `workspace` out, or open a new conversation")
    else:
        folder, granted = request.state.folder_for(client, body.workspace), False
    options = replace(request.state.options, workspace=folder)
    await asyncio.to_thread(bounds.require_profile, client, options, body.profile)
    await asyncio.to_thread(bounds.require_provider, options, body.provider)
    conversation = await here.open(
        client.id,
        workspace=folder,
        resume=body.resume,
        go_on=body.go_on,
        profile=body.profile,
        provider=body.provider,
        model=body.model,
        granted=granted,
    )
    if body.go_on or body.text is not None:
        await bounds.require_profile_of_conversation(request, conversation)
    if body.go_on and body.resume is not None:
        await conversation.go_on(client.id, granted=granted)
    if body.text is not None:
        await conversation.send(body.text, client=client.id, granted=granted)
    return describe(request, conversation)


async def send(request: ApiRequest) -> QueuedMessage:
    conversation, body = find_conversation(request), request.body
    await bounds.require_profile_of_conversation(request, conversation)
    pictures = decode_pictures(body.images or [])
    turn = await conversation.send(
        body.text, client=request.client.id, images=pictures, granted=steers(request, conversation)
    )
    return QueuedMessage(turn, conversation.state)


async def await_result(request: ApiRequest) -> TurnResult:
    """Waits for the end of the turn, for a limited time because the client may have disconnected."""
    conversation, turn = find_conversation(request), request.path["turn"]
    try:
        async with asyncio.timeout(request.body.seconds):
            ended = await conversation.ended(turn)
    except TimeoutError:
        return TurnResult(turn, None, "", "")
    return TurnResult(turn, ended.outcome, ended.answer, ended.reason)


async def interrupt(request: ApiRequest) -> Interrupted:
    conversation = find_conversation(request)
    why = f"interrupted by {request.client.name}"
    if not conversation.interrupt(
        request.client.id, turn=request.body.turn, granted=steers(request, conversation), why=why
    ):
        raise Refusal(409, "idle", "there is nothing to interrupt: no turn is running")
    return Interrupted(True)


async def branch(request: ApiRequest) -> ConversationState:
    """Opens a copy of a conversation, which every client that may read the conversation can continue."""
    conversation = find_conversation(request)
    folder = request.state.folder_for(request.client, folder_of(conversation))
    copy = await request.state.conversations.open(
        request.client.id, resume=conversation.id, fork=True, workspace=folder, granted=True
    )
    return describe(request, copy)


async def close(request: ApiRequest) -> ConversationState:
    conversation = find_conversation(request)
    conversation.require(request.client.id, granted=steers(request, conversation))
    await conversation.close(f"closed by {request.client.name}")
    return describe(request, conversation)


async def answer(request: ApiRequest) -> SettledQuestion:
    """Answers a question, for the client that opened the conversation or may steer it."""
    conversation, id = find_conversation(request), request.path["question"]
    settled = answer_watched(request, conversation, id, granted=steers(request, conversation))
    if settled is None:
        raise not_found("question", id)
    return settled


ENDPOINTS = (
    Endpoint(
        "GET",
        "/conversations",
        "read",
        list_conversations,
        "Conversations.",
        takes=ConversationsQuery,
        gives=ConversationList,
        reach="filtered",
    ),
    Endpoint(
        "POST",
        "/conversations",
        "operate",
        open_conversation,
        "Open a conversation.",
        takes=ConversationRequest,
        gives=ConversationState,
        status=201,
        reach="filtered",
    ),
    Endpoint(
        "GET",
        "/conversations/{id}",
        "read",
        show,
        "A conversation and its state.",
        gives=ConversationState,
        reach="conversation",
    ),
    Endpoint(
        "GET",
        "/conversations/{id}/items",
        "read",
        list_items,
        "Its items.",
        takes=ItemsQuery,
        gives=Items,
        reach="conversation",
    ),
    Endpoint(
        "GET",
        "/conversations/{id}/events",
        "read",
        events,
        "Its updates, as server-sent events.",
        takes=streams.EventsQuery,
        media_type="text/event-stream",
        reach="conversation",
    ),
    Endpoint(
        "POST",
        "/conversations/{id}/messages",
        "operate",
        send,
        "Send a message; it is queued while a turn is running.",
        takes=MessageRequest,
        gives=QueuedMessage,
        status=202,
        body_limit=MESSAGE_BYTES,
        reach="conversation",
    ),
    Endpoint(
        "GET",
        "/conversations/{id}/turns/{turn}",
        "read",
        await_result,
        "How a turn ended; waits for its end.",
        takes=ResultQuery,
        gives=TurnResult,
        reach="conversation",
    ),
    Endpoint(
        "POST",
        "/conversations/{id}/interrupt",
        "operate",
        interrupt,
        "Interrupt the current turn, or drop a queued one.",
        takes=InterruptRequest,
        gives=Interrupted,
        reach="conversation",
    ),
    Endpoint(
        "POST",
        "/conversations/{id}/branch",
        "operate",
        branch,
        "Continue in a copy of it.",
        gives=ConversationState,
        status=201,
        reach="conversation",
    ),
    Endpoint(
        "POST",
        "/conversations/{id}/close",
        "operate",
        close,
        "Close it at a safe point.",
        gives=ConversationState,
        reach="conversation",
    ),
    Endpoint(
        "POST",
        "/conversations/{id}/questions/{question}/answer",
        "operate",
        answer,
        "Answer a question of a conversation that the client opened.",
        takes=AnswerBody,
        gives=SettledQuestion,
        reach="conversation",
    ),
)
