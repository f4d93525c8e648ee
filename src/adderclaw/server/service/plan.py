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
from adderclaw.server.limits import ANSWERS_END, LAST_NOTICES, SLACK

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


def made(options: Mapping[str, Any], *, force: bool = False, unit: str = "") -> Plan:
    """Return the plan for these options of `serve`; refuse what `serve` would refuse. `unit`: where it is written."""
    given = dict(options)
    for name in PATHS:
        if given[name]:
            given[name] = os.path.abspath(os.path.expanduser(given[name]))
    workspaces = tuple(map(_folder, given.pop("workspace") or ()))
    loaded = config.load(config_file=given["config"], workspace=next(iter(workspaces), None))
    workspaces = workspaces or (_usual(loaded.workspace),)
    program = installed_program()
    if not force:
        _refuse_program_in(workspaces, program, unit)
    command = (program, "serve", *(word for folder in workspaces for word in ("--workspace", folder)), *_words(given))
    plan = Plan(
        command=command,
        home=config.home(),
        path=os.environ.get("PATH") or os.defpath,
        environment_file=os.path.join(config.home(), home_names.SERVICE_ENVIRONMENT),
        stop_seconds=math.ceil(loaded.config.runtime.signal_grace_seconds + ANSWERS_END + LAST_NOTICES + SLACK) + SPARE,
        workspaces=workspaces,
    )
    for text in (*plan.command, plan.home, plan.path):
        _refuse_odd(text)
    return plan


def _refuse_odd(text: str) -> None:
    """What would begin a line of its own in a unit; a byte that is no UTF-8 is not printable either."""
    if not text.isprintable():
        raise UsageError(f"{text!r}: a service takes no control characters, and nothing that is not UTF-8")


def installed_program() -> str:
    """The program that runs now, as it was called."""
    found = installation.program(programs.resolve_outside_sessions)
    if not found:
        called = sys.argv[0]
        raise UsageError(f"{called!r} is not the installed program: install it (docs/getting-started.md) and call that")
    return found


def _words(given: Mapping[str, Any]) -> list[str]:
    """The options written out again."""
    found: list[str] = []
    for name, value in sorted(given.items()):
        option = f"--{name.replace('_', '-')}"
        if value is True:
            found.append(option)
        elif value is not None and value is not False:
            found += [option, str(value)]
    return found


def _folder(path: str) -> str:
    _refuse_odd(path)
    found = os.path.abspath(os.path.expanduser(path))
    if not os.path.isdir(found):
        raise UsageError(f"--workspace {path!r} is no folder")
    return found


def _usual(workspace: str) -> str:
    """The project here, or the workspace of the configuration, from wherever it is installed."""
    found = os.path.abspath(os.path.expanduser(workspace))
    if not os.path.isdir(found):
        raise UsageError(f"the workspace {found} is no folder: `adderclaw init` makes it, or name another --workspace")
    return found


def _refuse_program_in(workspaces: Sequence[str], program: str, unit: str) -> None:
    """A session may write in its workspace: what it writes there must not be what the service starts next."""
    code = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    # nothing that a session runs writes in our own home
    units = [unit] if unit and not beneath(followed(unit), followed(config.home())) else []
    for place in map(followed, (program, os.path.realpath(program), sys.prefix, code, *units)):
        for folder in map(followed, workspaces):
            if beneath(place, folder):
                fix = "install the program elsewhere (`uv tool install`, `pipx install`), or say --force"
                if place in map(followed, units):
                    fix = "name the folder of a project as the workspace, or say --force"
                raise UsageError(
                    f"{place} lies in the workspace {folder}: what a session changes there would run outside of its sandbox at the next start; {fix}"
                )
