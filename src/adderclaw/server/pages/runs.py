"""The page of all runs: by state, kind and project, the latest first; two of them can be compared."""

import os
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from adderclaw.agent.queries import reading
from adderclaw.agent.view.html import Html, el
from adderclaw.agent.view.plots import duration, short
from adderclaw.core.errors import AdderClawError
from adderclaw.core.record import NamedTuple
from adderclaw.flows.queries import runs as run_facts
from adderclaw.flows.queries.runs import Listed
from adderclaw.server.client_scope import places
from adderclaw.server.endpoint import Called, Endpoint
from adderclaw.server.pages.asked import failed, filters, found, one_of, select, word
from adderclaw.server.pages.layout import layout
from adderclaw.server.pages.parts import empty, field, link, moment, state

if TYPE_CHECKING:
    from starlette.responses import HTMLResponse

HERE = "/ui/runs"
STATES = (
    *("running", "completed", "needs_input", "denied", "error"),
    *("limit", "stopped", "interrupted"),
)


class _Found(NamedTuple):
    runs: list[Listed]
    more: bool
    choices: run_facts.Choices
    asked: dict[str, str]


async def _answer(called: Called) -> "HTMLResponse":
    asked = {name: word(called, name) for name in ("kind", "project", "before")}
    asked["status"] = one_of(called, "status", STATES)

    def look() -> _Found:
        with reading(called.house.options) as store:
            listed, more = run_facts.page(
                store,
                status=asked["status"],
                kind=asked["kind"],
                project=asked["project"],
                before=asked["before"],
                places=places(called),
            )
            return _Found(listed, more, run_facts.choices(store, places(called)), asked)

    try:
        shown = await found(look)
    except AdderClawError as error:
        return failed(called, "Runs", error, "/")
    lead = "Everything that worked, and how it ended."
    return layout(called, "Runs", _filters(shown), _region(shown), here=HERE, lead=lead, wide=True)


def _filters(shown: _Found) -> Html:
    states = [("", "any state"), *((one, one.replace("_", " ")) for one in STATES)]
    kinds = [("", "any kind"), *((one, one) for one in shown.choices.kinds)]
    projects = [("", "all projects"), *((one, _short(one)) for one in shown.choices.projects)]
    return filters(
        HERE,
        "runs",
        field("State", select("f-state", "status", shown.asked["status"], states), id="f-state"),
        field("Kind", select("f-kind", "kind", shown.asked["kind"], kinds), id="f-kind"),
        field("Project", select("f-project", "project", shown.asked["project"], projects), id="f-project"),
    )


def _region(shown: _Found) -> Html:
    live = any(one.run.status == "running" for one in shown.runs)
    inner = _table(shown) if shown.runs else _none(shown)
    return el("div", inner, id="runs", data_region=True, data_refresh="3" if live else "15")


def _none(shown: _Found) -> Html:
    if any(shown.asked.values()):
        return empty(
            "No run is like this.",
            el("p", "Choose another state, kind or project."),
            el("div", link("Show all runs", HERE), class_="row"),
        )
    words = el("p", "Begin one in a terminal, and it is here while it works:")
    return empty("Nothing ran yet.", words, el("p", el("code", 'adderclaw run "Say what is in the README"')))


def _table(shown: _Found) -> Html:
    head = ("", "State", "Run", "Kind", "Project", "Began", "Took", "Cost")
    marks = ("", "", "", "less", "less", "", "less num", "num")
    cells = [el("th", name or el("span", "Compare", class_="aside"), scope="col", class_=mark or None)
             for name, mark in zip(head, marks, strict=True)]  # fmt: skip
    table = el(
        "table",
        el("caption", "Runs, the latest first", class_="aside"),
        el("thead", el("tr", cells)),
        el("tbody", [_row(one) for one in shown.runs]),
        class_="runs",
    )
    older = {**{name: value for name, value in shown.asked.items() if value}, "before": shown.runs[-1].run.run_id}
    foot = (
        el("button", "Compare two", type="submit"),
        el("span", "Mark two runs to see them side by side.", class_="quiet small grow"),
        link("Older runs", f"{HERE}?{urlencode(older)}") if shown.more else None,
    )
    scrolled = el("div", table, class_="card flush scroll", tabindex=0, role="region", aria_label="Runs")
    return el("form", scrolled, el("div", foot, class_="row foot-row"), method="get", action=f"{HERE}/compare")


def _row(one: Listed) -> Html:
    run = one.run
    box = el("input", type="checkbox", name="run", value=run.run_id, aria_label=f"Compare {one.title}, {run.run_id}")
    name = el("a", one.title, href=address(run.run_id), class_="title")
    told = el("span", run.run_id, class_="mono quiet small block-line")
    took = duration(one.seconds) if one.seconds is not None else "–"
    return el(
        "tr",
        el("td", box),
        el("td", state(run.status)),
        el("td", name, told, class_="name"),
        el("td", run.kind, class_="less"),
        el("td", el("span", _short(one.project), title=one.project), class_="less"),
        el("td", moment(one.began), class_="nowrap"),
        el("td", took, class_="less num"),
        el("td", short(run.cost, "usd"), class_="num"),
    )


def address(run_id: str) -> str:
    return f"{HERE}/{quote(run_id, safe='')}"


def _short(path: str) -> str:
    return os.path.basename(path.rstrip("/")) or path or "–"


ENDPOINTS = (Endpoint("GET", HERE, "read", _answer, "The page of all runs.", is_page=True, reach="filtered"),)
