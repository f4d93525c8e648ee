"""What starts and keeps the server: one small interface with three back ends, chosen by asking the system."""

import os
from collections.abc import Callable
from typing import Literal, Protocol

from adderclaw import config, home_names
from adderclaw.channels.service.plan import Plan
from adderclaw.record import NamedTuple

BackendName = Literal["systemd", "launchd", "detached"]
State = Literal["running", "starting", "stopping", "stopped", "failed"]

NOT_INSTALLED = "the service is not installed: `adderclaw service install` installs it"


class Status(NamedTuple):
    """How the service stands."""

    state: State
    detail: str = ""
    """Why, where the state alone does not say it."""
    pid: int | None = None
    """Of the server."""
    since: str = ""
    """When the server was started, ISO 8601 in UTC."""
    last_exit: str = ""
    """How the server before this one ended."""
    restarts: int = 0
    starts_with: str = ""
    """When it starts by itself: `login`, `boot` or never, which is empty."""


class Backend(Protocol):
    """One way to run the server in the background."""

    name: BackendName
    unit: str
    """The file that says what is run."""

    def text(self, plan: Plan) -> str:
        """What `unit` holds for a plan, without its seal."""
        ...

    def installed(self) -> list[str]:
        """`unit` was written: make it known. What the operator has yet to do, in sentences."""
        ...

    def uninstall(self) -> None: ...

    def start(self) -> None:
        """Start the server and wait until it listens; nothing where it runs."""
        ...

    def stop(self) -> None:
        """End the server at a safe point and wait for that; nothing where it does not run."""
        ...

    def status(self) -> Status: ...

    def logs(self, lines: int, *, follow: bool) -> None:
        """Print the end of the log."""
        ...


def folder() -> str:
    """What the service keeps in the home: no room of a sandbox shows it."""
    return os.path.join(config.home(), home_names.SERVICE)


def instance() -> str:
    """How the service of this home is called: another home beside the usual one has a name of its own."""
    import hashlib

    usual = os.path.abspath(os.path.expanduser("~/.adderclaw"))
    if config.home() == usual:
        return "adderclaw"
    return f"adderclaw-{hashlib.sha256(os.fsencode(config.home())).hexdigest()[:8]}"


def _systemd() -> Backend:
    from adderclaw.channels.service.systemd import Systemd

    return Systemd()


def _launchd() -> Backend:
    from adderclaw.channels.service.launchd import Launchd

    return Launchd()


def _detached() -> Backend:
    from adderclaw.channels.service.detached import Detached

    return Detached()


BACKENDS: dict[BackendName, Callable[[], Backend]] = {
    "systemd": _systemd,
    "launchd": _launchd,
    "detached": _detached,
}


def chosen(name: BackendName | None) -> Backend:
    """The back end that was named; else the one that is installed; else the one that works here."""
    if name is not None:
        return BACKENDS[name]()
    for make in BACKENDS.values():
        if os.path.lexists((found := make()).unit):
            return found
    return BACKENDS[_working()]()


def _working() -> BackendName:
    from adderclaw.channels.service import launchd, systemd

    if launchd.answers():
        return "launchd"
    return "systemd" if systemd.answers() else "detached"
