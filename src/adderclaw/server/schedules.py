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
from adderclaw.server.endpoint import Called, Endpoint
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


def found(called: Called) -> Schedule:
    """The one that the path names."""
    try:
        return rows.get(called.house.store, called.path["name"])
    except UsageError:
        raise missing("schedule", called.path["name"]) from None


def row(called: Called, schedule: Schedule) -> ScheduleRow:
    house = called.house
    return facts.row(house.store, schedule, house.clock.now(), house.key)


async def listing(called: Called) -> Listing:
    known = [one for one in rows.listing(called.house.store) if called.client.sees(one.workspace)]
    return Listing([row(called, one) for one in known])


async def show(called: Called) -> ScheduleRow:
    return row(called, found(called))


async def history(called: Called) -> History:
    schedule = found(called)
    given: Asked = called.given
    return History(facts.history(called.house.store, schedule, given.limit, given.before))


async def add(called: Called) -> Added:
    """By an administrator: it goes on beginning work when the token counts no more."""
    given: New = called.given
    house = called.house
    folder = house.folder_for(called.client, given.what.workspace)
    said = {name: inside(folder, name, path) for name in FILES if (path := getattr(given.what, name)) is not None}
    if given.what.sop is not None and is_path(given.what.sop):
        said["sop"] = inside(folder, "sop", given.what.sop)
    new = replace(given, what=replace(given.what, workspace=folder, **said))
    options = replace(house.options, workspace=folder)
    await asyncio.to_thread(bounds.require_profile, called.client, options, given.what.profile)
    schedule = await asyncio.to_thread(
        adding.make_schedule, new, options, house.key, house.clock.now(), called.client.who
    )
    adding.add_schedule(house.store, schedule)
    return Added(row(called, schedule), _secret(called, schedule))


def _secret(called: Called, schedule: Schedule) -> str:
    if schedule.when["kind"] != "webhook":
        return ""
    from adderclaw.models.credentials import webhook_secrets

    return webhook_secrets.make(called.house.home, f"trigger:{schedule.id}", called.house.clock.now())


async def pause(called: Called) -> ScheduleRow:
    schedule = found(called)
    rows.pause(called.house.store, schedule, called.house.clock.now())
    return row(called, rows.get(called.house.store, schedule.id))


async def resume(called: Called) -> ScheduleRow:
    schedule = found(called)
    rows.pause(called.house.store, schedule, None)
    return row(called, rows.get(called.house.store, schedule.id))


async def approve(called: Called) -> ScheduleRow:
    schedule, house = found(called), called.house
    changed = await asyncio.to_thread(adding.approve_schedule, house.store, schedule, house.options, house.key)
    return row(called, changed)


async def run(called: Called) -> FiredRow:
    """It begins here; its run is watched and answered like any other."""
    schedule = found(called)
    try:
        return facts.fired(await called.house.scheduler.run(schedule))
    except (NotBegun, Stopped) as error:
        raise Refusal(409, "not_begun", str(error)) from error


async def remove(called: Called) -> Removed:
    schedule = found(called)
    rows.remove(called.house.store, schedule)
    if schedule.when["kind"] == "webhook":
        from adderclaw.models.credentials import webhook_secrets

        try:
            webhook_secrets.forget(called.house.home, f"trigger:{schedule.id}")
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
