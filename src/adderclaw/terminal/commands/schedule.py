"""`adderclaw schedule`: work that starts at set times, when files change, or on a signed request."""

import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Any, Literal

import typer

from adderclaw import config as configuration
from adderclaw.agent.conversation import questions
from adderclaw.agent.tool_call.approvals import person_answering
from adderclaw.config.legacy.options import Options
from adderclaw.core import home_names
from adderclaw.core.json_text import to_json
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json
from adderclaw.flows.queries import schedules as shown
from adderclaw.flows.queries.schedules import FiredRow, ScheduleRow
from adderclaw.flows.request import RunRequest
from adderclaw.flows.schedules import adding, ticking
from adderclaw.flows.schedules.adding import New
from adderclaw.storage import Store
from adderclaw.storage import schedules as rows
from adderclaw.storage.ledger.log_files import read_or_create_key
from adderclaw.storage.schedules import Schedule
from adderclaw.terminal.commands.common import (
    ConfigFile,
    LimitsGiven,
    OutputFormat,
    Profile,
    WorkspaceDir,
    group,
    print_result,
)
from adderclaw.terminal.commands.run import InputFiles, InputsGiven, ProviderName, RunModel, parse_inputs
from adderclaw.terminal.commands.schedule_run import run_now, tick_once
from adderclaw.terminal.limit_options import limits
from adderclaw.terminal.output import print_json

