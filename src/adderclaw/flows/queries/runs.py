"""What pages show about runs: their purpose, usage, timeline and checks."""

import json
import time
from collections.abc import Sequence

from adderclaw.agent.view import timeline
from adderclaw.agent.view.markup import iso_seconds
from adderclaw.agent.view.timeline import Kind, Lane
from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import Secrets
from adderclaw.flows.queries.boards import Board, board
from adderclaw.storage import Store, runs, transcript, workflows
from adderclaw.storage.queries import conversations
from adderclaw.storage.queries import runs as queries
from adderclaw.storage.runs import Run
from adderclaw.storage.sdlc import checks
from adderclaw.storage.sdlc.checks import Check

clean = Secrets().clean

MOST_SESSIONS = 2_000


class Listed(NamedTuple):
    """A run in a list."""

    run: Run
    title: str
    project: str
    """The workspace."""
    began: float | None
    """Seconds since 1970."""
    seconds: float | None
    """Its duration so far."""


class ModelUse(NamedTuple):
    model: str
    calls: int
    failed: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    seconds: float
    cost: float | None


class ToolUse(NamedTuple):
    tool: str
    calls: int
    denied: int
    failed: int


class RunSummary(NamedTuple):
    """Everything that a page shows about a run."""

    listed: Listed
    board: Board
    lanes: list[Lane]
    models: list[ModelUse]
    tools: list[ToolUse]
    checks: list[Check]
    sessions: int

    def spent(self, *kinds: Kind) -> float:
        return sum(span.end - span.start for lane in self.lanes for span in lane.spans if span.kind in kinds)

    @property
    def cost(self) -> float | None:
        known = [model.cost for model in self.models if model.cost is not None]
        return sum(known) if known else self.listed.run.cost

    @property
    def longest(self) -> float:
        """The end of its timeline."""
        return max([self.listed.seconds or 0.0, *(span.end for lane in self.lanes for span in lane.spans)])


def listed(store: Store, run: Run, now: float) -> Listed:
    began, ended = iso_seconds(run.started_at), iso_seconds(run.finished_at)
    until = now if run.status == "running" else ended
    seconds = max(0.0, until - began) if until is not None and began is not None else None
    project = transcript.workspace_of(store, run.conversation_id)
    return Listed(run, clean(_title(store, run)), clean(project), began, seconds)


def _title(store: Store, run: Run) -> str:
    """The purpose of a run, in one line."""
    begun = workflows.get(store, run.run_id)
    if begun is not None and begun.name:
        return str(begun.inputs.get("task", "")) or begun.name
    first = queries.first_message(store, run.session_id)
    message = " ".join(transcript.text_of(json.loads(first)).split()) if first else ""
    if run.kind == "spec":
        return "SPEC.md"
    return message[:120] or transcript.title(store, run.conversation_id) or run.kind


def summarize(store: Store, run: Run) -> RunSummary:
    now = time.time()
    sessions = sessions_of(store, run)
    return RunSummary(
        listed(store, run, now),
        board(store, run, clean),
        timeline.lanes(store, run, clean, now),
        _models(store, run, sessions),
        _tools(store, run),
        checks.of_run(store, run.run_id),
        len(sessions),
    )


def sessions_of(store: Store, run: Run) -> list[str]:
    """Its session and those of all its descendants."""
    return queries.sessions_below(store, run.session_id, MOST_SESSIONS)


def _models(store: Store, run: Run, sessions: Sequence[str]) -> list[ModelUse]:
    rows = queries.model_use(store, run.run_id, sessions)
    return [ModelUse(clean(row[0]), *row[1:]) for row in rows]


def _tools(store: Store, run: Run) -> list[ToolUse]:
    rows = queries.tool_use(store, run.run_id)
    return [ToolUse(clean(str(row[0])), *row[1:]) for row in rows]


class Choices(NamedTuple):
    """The values by which a list of runs can be filtered."""

    kinds: list[str]
    projects: list[str]


def choices(store: Store, places: Sequence[str] = ()) -> Choices:
    projects = conversations.recent_projects(store)
    return Choices(queries.kinds(store), [project_ for project_ in projects if not places or project_ in places])


def page(
    store: Store,
    *,
    status: str = "",
    kind: str = "",
    project: str = "",
    before: str = "",
    limit: int = 40,
    places: Sequence[str] = (),
) -> tuple[list[Listed], bool]:
    """At most `limit` runs, latest first, and whether there are more."""
    matches = runs.search(
        store, status=status, kind=kind, project=project, before=before, limit=limit + 1, workspaces=places
    )
    now = time.time()
    return [listed(store, run, now) for run in matches[:limit]], len(matches) > limit
