"""Endpoints of runs: begin, list, show, follow and cancel runs, and download their reports."""

import asyncio
import os
from dataclasses import replace
from typing import Annotated, Any
from urllib.parse import quote

from starlette.responses import Response

from adderclaw import config
from adderclaw.agent import queries
from adderclaw.agent.conversation import asking
from adderclaw.agent.conversation.runs import HostedRun
from adderclaw.config.paths import beneath, followed
from adderclaw.core.decode import Between
from adderclaw.core.errors import AlreadyCompleted, UsageError
from adderclaw.core.record import record
from adderclaw.core.types import Json
from adderclaw.flows.queries import runs as run_facts
from adderclaw.flows.request import RunParams, RunRequest, prepare_driver
from adderclaw.flows.sop.find import is_path
from adderclaw.server import bounds, client_scope, streams
from adderclaw.server.answers import AnswerBody, SettledQuestion, answer_watched
from adderclaw.server.endpoint import ApiRequest, Endpoint
from adderclaw.server.refusal import Refusal, not_found
from adderclaw.storage import Store, runs, transcript

FILES = ("agentfile", "spec", "skills_dir")
"""Parameters that name a file, which must be in the run's folder."""


@record
class RunRow:
    run_id: str
    kind: str
    title: str
    workspace: str
    conversation_id: str
    status: str
    """The outcome; of a run without one, running or interrupted."""
    started_at: str
    finished_at: str | None
    exit_code: int | None
    reason: str | None
    cost: float | None
    usage: dict[str, Any]
    answer: str | None
    here: bool
    """Whether it is under way in this server."""
    state: str
    """What it does there: working, asking or ended."""
    questions: list[dict[str, Any]]
    steers: bool
    """Whether this client may cancel it."""


@record
class RunList:
    runs: list[RunRow]


@record
class RunsQuery:
    limit: Annotated[int, Between(1, 500)] = 50
    status: str = ""
    kind: str = ""
    before: str = ""
    """The id of a run: those that began before it."""


@record
class CancelRequest:
    reason: str = ""


@record
class Cancelled:
    run_id: str
    cancelled: bool


# ------------------------------------------------------------------ reading


def _row(request: ApiRequest, store: Store, run: runs.Run) -> RunRow:
    """A run as this client sees it."""
    folder = transcript.workspace_of(store, run.conversation_id)
    here = request.state.runs.get(run.run_id)
    listed = run_facts.listed(store, run, request.state.clock.now())
    return RunRow(
        run_id=run.run_id,
        kind=run.kind,
        title=listed.title,
        workspace=listed.project,
        conversation_id=run.conversation_id,
        status=run.status,
        started_at=run.started_at,
        finished_at=run.finished_at,
        exit_code=run.exit_code,
        reason=queries.clean(run.reason),
        cost=run.cost,
        usage=run.usage,
        answer=queries.clean(run.answer),
        here=here is not None and here.state != "ended",
        state=here.state if here is not None else "ended",
        questions=[asking.as_json(question) for question in here.questions.values()] if here is not None else [],
        steers=request.client.steers(transcript.client_of(store, run.conversation_id), folder),
    )


async def list_runs(request: ApiRequest) -> RunList:
    query: RunsQuery = request.body

    def read() -> list[RunRow]:
        with queries.reading(request.state.options) as store:
            rows = runs.search(
                store,
                status=query.status,
                kind=query.kind,
                before=query.before,
                limit=query.limit,
                workspaces=client_scope.visible_folders(request),
            )
            return [_row(request, store, run) for run in rows]

    return RunList(await asyncio.to_thread(read))


async def _run_row(request: ApiRequest, id: str) -> RunRow:
    def read() -> RunRow | None:
        with queries.reading(request.state.options) as store:
            run = runs.get(store, id)
            return _row(request, store, run) if run is not None and run.run_id == id else None

    row = await asyncio.to_thread(read)
    if row is None:
        raise not_found("run", id)
    return row


async def show_run(request: ApiRequest) -> RunRow:
    return await _run_row(request, request.path["id"])


async def _hosted_run(request: ApiRequest) -> tuple[HostedRun, RunRow]:
    """A run of this server, with its row."""
    row = await _run_row(request, request.path["id"])
    run = request.state.runs.get(row.run_id)
    if run is None:
        raise Refusal(409, "elsewhere", f"{row.run_id} is not running in this server: it is {row.status}")
    return run, row


async def stream_events(request: ApiRequest) -> object:
    run, _ = await _hosted_run(request)
    return streams.stream_watched(request, run)


async def download_report(request: ApiRequest) -> Response:
    """Returns the file that `adderclaw runs show --report` writes, as a download."""
    row = await _run_row(request, request.path["id"])
    text = await asyncio.to_thread(_render_report, request, row)
    names = {"Content-Disposition": f'attachment; filename="run-{quote(row.run_id)}.html"'}
    return Response(text, media_type="text/html", headers=names)


