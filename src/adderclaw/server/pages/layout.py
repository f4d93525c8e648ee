"""The one layout of all pages: navigation, title, landmarks, the stop, the theme, the help for the keyboard."""

from typing import TYPE_CHECKING

from adderclaw.agent.view.html import Child, Html, document, el, head_of, many
from adderclaw.core.record import NamedTuple
from adderclaw.server.endpoint import NOBODY, Called
from adderclaw.server.pages import assets, live_summary
from adderclaw.server.pages.parts import sent_form

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import HTMLResponse

    from adderclaw.server.state import House


class Place(NamedTuple):
    path: str
    name: str
    key: str
    """With `g` before it, it leads there."""
    whole_machine: bool = False
    """Not for a token with folders."""


PLACES = (
    Place("/", "Now", "n"),
    Place("/ui/conversations", "Conversations", "c"),
    Place("/ui/runs", "Runs", "r"),
    Place("/ui/sops", "SOPs", "o"),
    Place("/ui/schedules", "Schedules", "t"),
    Place("/ui/fleet", "Fleet", "f", whole_machine=True),
    Place("/ui/usage", "Usage", "u"),
    Place("/ui/ledger", "Ledger", "l"),
    Place("/ui/policy", "Policy", "p"),
    Place("/ui/extensions", "Extensions", "x"),
    Place("/ui/notices", "Notices", "i"),
    Place("/ui/settings", "Settings", "s"),
    Place("/ui/doctor", "Doctor", "d", whole_machine=True),
)


def layout(
    called: Called,
    title: str,
    *content: Child,
    here: str,
    lead: Child = None,
    actions: Child = None,
    live: str = "",
    wide: bool = False,
    status: int = 200,
) -> "HTMLResponse":
    """A page of the dashboard.

    `here`: the path of its place in the navigation. `lead`: a sentence beneath the title. `actions`: links and buttons
    beside it. `live`: the address of a stream of events (`live.py`) that changes the page while it is open.
    """
    heading = el("div", el("h1", title), el("p", lead, class_="lead") if lead is not None else None)
    main = el(
        "main",
        el("header", heading, el("div", actions, class_="row") if actions is not None else None, class_="top"),
        *content,
        class_="main wide" if wide else "main",
        id="main",
        tabindex="-1",
        data_live=live or None,
    )
    frame = el(
        "div", _side(called, here, len(live_summary.waiting(called))), el("div", _banners(called), main), class_="frame"
    )
    body = many(el("a", "Skip to the content", href="#main", class_="skip"), frame, _dialogs())
    return _response(called, f"{title} · AdderClaw", body, status)


def bare(called: Called, title: str, *content: Child, status: int = 200) -> "HTMLResponse":
    """A page of its own, with nothing around it: the login, an error before it."""
    card = el("div", *content, class_="card")
    return _response(called, f"{title} · AdderClaw", el("main", card, class_="alone", id="main"), status)


def refusal_page(house: "House", request: "Request", status: int, message: str) -> "HTMLResponse":
    """What a person sees where a program would get an error as JSON."""
    called = Called(NOBODY, house, None, {}, request)
    back = el("p", el("a", "To the first page", href="/"))
    return bare(called, "That did not work", el("h1", "That did not work"), el("p", message), back, status=status)


def _response(called: Called, title: str, body: Html, status: int) -> "HTMLResponse":
    from starlette.responses import HTMLResponse

    head = head_of(title, **{name: assets.address(file) for name, file in _FILES.items()})
    theme = called.request.cookies.get("theme", "")
    return HTMLResponse(document(head, body, theme=theme), status)


_FILES = {"style": "style.css", "script": "app.js", "icon": "icon.svg"}


def waiting_count(count: int) -> Html:
    """How many questions wait, beside the name of the page that shows them."""
    words = el("span", " waiting", class_="aside") if count else None
    return el("span", count or None, words, class_="count", id="waiting-count")


def _side(called: Called, here: str, waiting: int) -> Html:
    is_whole = not called.client.folders
    links = [
        el(
            "li",
            el(
                "a",
                place.name,
                waiting_count(waiting) if place.path == "/" else None,
                href=place.path,
                aria_current="page" if place.path == here else None,
                data_key=place.key,
            ),
            class_="gap" if place.name in ("Usage", "Extensions") else None,
        )
        for place in PLACES
        if is_whole or not place.whole_machine
    ]
    tools = (
        el(
            "button", "Theme", type="button", class_="plain", data_do="theme", aria_label="Theme: light, dark or system"
        ),
        el("button", "Keys", type="button", class_="plain wide-only", data_do="help", aria_haspopup="dialog"),
        el("form", el("button", "Log out", type="submit", class_="plain"), method="post", action="/logout"),
    )
    stop = stop_button(el("span", " everything", class_="wide-only")) if is_whole and here != "/" else None
    return el(
        "header",
        el("a", mark(), "AdderClaw", href="/", class_="brand"),
        el("nav", el("ul", links, class_="links"), aria_label="Pages"),
        el("div", stop, el("div", tools, class_="tools"), class_="foot"),
        class_="side",
    )


