"""The pages of schedules: the list with the next times, and a schedule with its terms, history and buttons."""

from adderclaw.core.record import NamedTuple
from adderclaw.flows.queries import schedules as facts
from adderclaw.flows.queries.schedules import FiredRow, ScheduleRow
from adderclaw.flows.schedules.when import spelled
from adderclaw.server import schedules
from adderclaw.server.endpoint import ApiRequest
from adderclaw.server.pages.page import Entry, page, shorten_home

SHOWN = 50


class Output(NamedTuple):
    row: ScheduleRow
    terms: list[tuple[str, str]]
    history: list[tuple[FiredRow, str]]
    """Each row with its due time."""


async def _list(request: ApiRequest) -> list[ScheduleRow]:
    return (await schedules.list_schedules(request)).schedules


async def _read(request: ApiRequest) -> Output:
    schedule = schedules.find_schedule(request)
    row, zone = schedules.schedule_row(request, schedule), str(schedule.when["zone"])
    history = [(fired, facts.due_text(fired, zone)) for fired in facts.history(request.state.store, schedule, SHOWN)]
    return Output(row, _terms(row), history)


def _terms(row: ScheduleRow) -> list[tuple[str, str]]:
    terms = row.terms
    budget = f"${terms['budget']:g} a {terms['period']}, ${row.spent or 0:g} used" if "budget" in terms else "none"
    limits: dict[str, float] = row.what.get("limits") or {}
    return [
        ("When", row.when_text),
        ("Begins", row.what_text),
        ("Workspace", shorten_home(row.workspace)),
        ("Missed", f"{terms['missed']}, after {spelled(terms['grace'])}"),
        ("Overlap", terms["overlap"]),
        ("Interrupted", terms.get("interrupted", "resume")),
        ("Limits", ", ".join(f"{name} {value:g}" for name, value in limits.items()) or "the usual ones"),
        ("Budget", budget),
        ("Pinned", row.pinned[:12] or "nothing"),
    ]


ENTRY = Entry(20, "/ui/schedules", "Schedules", "t")
ENDPOINTS = (
    page(ENTRY.path, _list, "schedules.html", "Schedules."),
    page(f"{ENTRY.path}/{{name}}", _read, "schedule.html", "One schedule.", reach="schedule"),
)
