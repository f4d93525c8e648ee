"""The page of one run: how it stands, its work as a board, where its time went, what was checked, what it cost."""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from adderclaw.agent.queries import reading
from adderclaw.agent.view.html import Html, el
from adderclaw.agent.view.html_markdown import markdown
from adderclaw.agent.view.page import Block, drawn
from adderclaw.agent.view.plots import Share, duration, shares, short
from adderclaw.agent.view.rows import Rows
from adderclaw.agent.view.timeline import timeline
from adderclaw.core.errors import AdderClawError
from adderclaw.core.record import NamedTuple
from adderclaw.flows.queries import runs as run_facts
from adderclaw.flows.queries import sops as facts
from adderclaw.flows.queries.boards import NAMES, Board, State
from adderclaw.flows.queries.runs import Told, clean
from adderclaw.flows.queries.sops import SopState
from adderclaw.flows.spec import report
from adderclaw.sandbox.workspace import Place
from adderclaw.server import streams
from adderclaw.server.client_scope import places
from adderclaw.server.endpoint import Called, Endpoint
from adderclaw.server.pages import live, live_summary, questions, sops
from adderclaw.server.pages.asked import failed, found, missing, tilde
from adderclaw.server.pages.layout import layout
from adderclaw.server.pages.parts import empty, figure, link, moment, part, sent_form, state, table
from adderclaw.server.pages.runs import HERE, address
from adderclaw.storage import Store, runs
from adderclaw.storage.runs import Run
from adderclaw.storage.sdlc.checks import Check

if TYPE_CHECKING:
    from sse_starlette import ServerSentEvent
    from starlette.responses import HTMLResponse

PAUSE = 1.0
"""Seconds between two looks at a run that goes on."""


class _Shown(NamedTuple):
    told: Told
    sop: SopState | None
    """How far a SOP has come."""
    asked: Html | None
    """What it waits for, as a card."""
    before: Run | None
    """The run before it of the same kind in the same place."""
    evidence: list[Block]


async def _answer(called: Called) -> "HTMLResponse":
    wanted = called.path["id"]
    try:
        shown = await found(lambda: _found(called))
    except AdderClawError as error:
        return failed(called, "Run", error, HERE)
    if shown is None:
        return missing(called, "Run", f"There is no run {wanted[:100]}.", HERE)
    one = shown.told.listed
    where = f"{one.run.kind} in {tilde(one.project) or 'no project'}"
    follows = f"{address(one.run.run_id)}/events" if _goes_on(shown) else ""
    return layout(
        called, one.title, _region(shown), here=HERE, lead=where, actions=_actions(shown), live=follows, wide=True
    )


def _found(called: Called) -> _Shown | None:
    with reading(called.house.options) as store:
        run = runs.get(store, called.path["id"], places(called))
        return _looked_at(called, store, run) if run is not None else None


def _region(shown: _Shown) -> Html:
    return el("div", _content(shown), id="run", data_region=True)


async def _events(called: Called) -> object:
    return streams.response(_changes(called))


async def _changes(called: Called) -> AsyncGenerator["ServerSentEvent"]:
    """The page of a run while it goes on, drawn for a twentieth of the time at most."""
    sent: dict[str, str] = {}
    while True:
        began = time.monotonic()
        shown = await found(lambda: _found(called))
        if shown is None:
            return
        for id, made in (("run", _region(shown)), ("run-actions", _actions(shown))):
            if sent.get(id) != str(made):
                yield live.put(id, made)
                sent[id] = str(made)
        if not _goes_on(shown):
            yield live.over()
            return
        await asyncio.sleep(max(PAUSE, 20 * (time.monotonic() - began)))


def _looked_at(called: Called, store: Store, run: Run) -> _Shown:
    told = run_facts.told(store, run)
    sop = facts.of_run(store, run) if run.kind == "sop" else None
    project = told.listed.project
    earlier = runs.found(store, kind=run.kind, project=project, before=run.run_id, limit=1) if project else []
    return _Shown(
        told,
        sop,
        _asked(called, sop) if sop is not None else None,
        earlier[0] if earlier else None,
        _evidence(store, told) if told.checks else [],
    )


