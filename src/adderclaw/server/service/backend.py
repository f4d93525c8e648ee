"""The interface of the service managers that start and restart the server, and the choice between them."""

import contextlib
import os
from typing import Literal, Protocol

from adderclaw import config
from adderclaw.core import home_names
from adderclaw.core.errors import AdderClawError
from adderclaw.core.record import NamedTuple
from adderclaw.server.service.plan import Plan

BackendName = Literal["systemd", "launchd"]
State = Literal["running", "starting", "stopping", "stopped", "failed"]

NOT_INSTALLED = "the service is not installed: `adderclaw service install` installs it"
MARK = "Written by `adderclaw service install`"
"""A unit without these words was not written by us, and is neither replaced nor removed without asking."""
MOST_BYTES = 262_144


class Status(NamedTuple):
    """The state of the service."""

    state: State
    detail: str = ""
    """The reason, if the state alone does not tell it."""
    pid: int | None = None
    """The process id of the server."""
    since: str = ""
    """When the server was started, ISO 8601 in UTC."""
    last_exit: str = ""
    """How the server before this one ended."""
    restarts: int = 0
    starts_with: str = ""
    """When it starts by itself: `login`, `boot`, or empty for never."""


class Backend(Protocol):
    """One way to run the server in the background."""

    name: BackendName
    unit: str
    """The path of the unit file."""

    def text(self, plan: Plan) -> str:
        """The content of `unit` for a plan."""
        ...

    def register(self) -> list[str]:
        """Tell the manager about the new `unit`. Returns, in sentences, what the operator must still do."""
        ...

    def uninstall(self) -> None: ...

    def start(self) -> None:
        """Start the server, unless it runs, and wait until it listens."""
        ...

    def stop(self) -> None:
        """Stop the server, if it runs, at a safe point, and wait for its end."""
        ...

    def status(self) -> Status: ...

    def logs(self, lines: int, *, follow: bool) -> None:
        """Print the end of the log."""
        ...


def service_folder() -> str:
    """The folder of the service in the home, which no sandbox shows."""
    return os.path.join(config.home(), home_names.SERVICE)


def service_name() -> str:
    """The name of this home's service; a home other than the usual one gets a different name."""
    import hashlib

    usual = os.path.abspath(os.path.expanduser("~/.adderclaw"))
    if config.home() == usual:
        return "adderclaw"
    return f"adderclaw-{hashlib.sha256(os.fsencode(config.home())).hexdigest()[:8]}"


def is_written_by_us(unit: str) -> bool:
    """Whether `service install` wrote this file."""
    try:
        with open(os.open(unit, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return MARK.encode() in file.read(MOST_BYTES)
    except OSError:
        return False


def replace_file(path: str, text: str) -> None:
    """Replace a file as a whole; a link in its place is replaced, not followed."""
    new = f"{path}.{os.getpid()}.new"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(new, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(new, path)
    except OSError as error:
        raise AdderClawError(f"{path} cannot be written: {error.strerror}") from error


def remove_file(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise AdderClawError(f"{path} cannot be removed: {error.strerror}") from error
