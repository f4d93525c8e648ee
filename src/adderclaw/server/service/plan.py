"""What the service runs: the installed program by its absolute path, with options of `serve` that were checked."""

import math
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from adderclaw import config
from adderclaw.config import installation
from adderclaw.config.paths import beneath, followed
from adderclaw.core import home_names
from adderclaw.core.errors import UsageError
from adderclaw.core.record import NamedTuple
from adderclaw.sandbox import programs
from adderclaw.server.limits import ANSWERS_END, EXIT_SLACK, LAST_NOTICES

PATHS = ("socket", "tls_cert", "tls_key", "config")
"""Options of `serve` that name a file: a service has no current folder to read them from."""
SPARE = 5
"""Seconds that the process has to be gone after its own last limit."""


class Plan(NamedTuple):
    """What a unit says."""

    command: tuple[str, ...]
    """The program by its absolute path, and what follows it."""
    home: str
    path: str
    """PATH, as it is where the service is installed: what a manager hands on finds few programs."""
    environment_file: str
    """Variables of the operator, which may hold secrets: so it is named, and never copied."""
    stop_seconds: int
    """How long the server may take to end: its own grace, and a little more."""
    workspaces: tuple[str, ...]


def make_plan(options: Mapping[str, Any], *, force: bool = False, unit: str = "") -> Plan:
    """Return the plan for these options of `serve`; refuse what `serve` would refuse. `unit`: where it is written."""
    settings = dict(options)
    for name in PATHS:
        if settings[name]:
            settings[name] = os.path.abspath(os.path.expanduser(settings[name]))
    workspaces = tuple(map(_require_folder, settings.pop("workspace") or ()))
    loaded = config.load(config_file=settings["config"], workspace=next(iter(workspaces), None))
    workspaces = workspaces or (_default_folder(loaded.workspace),)
    program = installed_program()
    if not force:
        _refuse_program_in(workspaces, program, unit)
    command = (
        program,
        "serve",
        *(word for folder in workspaces for word in ("--workspace", folder)),
        *_option_words(settings),
    )
    plan = Plan(
        command=command,
        home=config.home(),
        path=os.environ.get("PATH") or os.defpath,
        environment_file=os.path.join(config.home(), home_names.SERVICE_ENVIRONMENT),
        stop_seconds=math.ceil(loaded.config.runtime.signal_grace_seconds + ANSWERS_END + LAST_NOTICES + EXIT_SLACK)
        + SPARE,
        workspaces=workspaces,
    )
    for text in (*plan.command, plan.home, plan.path):
        _require_printable(text)
    return plan


def _require_printable(text: str) -> None:
    """What would begin a line of its own in a unit; a byte that is no UTF-8 is not printable either."""
    if not text.isprintable():
        raise UsageError(f"{text!r}: the options of a service must be UTF-8 without control characters")


def installed_program() -> str:
    """The program that runs now, as it was called."""
    program = installation.program(programs.resolve_outside_sessions)
    if not program:
        called = sys.argv[0]
        raise UsageError(f"{called!r} is not the installed program: install it (docs/getting-started.md) and call that")
    return program


def _option_words(options: Mapping[str, Any]) -> list[str]:
    """The options written out again."""
    words: list[str] = []
    for name, value in sorted(options.items()):
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words += [option, str(value)]
    return words


def _require_folder(path: str) -> str:
    _require_printable(path)
    folder = os.path.abspath(os.path.expanduser(path))
    if not os.path.isdir(folder):
        raise UsageError(f"--workspace {path!r} is not a folder")
    return folder


def _default_folder(workspace: str) -> str:
    """The project here, or the workspace of the configuration, from wherever it is installed."""
    folder = os.path.abspath(os.path.expanduser(workspace))
    if not os.path.isdir(folder):
        raise UsageError(
            f"the workspace {folder} does not exist; create it with `adderclaw init`, or name another with --workspace"
        )
    return folder


def _refuse_program_in(workspaces: Sequence[str], program: str, unit: str) -> None:
    """A session may write in its workspace: what it writes there must not be what the service starts next."""
    code = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    # nothing that a session runs writes in our own home
    units = [unit] if unit and not beneath(followed(unit), followed(config.home())) else []
    for file in map(followed, (program, os.path.realpath(program), sys.prefix, code, *units)):
        for folder in map(followed, workspaces):
            if beneath(file, folder):
                fix = "install the program elsewhere (`uv tool install`, `pipx install`), or say --force"
                if file in map(followed, units):
                    fix = "name the folder of a project as the workspace, or say --force"
                raise UsageError(
                    f"{file} is in the workspace {folder}: a change that a session makes there would run outside the"
                    f" sandbox at the next start; {fix}"
                )
