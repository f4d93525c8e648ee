"""The page of one conversation: what happened as in the terminal, live; messages, interrupt, branch, rewind."""

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Annotated

from adderclaw.agent.conversation.conversation import Conversation
from adderclaw.agent.conversation.updates import Update
from adderclaw.agent.queries import clean
from adderclaw.agent.view.html import Html, el, many
from adderclaw.agent.view.html_items import item, item_id
from adderclaw.agent.view.items import Item, Notice, Words
from adderclaw.core.decode import Between
from adderclaw.core.record import record
from adderclaw.server import streams
from adderclaw.server.conversations import folder_of, found
from adderclaw.server.endpoint import Called, Endpoint
from adderclaw.server.pages import live, live_summary, questions, talk
from adderclaw.server.pages.layout import layout
from adderclaw.server.pages.parts import card, empty, link, sent_form
from adderclaw.storage import Store, threads

if TYPE_CHECKING:
    from sse_starlette import ServerSentEvent
    from starlette.responses import Response

PAUSE = 0.5
"""Seconds between two looks at what another process writes."""
HERE = "/ui/conversations"


@record
class From:
    start: Annotated[int, Between(0)] | None = None
    """The number of the first item; without it, the latest are shown."""
    after: str = ""
    part: str = ""


async def page(called: Called) -> "Response":
    one = found(called)
    last, store = one.updates.last, called.house.store
    made = await asyncio.to_thread(talk.items, store, one)
    start = max(0, len(made) - talk.PAGE) if called.given.start is None else min(called.given.start, len(made))
    shown = made[start : start + talk.PAGE]
    elsewhere = talk.is_elsewhere(store, one)
    is_latest = start + talk.PAGE >= len(made)
    title = clean(live_summary.title(store, one.id)) or "New conversation"
    return layout(
        called,
        title if len(title) <= 90 else f"{title[:90]}…",
        el(
            "div",
            _earlier(one, start),
            _transcript(one, shown),
            _questions(called, one),
            None if is_latest else el("p", link("Later", f"{HERE}/{one.id}"), class_="row"),
            el("button", "New below", type="button", id="below", class_="below", hidden=True, data_do="bottom"),
            _composer(called, one, elsewhere=elsewhere),
            class_="talk",
        ),
        here=HERE,
        lead=f"from {clean(came_from)}, {folder_of(one)}"
        if (came_from := threads.came_from(one.client))
        else folder_of(one),
        actions=_actions(called, one),
        live=f"{HERE}/{one.id}/events?after={last}" if is_latest else "",
    )


def _transcript(one: Conversation, shown: list[Item]) -> Html:
    drawn = [item(each) for each in shown]
    nothing = None if drawn else _nothing()
    partial = el("div", one.partial, class_="item words assistant streaming", id="streaming") if one.partial else None
    return el(
        "div", nothing, drawn, partial, class_="transcript", id="items", data_region=True, role="log", tabindex="-1"
    )


def _nothing() -> Html:
    text = el("p", "Say what you would like to have done. The agent asks before it does what it may not do by itself.")
    return el("div", empty("Nothing was said yet", text), id="nothing")


def _earlier(one: Conversation, start: int) -> Html | None:
    if not start:
        return None
    before = max(0, start - talk.PAGE)
    return el("p", link(f"{start} earlier", f"{HERE}/{one.id}?start={before}"), class_="row")


def _questions(called: Called, one: Conversation) -> Html:
    cards = [questions.card(called, each, with_place=False) for each in live_summary.waiting(called, one.id)]
    return el("div", cards, id="questions", class_="stack", data_region=True, aria_live="assertive")


def _actions(called: Called, one: Conversation) -> Html | None:
    if not called.client.has("operate"):
        return None
    branch = sent_form(f"/conversations/{one.id}/branch", el("button", "Branch", type="submit"), then=f"{HERE}/{{id}}")
    rewind = link("Rewind", f"{HERE}/{one.id}/rewind") if talk.steers(called, one) else None
    return many(branch, rewind)


def _composer(called: Called, one: Conversation, *, elsewhere: bool) -> Html:
    status = talk.status(called.house.store, one, elsewhere=elsewhere)
    if not talk.steers(called, one):
        why = el("p", "You may look at this conversation; another client opened it and steers it.", class_="quiet")
        return el("div", status, why, class_="composer")
    area = el(
        "textarea",
        id="message",
        name="text",
        rows=2,
        required=True,
        data_clear=True,
        data_first=True,
        placeholder="Write to the agent …  (Ctrl+Enter sends)",
        aria_label="Message to the agent",
    )
    note = (
        "Another process works in this conversation: you can watch it here, and answer its questions."
        if elsewhere
        else ""
    )
    send = sent_form(
        f"/conversations/{one.id}/messages",
        el("p", note, class_="quiet") if note else None,
        area,
        el(
            "div",
            el("div", status, class_="grow"),
            interrupt_button(one),
            el("button", "Send", type="submit", class_="main-one"),
            class_="row",
        ),
        class_="stack",
    )
    interrupt = sent_form(f"/conversations/{one.id}/interrupt", id="interrupting")
    return el("div", send, interrupt, class_="composer")


def interrupt_button(one: Conversation) -> Html:
    """Only while there is something to interrupt; it belongs to a form of its own."""
    is_idle = one.state not in ("working", "asking")
    return el(
        "button",
        "Interrupt",
        type="submit",
        form="interrupting",
        class_="danger",
        id="interrupt",
        data_interrupt=True,
        hidden=is_idle,
    )


