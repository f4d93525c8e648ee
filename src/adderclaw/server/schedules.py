"""Endpoints of schedules: listed, shown, added, paused, run, approved, removed."""

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
from adderclaw.server.refusal import Refusal, missing
from adderclaw.server.runs import FILES, inside
from adderclaw.storage import schedules as rows
from adderclaw.storage.schedules import Schedule


@record
class Listing:
    schedules: list[ScheduleRow]


@record
class Asked:
    limit: Annotated[int, Between(1, 1_000)] = 50
    before: Annotated[int, Between(0)] = 0
    """The id of a row: those before it."""


@record
class History:
    history: list[FiredRow]


@record
class Added:
    """A new schedule."""

    schedule: ScheduleRow
    secret: str
    """Of a webhook: what its requests are signed with. It is shown this once."""


@record
class Removed:
    name: str
    removed: bool


def found(request: ApiRequest) -> Schedule:
    """The one that the path names."""
    try:
        return rows.get(request.state.store, request.path["name"])
    except UsageError:
        raise missing("schedule", request.path["name"]) from None


def row(request: ApiRequest, schedule: Schedule) -> ScheduleRow:
    state = request.state
    return facts.row(state.store, schedule, state.clock.now(), state.key)


async def listing(request: ApiRequest) -> Listing:
    known = [schedule for schedule in rows.listing(request.state.store) if request.client.sees(schedule.workspace)]
    return Listing([row(request, schedule) for schedule in known])


async def show(request: ApiRequest) -> ScheduleRow:
    return row(request, found(request))


async def history(request: ApiRequest) -> History:
    schedule = found(request)
    query: Asked = request.body
    return History(facts.history(request.state.store, schedule, query.limit, query.before))


async def add(request: ApiRequest) -> Added:
    """By an administrator: it goes on beginning work when the token counts no more."""
    body: New = request.body
    state = request.state
    folder = state.folder_for(request.client, body.what.workspace)
    paths = {name: inside(folder, name, path) for name in FILES if (path := getattr(body.what, name)) is not None}
    if body.what.sop is not None and is_path(body.what.sop):
        paths["sop"] = inside(folder, "sop", body.what.sop)
    new = replace(body, what=replace(body.what, workspace=folder, **paths))
    options = replace(state.options, workspace=folder)
    await asyncio.to_thread(bounds.require_profile, request.client, options, body.what.profile)
    schedule = await asyncio.to_thread(adding.made, new, options, state.key, state.clock.now(), request.client.who)
    adding.added(state.store, schedule)
    return Added(row(request, schedule), _secret(request, schedule))


def _secret(request: ApiRequest, schedule: Schedule) -> str:
    if schedule.when["kind"] != "webhook":
        return ""
    from adderclaw.models.credentials import webhook_secrets

    return webhook_secrets.make(request.state.home, f"trigger:{schedule.id}", request.state.clock.now())


async def pause(request: ApiRequest) -> ScheduleRow:
    schedule = found(request)
    rows.pause(request.state.store, schedule, request.state.clock.now())
    return row(request, rows.get(request.state.store, schedule.id))


async def resume(request: ApiRequest) -> ScheduleRow:
    schedule = found(request)
    rows.pause(request.state.store, schedule, None)
    return row(request, rows.get(request.state.store, schedule.id))


async def approve(request: ApiRequest) -> ScheduleRow:
    schedule, state = found(request), request.state
    changed = await asyncio.to_thread(adding.approved, state.store, schedule, state.options, state.key)
    return row(request, changed)


async def run(request: ApiRequest) -> FiredRow:
    """It begins here; its run is watched and answered like any other."""
    schedule = found(request)
    try:
        return facts.fired(await request.state.scheduler.run(schedule))
    except (NotBegun, Stopped) as error:
        raise Refusal(409, "not_begun", str(error)) from error


async def remove(request: ApiRequest) -> Removed:
    schedule = found(request)
    rows.remove(request.state.store, schedule)
    if schedule.when["kind"] == "webhook":
        from adderclaw.models.credentials import webhook_secrets

        try:
            webhook_secrets.forget(request.state.home, f"trigger:{schedule.id}")
        except AdderClawError:  # it was removed; a secret that stays opens no door
            pass
    return Removed(schedule.name, True)


ENDPOINTS = (
    Endpoint("GET", "/schedules", "read", listing, "Schedules with their next times.", gives=Listing, reach="filtered"),
    Endpoint(
        "POST",
        "/schedules",
        "admin",
        add,
        "Add a schedule: when, what, and its terms.",
        takes=New,
        gives=Added,
        status=201,
        reach="filtered",
    ),
    Endpoint("GET", "/schedules/{name}", "read", show, "A schedule as it stands.", gives=ScheduleRow, reach="schedule"),
    Endpoint(
        "DELETE", "/schedules/{name}", "admin", remove, "Remove it with its history.", gives=Removed, reach="schedule"
    ),
    Endpoint(
        "GET",
        "/schedules/{name}/history",
        "read",
        history,
        "What became of its due times, the latest first.",
        takes=Asked,
        gives=History,
        reach="schedule",
    ),
    Endpoint(
        "POST", "/schedules/{name}/run", "operate", run, "Begin it now.", gives=FiredRow, status=201, reach="schedule"
    ),
    Endpoint(
        "POST", "/schedules/{name}/pause", "operate", pause, "Begin nothing of it.", gives=ScheduleRow, reach="schedule"
    ),
    Endpoint(
        "POST", "/schedules/{name}/resume", "operate", resume, "Let it go on.", gives=ScheduleRow, reach="schedule"
    ),
    Endpoint(
        "POST",
        "/schedules/{name}/approve",
        "admin",
        approve,
        "Pin the file that it begins as it is now.",
        gives=ScheduleRow,
        reach="schedule",
    ),
)