def _asked(called: Called, sop: SopState) -> Html | None:
    if sop["question"] is None or (asked := live_summary.one(called, str(sop["question"]["id"]))) is None:
        return None
    return questions.card(called, asked, with_place=False)


def _evidence(store: Store, told: Told) -> list[Block]:
    """What the report of the run shows, where its folder is known."""
    wrote = runs.traces(store, told.listed.run.run_id)
    if not wrote:
        return []
    rows = Rows(store, clean, told.listed.project)
    return list(report.evidence(rows, told.checks, Place(wrote[0].root, wrote[0].way).parent))


def _runs(run: Run) -> bool:
    return run.status == "running"


def _goes_on(shown: _Shown) -> bool:
    """Whether something may change: it runs, or is resumed once a question is answered."""
    return _runs(shown.told.listed.run) or (shown.sop is not None and shown.sop["question"] is not None)


def _actions(shown: _Shown) -> Html:
    run = shown.told.listed.run
    made = [link("Conversation", f"/ui/conversations/{quote(run.conversation_id, safe='')}")]
    made.append(link("Receipts", f"/ui/ledger?{urlencode({'run': run.run_id})}"))
    if shown.before is not None:
        both = urlencode([("run", shown.before.run_id), ("run", run.run_id)])
        made.append(link("Compare with the one before", f"{HERE}/compare?{both}"))
    if shown.sop is not None and (more := sops.go_on(shown.sop)) is not None:
        made.append(more)
    if _runs(run):
        button = el("button", "Cancel the run", type="submit", class_="danger")
        path = f"/runs/{quote(run.run_id, safe='')}/cancel"
        made.append(sent_form(path, button, then="reload", confirm="Cancel this run? It ends at the next safe point."))
    return el("div", made, class_="row", id="run-actions", data_region=True)


def _content(shown: _Shown) -> Iterator[Html]:
    told = shown.told
    yield _head(told)
    if shown.asked is not None:
        yield part("Waiting for you", shown.asked)
    if shown.sop is not None:
        yield sops.steps(shown.sop)
    elif told.board.cards or told.board.note:
        yield board(told.board)
    yield _time(told)
    if told.checks:
        yield _checks(told.checks)
    if shown.evidence:
        inner = el("div", [drawn(block) for block in shown.evidence], class_="stack evidence")
        fold = el("details", el("summary", "Show what was seen"), inner, class_="fold")
        yield part("Evidence", el("div", fold, class_="card"), note="what each check saw, as its report has it")
    yield _used(told)
    if told.listed.run.answer:
        yield part("Answer", el("div", markdown(clean(told.listed.run.answer)), class_="card md"))


def _head(told: Told) -> Html:
    run, one = told.listed.run, told.listed
    tokens = sum(use.input_tokens + use.cached_tokens for use in told.models)
    out = sum(use.output_tokens for use in told.models)
    sessions = "1 session" if told.sessions == 1 else f"{told.sessions} sessions"
    figures = (
        figure(
            duration(one.seconds) if one.seconds is not None else "–", "so far" if _runs(run) else "from start to end"
        ),
        figure(short(told.cost, "usd"), "cost, by known prices"),
        figure(short(tokens, "tokens"), f"tokens in, {short(out, 'tokens')} out"),
        figure(
            short(sum(use.calls for use in told.models)),
            f"model calls in {sessions}",
        ),
        figure(short(sum(use.calls for use in told.tools)), "tool calls"),
    )
    facts = [
        el("span", state(run.status)),
        el("span", "began ", moment(one.began), class_="quiet"),
        el("code", run.run_id, class_="quiet"),
    ]
    why = el("p", clean(run.reason), class_="reason") if run.reason else None
    return el("div", el("div", facts, class_="row"), why, el("div", figures, class_="tiles"), class_="part")


