"""Chooses the service manager: systemd or launchd."""

import os
from collections.abc import Callable

from adderclaw.core.errors import UsageError
from adderclaw.server.service import launchd, plan, systemd
from adderclaw.server.service.backend import Backend, BackendName
from adderclaw.server.service.launchd import Launchd
from adderclaw.server.service.systemd import Systemd

NO_MANAGER = (
    "neither systemd nor launchd answers for this user. Run `{program} serve` under the supervisor that you have "
    "(a container's restart policy, supervisord, runit), or from cron with `@reboot {program} serve`; docs/service.md "
    "has examples"
)
BACKENDS: dict[BackendName, Callable[[], Backend]] = {"systemd": Systemd, "launchd": Launchd}


def choose_backend(name: BackendName | None) -> Backend:
    """The back end with this name; else the installed one; else the one whose manager answers here."""
    backend = installed_backend(name)
    if backend is not None:
        return backend
    if name is not None:
        return BACKENDS[name]()
    if launchd.answers():
        return Launchd()
    if systemd.answers():
        return Systemd()
    raise UsageError(NO_MANAGER.format(program=plan.installed_program()))


def installed_backend(name: BackendName | None = None) -> Backend | None:
    """The installed back end, with this name or any name."""
    backends = [make() for key, make in BACKENDS.items() if name in (None, key)]
    return next((backend for backend in backends if os.path.lexists(backend.unit)), None)
