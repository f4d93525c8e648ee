"""The page *now*: what waits for a person, what runs and its current step, the stop, what was done last."""

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from adderclaw.agent.view.html import Html, el
from adderclaw.agent.view.html_items import item_id
from adderclaw.server import streams
from adderclaw.server.endpoint import Called, Endpoint
from adderclaw.server.pages import live, live_summary, questions
from adderclaw.server.pages.layout import layout, stop_button, stopped_banner, waiting_count
from adderclaw.server.pages.live_summary import Glance, Talk, Working
from adderclaw.server.pages.parts import card, empty, iso_seconds, link, moment, part, sent_form, state
from adderclaw.storage.runs import Run

if TYPE_CHECKING:
    from sse_starlette import ServerSentEvent
    from starlette.responses import Response

PAUSE = 0.5
"""Seconds between two looks at whether something was written."""
LONGEST = 20.0
"""Seconds after which is looked all the same: what expires writes nothing."""
ANSWERED = 40
"""Looks for which a question that was answered stays on the page, with its answer."""

type Parts = dict[str, tuple[str, Html]]
"""Id of an element → the region it belongs to, and the element."""


async def page(called: Called) -> "Response":
    found = live_summary.glance(called)
    made = _parts(called, found)

    def region(id: str) -> Html:
        inner = [html for into, html in made.values() if into == id]
        return el("div", inner, id=id, class_="stack", data_region=True, aria_live="polite")

    actions = stop_button(size="big") if not found.stopped and not called.client.folders else None
    return layout(
        called,
        "Now",
        part("Waiting for you", region("questions")),
        part("Running", region("running")),
        part("Recent conversations", region("talks"), note=el("a", "all", href="/ui/conversations")),
        part("Recent runs", region("runs"), note=el("a", "all", href="/ui/runs")),
        here="/",
        lead="What runs on this machine, and what waits for you.",
        actions=actions,
        live="/ui/now/events",
    )


async def events(called: Called) -> object:
    return streams.response(_changes(called))


async def _changes(called: Called) -> AsyncGenerator["ServerSentEvent"]:
    """Each element that is another one than before; first all of them, since the page may be old."""
    sent: Parts = {}
    answered: dict[str, int] = {}
    while True:
        before = _seen(called)  # before it is looked: what happens while a slow page is sent to counts
        found = live_summary.glance(called)
        made = {"stopped": ("", stopped_banner(found.stopped)), **_parts(called, found)}
        made["waiting-count"] = ("", waiting_count(len(found.questions)))
        _keep_answered(called, sent, made, answered)
        for id in sent.keys() - made.keys():
            yield live.put(id, None)
        for id, (into, html) in made.items():
            if id not in sent or str(sent[id][1]) != str(html):
                yield live.put(id, html, into)
        sent = made
        await _changed(called, before)


def _keep_answered(called: Called, sent: Parts, made: Parts, answered: dict[str, int]) -> None:
    """A question that is open no more shows for a while what became of it: it may have been answered elsewhere."""
    for id in [id for id in sent if id.startswith("q-") and id not in made]:
        answered.setdefault(id, 0)
        answered[id] += 1
        if answered[id] <= ANSWERED and (ended := _ended(called, id)) is not None:
            made[id] = ("questions", ended)


def _ended(called: Called, id: str) -> Html | None:
    from adderclaw.storage import approvals

    for row in approvals.listing(called.house.store, everything=True, limit=100, places=live_summary.places(called)):
        if questions.card_id(row.id) == id:
            return questions.card(called, live_summary.asked(called, row))
    return None


async def _changed(called: Called, before: object) -> None:
    """Wait until something is another than it was `before`."""
    waited = PAUSE
    await asyncio.sleep(PAUSE)
    while waited < LONGEST and _seen(called) == before:
        await asyncio.sleep(PAUSE)
        waited += PAUSE


def _seen(called: Called) -> object:
    """What is another one when any process has written, the stop was pressed or released, or work goes on here."""
    house = called.house
    here = [(one.id, one.state, [call.state for call in one.running.values()]) for one in house.conversations.all()]
    return house.store.version(), house.stopped, here