app = group("Schedules: add, list, show, run, pause, resume, approve, remove, history, tick.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.")]
AddName = Annotated[str, typer.Argument(metavar="NAME", help="Its name: letters, digits, dots, - and _.")]
Cron = Annotated[str | None, typer.Option("--cron", metavar="EXPR", help="Five fields in quotes, or @daily.")]
Every = Annotated[str | None, typer.Option("--every", metavar="TIME", help="An interval of real time: 15m, 1h30m, 1d.")]
At = Annotated[str | None, typer.Option("--at", metavar="WHEN", help="Once, at a time such as 2026-12-01T09:00.")]
Changed = Annotated[
    list[str] | None,
    typer.Option("--changed", metavar="GLOB", help="When files matching this pattern change; repeatable."),
]
Webhook = Annotated[
    Literal["standard", "github"] | None,
    typer.Option("--webhook", help="On a request to the server, signed in this format."),
]
Zone = Annotated[
    str | None, typer.Option("--zone", metavar="ZONE", help="Such as Europe/Berlin; default: this machine's.")
]
From = Annotated[str | None, typer.Option("--from", metavar="WHEN", help="With --every: the first time.")]
Settle = Annotated[
    str, typer.Option("--settle", metavar="TIME", help="With --changed: wait until files are unchanged for so long.")
]
GivenAs = Annotated[
    str, typer.Option("--given-as", metavar="INPUT", help="The input that receives the changed paths or the request.")
]
Message = Annotated[str | None, typer.Option("--message", metavar="TEXT", help="Run a turn with this message.")]
Task = Annotated[str | None, typer.Option("--task", metavar="TEXT", help="Run a task with skills.")]
Agentfile = Annotated[str | None, typer.Option("--agentfile", metavar="FILE", help="Run a workflow.")]
SopGiven = Annotated[str | None, typer.Option("--sop", metavar="SOP", help="Run a SOP, by name or path.")]
Spec = Annotated[str | None, typer.Option("--spec", metavar="FILE", help="Run a specification.")]
Missed = Annotated[
    Literal["skip", "once", "all"] | None,
    typer.Option("--missed", help="What to do about missed times; default: once for --at, else skip."),
]
Overlap = Annotated[
    Literal["skip", "queue", "allow"],
    typer.Option("--overlap", help="What to do when due while the previous run is active."),
]
Interrupted = Annotated[
    Literal["resume", "again", "leave"],
    typer.Option(
        "--interrupted", help="What to do with a run whose process was killed: resume it, begin it again, or leave it."
    ),
]
Grace = Annotated[
    str, typer.Option("--grace", metavar="TIME", help="How late a start may be before it counts as missed.")
]
Jitter = Annotated[str, typer.Option("--jitter", metavar="TIME", help="Start up to this much later than due.")]
BudgetGiven = Annotated[
    str | None,
    typer.Option("--budget", metavar="USD/PERIOD", help="Limit for all its runs per day, week or month: 5/day."),
]
Follow = Annotated[bool, typer.Option("--follow-changes", help="Do not pin the Agentfile or SOP: it may change.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check it and show its next times without adding it.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=1_000, help="At most N.")]


@app.command()
def add(
    name: AddName,
    cron: Cron = None,
    every: Every = None,
    at: At = None,
    changed: Changed = None,
    webhook: Webhook = None,
    message: Message = None,
    task: Task = None,
    agentfile: Agentfile = None,
    sop: SopGiven = None,
    spec: Spec = None,
    input_values: InputsGiven = None,
    files: InputFiles = None,
    zone: Zone = None,
    start: From = None,
    settle: Settle = "5s",
    given_as: GivenAs = "",
    missed: Missed = None,
    overlap: Overlap = "skip",
    interrupted: Interrupted = "resume",
    grace: Grace = "1h",
    jitter: Jitter = "0s",
    budget: BudgetGiven = None,
    follow_changes: Follow = False,
    limit: LimitsGiven = None,
    profile: Profile = None,
    provider: ProviderName = None,
    model: RunModel = None,
    workspace: WorkspaceDir = None,
    config: ConfigFile = None,
    dry_run: DryRun = False,
    output_format: OutputFormat = "text",
) -> None:
    """Add a schedule: what to start, and when. The server, or `schedule tick`, starts it.

    Example: adderclaw schedule add nightly --cron "30 2 * * *" --zone Europe/Berlin --message "Look at the logs"
    """
    loaded = configuration.load(config_file=config, workspace=workspace, here=True, looks=not changed)
    what = RunRequest(
        message=message,
        task=task,
        agentfile=_absolute(agentfile),
        sop=os.path.abspath(sop) if sop is not None and os.path.isfile(sop) else sop,
        spec=_absolute(spec),
        inputs=parse_inputs(input_values or [], files or []) or None,
        workspace=loaded.workspace,
        profile=profile,
        provider=provider,
        model=model,
    )
    new = New(
        name=name,
        what=_with_limits(what, limit),
        cron=cron,
        every=every,
        at=at,
        changed=changed or None,
        webhook=webhook,
        zone=zone,
        start=start,
        settle=settle,
        given_as=given_as,
        missed=missed,
        overlap=overlap,
        interrupted=interrupted,
        grace=grace,
        jitter=jitter,
        budget=budget,
        follow_changes=follow_changes,
    )
    _add(new, config, output_format, dry_run=dry_run)


def _absolute(path: str | None) -> str | None:
    return None if path is None else os.path.abspath(os.path.expanduser(path))


def _with_limits(what: RunRequest, limit_options: list[str] | None) -> RunRequest:
    allowed = limits(limit_options)
    rounds = allowed.pop("rounds", None)
    return replace(what, limits=allowed or None, rounds=None if rounds is None else int(rounds))


def _add(new: New, config: str | None, output_format: str, *, dry_run: bool) -> None:
    extra: Json = {"config": _absolute(config)} if config else {}
    schedule = adding.make_schedule(
        new, Options(config_file=config), _key(), time.time(), person_answering("cli"), extra
    )
    with _open_store(config) as store:
        if not dry_run:
            adding.add_schedule(store, schedule)
        row = shown.row(store, schedule, time.time())
    secret = _secret(schedule) if new.webhook is not None and not dry_run else ""
    if output_format == "json":
        print_json({**to_json(row), "added": not dry_run, **({"secret": secret} if secret else {})})
        return
    _print_row(row)
    if secret:
        print(f"secret: {secret}")
        print(f"It is shown only once. Requests go to /triggers/{new.name} of `adderclaw serve`; see docs/channels.md.")
    print("nothing was added (--dry-run)" if dry_run else _added_text(config, by_request=new.webhook is not None))


def _secret(schedule: Schedule) -> str:
    from adderclaw.models.credentials import webhook_secrets

    return webhook_secrets.make(configuration.home(), f"trigger:{schedule.id}", time.time())


def _added_text(config: str | None, *, by_request: bool) -> str:
    with _open_store(config) as store:
        server = ticking.server_that_ticks(store)
    if server:
        return f"added: the server at {visible(server)} starts it"
    if by_request:
        return "added. Requests need a running `adderclaw serve`"
    return f"added. To start it on time, run `adderclaw serve`, or add to your crontab: {shown.crontab()}"


@app.command("list")
def list_schedules(config: ConfigFile = None, output_format: OutputFormat = "text") -> None:
    """List schedules: what starts when, and how the last run ended.

    Example: adderclaw schedule list
    """
    with _open_store(config) as store:
        key = _key()
        schedule_rows = [shown.row(store, row, time.time(), key) for row in rows.listing(store)]
    if output_format == "json":
        print_json([to_json(row) for row in schedule_rows])
        return
    for row in schedule_rows:
        after = row.next_text[0] if row.next_text and row.state != "paused" else "–"
        last = _shorten(_outcome(row.last)) if row.last is not None else "never ran"
        print(visible(f"{row.name:<20}  {row.state:<8}  {row.when_text}  next {after}  {last}", keep_newlines=False))
    if not schedule_rows:
        print("no schedules")


@app.command()
def show(name: Name, config: ConfigFile = None, output_format: OutputFormat = "text") -> None:
    """Show a schedule: what it starts, its terms, its next times and its last runs.

    Example: adderclaw schedule show nightly
    """
    with _open_store(config) as store:
        schedule = rows.get(store, name)
        row = shown.row(store, schedule, time.time(), _key())
        history = shown.history(store, schedule, 5)
    if output_format == "json":
        print_json({**to_json(row), "history": [to_json(fired) for fired in history]})
        return
    _print_row(row)
    for fired in history:
        _print_fired(fired, str(schedule.when["zone"]))


@app.command()
def history(name: Name, limit: Limit = 20, config: ConfigFile = None, output_format: OutputFormat = "text") -> None:
    """Show the outcome of each due time, the latest first.

    Example: adderclaw schedule history nightly
    """
    with _open_store(config) as store:
        schedule = rows.get(store, name)
        fired_rows = shown.history(store, schedule, limit)
    if output_format == "json":
        print_json([to_json(fired) for fired in fired_rows])
        return
    for fired in fired_rows:
        _print_fired(fired, str(schedule.when["zone"]))
    if not fired_rows:
        print("it was never due")


@app.command()
def remove(name: Name, config: ConfigFile = None, output_format: OutputFormat = "text") -> None:
    """Remove a schedule with its history. Its runs stay, and an active run continues.

    Example: adderclaw schedule remove nightly
    """
    with _open_store(config) as store:
        schedule = rows.get(store, name)
        rows.remove(store, schedule)
    if schedule.when["kind"] == "webhook":
        from adderclaw.models.credentials import webhook_secrets

        webhook_secrets.forget(configuration.home(), f"trigger:{schedule.id}")
    print_result({"name": schedule.name, "removed": True}, f"{schedule.name}: removed", output_format)


@app.command()
def pause(name: Name, config: ConfigFile = None, output_format: OutputFormat = "text") -> None:
    """Pause a schedule until `schedule resume`. An active run continues.

    Example: adderclaw schedule pause nightly
    """
    _pause(name, config, output_format, time.time())


@app.command()
def resume(name: Name, config: ConfigFile = None, output_format: OutputFormat = "text") -> None:
    """Resume a paused schedule. Times that came due meanwhile follow its --missed.

    Example: adderclaw schedule resume nightly
    """
    _pause(name, config, output_format, None)


def _pause(name: str, config: str | None, output_format: str, at: float | None) -> None:
    with _open_store(config) as store:
        rows.pause(store, rows.get(store, name), at)
        row = shown.row(store, rows.get(store, name), time.time(), _key())
    after = f"; next {row.next_text[0]}" if at is None and row.next_text else ""
    print_result(to_json(row), f"{row.name}: {row.state}{after}", output_format)


@app.command()
def approve(name: Name, config: ConfigFile = None, output_format: OutputFormat = "text") -> None:
    """Approve the current content of a schedule's Agentfile or SOP: it is pinned again.

    Example: adderclaw schedule approve nightly
    """
    with _open_store(config) as store:
        before = rows.get(store, name)
        now = adding.approve_schedule(store, before, Options(config_file=config), _key())
        row = shown.row(store, now, time.time())
    changed = f"{before.pin[:12]} → {now.pin[:12]}" if before.pin != now.pin else f"{now.pin[:12]}, as before"
    print_result(
        to_json(row),
        visible(f"{row.name}: {row.what_text} is approved ({changed})", keep_newlines=False),
        output_format,
    )


@app.command()
def run(
    name: Name,
    detach: Annotated[bool, typer.Option("--detach", help="Let the server run it, and print the run's id.")] = False,
    config: ConfigFile = None,
    output_format: OutputFormat = "text",
) -> None:
    """Run a schedule now, even while it is paused, and wait for the end. The exit code is the outcome's.

    Example: adderclaw schedule run nightly
    """
    if detach:
        _hand_over(name, config, output_format)
        return
    raise typer.Exit(run_now(name, config, output_format))


@app.command()
def tick(config: ConfigFile = None, output_format: OutputFormat = "text") -> None:
    """Start everything that is due and wait for it; for your system's cron. A running server does this itself.

    Exit code 0: nothing was due, or every run completed; 1: one did not, or could not start; 6: the emergency stop.

    Example: adderclaw schedule tick
    """
    raise typer.Exit(tick_once(config, output_format))


def _hand_over(name: str, config: str | None, output_format: str) -> None:
    import asyncio
    from urllib.parse import quote

    from adderclaw.terminal.legacy.attach.link import Link

    async def handed_over() -> Json:
        link = Link(config, "schedule run --detach")
        await link.connect()
        try:
            return await link.post(f"/schedules/{quote(name, safe='')}/run", {})
        finally:
            await link.close()

    row = asyncio.run(handed_over())
    print_result(row, str(row["run_id"] or row["state"]), output_format)


# ------------------------------------------------------------------ shared


def _key() -> bytes:
    return read_or_create_key(os.path.join(configuration.home(), home_names.RECEIPT_KEY))


@contextmanager
def _open_store(config: str | None) -> Generator[Store]:
    store = Store.open(questions.store_path(config))
    try:
        yield store
    finally:
        store.close()


def _print_row(row: ScheduleRow) -> None:
    agreed: dict[str, Any] = row.terms
    bounds: dict[str, float] = row.what.get("limits") or {}
    lines: list[tuple[str, object]] = [
        ("name", row.name),
        ("state", row.state),
        ("when", row.when_text),
        ("what", row.what_text),
        ("workspace", row.workspace),
        ("missed", f"{agreed['missed']}, after {_terms_text(agreed['grace'])}"),
        ("overlap", agreed["overlap"]),
        ("interrupted", agreed.get("interrupted", "resume")),
        ("jitter", _terms_text(agreed["jitter"]) if agreed["jitter"] else ""),
        ("limits", ", ".join(f"{name} {value:g}" for name, value in bounds.items())),
        ("budget", f"${agreed['budget']:g} a {agreed['period']}, ${row.spent:g} used" if "budget" in agreed else ""),
        ("pinned", row.pinned[:12]),
    ]
    for label, value in lines:
        if value:
            print(visible(f"{label:<10} {value}", keep_newlines=False))
    for position, text in enumerate(row.next_text):
        print(visible(f"{'next' if not position else '':<10} {text}", keep_newlines=False))


def _terms_text(seconds: float) -> str:
    from adderclaw.flows.schedules.when import spelled

    return spelled(seconds)


def _print_fired(fired: FiredRow, zone: str) -> None:
    cost = f"  ${fired.cost:g}" if fired.cost else ""
    run_id = f"  {fired.run_id}" if fired.run_id else ""
    print(visible(f"{shown.due_text(fired, zone):<40}  {_outcome(fired)}{cost}{run_id}", keep_newlines=False))


def _shorten(text: str) -> str:
    """Shortens a text for a list; `schedule history` shows all of it."""
    return text if len(text) <= 60 else f"{text[:59]}…"


def _outcome(fired: FiredRow) -> str:
    word = fired.outcome if fired.state == "ended" and fired.outcome else fired.state
    return f"{word}: {fired.reason}" if fired.reason and word != "completed" else word
