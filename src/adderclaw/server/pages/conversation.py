"""The pages of conversations: the list with its search and a form for a new one, and a live conversation."""

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from adderclaw.agent.conversation.conversation import Conversation
from adderclaw.agent.conversation.updates import Update
from adderclaw.agent.queries import clean, conversations
from adderclaw.agent.view.items import Call, Item, Notice, Words
from adderclaw.agent.view.markup import element_id, macro
from adderclaw.agent.view.rows import Rows
from adderclaw.core.record import NamedTuple
from adderclaw.server import streams
from adderclaw.server.client_scope import visible_folders
from adderclaw.server.conversations import find_conversation, folder_of
from adderclaw.server.endpoint import ApiRequest, Endpoint
from adderclaw.server.pages import live, questions
from adderclaw.server.pages.page import Entry, in_thread, page, query_number, query_text
from adderclaw.server.pages.questions import Card
from adderclaw.storage import Store, locks, threads, transcript

if TYPE_CHECKING:
    from sse_starlette import ServerSentEvent

PAGE_ITEMS = 150
"""Items on a page; a link leads to the earlier ones."""
MOST_LISTED = 200
PAUSE = 0.5
"""Seconds between two checks for what another process wrote."""


class ListedConversation(NamedTuple):
    """A conversation of the list."""

    row: transcript.Conversation
    state: str
    """idle, working, asking; empty if it is not open in this server."""
    came_from: str = ""
    """The sender and the channel, if it came from a chat system."""


class Listing(NamedTuple):
    words: str
    talks: list[ListedConversation]
    folders: list[str]
    """The folders in which a new conversation may begin."""


class Status(NamedTuple):
    """The line beneath the transcript: state, mode, model, what it used."""

    state: str
    words: str
    parts: list[str]


class Output(NamedTuple):
    id: str
    title: str
    folder: str
    came_from: str
    items: list[Item]
    partial: str
    """The part of the answer that has arrived."""
    start: int
    """The number of the first item on the page."""
    earlier: int
    """The number of the first item on the previous page."""
    is_latest: bool
    last: int
    """The id of the latest update that the page includes."""
    questions: list[Card]
    status: Status
    state: str
    steers: bool
    is_elsewhere: bool
    """Whether another process is using it, so that it can only be watched here."""
    prompts: list[Words] | None
    """The messages that it can be rewound to; None unless a person asked for them."""


# ------------------------------------------------------------------ the list


async def _list(request: ApiRequest) -> Listing:
    words = query_text(request, "q")[:200]
    shown = await in_thread(lambda: list_conversations(request, words, MOST_LISTED))
    folders = [folder for folder in request.state.workspaces if request.client.sees(folder)]
    folders += [folder for folder in request.client.folders if folder not in folders]
    return Listing(words, shown, folders if request.client.has("operate") else [])


def list_conversations(request: ApiRequest, words: str, limit: int) -> list[ListedConversation]:
    """Conversations, most recent first; with `words`, only those that contain them."""
    store, seen = request.state.store, visible_folders(request)
    rows = [row for row in transcript.conversations(store, 500 if words else limit, seen, begun=True) if row.title]
    if words:
        hits = {hit.conversation_id for hit in transcript.search(store, words, 200, seen or None)}
        lowered = words.lower()
        rows = [row for row in rows if lowered in row.title.lower() or row.id in hits or row.id.startswith(words)]
    return [_listed_conversation(request, row) for row in rows[:limit]]


def _listed_conversation(request: ApiRequest, row: transcript.Conversation) -> ListedConversation:
    here = request.state.conversations.get(row.id)
    came_from = threads.describe_sender(transcript.client_of(request.state.store, row.id))
    shown = row._replace(title=clean(row.title), project_dir=clean(row.project_dir))
    return ListedConversation(shown, here.state if here else "", clean(came_from))


# ------------------------------------------------------------------ one conversation


async def _read(request: ApiRequest) -> Output:
    conversation, store = find_conversation(request), request.state.store
    last = conversation.updates.last
    items = await in_thread(lambda: _items(store, conversation))
    steers = request.client.has("operate") and request.client.steers(conversation.client, folder_of(conversation))
    start = (
        min(query_number(request, "start") or 0, len(items))
        if query_text(request, "start")
        else max(0, len(items) - PAGE_ITEMS)
    )
    title = clean(conversations.title(store, conversation.id)) or "New conversation"
    return Output(
        conversation.id,
        title if len(title) <= 90 else f"{title[:90]}…",
        folder_of(conversation),
        clean(threads.describe_sender(conversation.client)),
        items[start : start + PAGE_ITEMS],
        conversation.partial,
        start,
        max(0, start - PAGE_ITEMS),
        start + PAGE_ITEMS >= len(items),
        last,
        questions.waiting_cards(request, conversation.id, with_place=False),
        _status(store, conversation),
        conversation.state,
        steers,
        _is_elsewhere(store, conversation),
        _prompts(store, conversation) if steers and query_text(request, "rewind") else None,
    )


def _items(store: Store, conversation: Conversation) -> list[Item]:
    """All items; running calls with their current state."""
    running = conversation.running
    items = list(Rows(store, clean, folder_of(conversation)).conversation(conversation.id))
    return [running.get(item.key, item) if isinstance(item, Call) else item for item in items]


def _prompts(store: Store, conversation: Conversation) -> list[Words]:
    """User messages of the latest session, latest first."""
    sessions = transcript.sessions_of(store, conversation.id)
    items = Rows(store, clean, folder_of(conversation)).session(sessions[-1]) if sessions else iter(())
    return [item for item in items if isinstance(item, Words) and item.role == "user"][::-1]


