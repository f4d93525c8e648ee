"""Conversations: the list with its search and the form of a new one; one as it happens, with messages and rewind."""

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
from adderclaw.server.client_scope import places
from adderclaw.server.conversations import folder_of, found
from adderclaw.server.endpoint import Called, Endpoint
from adderclaw.server.pages import live, questions
from adderclaw.server.pages.page import Entry, in_thread, number, page, word
from adderclaw.server.pages.questions import Card
from adderclaw.storage import Store, locks, threads, transcript

if TYPE_CHECKING:
    from sse_starlette import ServerSentEvent

PAGE = 150
"""Items that are shown at once; earlier ones are a link away."""
MOST = 200
PAUSE = 0.5
"""Seconds between two looks at what another process writes."""


class Talk(NamedTuple):
    """A conversation of the list."""

    row: transcript.Conversation
    state: str
    """idle, working, asking; empty where it is not open in this server."""
    came_from: str = ""
    """The sender and the channel, where a chat system sent it."""


class Listing(NamedTuple):
    words: str
    talks: list[Talk]
    folders: list[str]
    """Where a new one may begin."""


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
    """The answer as far as it has arrived."""
    start: int
    """Number of the first item that is shown."""
    earlier: int
    """Where the earlier items begin."""
    is_latest: bool
    last: int
    """The latest update that is part of the page."""
    questions: list[Card]
    status: Status
    state: str
    steers: bool
    is_elsewhere: bool
    """Another process works in it: it can be watched here."""
    prompts: list[Words] | None
    """Messages to go back to; None unless a person asked for them."""


# ------------------------------------------------------------------ the list


async def _list(called: Called) -> Listing:
    words = word(called, "q")[:200]
    shown = await in_thread(lambda: talks(called, words, MOST))
    folders = [one for one in called.house.workspaces if called.client.sees(one)]
    folders += [one for one in called.client.folders if one not in folders]
    return Listing(words, shown, folders if called.client.has("operate") else [])


def talks(called: Called, words: str, limit: int) -> list[Talk]:
    """The most recent first; with `words`, those in which they occur."""
    store, seen = called.house.store, places(called)
    rows = [one for one in transcript.conversations(store, 500 if words else limit, seen, begun=True) if one.title]
    if words:
        hits = {hit.conversation_id for hit in transcript.search(store, words, 200, seen or None)}
        lowered = words.lower()
        rows = [one for one in rows if lowered in one.title.lower() or one.id in hits or one.id.startswith(words)]
    return [_talk(called, one) for one in rows[:limit]]


def _talk(called: Called, row: transcript.Conversation) -> Talk:
    here = called.house.conversations.get(row.id)
    came_from = threads.describe_sender(transcript.client_of(called.house.store, row.id))
    shown = row._replace(title=clean(row.title), project_dir=clean(row.project_dir))
    return Talk(shown, here.state if here else "", clean(came_from))


# ------------------------------------------------------------------ one


async def _read(called: Called) -> Output:
    one, store = found(called), called.house.store
    last = one.updates.last
    items = await in_thread(lambda: _items(store, one))
    steers = called.client.has("operate") and called.client.steers(one.client, folder_of(one))
    start = min(number(called, "start") or 0, len(items)) if word(called, "start") else max(0, len(items) - PAGE)
    title = clean(conversations.title(store, one.id)) or "New conversation"
    return Output(
        one.id,
        title if len(title) <= 90 else f"{title[:90]}…",
        folder_of(one),
        clean(threads.describe_sender(one.client)),
        items[start : start + PAGE],
        one.partial,
        start,
        max(0, start - PAGE),
        start + PAGE >= len(items),
        last,
        questions.waiting(called, one.id, with_place=False),
        _status(store, one),
        one.state,
        steers,
        _is_elsewhere(store, one),
        _prompts(store, one) if steers and word(called, "rewind") else None,
    )


def _items(store: Store, one: Conversation) -> list[Item]:
    """All of it; calls that run as far as they have come."""
    running = one.running
    items = list(Rows(store, clean, folder_of(one)).conversation(one.id))
    return [running.get(item.key, item) if isinstance(item, Call) else item for item in items]


def _prompts(store: Store, one: Conversation) -> list[Words]:
    """Messages of the latest session, the latest first."""
    sessions = transcript.sessions_of(store, one.id)
    items = Rows(store, clean, folder_of(one)).session(sessions[-1]) if sessions else iter(())
    return [item for item in items if isinstance(item, Words) and item.role == "user"][::-1]


