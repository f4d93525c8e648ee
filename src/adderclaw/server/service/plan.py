"""What the service runs: the absolute path of the installed program, with checked options of `serve`."""

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
"""Options of `serve` that name a file: they must be absolute, because a service has no current folder."""
SPARE = 5
"""Additional seconds for the process to exit after its own last limit."""


class Plan(NamedTuple):
    """The data of a unit file."""

    command: tuple[str, ...]
    """The absolute path of the program, and its arguments."""
    home: str
    path: str
    """The PATH at installation, because the PATH of a service manager is too short."""
    environment_file: str
    """The file with the operator's variables, which may be secret, so they are never copied."""
    stop_seconds: int
    """The time limit for stopping the server: its own grace period, and a little more."""
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
    """Refuses text that could begin a new line in a unit; bytes that are not UTF-8 are not printable either."""
    if not text.isprintable():
        raise UsageError(f"{text!r}: the options of a service must be UTF-8 without control characters")


def installed_program() -> str:
    """The running program, under the path by which it was called."""
    program = installation.program(programs.resolve_outside_sessions)
    if not program:
        called = sys.argv[0]
        raise UsageError(f"{called!r} is not the installed program: install it (docs/getting-started.md) and call that")
    return program


def _option_words(options: Mapping[str, Any]) -> list[str]:
    """The options as words of a command line."""
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
    """The current project or the configured workspace, as an absolute path."""
    folder = os.path.abspath(os.path.expanduser(workspace))
    if not os.path.isdir(folder):
        raise UsageError(
            f"the workspace {folder} is not a folder: `adderclaw init` creates it, or name another --workspace"
        )
    return folder


def _refuse_program_in(workspaces: Sequence[str], program: str, unit: str) -> None:
    """Refuses a program or unit in a workspace, where a session could change what the service starts next."""
    code = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    # sessions cannot write in AdderClaw's home
    units = [unit] if unit and not beneath(followed(unit), followed(config.home())) else []
    for file in map(followed, (program, os.path.realpath(program), sys.prefix, code, *units)):
        for folder in map(followed, workspaces):
            if beneath(file, folder):
                fix = "install the program elsewhere (`uv tool install`, `pipx install`), or use --force"
                if file in map(followed, units):
                    fix = "name the folder of a project as the workspace, or use --force"
                raise UsageError(
                    f"{file} is in the workspace {folder}, so code that a session writes there would run outside the "
                    f"sandbox at the next start; {fix}"
                )
