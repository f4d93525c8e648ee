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
from adderclaw.server.service import backend
from adderclaw.server.service.backend import NOT_INSTALLED, Backend, BackendName, Status
from adderclaw.terminal.commands.common import OutputFormat, group
from adderclaw.terminal.commands.plain import print_json

app = group("Run the server in the background: install, start, stop, look at it.")

NOT_RUNNING = 3
"""The exit code of `systemctl status` for a unit that does not run."""

By = Annotated[
    BackendName | None,
    typer.Option("--backend", help="systemd or launchd; by default the installed one, else the one that works here."),
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
    by: By = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be written, and write nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also over a file that `install` did not write.")] = False,
) -> None:
    """Write the unit that runs `adderclaw serve` in the background. Every option of `serve` can follow.

    Example: adderclaw service install --workspace ~/project --port 8423
    """
    from adderclaw.server.service import plan

    chosen = backend.choose_backend(by)
    text = chosen.text(plan.make_plan(serve_options(context.args), force=force, unit=chosen.unit))
    if dry_run:
        print(f"# {chosen.unit}", file=sys.stderr)
        print(text, end="")
        return
    _refuse_second(chosen)
    if os.path.lexists(chosen.unit) and not force and not backend.is_written_by_us(chosen.unit):
        raise UsageError(f"{chosen.unit} was not written by `adderclaw service install`: `--force` replaces it")
    backend.replace_file(chosen.unit, text)
    print(f"written: {chosen.unit} ({chosen.name})")
    print("".join(f"  {line}\n" for line in text.splitlines()), end="")
    for sentence in chosen.register():
        print(sentence)
    running = chosen.status().state in ("running", "starting")
    print(f"`adderclaw service {'restart` runs it as it is now' if running else 'start` starts it'}.")


def _refuse_second(chosen: Backend) -> None:
    """One service for each home."""
    for name, make in backend.BACKENDS.items():
        if name != chosen.name and os.path.lexists((other := make()).unit):
            fix = f"`adderclaw service uninstall --backend {name}` removes it"
            raise UsageError(f"the service is installed already, by {name} ({other.unit}): {fix}")


@app.command()
def uninstall(by: By = None) -> None:
    """End the server and remove what `install` wrote. Logs stay.

    Example: adderclaw service uninstall
    """
    chosen = backend.installed_backend(by)
    if chosen is None:
        print("not installed: there is nothing to remove")
        return
    chosen.uninstall()
    print(f"removed: {chosen.unit}")


@app.command()
def start(by: By = None) -> None:
    """Start the server in the background, and wait until it listens.

    Example: adderclaw service start
    """
    chosen = _installed(by)
    if (before := chosen.status()).state == "running":
        print(visible(f"runs already: {_where(before)}", keep_newlines=False))
        return
    chosen.start()
    print(visible(f"started: {_where(chosen.status())}", keep_newlines=False))


@app.command()
def stop(by: By = None) -> None:
    """End the server at a safe point, and wait for that.

    Example: adderclaw service stop
    """
    chosen = _installed(by)
    before = chosen.status()
    chosen.stop()
    print("stopped" if before.state in ("running", "starting", "stopping") else "it did not run")


@app.command()
def restart(by: By = None) -> None:
    """End the server and start it anew.

    Example: adderclaw service restart
    """
    chosen = _installed(by)
    chosen.stop()
    chosen.start()
    print(visible(f"started: {_where(chosen.status())}", keep_newlines=False))


@app.command()
def status(by: By = None, output_format: OutputFormat = "text") -> None:
    """Say how the service is doing. The exit code is 0 while it runs, else 3.

    Example: adderclaw service status
    """
    chosen = backend.installed_backend(by)
    found = chosen.status() if chosen is not None else _without_service()
    about: Json = {
        "backend": chosen.name if chosen is not None else "",
        "installed": chosen is not None,
        **found._asdict(),
        "address": _address(found),
        "schedules": _schedules(),
        "unit": chosen.unit if chosen is not None else "",
        "estop": os.path.lexists(os.path.join(config.home(), home_names.ESTOP)),
    }
    if output_format == "json":
        print_json(about)
    else:
        _print(about)
    raise typer.Exit(0 if found.state == "running" else NOT_RUNNING)


@app.command()
def logs(
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, max=100_000, help="How many of the last lines.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    by: By = None,
) -> None:
    """Print what the server said.

    Example: adderclaw service logs -n 20
    """
    _installed(by).logs(lines, follow=follow)


def _installed(by: BackendName | None) -> Backend:
    chosen = backend.installed_backend(by)
    if chosen is None:
        raise UsageError(NOT_INSTALLED)
    return chosen


def _without_service() -> Status:
    """A server may run in a terminal, or under a supervisor of the operator's."""
    from adderclaw.server import listening

    running = listening.running()
    if running is None:
        return Status("stopped", NOT_INSTALLED)
    return Status("running", "not installed as a service: it was started in another way", pid=running.pid)


def _address(found: Status) -> str:
    """Where the server of this service listens."""
    from adderclaw.server import listening

    running = listening.running() if found.pid else None
    return running.address if running is not None and running.pid == found.pid else ""


def _schedules() -> Json:
    """How many schedules wait for their time, and when the next one is due."""
    from adderclaw.agent.conversation.questions import store_path
    from adderclaw.storage import Store, schedules

    try:
        store = Store.open(store_path(None), read_only=True)
    except AdderClawError:  # there is none yet, one of another version, or a configuration that makes no sense
        return {"waiting": 0, "next": ""}
    try:
        waiting = [one for one in schedules.listing(store) if one.paused_at is None]
        at = schedules.next_time(store)
    finally:
        store.close()
    return {"waiting": len(waiting), "next": strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(at)) if at is not None else ""}


def _where(found: Status) -> str:
    pid = f"process {found.pid}" if found.pid else found.state
    return f"{pid} at {address}" if (address := _address(found)) else pid


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