# ------------------------------------------------------------------ the board


def board(found: Board) -> Html:
    counts = found.counts
    order: tuple[State, ...] = ("waiting", "working", "checked", "failed", "blocked", "done")
    named = [Share(NAMES[one], counts[one], f"c-{one}") for one in order[::-1] if counts[one]]
    columns = [_column(found, one) for one in order if counts[one]]
    note = el("p", found.note, class_="quiet small") if found.note else None
    title = {"tasks": "To do", "steps": "Steps", "tests": "Tests", "goals": "Goals"}.get(found.what, "Scenarios")
    progress = f"{counts['done']} of {len(found.cards)} done" if found.cards else ""
    bar = shares(title, named) if found.cards else None
    return part(title, bar, _scrolled(columns, title), note, note=progress)


def _scrolled(columns: list[Html], title: str) -> Html:
    return el("div", columns, class_="board", tabindex=0, role="region", aria_label=f"{title}, by state")


def _column(found: Board, one: State) -> Html:
    cards = found.column(one)
    heading = el("h3", NAMES[one], el("span", str(len(cards)), class_="count-quiet"), class_=f"c-{one}")
    shown = [
        el(
            "li",
            el("span", card.group, class_="quiet small") if card.group else None,
            el("span", card.title, class_="title"),
            el("span", card.note[:300], class_="small quiet") if card.note else None,
            class_="card",
        )
        for card in cards
    ]
    return el("section", heading, el("ul", shown), aria_label=NAMES[one], class_="column")


# ------------------------------------------------------------------ time, checks, use


def _time(told: Told) -> Html:
    title = "Where the time went"
    if not told.lanes:
        return part(title, empty("No model and no tool was called yet."))
    drawn = timeline("Model and tool time by session", told.lanes, told.longest)
    return part(title, el("div", drawn, class_="card"), note=f"{duration(told.longest)} in all")


def _checks(checks: list[Check]) -> Html:
    rows = [
        (
            (el("b", clean(one.scenario_id)), " ", clean(one.name)),
            state(one.verdict or "waiting"),
            clean(one.reason),
            len(one.evidence),
            duration(one.seconds),
            short(one.cost, "usd"),
        )
        for one in checks
    ]
    head = ("Scenario", "Verdict", "What was seen", "Evidence", "Time", "Cost")
    shown = table(head, rows, caption="What was checked", numbers=frozenset({3, 4, 5}))
    return part("What was checked", el("div", shown, class_="card flush"), note="each by a session of its own")


def _used(told: Told) -> Html:
    models = [
        (one.model, one.calls, one.failed, short(one.input_tokens, "tokens"), short(one.cached_tokens, "tokens"),
         short(one.output_tokens, "tokens"), duration(one.seconds), short(one.cost, "usd"))
        for one in told.models
    ]  # fmt: skip
    head = ("Model", "Calls", "Failed", "New in", "Cached", "Out", "Time", "Cost")
    first = table(head, models, caption="By model", numbers=frozenset(range(1, 8)))
    tools = [(one.tool, one.calls, one.denied, one.failed) for one in told.tools]
    second = table(("Tool", "Calls", "Denied", "Failed"), tools, caption="By tool", numbers=frozenset({1, 2, 3}))
    if not models and not tools:
        return part("What it used", empty("Nothing yet."))
    inner = (
        el("div", first, class_="card flush") if models else None,
        el("div", second, class_="card flush") if tools else None,
    )
    return part("What it used", el("div", inner, class_="stack"))


ENDPOINTS = (
    Endpoint("GET", f"{HERE}/{{id}}", "read", _answer, "The page of one run.", is_page=True, reach="run"),
    Endpoint("GET", f"{HERE}/{{id}}/events", "read", _events, "Changes of that page.", is_page=True, reach="run"),
)
