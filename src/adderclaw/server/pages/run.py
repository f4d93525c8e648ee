"""The pages of runs: the list by state, kind and project, and a run with its board, timeline, checks and cost."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from adderclaw.agent.queries import clean, reading
from adderclaw.agent.view.markup import block
from adderclaw.agent.view.page import Block
from adderclaw.agent.view.plots import Share, shares
from adderclaw.agent.view.rows import Rows
from adderclaw.agent.view.timeline import timeline
from adderclaw.core.record import NamedTuple
from adderclaw.flows.queries import runs as run_facts
from adderclaw.flows.queries import sops
from adderclaw.flows.queries.boards import NAMES, State
from adderclaw.flows.queries.runs import Listed, RunSummary
from adderclaw.flows.queries.sops import SopState
from adderclaw.flows.spec import report
from adderclaw.sandbox.workspace import WorkspacePath
from adderclaw.server import streams
from adderclaw.server.client_scope import visible_folders
from adderclaw.server.endpoint import ApiRequest, Endpoint
from adderclaw.server.pages import live, questions
from adderclaw.server.pages.page import Entry, in_thread, page, query_text, shorten_home
from adderclaw.server.pages.questions import Card
from adderclaw.server.refusal import not_found
from adderclaw.storage import Store, runs
from adderclaw.storage.runs import Run

if TYPE_CHECKING:
    from markupsafe import Markup
    from sse_starlette import ServerSentEvent

PAUSE = 1.0
"""Seconds between two reads of a run that continues."""
STATES = ("running", "completed", "needs_input", "denied", "error", "limit", "stopped", "interrupted")
ORDER: tuple[State, ...] = ("waiting", "working", "checked", "failed", "blocked", "done")
BOARDS = {"tasks": "To do", "steps": "Steps", "tests": "Tests", "goals": "Goals"}


class Listing(NamedTuple):
    runs: list[Listed]
    more: bool
    asked: dict[str, str]
    """The filters."""
    states: list[tuple[str, str]]
    kinds: list[tuple[str, str]]
    projects: list[tuple[str, str]]

    @property
    def older(self) -> dict[str, str]:
        """The query of the next page."""
        return {name: value for name, value in self.asked.items() if value} | {"before": self.runs[-1].run.run_id}


class Output(NamedTuple):
    told: RunSummary
    project: str
    sop: SopState | None
    question: Card | None
    """The question that a SOP waits for."""
    evidence: list[Block]
    board_title: str
    shares: "Markup | str"
    columns: list[tuple[State, str]]
    """The columns of the board that have cards."""
    timeline: "Markup | str"
    tokens: int
    tokens_out: int
    model_calls: int
    tool_calls: int

    @property
    def runs(self) -> bool:
        return self.told.listed.run.status == "running"

    @property
    def may_change(self) -> bool:
        """Whether it is running, or continues once its question is answered."""
        return self.runs or (self.sop is not None and self.sop["question"] is not None)

    @property
    def may_resume(self) -> bool:
        """Whether it is a SOP that ended before its last step and does not wait for an answer."""
        if self.sop is None or self.sop["status"] in ("completed", "running", "denied"):
            return False
        return self.sop["question"] is None or self.sop["question"]["answer"] is not None


# ------------------------------------------------------------------ the list


async def _list(request: ApiRequest) -> Listing:
    asked = {name: query_text(request, name) for name in ("kind", "project", "before")}
    asked["status"] = query_text(request, "status", STATES)

    def read() -> Listing:
        with reading(request.state.options) as store:
            seen = visible_folders(request)
            listed, more = run_facts.page(
                store,
                status=asked["status"],
                kind=asked["kind"],
                project=asked["project"],
                before=asked["before"],
                places=seen,
            )
            known = run_facts.choices(store, seen)
        return Listing(
            listed,
            more,
            asked,
            [("", "any state"), *((name, name.replace("_", " ")) for name in STATES)],
            [("", "any kind"), *((name, name) for name in known.kinds)],
            [("", "all projects"), *((name, os.path.basename(name.rstrip("/")) or name) for name in known.projects)],
        )

    return await in_thread(read)


# ------------------------------------------------------------------ one run


async def _read(request: ApiRequest) -> Output:
    output = await in_thread(lambda: _find(request))
    if output is None:
        raise not_found("run", request.path["id"][:100])
    return output


def _find(request: ApiRequest) -> Output | None:
    with reading(request.state.options) as store:
        run = runs.get(store, request.path["id"], visible_folders(request))
        return _output(request, store, run) if run is not None else None


def _output(request: ApiRequest, store: Store, run: Run) -> Output:
    summary = run_facts.summarize(store, run)
    sop = sops.of_run(store, run) if run.kind == "sop" else None
    question = sop["question"] if sop is not None else None
    counts = summary.board.counts
    title = BOARDS.get(summary.board.what, "Scenarios")
    named = [Share(NAMES[state], counts[state], f"c-{state}") for state in ORDER[::-1] if counts[state]]
    return Output(
        summary,
        shorten_home(summary.listed.project) or "no project",
        sop,
        questions.find_card(request, str(question["id"])) if question is not None else None,
        _evidence(store, summary) if summary.checks else [],
        title,
        shares(title, named) if summary.board.cards else "",
        [(state, NAMES[state]) for state in ORDER if counts[state]],
        timeline("Model and tool time by session", summary.lanes) if summary.lanes else "",
        sum(use.input_tokens + use.cached_tokens for use in summary.models),
        sum(use.output_tokens for use in summary.models),
        sum(use.calls for use in summary.models),
        sum(use.calls for use in summary.tools),
    )


def _evidence(store: Store, summary: RunSummary) -> list[Block]:
    """The evidence in the report of a run, if its folder is known."""
    wrote = runs.traces(store, summary.listed.run.run_id)
    if not wrote:
        return []
    rows = Rows(store, clean, summary.listed.project)
    return list(report.evidence(rows, summary.checks, WorkspacePath(wrote[0].root, wrote[0].way).parent))


async def _events(request: ApiRequest) -> object:
    return streams.event_response(_changes(request))


async def _changes(request: ApiRequest) -> AsyncGenerator["ServerSentEvent"]:
    """Sends the changed parts of a run's page, and spends at most a twentieth of the time on rendering."""
    sent: dict[str, str] = {}
    while True:
        began = time.monotonic()
        output = await in_thread(lambda: _find(request))
        if output is None:
            return
        for id, name in (("run", "content"), ("run-actions", "actions")):
            html = block("run.html", name, page=output, client=request.client)
            if sent.get(id) != html:
                yield live.put(id, html)
                sent[id] = html
        if not output.may_change:
            yield live.end_of_changes()
            return
        await asyncio.sleep(max(PAUSE, 20 * (time.monotonic() - began)))


ENTRY = Entry(12, "/ui/runs", "Runs", "r")
ENDPOINTS = (
    page(ENTRY.path, _list, "runs.html", "Runs."),
    page(f"{ENTRY.path}/{{id}}", _read, "run.html", "One run.", reach="run"),
    Endpoint("GET", f"{ENTRY.path}/{{id}}/events", "read", _events, "Changes of it.", is_page=True, reach="run"),
)