# ------------------------------------------------------------------ while it goes on


async def events(called: Called) -> object:
    one = found(called)
    if talk.is_elsewhere(called.house.store, one):
        return streams.response(_watched(called, one))
    after = streams.last_seen(called.request, int(called.given.after) if called.given.after.isdecimal() else None)
    return streams.response(_changes(called, one, after))


async def _changes(called: Called, one: Conversation, after: int | None) -> AsyncGenerator["ServerSentEvent"]:
    yield live.put("status", talk.status(called.house.store, one, elsewhere=False))
    yield live.put("interrupt", interrupt_button(one))
    updates = one.follow(after)
    try:
        async for update in updates:
            for event in _drawn(called, one, update):
                yield event
    finally:
        await updates.aclose()


def _drawn(called: Called, one: Conversation, update: Update) -> "list[ServerSentEvent]":
    at, data = str(update.id), update.data
    match update.kind:
        case "item":
            said = isinstance(data, Words)
            gone = [live.put("nothing", None)] + (
                [live.put("streaming", None)] if said and data.role == "assistant" else []
            )
            return [*gone, live.put(item_id(data.key), item(data), "items", at=at)]
        case "delta" if data["kind"] == "text":
            return [live.text("streaming", data["text"], "items", at=at)]
        case "delta" if data["kind"] == "reset":
            return [live.put("streaming", None, at=at)]
        case "question":
            asked = live_summary.one(called, data.id)
            drawn = questions.card(called, asked, with_place=False) if asked is not None else None
            return [live.put(questions.card_id(data.id), drawn, "questions", at=at)]
        case "answered":  # its call says who answered what
            return [live.put(questions.card_id(str(data["id"])), None, at=at)]
        case "state":
            status = talk.status(called.house.store, one, elsewhere=False)
            return [live.put("status", status), live.put("interrupt", interrupt_button(one), at=at)]
        case "ended":
            return [*_ended(data, at), live.put("status", talk.status(called.house.store, one, elsewhere=False), at=at)]
        case "dropped":
            return [live.reset(at)]
        case _:
            return []


def _ended(data: "dict[str, str]", at: str) -> "list[ServerSentEvent]":
    """How a turn ended, where that is worth a word."""
    if data["outcome"] == "completed":
        return []
    key = f"ended {data['turn']}"
    kind = "error" if data["outcome"] == "error" else "warning"
    text = f"{data['outcome'].replace('_', ' ')}: {data['reason']}" if data["reason"] else data["outcome"]
    return [live.put("streaming", None), live.put(item_id(key), item(Notice(key, kind, clean(text))), "items", at=at)]


async def _watched(called: Called, one: Conversation) -> AsyncGenerator["ServerSentEvent"]:
    """What another process does, by its rows."""
    store, sent = called.house.store, dict[str, str]()
    while talk.is_elsewhere(store, one):
        before = store.version()
        made = await asyncio.to_thread(talk.items, store, one)
        for each in made[-talk.PAGE :]:
            id, drawn = item_id(each.key), item(each)
            if sent.get(id) != str(drawn):
                sent[id] = str(drawn)
                yield live.put(id, drawn, "items")
        for asked in live_summary.waiting(called, one.id):
            drawn = questions.card(called, asked, with_place=False)
            yield live.put(questions.card_id(asked.row.id), drawn, "questions")
        await _written(store, before)
    yield live.reset()


async def _written(store: Store, before: object) -> None:
    """Wait until something was written since `before`, or for a while."""
    for _ in range(20):
        await asyncio.sleep(PAUSE)
        if store.version() != before:
            return


# ------------------------------------------------------------------ going back


async def rewind(called: Called) -> "Response":
    one = found(called)
    made = await asyncio.to_thread(talk.prompts, called.house.store, one)
    back = link("Back to the conversation", f"{HERE}/{one.id}")
    content = [_prompt(one, words) for words in reversed(made)] or [empty("There is no message to go back to")]
    return layout(
        called,
        "Rewind",
        *content,
        here=HERE,
        lead="Choose the message before which everything is to be as it was. What others changed since is left alone.",
        actions=back,
    )


def _prompt(one: Conversation, words: Words) -> Html:
    key = f"what-{words.sequence}"
    choices = (("both", "Files and conversation"), ("files", "Files only"), ("conversation", "Conversation only"))
    what = el("select", [el("option", name, value=value) for value, name in choices], name="what", id=key)
    text = words.text if len(words.text) <= 400 else f"{words.text[:400]}…"
    return card(
        el("p", text, class_="clip"),
        sent_form(
            f"/conversations/{one.id}/rewind",
            el("input", type="hidden", name="sequence", value=words.sequence, data_type="number"),
            el(
                "div",
                el("label", "Take back", for_=key),
                el("div", what),
                el("button", "Rewind to before this", type="submit", class_="danger"),
                class_="row",
            ),
            then=f"{HERE}/{one.id}",
            confirm="Go back to before this message? What came after it is taken back.",
            class_="stack",
        ),
    )


ENDPOINTS = (
    Endpoint(
        "GET",
        "/ui/conversations/{id}",
        "read",
        page,
        "One conversation.",
        takes=From,
        is_page=True,
        reach="conversation",
    ),
    Endpoint(
        "GET",
        "/ui/conversations/{id}/events",
        "read",
        events,
        "Changes of that page.",
        takes=From,
        is_page=True,
        reach="conversation",
    ),
    Endpoint(
        "GET", "/ui/conversations/{id}/rewind", "read", rewind, "Going back in it.", is_page=True, reach="conversation"
    ),
)