def _render_report(request: ApiRequest, row: RunRow) -> str:
    from adderclaw.agent.replay.trace_file import checked, places_of
    from adderclaw.agent.view.rows import Rows
    from adderclaw.flows.spec import report as pages

    options = replace(request.state.options, workspace=row.workspace)
    with queries.reading(options) as store:
        run = runs.get(store, row.run_id)
        assert run is not None
        trace_place = checked(store, run, places_of(queries.loaded(options), config.home())).place
        if trace_place is None:
            raise Refusal(404, "not_found", f"run {row.run_id} has no folder, so there is no report of it")
        summary = f"{run.outcome}: {run.answer}"
        return pages.report(store, Rows(store, queries.clean, row.workspace), run.run_id, trace_place.parent, summary)


# ------------------------------------------------------------------ steering


async def begin_run(request: ApiRequest) -> RunRow:
    body: RunRequest = request.body
    state, client = request.state, request.client
    folder = state.folder_for(client, body.workspace)
    params: Json = dict(vars(body))
    if body.resume is not None:
        row = await _run_row(request, body.resume)
        if not row.steers:
            raise Refusal(403, "client", f"{row.run_id} was started by another client: this token may not resume it")
        folder = state.folder_for(client, body.workspace or row.workspace)
    for name in FILES:
        if params[name] is not None:
            params[name] = path_within(folder, name, params[name])
    if body.sop is not None and is_path(body.sop):
        params["sop"] = path_within(folder, "sop", body.sop)
    options = replace(state.options, headless=True, asks="must", workspace=folder)
    await asyncio.to_thread(bounds.require_profile, client, options, body.profile)
    await asyncio.to_thread(bounds.require_provider, options, body.provider)
    await asyncio.to_thread(bounds.require_limits, client, options, body)
    params["workspace"] = folder
    run_params = RunParams(**params)
    try:
        prepared_run = await asyncio.to_thread(prepare_driver, options, run_params)
    except AlreadyCompleted as ended:
        raise Refusal(409, "completed", str(ended)) from ended
    if body.resume is not None:  # it continues with the profile with which it began
        await asyncio.to_thread(bounds.require_profile, client, options, prepared_run.opening.options.profile)
    run = await state.runs.start(client.id, prepared_run)
    return await _run_row(request, run.id)


def path_within(folder: str, name: str, path: str) -> str:
    """The absolute path of a file in the folder; a client must not read other files of this machine."""
    full = followed(os.path.join(folder, path.replace("\0", "")))
    if "\0" in path or not beneath(full, followed(folder)):
        raise UsageError(f"{name}: {path!r} is not in {folder}")
    return full


async def cancel_run(request: ApiRequest) -> Cancelled:
    run, row = await _hosted_run(request)
    reason = request.body.reason or f"cancelled by {request.client.name}"
    if not run.cancel(request.client.id, reason, granted=row.steers):
        raise Refusal(409, "idle", f"{row.run_id} has already ended: {row.status}")
    return Cancelled(row.run_id, True)


async def answer_question(request: ApiRequest) -> SettledQuestion:
    """Answers a question, for the client that began the run or may steer it."""
    run, row = await _hosted_run(request)
    settled = answer_watched(request, run, request.path["question"], granted=row.steers)
    if settled is None:
        raise not_found("question", request.path["question"])
    return settled


ENDPOINTS = (
    Endpoint(
        "GET", "/runs", "read", list_runs, "Runs, the latest first.", takes=RunsQuery, gives=RunList, reach="filtered"
    ),
    Endpoint(
        "POST",
        "/runs",
        "operate",
        begin_run,
        "Begin a run of any driver.",
        takes=RunRequest,
        gives=RunRow,
        status=201,
        reach="filtered",
    ),
    Endpoint("GET", "/runs/{id}", "read", show_run, "A run, and how it ended.", gives=RunRow, reach="run"),
    Endpoint(
        "GET",
        "/runs/{id}/events",
        "read",
        stream_events,
        "Updates of a run of this server, as server-sent events.",
        takes=streams.EventsQuery,
        media_type="text/event-stream",
        reach="run",
    ),
    Endpoint(
        "GET",
        "/runs/{id}/report",
        "read",
        download_report,
        "Its report, as an HTML file.",
        media_type="text/html",
        reach="run",
    ),
    Endpoint(
        "POST", "/runs/{id}/cancel", "operate", cancel_run, "End it.", takes=CancelRequest, gives=Cancelled, reach="run"
    ),
    Endpoint(
        "POST",
        "/runs/{id}/questions/{question}/answer",
        "operate",
        answer_question,
        "Answer a question of a run that the client began.",
        takes=AnswerBody,
        gives=SettledQuestion,
        reach="run",
    ),
)
