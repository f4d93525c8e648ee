"""The page of the fleet that this home belongs to: queue, workers, throughput, failures by reason, cost, last runs."""

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from adderclaw.agent.view.html import Child, Html, el
from adderclaw.config import home
from adderclaw.core import home_names
from adderclaw.core.errors import AdderClawError
from adderclaw.core.redaction import Secrets
from adderclaw.core.types import Json
from adderclaw.server.endpoint import Called, Endpoint
from adderclaw.server.fleet import opened
from adderclaw.server.pages.asked import failed, found
from adderclaw.server.pages.layout import layout
from adderclaw.server.pages.parts import badge, empty, figure, iso_seconds, moment, part, state, table
from adderclaw.server.pages.questions import Asked, card

if TYPE_CHECKING:
    from starlette.responses import HTMLResponse

HERE = "/ui/fleet"
LIMIT = 50
SILENT = 60
"""Seconds after which a worker that says nothing is marked."""


async def _answer(called: Called) -> "HTMLResponse":
    try:
        made = await found(look)
    except AdderClawError as error:
        return failed(called, "Fleet", error, "/")
    if made is None:
        how = el("p", "For many machines: ", el("code", "adderclaw fleet init --database URL"), ".")
        return layout(called, "Fleet", empty("This home belongs to no fleet.", how), here=HERE)
    now, runs, questions = made
    counts = [figure(str(count), name) for name, count in now["runs"].items()]
    money = [figure(str(now["ended_last_hour"]), "ended in the last hour"), figure(f"${now['cost']:.2f}", "spent")]
    region = el(
        "div",
        el("div", *counts, *money, class_="tiles part"),
        *_questions(called, questions),
        *_parts(now, runs),
        id="fleet",
        data_region=True,
        data_refresh="5",
    )
    return layout(called, "Fleet", region, here=HERE, lead="Runs on many machines, by PostgreSQL.")


def look() -> tuple[Json, list[Json], list[Json]] | None:
    """The fleet of this home, its last runs and what they ask; None where it belongs to none."""
    if not os.path.exists(os.path.join(home(), home_names.FLEET)) and "ADDERCLAW_FLEET_DATABASE" not in os.environ:
        return None
    fleet = opened()
    from adderclaw.fleet import asking, queries

    try:
        overview, runs = queries.overview(fleet.database), queries.runs(fleet.database, limit=LIMIT)
        asked = asking.waiting(fleet.database, fleet.key_here())
        made: list[Any] = Secrets().clean([overview, runs, asked])  # who submits may write anything
        return made[0], made[1], made[2]
    finally:
        fleet.database.close()


def _parts(now: Json, runs: list[Json]) -> list[Html]:
    return [*_stops(now["stops"]), _workers(now["workers"]), *_failures(now["failures"]), _runs(runs)]


def _questions(called: Called, questions: list[Json]) -> list[Html]:
    """Each with a form for the answer, where this client may give one."""
    if not questions:
        return []
    return [part("Questions", el("div", [_question(called, one) for one in questions], class_="stack"))]


def _question(called: Called, one: Json) -> Html:
    from adderclaw.fleet.asking import row_of

    place = f"/fleet/questions/{quote(one['run_id'], safe='')}/{quote(one['id'], safe='')}/answer"
    asked = Asked(row_of(one, one["asked"]), "", "", "", answer_at=place)
    run = el(
        "p", f"run {one['run_id']}", f" · subagent {one['agent']}" if one.get("agent") else "", class_="quiet small"
    )
    unchecked = [el("p", one["unchecked"], class_="quiet small")] if "unchecked" in one else []
    return el("div", run, *unchecked, card(called, asked, with_place=False))


def _stops(stops: list[Json]) -> list[Html]:
    if not stops:
        return []
    rows = [(badge("bad", "stopped"), f"{one['scope']} {one['name']}", one["reason"], one["by"]) for one in stops]
    shown = table(("State", "What", "Why", "By"), rows, caption="Stops that are set")
    return [part("Stopped", el("div", shown, class_="card flush"), note="adderclaw fleet resume clears it")]


def _workers(workers: list[Json]) -> Html:
    if not workers:
        return part("Workers", empty("No worker is running.", el("p", el("code", "adderclaw fleet worker"))))
    rows = [(one["id"], one["host"], _slots(one), _health(one)) for one in workers]
    shown = table(("Worker", "Host", "Slots used", "State"), rows, caption="Workers")
    return part("Workers", el("div", shown, class_="card flush"), note=str(len(workers)))


def _slots(one: Json) -> str:
    """What waits for an answer takes none."""
    waits = f", {one['asking']} wait for an answer" if one["asking"] else ""
    return f"{max(0, one['running'] - one['asking'])} of {one['slots']}{waits}"


def _health(one: Json) -> Child:
    if one["silent_seconds"] > SILENT:
        return badge("warn", f"silent for {one['silent_seconds']:.0f} s")
    return badge("", "drains") if one["draining"] else badge("good", "works")


def _failures(failures: list[Json]) -> list[Html]:
    if not failures:
        return []
    rows = [(state(one["outcome"]), one["reason"], str(one["runs"])) for one in failures]
    shown = table(("Outcome", "Reason", "Runs"), rows, caption="Runs that did not complete, by reason")
    return [part("Not completed", el("div", shown, class_="card flush"))]


def _runs(runs: list[Json]) -> Html:
    if not runs:
        return part("Last runs", empty("Nothing was submitted yet."))
    rows = [
        (
            moment(iso_seconds(one["submitted"])),
            el("div", one["what"][:120], el("div", one["run_id"], class_="quiet small")),
            one["submitter"],
            state(one["outcome"] or ("waiting" if one["asks"] else one["state"])),
            str(one["units"]),
        )
        for one in runs
    ]
    shown = table(("Submitted", "What", "By", "State", "Units"), rows, caption="Last runs of the fleet")
    return part("Last runs", el("div", shown, class_="card flush"), note=str(len(runs)))


ENDPOINTS = (Endpoint("GET", HERE, "read", _answer, "The fleet: queue, workers, failures, last runs.", is_page=True),)
