"""`adderclaw service`: the server in the background, run by systemd or launchd."""

import os
import sys
from collections.abc import Sequence
from time import gmtime, strftime
from typing import Annotated, Any, cast

import typer

from adderclaw import config
from adderclaw.core import home_names
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json
from adderclaw.server.service import backend, managers
from adderclaw.server.service.backend import NOT_INSTALLED, Backend, BackendName, Status
from adderclaw.terminal.commands.common import OutputFormat, group
from adderclaw.terminal.output import print_json

app = group("Run the server in the background: install, start, stop, inspect.")

NOT_RUNNING = 3
"""The exit code of `systemctl status` for a unit that does not run."""

Manager = Annotated[
    BackendName | None,
    typer.Option("--backend", help="systemd or launchd; default: the installed one, else the one that works here."),
]


def serve_options(arguments: Sequence[str]) -> dict[str, Any]:
    """The options as `serve` parses them."""
    from typer.exceptions import TyperException
    from typer.main import get_command

    from adderclaw.terminal.commands import serve

    command = cast(Any, get_command(serve.app))
    try:
        return command.make_context("adderclaw serve", list(arguments)).params
    except TyperException as error:
        message = cast(Any, error).format_message()
        raise UsageError(f"{message} `adderclaw serve --help` lists what the server takes") from error


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def install(
    context: typer.Context,
    by: Manager = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be written; write nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also replace a file that `install` did not write.")] = False,
) -> None:
    """Write the unit that runs `adderclaw serve` in the background. Every option of `serve` can follow.

    Example: adderclaw service install --workspace ~/project --port 8423
    """
    from adderclaw.server.service import plan

    chosen = managers.choose_backend(by)
    text = chosen.text(plan.make_plan(serve_options(context.args), force=force, unit=chosen.unit))
    if dry_run:
        print(f"# {chosen.unit}", file=sys.stderr)
        print(text, end="")
        return
    _refuse_second(chosen)
    if os.path.lexists(chosen.unit) and not force and not backend.is_written_by_us(chosen.unit):
        raise UsageError(f"{chosen.unit} was not written by `adderclaw service install`: replace it with `--force`")
    backend.replace_file(chosen.unit, text)
    print(f"written: {chosen.unit} ({chosen.name})")
    print("".join(f"  {line}\n" for line in text.splitlines()), end="")
    for sentence in chosen.register():
        print(sentence)
    running = chosen.status().state in ("running", "starting")
    print(f"`adderclaw service {'restart` runs it as it is now' if running else 'start` starts it'}.")


def _refuse_second(chosen: Backend) -> None:
    """Refuses a second service for the same home."""
    for name, make in managers.BACKENDS.items():
        if name != chosen.name and os.path.lexists((other := make()).unit):
            fix = f"`adderclaw service uninstall --backend {name}` removes it"
            raise UsageError(f"the service is installed already, by {name} ({other.unit}): {fix}")


@app.command()
def uninstall(by: Manager = None) -> None:
    """End the server and remove what `install` wrote. Logs stay.

    Example: adderclaw service uninstall
    """
    chosen = managers.installed_backend(by)
    if chosen is None:
        print("not installed: there is nothing to remove")
        return
    chosen.uninstall()
    print(f"removed: {chosen.unit}")


@app.command()
def start(by: Manager = None) -> None:
    """Start the server in the background, and wait until it listens.

    Example: adderclaw service start
    """
    chosen = _installed_service(by)
    if (before := chosen.status()).state == "running":
        print(visible(f"runs already: {_process_text(before)}", keep_newlines=False))
        return
    chosen.start()
    print(visible(f"started: {_process_text(chosen.status())}", keep_newlines=False))


@app.command()
def stop(by: Manager = None) -> None:
    """End the server at a safe point, and wait for that.

    Example: adderclaw service stop
    """
    chosen = _installed_service(by)
    before = chosen.status()
    chosen.stop()
    print("stopped" if before.state in ("running", "starting", "stopping") else "it was not running")


@app.command()
def restart(by: Manager = None) -> None:
    """Restart the server.

    Example: adderclaw service restart
    """
    chosen = _installed_service(by)
    chosen.stop()
    chosen.start()
    print(visible(f"started: {_process_text(chosen.status())}", keep_newlines=False))


@app.command()
def status(by: Manager = None, output_format: OutputFormat = "text") -> None:
    """Show the state of the service. The exit code is 0 while it runs, else 3.

    Example: adderclaw service status
    """
    chosen = managers.installed_backend(by)
    service_status = chosen.status() if chosen is not None else _status_without_service()
    about: Json = {
        "backend": chosen.name if chosen is not None else "",
        "installed": chosen is not None,
        **service_status._asdict(),
        "address": _address(service_status),
        "schedules": _schedules(),
        "unit": chosen.unit if chosen is not None else "",
        "estop": os.path.lexists(os.path.join(config.home(), home_names.ESTOP)),
    }
    if output_format == "json":
        print_json(about)
    else:
        _print(about)
    raise typer.Exit(0 if service_status.state == "running" else NOT_RUNNING)


@app.command()
def logs(
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, max=100_000, help="How many of the last lines.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow until Ctrl-C.")] = False,
    by: Manager = None,
) -> None:
    """Print the log of the server.

    Example: adderclaw service logs -n 20
    """
    _installed_service(by).logs(lines, follow=follow)


def _installed_service(by: BackendName | None) -> Backend:
    chosen = managers.installed_backend(by)
    if chosen is None:
        raise UsageError(NOT_INSTALLED)
    return chosen


def _status_without_service() -> Status:
    """The status without a service: a server may run in a terminal, or under the operator's own supervisor."""
    from adderclaw.server import listening

    running = listening.running()
    if running is None:
        return Status("stopped", NOT_INSTALLED)
    return Status("running", "not installed as a service: it was started in another way", pid=running.pid)


def _address(status: Status) -> str:
    """Where the server of this service listens."""
    from adderclaw.server import listening

    running = listening.running() if status.pid else None
    return running.address if running is not None and running.pid == status.pid else ""


def _schedules() -> Json:
    """The number of waiting schedules, and when the next one is due."""
    from adderclaw.agent.conversation.questions import store_path
    from adderclaw.storage import Store, schedules

    try:
        store = Store.open(store_path(None), read_only=True)
    except AdderClawError:  # no database yet, one of another version, or an invalid configuration
        return {"waiting": 0, "next": ""}
    try:
        waiting = [schedule for schedule in schedules.listing(store) if schedule.paused_at is None]
        at = schedules.next_time(store)
    finally:
        store.close()
    return {"waiting": len(waiting), "next": strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(at)) if at is not None else ""}


def _process_text(status: Status) -> str:
    pid = f"process {status.pid}" if status.pid else status.state
    return f"{pid} at {address}" if (address := _address(status)) else pid


def _print(about: Json) -> None:
    plans = about["schedules"]
    shown = {
        "service": f"{about['state']}" + (f": {about['detail']}" if about["detail"] else ""),
        "run by": about["backend"],
        "process": about["pid"],
        "since": about["since"],
        "address": about["address"],
        "last exit": about["last_exit"],
        "restarts": about["restarts"],
        "starts at": about["starts_with"],
        "schedules": f"{plans['waiting']} waiting" + (f", next at {plans['next']}" if plans["next"] else "")
        if plans["waiting"]
        else "",
        "unit": about["unit"],
        "estop": "set: no tool runs" if about["estop"] else "",
    }
    for name, value in shown.items():
        if value:
            print(visible(f"{name:<10} {value}", keep_newlines=False))