def _is_elsewhere(store: Store, one: Conversation) -> bool:
    if one.run is not None:
        return False
    return any(locks.run_in_session(store.path, session) for session in transcript.sessions_of(store, one.id)[-1:])


def _status(store: Store, one: Conversation) -> Status:
    used = conversations.used(store, one.id)
    session = one.run.session if one.run is not None else None
    policy = session.environment.policy if session is not None else None
    budget = session.budget if session is not None else None
    cost = max(used.cost, budget.cost or 0.0 if budget is not None else 0.0)
    parts = [
        (policy.mode or policy.autonomy_now) if policy is not None else "",
        clean(session.model) if session is not None else used.model,
        f"{used.calls} model call{'' if used.calls == 1 else 's'}" if used.calls else "",
        f"{used.tokens:,} tokens" if used.tokens else "",
        f"${cost:.2f}" if cost else "",
        f"{len(one.queued)} waiting" if one.queued else "",
    ]
    state = one.state if one.state in ("working", "asking") else ""
    words = "open in another process" if _is_elsewhere(store, one) else "ready"
    return Status(state, words, [part for part in parts if part])


# ------------------------------------------------------------------ while the page is open


async def _events(called: Called) -> object:
    one = found(called)
    if _is_elsewhere(called.house.store, one):
        return streams.response(_watched(called, one))
    return streams.response(_changes(called, one, streams.last_seen(called.request, number(called, "after"))))


async def _changes(called: Called, one: Conversation, after: int | None) -> AsyncGenerator["ServerSentEvent"]:
    for event in _state(called, one, ""):
        yield event
    updates = one.follow(after)
    try:
        async for update in updates:
            for event in _drawn(called, one, update):
                yield event
    finally:
        await updates.aclose()


def _state(called: Called, one: Conversation, at: str) -> "list[ServerSentEvent]":
    status = macro("parts", "status", _status(called.house.store, one))
    return [live.put("status", status), live.put("interrupt", macro("parts", "interrupt", one.state), at=at)]


def _drawn(called: Called, one: Conversation, update: Update) -> "list[ServerSentEvent]":
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
            card = questions.find(called, data.id)
            drawn = questions.drawn(card) if card is not None else None
            return [live.put(questions.card_id(data.id), drawn, "questions", at=at)]
        case "answered":  # its call says who answered what
            return [live.put(questions.card_id(str(data["id"])), None, at=at)]
        case "state":
            return _state(called, one, at)
        case "ended":
            return [*_ended(data, at), *_state(called, one, at)]
        case "dropped":
            return [live.reset(at)]
        case _:
            return []


def _ended(data: "dict[str, str]", at: str) -> "list[ServerSentEvent]":
    """How a turn ended, unless it completed."""
    if data["outcome"] == "completed":
        return []
    kind = "error" if data["outcome"] == "error" else "warning"
    text = f"{data['outcome'].replace('_', ' ')}: {data['reason']}" if data["reason"] else data["outcome"]
    notice = Notice(f"ended {data['turn']}", kind, clean(text))
    drawn = macro("items", "item", notice)
    return [live.put("streaming", None), live.put(element_id(notice.key), drawn, "items", at=at)]


async def _watched(called: Called, one: Conversation) -> AsyncGenerator["ServerSentEvent"]:
    """What another process does, by its rows."""
    store, sent = called.house.store, dict[str, str]()
    while _is_elsewhere(store, one):
        before = store.version()
        items = await in_thread(lambda: _items(store, one))
        for each in items[-PAGE:]:
            id, drawn = element_id(each.key), macro("items", "item", each)
            if sent.get(id) != drawn:
                sent[id] = drawn
                yield live.put(id, drawn, "items")
        for card in questions.waiting(called, one.id, with_place=False):
            yield live.put(card.id, questions.drawn(card), "questions")
        await _written(store, before)
    yield live.reset()


async def _written(store: Store, before: object) -> None:
    """Wait until something was written since `before`, or for ten seconds."""
    for _ in range(20):
        await asyncio.sleep(PAUSE)
        if store.version() != before:
            return


ENTRY = Entry(11, "/ui/conversations", "Conversations", "c")
ENDPOINTS = (
    page(ENTRY.path, _list, "conversations.html", "Conversations."),
    page(f"{ENTRY.path}/{{id}}", _read, "conversation.html", "One conversation.", reach="conversation"),
    Endpoint(
        "GET", f"{ENTRY.path}/{{id}}/events", "read", _events, "Changes of it.", is_page=True, reach="conversation"
    ),
)
