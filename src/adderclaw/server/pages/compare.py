"""Two runs side by side: what differs in outcome, time, cost, calls and in what they worked on."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from adderclaw.agent.queries import reading
from adderclaw.agent.view.html import Child, Html, el
from adderclaw.agent.view.plots import Unit, short
from adderclaw.agent.view.timeline import timeline
from adderclaw.core.errors import AdderClawError
from adderclaw.flows.queries import runs as run_facts
from adderclaw.flows.queries.boards import NAMES, Card
from adderclaw.flows.queries.runs import Told
from adderclaw.server.client_scope import places
from adderclaw.server.endpoint import Called, Endpoint
from adderclaw.server.pages.asked import LONGEST, failed, found, missing
from adderclaw.server.pages.layout import layout
from adderclaw.server.pages.parts import Tone, badge, moment, part, state, table
from adderclaw.server.pages.runs import HERE, address
from adderclaw.storage import runs

if TYPE_CHECKING:
    from starlette.responses import HTMLResponse

TONES: dict[str, Tone] = {"done": "good", "failed": "bad", "blocked": "warn", "checked": "warn", "working": "info"}


async def _answer(called: Called) -> "HTMLResponse":
    wanted = [one.strip()[:LONGEST] for one in called.request.query_params.getlist("run")]
    if len(wanted) != 2:
        why = f"{len(wanted) or 'No'} run{'' if len(wanted) == 1 else 's'} marked: mark exactly two in the list."
        return missing(called, "Compare two runs", why, HERE, status=400)

    def look() -> list[Told | None]:
        with reading(called.house.options) as store:
            rows = [runs.get(store, one, places(called)) for one in wanted]
            return [run_facts.told(store, run) if run is not None else None for run in rows]

    try:
        first, second = await found(look)
    except AdderClawError as error:
        return failed(called, "Compare two runs", error, HERE)
    if first is None or second is None:
        gone = wanted[0] if first is None else wanted[1]
        return missing(called, "Compare two runs", f"There is no run {gone[:100]}.", HERE)
    content = (_facts(first, second), *_pictures(first, second), *_boards(first, second), _tools(first, second))
    return layout(
        called, "Compare two runs", *content, here=HERE, lead="The left one is A, the right one is B.", wide=True
    )


def _facts(first: Told, second: Told) -> Html:
    def row(label: str, unit: Unit, figure: Callable[[Told], float | None]) -> tuple[Child, ...]:
        a, b = figure(first), figure(second)
        return (label, short(a, unit), short(b, unit), _change(a, b))

    rows: list[tuple[Child, ...]] = [
        ("run", *(_link(one) for one in (first, second)), ""),
        ("state", *(state(one.listed.run.status) for one in (first, second)), ""),
        ("began", *(moment(one.listed.began) for one in (first, second)), ""),
        row("time", "seconds", lambda one: one.listed.seconds),
        row("model time", "seconds", lambda one: one.spent("model")),
        row("tool time", "seconds", lambda one: one.spent("tool", "failed")),
        row("waiting for answers", "seconds", lambda one: one.spent("asked")),
        row("cost", "usd", lambda one: one.cost),
        row("model calls", "count", lambda one: float(sum(use.calls for use in one.models))),
        row("tool calls", "count", lambda one: float(sum(use.calls for use in one.tools))),
        row("tokens out", "tokens", lambda one: float(sum(use.output_tokens for use in one.models))),
        row("done", "count", lambda one: float(one.board.counts["done"])),
    ]
    head = ("", "A", "B", "B against A")
    shown = table(head, rows, caption="Both runs in figures", numbers=frozenset({1, 2, 3}))
    return part("In figures", el("div", shown, class_="card flush"))


def _link(told: Told) -> Html:
    return el("a", told.listed.run.run_id, href=address(told.listed.run.run_id), class_="mono")


def _change(a: float | None, b: float | None) -> str:
    if a is None or b is None or a == b:
        return "" if a != b else "the same"
    return f"{(b - a) / a * 100:+.0f} %" if a else "new"


def _pictures(first: Told, second: Told) -> Iterator[Html]:
    until = max(first.longest, second.longest)
    drawn = [
        el("div", timeline(f"{name}: model and tool time by session", one.lanes, until), class_="card")
        for name, one in (("A", first), ("B", second))
        if one.lanes
    ]
    if drawn:
        yield part("Where the time went", el("div", drawn, class_="stack"), note="both on the same scale")


def _boards(first: Told, second: Told) -> Iterator[Html]:
    a, b = ({card.key: card for card in one.board.cards} for one in (first, second))
    keys = list(dict.fromkeys([*a, *b]))
    if first.board.what != second.board.what or not keys:
        return
    rows = [((a.get(key) or b[key]).title, _stands(a.get(key)), _stands(b.get(key))) for key in keys]
    shown = table((first.board.what, "A", "B"), rows, caption="What they worked on")
    yield part("What they worked on", el("div", shown, class_="card flush"))


def _stands(card: Card | None) -> Html | str:
    return badge(TONES.get(card.state, ""), NAMES[card.state]) if card is not None else "–"


def _tools(first: Told, second: Told) -> Html:
    a, b = ({use.tool: use.calls for use in one.tools} for one in (first, second))
    rows = [(tool, a.get(tool, 0), b.get(tool, 0)) for tool in sorted({*a, *b})]
    shown = table(("Tool", "A", "B"), rows, caption="Tool calls", numbers=frozenset({1, 2}))
    return part("Tool calls", el("div", shown, class_="card flush"))


ENDPOINTS = (
    Endpoint("GET", f"{HERE}/compare", "read", _answer, "Two runs side by side.", is_page=True, reach="filtered"),
)
