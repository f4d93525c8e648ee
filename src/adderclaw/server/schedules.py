"""Endpoints of schedules: list, show, add, pause, run, approve and remove."""

import asyncio
from dataclasses import replace
from typing import Annotated

from adderclaw.core.decode import Between
from adderclaw.core.errors import AdderClawError, Stopped, UsageError
from adderclaw.core.record import record
from adderclaw.flows.queries import schedules as facts
from adderclaw.flows.queries.schedules import FiredRow, ScheduleRow
from adderclaw.flows.schedules import adding
from adderclaw.flows.schedules.adding import New
from adderclaw.flows.schedules.tick import NotBegun
from adderclaw.flows.sop.find import is_path
from adderclaw.server import bounds
from adderclaw.server.endpoint import ApiRequest, Endpoint
from adderclaw.server.refusal import Refusal, not_found
from adderclaw.server.runs import FILES, path_within
from adderclaw.storage import schedules as rows
from adderclaw.storage.schedules import Schedule


@record
class ScheduleList:
    schedules: list[ScheduleRow]


@record
class HistoryQuery:
    limit: Annotated[int, Between(1, 1_000)] = 50
    before: Annotated[int, Between(0)] = 0
    """The id of a row: those before it."""


@record
class History:
    history: list[FiredRow]


@record
class AddedSchedule:
    """A new schedule."""

    schedule: ScheduleRow
    secret: str
    """Of a webhook: what its requests are signed with. It is shown this once."""


@record
class RemovedSchedule:
    name: str
    removed: bool


def find_schedule(request: ApiRequest) -> Schedule:
    """The schedule whose name is in the path."""
    try:
        return rows.get(request.state.store, request.path["name"])
    except UsageError:
        raise not_found("schedule", request.path["name"]) from None


def schedule_row(request: ApiRequest, schedule: Schedule) -> ScheduleRow:
    state = request.state
    return facts.row(state.store, schedule, state.clock.now(), state.key)


async def list_schedules(request: ApiRequest) -> ScheduleList:
    known = [schedule for schedule in rows.listing(request.state.store) if request.client.sees(schedule.workspace)]
    return ScheduleList([schedule_row(request, schedule) for schedule in known])


async def show_schedule(request: ApiRequest) -> ScheduleRow:
    return schedule_row(request, find_schedule(request))


async def list_history(request: ApiRequest) -> History:
    schedule = find_schedule(request)
    query: HistoryQuery = request.body
    return History(facts.history(request.state.store, schedule, query.limit, query.before))


async def add_schedule(request: ApiRequest) -> AddedSchedule:
    """Adds a schedule. Needs `admin`, because the schedule continues to begin work after the token has ended."""
    body: New = request.body
    state = request.state
    folder = state.folder_for(request.client, body.what.workspace)
    paths = {name: path_within(folder, name, path) for name in FILES if (path := getattr(body.what, name)) is not None}
    if body.what.sop is not None and is_path(body.what.sop):
        paths["sop"] = path_within(folder, "sop", body.what.sop)
    new = replace(body, what=replace(body.what, workspace=folder, **paths))
    options = replace(state.options, workspace=folder)
    await asyncio.to_thread(bounds.require_profile, request.client, options, body.what.profile)
    schedule = await asyncio.to_thread(
        adding.make_schedule, new, options, state.key, state.clock.now(), request.client.who
    )
    adding.add_schedule(state.store, schedule)
    return AddedSchedule(schedule_row(request, schedule), _secret(request, schedule))


def _secret(request: ApiRequest, schedule: Schedule) -> str:
    if schedule.when["kind"] != "webhook":
        return ""
    from adderclaw.models.credentials import webhook_secrets

    return webhook_secrets.make(request.state.home, f"trigger:{schedule.id}", request.state.clock.now())


async def pause_schedule(request: ApiRequest) -> ScheduleRow:
    schedule = find_schedule(request)
    rows.pause(request.state.store, schedule, request.state.clock.now())
    return schedule_row(request, rows.get(request.state.store, schedule.id))


async def resume_schedule(request: ApiRequest) -> ScheduleRow:
    schedule = find_schedule(request)
    rows.pause(request.state.store, schedule, None)
    return schedule_row(request, rows.get(request.state.store, schedule.id))


async def approve_schedule(request: ApiRequest) -> ScheduleRow:
    schedule, state = find_schedule(request), request.state
    changed = await asyncio.to_thread(adding.approve_schedule, state.store, schedule, state.options, state.key)
    return schedule_row(request, changed)


async def run_schedule(request: ApiRequest) -> FiredRow:
    """Begins the run in this server, where clients can follow it and answer its questions."""
    schedule = find_schedule(request)
    try:
        return facts.fired(await request.state.scheduler.run(schedule))
    except (NotBegun, Stopped) as error:
        raise Refusal(409, "not_begun", str(error)) from error


async def remove_schedule(request: ApiRequest) -> RemovedSchedule:
    schedule = find_schedule(request)
    rows.remove(request.state.store, schedule)
    if schedule.when["kind"] == "webhook":
        from adderclaw.models.credentials import webhook_secrets

        try:
            webhook_secrets.forget(request.state.home, f"trigger:{schedule.id}")
        except AdderClawError:  # the schedule is gone, so its secret is useless
            pass
    return RemovedSchedule(schedule.name, True)


ENDPOINTS = (
    Endpoint(
        "GET",
        "/schedules",
        "read",
        list_schedules,
        "Schedules with their next times.",
        gives=ScheduleList,
        reach="filtered",
    ),
    Endpoint(
        "POST",
        "/schedules",
        "admin",
        add_schedule,
        "Add a schedule: when, what, and its terms.",
        takes=New,
        gives=AddedSchedule,
        status=201,
        reach="filtered",
    ),
    Endpoint(
        "GET",
        "/schedules/{name}",
        "read",
        show_schedule,
        "A schedule.",
        gives=ScheduleRow,
        reach="schedule",
    ),
    Endpoint(
        "DELETE",
        "/schedules/{name}",
        "admin",
        remove_schedule,
        "Remove it with its history.",
        gives=RemovedSchedule,
        reach="schedule",
    ),
    Endpoint(
        "GET",
        "/schedules/{name}/history",
        "read",
        list_history,
        "What became of its due times, the latest first.",
        takes=HistoryQuery,
        gives=History,
        reach="schedule",
    ),
    Endpoint(
        "POST",
        "/schedules/{name}/run",
        "operate",
        run_schedule,
        "Begin it now.",
        gives=FiredRow,
        status=201,
        reach="schedule",
    ),
    Endpoint(
        "POST",
        "/schedules/{name}/pause",
        "operate",
        pause_schedule,
        "Pause it.",
        gives=ScheduleRow,
        reach="schedule",
    ),
    Endpoint(
        "POST",
        "/schedules/{name}/resume",
        "operate",
        resume_schedule,
        "Resume it.",
        gives=ScheduleRow,
        reach="schedule",
    ),
    Endpoint(
        "POST",
        "/schedules/{name}/approve",
        "admin",
        approve_schedule,
        "Approve the current content of the file that it runs.",
        gives=ScheduleRow,
        reach="schedule",
    ),
)
