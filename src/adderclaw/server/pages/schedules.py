"""The pages of schedules: all of them with their next times, and one with its history and its buttons."""

from typing import TYPE_CHECKING
from urllib.parse import quote

from adderclaw.agent.view.html import Child, Html, el
from adderclaw.core.errors import AdderClawError
from adderclaw.flows.queries import schedules as facts
from adderclaw.flows.queries.schedules import FiredRow, ScheduleRow
from adderclaw.flows.schedules.when import spelled
from adderclaw.server import schedules
from adderclaw.server.endpoint import Called, Endpoint
from adderclaw.server.pages.asked import failed, tilde
from adderclaw.server.pages.layout import layout
from adderclaw.server.pages.parts import (
    Tone,
    badge,
    card,
    empty,
    iso_seconds,
    link,
    moment,
    part,
    sent_form,
    state,
    table,
)
from adderclaw.server.pages.parts import facts as pairs
from adderclaw.server.pages.runs import address as run_address

if TYPE_CHECKING:
    from starlette.responses import HTMLResponse

HERE = "/ui/schedules"
SHOWN = 50
TONES: dict[str, Tone] = {
    "active": "good",
    "running": "info",
    "waiting": "info",
    "paused": "warn",
    "held": "bad",
    "done": "",
    "missed": "warn",
    "skipped": "warn",
    "queued": "info",
    "claimed": "info",
}


async def _all(called: Called) -> "HTMLResponse":
    found = (await schedules.listing(called)).schedules
    lead = "Work that begins by itself: at times, when files change, by a signed request."
    return layout(called, "Schedules", _region(found), here=HERE, lead=lead, wide=True)


def _region(found: list[ScheduleRow]) -> Html:
    if not found:
        how = el("code", 'adderclaw schedule add nightly --cron "30 2 * * *" --message "Look at the logs"')
        inner: Html = empty("Nothing begins by itself yet.", el("p", "Add a schedule in a terminal:"), el("p", how))
    else:
        head = ("Schedule", "State", "When", "Next", "Last", "Actions")
        inner = el(
            "div", table(head, [_line(one) for one in found], caption="Schedules"), class_="card flush schedules"
        )
    return el("div", inner, id="schedules", data_region=True, data_refresh="5")


def _line(one: ScheduleRow) -> tuple[Child, ...]:
    name = el("a", one.name, href=address(one.name), class_="title")
    after = one.next_text[0] if one.next_text and one.state != "paused" else "–"
    last = el("div", _came(one.last), " ", moment(iso_seconds(one.last.begun_at))) if one.last is not None else "never"
    return (name, _state(one.state), one.when_text, _unbroken(after), last, _buttons(one))


def _unbroken(text: str) -> list[Child]:
    """A line ends between words, and not within a date."""
    return [part for word in text.split() for part in (el("span", word, class_="nowrap"), " ")]


def _buttons(one: ScheduleRow) -> Html:
    path = f"/schedules/{quote(one.name, safe='')}"
    goes = "resume" if one.paused_at is not None else "pause"
    words = "Resume" if one.paused_at is not None else "Pause"
    begin = sent_form(
        f"{path}/run",
        el("button", "Run now", type="submit", aria_label=f"Run {one.name} now"),
        then="reload",
        confirm=f"Begin {one.name} now?",
    )
    hold = sent_form(
        f"{path}/{goes}", el("button", words, type="submit", aria_label=f"{words} {one.name}"), then="reload"
    )
    return el("div", begin, hold, class_="row")


async def _one(called: Called) -> "HTMLResponse":
    try:
        schedule = schedules.found(called)
    except AdderClawError as error:
        return failed(called, "Schedule", error, HERE)
    row = schedules.row(called, schedule)
    history = facts.history(called.house.store, schedule, SHOWN)
    region = el(
        "div",
        _about(row),
        _next(row),
        _history(history, str(schedule.when["zone"])),
        id="schedule",
        data_region=True,
        data_refresh="5",
    )
    actions = (_buttons(row), link("All schedules", HERE))
    return layout(called, row.name, region, here=HERE, lead=row.what_text, actions=actions)


def _about(row: ScheduleRow) -> Html:
    agreed = row.terms
    budget = f"${agreed['budget']:g} a {agreed['period']}, ${row.spent or 0:g} used" if "budget" in agreed else "none"
    limits: dict[str, float] = row.what.get("limits") or {}
    shown: list[tuple[str, Child]] = [
        ("State", _state(row.state)),
        ("When", row.when_text),
        ("Begins", row.what_text),
        ("Workspace", el("span", tilde(row.workspace), title=row.workspace)),
        ("Missed", f"{agreed['missed']}, after {spelled(agreed['grace'])}"),
        ("Overlap", agreed["overlap"]),
        ("Interrupted", agreed.get("interrupted", "resume")),
        ("Limits", ", ".join(f"{name} {value:g}" for name, value in limits.items()) or "the usual ones"),
        ("Budget", budget),
        ("Pinned", el("code", row.pinned[:12]) if row.pinned else "nothing"),
        ("Added", el("span", row.created_by, " ", moment(iso_seconds(row.created_at)))),
    ]
    held = None
    if row.state == "held" and row.last is not None:
        held = el("p", row.last.reason, class_="error")
    return part("Terms", card(held, pairs(shown)))


def _next(row: ScheduleRow) -> Html:
    if not row.next_text or row.state == "paused":
        words = "Nothing begins while it is paused." if row.state == "paused" else "No clock begins it."
        return part("Next", el("p", words, class_="quiet"))
    return part("Next", card(el("ol", [el("li", one) for one in row.next_text])))


def _history(history: list[FiredRow], zone: str) -> Html:
    if not history:
        return part("History", empty("It was never due."))
    rows = [
        (
            _unbroken(facts.due_text(one, zone)),
            _came(one),
            el("a", one.run_id, href=run_address(one.run_id), class_="mono nowrap") if one.run_id else "–",
            f"${one.cost:g}" if one.cost else "–",
            el("span", one.reason, class_="quiet small"),
        )
        for one in history
    ]
    shown = table(("Due", "What became of it", "Run", "Cost", "Why"), rows, caption="History", numbers=frozenset({3}))
    return part("History", el("div", shown, class_="card flush"), note=str(len(history)))


def _came(one: FiredRow) -> Html:
    return state(one.outcome) if one.state == "ended" and one.outcome else _state(one.state)


def _state(word: str) -> Html:
    return badge(TONES[word], word) if word in TONES else state(word)


def address(name: str) -> str:
    return f"{HERE}/{quote(name, safe='')}"


ENDPOINTS = (
    Endpoint("GET", HERE, "read", _all, "The page of all schedules.", is_page=True, reach="filtered"),
    Endpoint("GET", f"{HERE}/{{name}}", "read", _one, "The page of one schedule.", is_page=True, reach="schedule"),
)
