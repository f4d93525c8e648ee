"""The page on which a browser logs in with a token."""

from typing import TYPE_CHECKING

from adderclaw.agent.view.html import el
from adderclaw.core.record import record
from adderclaw.server.endpoint import Called, Endpoint
from adderclaw.server.pages.layout import bare, mark
from adderclaw.server.pages.parts import field

if TYPE_CHECKING:
    from starlette.responses import HTMLResponse


@record
class Asked:
    next: str = "/"
    """The page to go to after it."""


async def page(called: Called) -> "HTMLResponse":
    return drawn(called, called.given.next)


def drawn(called: Called, next: str, wrong: str = "") -> "HTMLResponse":
    """With what was wrong, where a token was tried that is none."""
    token = el(
        "input",
        type="password",
        id="token",
        name="token",
        required=True,
        autofocus=True,
        autocomplete="current-password",
        spellcheck="false",
        aria_describedby="how",
        aria_invalid=True if wrong else None,
    )
    form = el(
        "form",
        field("Token", token, id="token"),
        el("p", wrong, class_="error", role="alert") if wrong else None,
        el("input", type="hidden", name="next", value=next),
        el("button", "Log in", type="submit", class_="main-one"),
        method="post",
        action="/login",
        class_="stack",
    )
    how = el(
        "p",
        "On this machine, ",
        el("code", "adderclaw token create me --scope admin"),
        " prints one. ",
        class_="quiet small",
        id="how",
    )
    away = "You had been logged out, or the login had ended." if next not in ("", "/") and not wrong else ""
    return bare(
        called,
        "Log in",
        el("div", el("span", mark(), "AdderClaw", class_="brand"), class_="row"),
        el("h1", "Log in"),
        el("p", away, class_="quiet") if away else None,
        form,
        how,
        status=401 if wrong else 200,
    )


ENDPOINTS = (Endpoint("GET", "/login", "open", page, "The login page.", takes=Asked, is_page=True),)