# ------------------------------------------------------------------ elements


def _parts(called: Called, found: Glance) -> Parts:
    made: Parts = {questions.card_id(one.row.id): ("questions", questions.card(called, one)) for one in found.questions}
    if not found.questions:
        text = el("p", "When an agent needs a yes, a no or a decision, it shows up here.")
        made["no-questions"] = ("questions", el("div", text, class_="empty", id="no-questions"))
    made |= {_working_id(one): ("running", _working(one)) for one in found.working}
    if not found.working:
        made["no-running"] = ("running", _nothing_runs())
    made["talk-list"] = ("talks", _talks(found.talks))
    made["run-list"] = ("runs", _runs(found.runs))
    return made


def _nothing_runs() -> Html:
    new = link("New conversation", "/ui/conversations/new", main=True)
    text = el("p", "Begin a conversation here, or start a run in a terminal: ", el("code", "adderclaw run --detach"))
    return el("div", empty("Nothing runs", text, el("div", new, class_="row")), id="no-running")


def _working_id(one: Working) -> str:
    return item_id(f"run {one.run.run_id}")


def _working(one: Working) -> Html:
    call = one.step.call
    doing = (
        el("p", el("b", call.tool), " ", el("code", call.argument), class_="doing")
        if call is not None
        else el("p", one.step.words, class_="quiet")
    )
    word = "asking" if (call is not None and call.state == "asked") or one.step.asks else "working"
    where = el("a", one.title or one.run.run_id, href=f"/ui/conversations/{one.run.conversation_id}", class_="title")
    about = el(
        "p", f"{one.run.kind} · {one.folder} · since ", moment(iso_seconds(one.run.started_at)), class_="quiet small"
    )
    interrupt = (
        sent_form(
            f"/conversations/{one.run.conversation_id}/interrupt",
            el("button", "Interrupt", type="submit"),
            done="Interrupted.",
        )
        if one.is_here
        else None
    )
    text = el("div", el("div", where, state(word), class_="row"), about, doing, class_="grow")
    return el("article", el("div", text, interrupt, class_="row apart"), class_="card", id=_working_id(one))


def _talks(found: list[Talk]) -> Html:
    if not found:
        return el("div", empty("No conversation yet"), id="talk-list")
    return card(talk_list(found), kind="flush", id="talk-list")


def talk_list(found: list[Talk]) -> Html:
    return el("ul", [_talk(one) for one in found], class_="list")


def _talk(one: Talk) -> Html:
    word = state(one.state) if one.state in ("working", "asking") else None
    return el(
        "li",
        el(
            "a",
            el("span", one.row.title, class_="title"),
            el("span", moment(iso_seconds(one.row.last_active)), class_="when"),
            el(
                "span",
                f"from {one.came_from}, " if one.came_from else None,
                one.row.project_dir,
                " ",
                word,
                class_="more",
            ),
            href=f"/ui/conversations/{one.row.id}",
            class_="whole",
        ),
    )


def _runs(found: list[Run]) -> Html:
    if not found:
        text = el("p", "A run works through a task, an Agentfile or a specification by itself.")
        return el("div", empty("No run yet", text), id="run-list")
    rows = [
        el(
            "li",
            el(
                "a",
                el("span", run.run_id, class_="title mono"),
                el("span", moment(iso_seconds(run.started_at)), class_="when"),
                el("span", f"{run.kind} ", state(run.status), class_="more"),
                href=f"/ui/runs/{run.run_id}",
                class_="whole",
            ),
        )
        for run in found
    ]
    return card(el("ul", rows, class_="list"), kind="flush", id="run-list")


ENDPOINTS = (
    Endpoint("GET", "/", "read", page, "What goes on now.", is_page=True, reach="filtered"),
    Endpoint("GET", "/ui/now/events", "read", events, "Changes of that page.", is_page=True, reach="filtered"),
)
