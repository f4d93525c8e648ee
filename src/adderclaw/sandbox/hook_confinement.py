"""Runs hooks without access to the server of this home, while one runs.

A hook keeps its environment, all other files and the network. It loses the operator's key, which makes tokens and signs
answers; the server's folder; its port; and the view of its process. Bubblewrap covers the key and the folder with
mounts; else Landlock prevents reading the key. On macOS a Seatbelt profile does it, and the process stays visible.
"""

import os
import threading
from collections.abc import Sequence

from adderclaw.config.places import home
from adderclaw.core import home_names
from adderclaw.models.http import own_server
from adderclaw.sandbox import blocked_port, confinement, landlock, seatbelt
from adderclaw.sandbox.process import ProcessRequest, RunningProcess, Starter, start_unconfined
from adderclaw.sandbox.programs import bubblewrap

DANGEROUS_CAPABILITIES = ("CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_SYS_MODULE", "CAP_SYS_RAWIO", "CAP_MKNOD")
"""With one of these root could remove the mounts or see past them."""


def hook_starter(roots: Sequence[str]) -> Starter | None:
    """How to start hooks; None if no server of this home runs, so that nothing has to be hidden from them.

    The first call takes a moment: do not call it on the thread of an event loop.
    """
    running = own_server.found()
    if running is None or (kind := confinement.probe(roots)) == "none":  # then no server serves a session
        return None
    away = (os.path.join(home(), home_names.RECEIPT_KEY), own_server.folder(), *filter(None, [running.socket]))
    bwrap = bubblewrap(roots) if kind == "bubblewrap" else None

    if kind == "seatbelt":
        words = seatbelt.command_without(away, running.port, roots)
        return lambda order: start_unconfined(order._replace(argv=(*words, *order.argv)))

    def begin(order: ProcessRequest) -> RunningProcess:
        if bwrap is None:
            return _start_without_reads(order, away)
        return start_unconfined(order._replace(argv=(*_masked_command(bwrap, away), *order.argv)))

    if not blocked_port.is_possible():
        return begin
    blocked_port.call_without_port(running.port, int)  # prepares its thread
    return lambda order: blocked_port.call_without_port(running.port, lambda: begin(order))


def _masked_command(bwrap: str, away: Sequence[str]) -> list[str]:
    """The whole file system, except what these mounts cover; only the hook's own processes are visible."""
    words = [bwrap, "--dev-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "--die-with-parent"]
    words += [word for name in DANGEROUS_CAPABILITIES for word in ("--cap-drop", name)] if os.geteuid() == 0 else []
    for path in away:
        if os.path.isdir(path):
            words += ["--tmpfs", path, "--remount-ro", path]
        elif os.path.lexists(path):
            words += ["--ro-bind", "/dev/null", path]
    return [*words, "--"]


def _start_without_reads(order: ProcessRequest, away: Sequence[str]) -> RunningProcess:
    """Start a hook without mounts: on a thread that can read all files except the hidden ones."""
    outcome: list[RunningProcess | BaseException] = []

    def begin() -> None:
        try:
            blocked_port.restrict_self(landlock.create_read_ruleset(landlock.visible(away, ())))
            outcome.append(start_unconfined(order))
        except BaseException as error:  # noqa: BLE001 - it is raised where the hook was wanted
            outcome.append(error)

    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]