def _is_elsewhere(store: Store, conversation: Conversation) -> bool:
    if conversation.run is not None:
        return False
    return any(
        locks.run_in_session(store.path, session) for session in transcript.sessions_of(store, conversation.id)[-1:]
    )


def _status(store: Store, conversation: Conversation) -> Status:
    used = conversations.used(store, conversation.id)
    session = conversation.run.session if conversation.run is not None else None
    policy = session.environment.policy if session is not None else None
    budget = session.budget if session is not None else None
    cost = max(used.cost, budget.cost or 0.0 if budget is not None else 0.0)
    parts = [
        (policy.mode or policy.autonomy_now) if policy is not None else "",
        clean(session.model) if session is not None else used.model,
        f"{used.calls} model call{'' if used.calls == 1 else 's'}" if used.calls else "",
        f"{used.tokens:,} tokens" if used.tokens else "",
        f"${cost:.2f}" if cost else "",
        f"{len(conversation.queued)} waiting" if conversation.queued else "",
    ]
    state = conversation.state if conversation.state in ("working", "asking") else ""
    words = "open in another process" if _is_elsewhere(store, conversation) else "ready"
    return Status(state, words, [part for part in parts if part])


# ------------------------------------------------------------------ while the page is open


async def _events(request: ApiRequest) -> object:
    conversation = find_conversation(request)
    if _is_elsewhere(request.state.store, conversation):
        return streams.event_response(_poll_changes(request, conversation))
    return streams.event_response(
        _changes(request, conversation, streams.last_event_id(request.http, query_number(request, "after")))
    )


async def _changes(
    request: ApiRequest, conversation: Conversation, after: int | None
) -> AsyncGenerator["ServerSentEvent"]:
    for event in _state(request, conversation, ""):
        yield event
    updates = conversation.follow(after)
    try:
        async for update in updates:
            for event in _page_events(request, conversation, update):
                yield event
    finally:
        await updates.aclose()


def _state(request: ApiRequest, conversation: Conversation, at: str) -> "list[ServerSentEvent]":
    status = macro("parts", "status", _status(request.state.store, conversation))
    return [live.put("status", status), live.put("interrupt", macro("parts", "interrupt", conversation.state), at=at)]


def _page_events(request: ApiRequest, conversation: Conversation, update: Update) -> "list[ServerSentEvent]":
    at, data = str(update.id), update.data
    match update.kind:
        case "item":
            arrived = isinstance(data, Words) and data.role == "assistant"
            gone = [live.put("nothing", None), *([live.put("streaming", None)] if arrived else [])]
            return [*gone, live.put(element_id(data.key), macro("items", "item", data), "items", at=at)]
        case "delta" if data["kind"] == "text":
            return [live.text("streaming", data["text"], "items", at=at)]
        case "delta" if data["kind"] == "reset":
            return [live.put("streaming", None, at=at)]
        case "question":
            card = questions.find_card(request, data.id)
            drawn = questions.render_card(card) if card is not None else None
            return [live.put(questions.card_id(data.id), drawn, "questions", at=at)]
        case "answered":  # the item of its call shows the answer
            return [live.put(questions.card_id(str(data["id"])), None, at=at)]
        case "state":
            return _state(request, conversation, at)
        case "ended":
            return [*_ended(data, at), *_state(request, conversation, at)]
        case "dropped":
            return [live.reset(at)]
        case _:
            return []


def _ended(data: "dict[str, str]", at: str) -> "list[ServerSentEvent]":
    """A notice of how a turn ended, unless it completed."""
    if data["outcome"] == "completed":
        return []
    kind = "error" if data["outcome"] == "error" else "warning"
    text = f"{data['outcome'].replace('_', ' ')}: {data['reason']}" if data["reason"] else data["outcome"]
    notice = Notice(f"ended {data['turn']}", kind, clean(text))
    drawn = macro("items", "item", notice)
    return [live.put("streaming", None), live.put(element_id(notice.key), drawn, "items", at=at)]


async def _poll_changes(request: ApiRequest, conversation: Conversation) -> AsyncGenerator["ServerSentEvent"]:
    """Follows a conversation of another process by reading its rows."""
    store, sent = request.state.store, dict[str, str]()
    while _is_elsewhere(store, conversation):
        before = store.version()
        items = await in_thread(lambda: _items(store, conversation))
        for item in items[-PAGE_ITEMS:]:
            id, drawn = element_id(item.key), macro("items", "item", item)
            if sent.get(id) != drawn:
                sent[id] = drawn
                yield live.put(id, drawn, "items")
        for card in questions.waiting_cards(request, conversation.id, with_place=False):
            yield live.put(card.id, questions.render_card(card), "questions")
        for _ in range(20):  # read again after a write, and at least every ten seconds
            await asyncio.sleep(PAUSE)
            if store.version() != before:
                break
    yield live.reset()


ENTRY = Entry(11, "/ui/conversations", "Conversations", "c")
ENDPOINTS = (
    page(ENTRY.path, _list, "conversations.html", "Conversations."),
    page(f"{ENTRY.path}/{{id}}", _read, "conversation.html", "One conversation.", reach="conversation"),
    Endpoint(
        "GET", f"{ENTRY.path}/{{id}}/events", "read", _events, "Changes of it.", is_page=True, reach="conversation"
    ),
)
