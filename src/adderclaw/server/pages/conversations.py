"""The list of conversations with its search, and the page on which a new one begins."""

import asyncio
from typing import TYPE_CHECKING

from adderclaw.agent.view.html import Html, el
from adderclaw.core.record import record
from adderclaw.server.endpoint import Called, Endpoint
from adderclaw.server.pages import live_summary
from adderclaw.server.pages.layout import layout
from adderclaw.server.pages.now import talk_list
from adderclaw.server.pages.parts import card, empty, field, link, sent_form

if TYPE_CHECKING:
    from starlette.responses import Response

HERE = "/ui/conversations"
MOST = 200


@record
class Search:
    q: str = ""


async def page(called: Called) -> "Response":
    words = called.given.q.strip()[:200]
    found = await asyncio.to_thread(live_summary.talks, called, words, MOST)
    box = el(
        "input", type="search", name="q", id="q", value=words, placeholder="Words, a title or an id", data_first=True
    )
    form = el(
        "form",
        el("div", el("label", "Search", for_="q", class_="aside"), box, class_="grow"),
        el("button", "Search", type="submit"),
        method="get",
        action=HERE,
        class_="row",
        role="search",
        data_fill="found",
    )
    new = link("New conversation", f"{HERE}/new", main=True) if called.client.has("operate") else None
    lead = "Every conversation on this machine, wherever it was held."
    return layout(
        called,
        "Conversations",
        el("div", form, _found(found, words), class_="stack"),
        here=HERE,
        lead=lead,
        actions=new,
    )


def _found(found: list[live_summary.Talk], words: str) -> Html:
    if found:
        return el("div", card(talk_list(found), kind="flush"), id="found")
    if words:
        return el("div", empty("Nothing found", el("p", f"No conversation has “{words}” in it.")), id="found")
    new = el("div", link("New conversation", f"{HERE}/new", main=True), class_="row")
    return el("div", empty("No conversation yet", el("p", "Begin one here or in a terminal."), new), id="found")


async def new(called: Called) -> "Response":
    folders = [one for one in called.house.workspaces if called.client.sees(one)]
    folders += [one for one in called.client.folders if one not in folders]
    if not folders:
        text = el("p", "This server offers no folder that your token may open.")
        return layout(called, "New conversation", empty("No folder", text), here=HERE)
    where = el("select", [el("option", one, value=one) for one in folders], name="workspace", id="workspace")
    modes = (("", "as configured"), ("readonly", "read only"), ("supervised", "supervised"), ("sandboxed", "sandboxed"))
    mode = el(
        "select",
        [el("option", name, value=value) for value, name in modes],
        name="profile",
        id="profile",
        data_optional=True,
    )
    message = el(
        "textarea",
        id="message",
        name="text",
        rows=6,
        required=True,
        data_first=True,
        autofocus=True,
        placeholder="What would you like to have done?",
    )
    form = sent_form(
        "/conversations",
        field("Message", message, id="message", note="Ctrl+Enter begins"),
        el(
            "div",
            field("Folder", where, id="workspace"),
            field("How much happens unasked", mode, id="profile"),
            class_="grid",
        ),
        el("div", el("button", "Begin", type="submit", class_="main-one"), class_="row"),
        then=f"{HERE}/{{id}}",
        class_="stack",
    )
    lead = "The agent works in one folder, in a sandbox, and asks before what it may not do by itself."
    return layout(called, "New conversation", card(form), here=HERE, lead=lead)


ENDPOINTS = (
    Endpoint("GET", "/ui/conversations", "read", page, "Conversations.", takes=Search, is_page=True, reach="filtered"),
    Endpoint("GET", "/ui/conversations/new", "operate", new, "Begin one.", is_page=True, reach="filtered"),
)
