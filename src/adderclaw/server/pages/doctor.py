"""The page that says whether everything is here that a run needs, and what mends what is not."""

from typing import TYPE_CHECKING

from adderclaw.agent.view.html import Html, el
from adderclaw.core.errors import AdderClawError
from adderclaw.core.record import record
from adderclaw.flows.doctor import health
from adderclaw.flows.doctor.health import CheckRow, Health
from adderclaw.server.client_scope import options as options_of
from adderclaw.server.endpoint import Called, Endpoint
from adderclaw.server.pages.asked import failed, folder_field, found
from adderclaw.server.pages.layout import layout
from adderclaw.server.pages.parts import badge, empty, figure, part, state

if TYPE_CHECKING:
    from starlette.responses import HTMLResponse

HERE = "/ui/doctor"
LEAD = "Is everything here that a run needs? Found by trying it; nothing is changed."


@record
class Looked:
    workspace: str = ""
    """Which folder; empty: the first."""


async def _answer(called: Called) -> "HTMLResponse":
    """Nothing is looked at yet: that starts the MCP servers, which takes its time, and a link must start nothing."""
    words = "Python, SQLite, ripgrep, the sandbox, configuration, credentials, MCP servers and the ledger are tried."
    ask = el("div", _form(called, "Look now"), class_="row")
    shown = el("div", empty("Nothing was looked at yet.", el("p", words), ask), id="doctor")
    return layout(called, "Doctor", shown, here=HERE, lead=LEAD)


async def _look(called: Called) -> "HTMLResponse":
    given: Looked = called.given
    try:
        shown = await found(lambda: health.doctor(options_of(called, given.workspace or None)))
    except AdderClawError as error:
        return failed(called, "Doctor", error, HERE)
    again = el("div", _form(called, "Look again"), class_="row part")
    return layout(called, "Doctor", el("div", again, _content(shown), id="doctor"), here=HERE, lead=LEAD)


def _form(called: Called, words: str) -> Html:
    return el(
        "form",
        folder_field(called),
        el("button", words, type="submit", class_="main-one"),
        el("p", class_="error", role="alert", data_error=True),
        method="post",
        action=HERE,
        data_fill="doctor",
        class_="row",
    )


def _content(shown: Health) -> list[Html]:
    counts = {word: sum(one["state"] == word for one in shown["checks"]) for word in ("ok", "warning", "broken")}
    figures = (
        figure(str(counts["ok"]), "in order"),
        figure(str(counts["warning"]), "to look at"),
        figure(str(counts["broken"]), "broken"),
    )
    order = {"broken": 0, "warning": 1, "ok": 2}
    checks = sorted(shown["checks"], key=lambda one: order[one["state"]])
    seen = [el("li", el("code", path)) for path in shown["commands_see"]]
    fold = el(
        "details", el("summary", f"{len(seen)} files and folders"), el("ul", seen, class_="plain-list"), class_="fold"
    )
    whole = badge("good", "a run can begin") if shown["ok"] else badge("bad", "a run cannot begin")
    return [
        el("div", el("div", whole, class_="row"), el("div", figures, class_="tiles"), class_="part stack"),
        part("Checks", el("ul", [_check(one) for one in checks], class_="list card flush")),
        part("What a command in the sandbox can read outside of the workspace", el("div", fold, class_="card")),
    ]


def _check(one: CheckRow) -> Html:
    fix = el("p", el("b", "To mend it: "), one["fix"], class_="small") if one["fix"] else None
    words = el("div", el("b", one["name"]), el("p", one["detail"], class_="quiet small"), fix, class_="grow")
    return el("li", el("div", state(one["state"]), words, class_="check"))


ENDPOINTS = (
    Endpoint("GET", HERE, "read", _answer, "Is everything here that a run needs?", is_page=True),
    Endpoint("POST", HERE, "operate", _look, "Tries it.", Looked, is_page=True),
)