def stop_button(words: Child = " everything", size: str = "") -> Html:
    """It asks once more, and then stops."""
    return el(
        "button", "Stop", words, type="button", class_=f"stop {size}".strip(), data_do="stop", aria_haspopup="dialog"
    )


def mark() -> Html:
    curve = "M23 8.5C20.5 5 13 4.5 10.5 8.5S13 15.2 17 16s7.5 3.4 5 7.3-10.5 3.4-13 .2"
    line = el("path", d=curve, stroke="currentColor", stroke_width="3.4", stroke_linecap="round")
    eye = el("circle", cx="24.6", cy="9.2", r="1.7", fill="currentColor")
    return el("svg", line, eye, viewBox="0 0 32 32", fill="none", aria_hidden=True, focusable="false")


def stopped_banner(stopped: bool) -> Html:
    """On every page while the stop holds: what it means, and how it ends."""
    release = sent_form(
        "/estop",
        el("button", "Release the stop", type="submit"),
        method="DELETE",
        then="reload",
        confirm="Release the stop? Agents may call models and tools again.",
    )
    words = el("p", el("b", "Everything is stopped. "), "No model and no tool is called until the stop is released.")
    return el("div", words, release, class_="banner bad", id="stopped", hidden=not stopped, role="status")


def _banners(called: Called) -> Html:
    lost = el(
        "div",
        el("p", el("b", "Your login has ended. "), "What you typed is kept: log in, and you come back to this page."),
        el("a", "Log in", href="/login", class_="button", data_login=True),
        class_="banner warn",
        id="logged-out",
        hidden=True,
        role="alert",
    )
    away = el(
        "div",
        el("p", el("b", "The server does not answer. "), "This page tries again by itself and then shows what is new."),
        class_="banner warn",
        id="away",
        hidden=True,
        role="status",
    )
    return many(stopped_banner(called.house.stopped), lost, away)


def _dialogs() -> Html:
    keys: list[tuple[Child, str]] = [
        *((many(el("kbd", "g"), " ", el("kbd", place.key)), place.name) for place in PLACES),
        (el("kbd", "/"), "Search, or write a message"),
        (many(el("kbd", "Ctrl"), " ", el("kbd", "Enter")), "Send what you wrote"),
        (many(el("kbd", "Ctrl"), " ", el("kbd", "."), " "), "Interrupt the turn"),
        (el("kbd", "!"), "Stop everything"),
        (el("kbd", "?"), "This help"),
        (el("kbd", "Esc"), "Close"),
    ]
    box = el("input", type="checkbox", id="keys-on", checked=True, data_do="keys-on")
    close = el("button", "Close", type="button", data_do="close")
    help_ = el(
        "dialog",
        el("h2", "Keys", id="help-title"),
        el("dl", [(el("dt", key), el("dd", what)) for key, what in keys], class_="keys"),
        el("label", box, " Keys without Ctrl are on", for_="keys-on", class_="choice"),
        el("div", close, class_="row"),
        id="help",
        aria_labelledby="help-title",
    )
    return many(help_, _stop_dialog(), _confirm_dialog())


def _stop_dialog() -> Html:
    form = sent_form(
        "/estop",
        el(
            "p",
            "Every session and run on this machine ends its work now: running commands are killed, nothing is lost.",
        ),
        el("p", "The stop holds, also after a restart, until somebody releases it."),
        el(
            "div",
            el("button", "Cancel", type="button", data_do="close"),
            el("button", "Stop everything", type="submit", class_="stop"),
            class_="row",
        ),
        then="reload",
    )
    return el("dialog", el("h2", "Stop everything?", id="stop-title"), form, id="stop", aria_labelledby="stop-title")


def _confirm_dialog() -> Html:
    return el(
        "dialog",
        el("h2", "Are you sure?", id="confirm-title"),
        el("p", id="confirm-text"),
        el(
            "div",
            el("button", "Cancel", type="button", data_do="close"),
            el("button", "Yes", type="button", class_="main-one", id="confirm-yes"),
            class_="row",
        ),
        id="confirm",
        aria_labelledby="confirm-title",
    )
