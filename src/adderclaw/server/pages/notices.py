"""The page of notices: where they are sent, and what became of the last ones."""

from typing import TYPE_CHECKING

from adderclaw.agent.queries import notices
from adderclaw.agent.queries.notices import NoticeRow, TargetRow
from adderclaw.agent.view.html import Child, Html, el
from adderclaw.core.errors import AdderClawError
from adderclaw.server import client_scope
from adderclaw.server.endpoint import Called, Endpoint
from adderclaw.server.pages.asked import failed, filters, found, one_of, select
from adderclaw.server.pages.layout import layout
from adderclaw.server.pages.parts import badge, empty, field, iso_seconds, moment, part, state, table

if TYPE_CHECKING:
    from starlette.responses import HTMLResponse

HERE = "/ui/notices"
STATES = (("", "all"), ("failed", "not delivered"), ("waiting", "waiting"), ("sent", "sent"), ("moot", "not needed"))
LIMIT = 100


async def _answer(called: Called) -> "HTMLResponse":
    wanted = one_of(called, "state", [value for value, _ in STATES])

    def look() -> tuple[list[TargetRow], list[NoticeRow]]:
        options, folders = called.house.options, client_scope.places(called)
        targets = [] if called.client.folders else notices.targets(options)  # they are of the whole machine
        return targets, notices.history(options, limit=LIMIT, state=wanted, folders=folders)

    try:
        targets, rows = await found(look)
    except AdderClawError as error:
        return failed(called, "Notices", error, "/")
    chosen = filters(HERE, "notices", field("Which", select("n-state", "state", wanted, STATES), id="n-state"))
    lead = "What is sent to you when something waits for you or is done. To try it: adderclaw notices test."
    region = el("div", _history(rows, wanted), id="notices")
    shown = None if called.client.folders else _targets(targets)
    return layout(called, "Notices", shown, chosen, region, here=HERE, lead=lead)


def _targets(targets: list[TargetRow]) -> Html:
    if not targets:
        how = el("p", "Add one under ", el("code", "[notices.targets]"), " in your own configuration.")
        return part("Targets", empty("No notice is sent anywhere.", how))
    rows = [(el("b", one["name"]), one["kind"], one["to"], ", ".join(one["on"]), _health(one)) for one in targets]
    shown = table(("Name", "Kind", "To", "Sent on", "State"), rows, caption="Targets of notices")
    return part("Targets", el("div", shown, class_="card flush"), note=str(len(targets)))


def _health(one: TargetRow) -> Child:
    if not one["enabled"]:
        return badge("", "switched off")
    waits = el("span", f" {one['waiting']} waiting", class_="quiet") if one["waiting"] else None
    if one["problem"]:
        return el("div", badge("warn", "problem"), " ", one["problem"], waits)
    return el("div", badge("good", "ready"), waits)


def _history(rows: list[NoticeRow], wanted: str) -> Html:
    if not rows:
        return part("Last notices", empty("No notice is like this." if wanted else "No notice was sent yet."))
    made = [(moment(iso_seconds(one["created_at"])), one["target"], _what(one), _state(one)) for one in rows]
    shown = table(("When", "Target", "Notice", "State"), made, caption="Last notices")
    return part("Last notices", el("div", shown, class_="card flush"), note=str(len(rows)))


def _what(one: NoticeRow) -> Child:
    title: Child = one["title"]
    if one["run_id"] and one["kind"] == "done":
        title = el("a", one["title"], href=f"/ui/runs/{one['run_id']}")
    return el("div", title, el("div", one["kind"].replace("_", " "), class_="quiet small"))


def _state(one: NoticeRow) -> Child:
    words = {"sent": badge("good", "sent"), "moot": badge("", "not needed")}
    tries = el("span", f" {one['attempts']} attempts", class_="quiet small") if one["attempts"] > 1 else None
    why = el("div", one["error"], class_="quiet small") if one["error"] else None
    return el("div", words.get(one["state"]) or state(one["state"]), tries, why)


ENDPOINTS = (
    Endpoint(
        "GET", HERE, "read", _answer, "Where notices are sent, and the last ones.", is_page=True, reach="filtered"
    ),
)
