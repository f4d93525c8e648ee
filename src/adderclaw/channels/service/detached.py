"""Without a manager of the system: a supervisor of our own, steered by its lock, by signals and its own notes."""

import contextlib
import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict

from adderclaw.channels.service import log_files, process_identity, sealed, supervised
from adderclaw.channels.service.backend import NOT_INSTALLED, BackendName, State, Status
from adderclaw.channels.service.log_files import LogFiles
from adderclaw.channels.service.plan import Plan
from adderclaw.channels.service.process_identity import Process
from adderclaw.channels.service.supervised import Held, Said, Unit
from adderclaw.errors import AdderClawError, UsageError

READY_WITHIN = 60
"""Seconds for a server to listen, unless it fails before."""
STATES: dict[str, State] = {
    "starting": "starting",
    "running": "running",
    "waiting": "starting",
    "stopping": "stopping",
    "stopped": "stopped",
    "failed": "failed",
}


class Detached:
    """The back end."""

    name: BackendName = "detached"

    def __init__(self) -> None:
        self.unit = supervised.unit_path()

    def text(self, plan: Plan) -> str:
        unit = Unit(
            written_by=f"adderclaw service install ({sealed.SEAL})",
            command=list(plan.command),
            environment={"ADDERCLAW_HOME": plan.home, "PATH": plan.path},
            environment_file=plan.environment_file,
            stop_seconds=float(plan.stop_seconds),
        )
        return json.dumps(asdict(unit), indent=2, ensure_ascii=False) + "\n"

    def installed(self) -> list[str]:
        return ["It does not start with this machine: no manager of the system answers here that would start it."]

    def uninstall(self) -> None:
        self.stop()
        for path in (self.unit, supervised.state_path(), supervised.lock_path()):
            sealed.remove(path)

    # -------------------------------------------------------------- start

    def start(self) -> None:
        unit = supervised.unit()
        if unit is None:
            raise UsageError(NOT_INSTALLED)
        supervised.variables(unit.environment_file)  # what is wrong with it is said here, not in a log
        if not os.access(unit.command[0], os.X_OK):
            fix = "install the service anew with `adderclaw service install`"
            raise AdderClawError(f"{unit.command[0]} is no program that can be run: {fix}")
        lock = supervised.opened_lock(create=True)
        assert lock is not None
        try:
            if supervised.taken(lock):  # else there is one: whoever asked has what they wanted
                self._detach(unit, lock)
        finally:
            os.close(lock)
        self._until_ready()

    def _detach(self, unit: Unit, lock: int) -> None:
        from adderclaw.channels.service import supervisor

        self._refuse_another_server()
        log = LogFiles(supervised.log_path(), unit.log_bytes, unit.log_files)
        log.open()
        sealed.write(supervised.state_path(), json.dumps(asdict(self._fresh())))
        supervisor.detach(unit, log, lock)

    def _fresh(self) -> Said:
        """What the supervisor before said, but for the server that it may have left behind, is over."""
        with contextlib.suppress(AdderClawError):
            if (before := supervised.said()) is not None:
                return Said("starting", server=before.server, last_exit=before.last_exit)
        return Said("starting")

    def _refuse_another_server(self) -> None:
        from adderclaw.channels.server import listening

        if (running := listening.running()) is None:
            return
        with contextlib.suppress(AdderClawError):
            left = (before := supervised.said()) and supervised.process(before.server)
            if left and left.pid == running.pid and process_identity.lives(left):
                return  # the supervisor waits for its end
        raise AdderClawError(
            f"a server of this home runs already at {running.address} (process {running.pid}), and is not the "
            "service's: end it first"
        )

    def _until_ready(self) -> None:
        end = time.monotonic() + READY_WITHIN
        while time.monotonic() < end:
            found = supervised.said()
            if found is not None and found.phase in ("failed", "stopped"):
                raise AdderClawError(f"the server did not start: {found.reason}; `adderclaw service logs` has the rest")
            server = supervised.process(found.server) if found is not None else None
            is_new = found is not None and found.phase == "running"  # else it is one that a killed supervisor left
            if is_new and server is not None and _listens(server):
                return
            if supervised.held() is None and supervised.said() == found:
                raise AdderClawError("the supervisor ended at once: `adderclaw service logs` says why")
            time.sleep(0.05)
        raise AdderClawError(f"the server does not listen after {READY_WITHIN} s: see `adderclaw service logs`")

    # -------------------------------------------------------------- stop

    def stop(self) -> None:
        unit = None
        with contextlib.suppress(AdderClawError):
            unit = supervised.unit()
        seconds = unit.stop_seconds if unit is not None else 30.0
        found = supervised.held()
        if found is not None:
            self._end_supervisor(found, seconds)
        self._end_server(seconds)

    def _end_supervisor(self, found: Held, seconds: float) -> None:
        lock = supervised.opened_lock(create=False)
        try:
            if found.process is None or not process_identity.send(found.process, signal.SIGTERM):
                # Its file does not name it. It ends when that is gone, and no other process is signalled.
                sealed.remove(supervised.lock_path())
            if not _within(seconds + 5, lambda: lock is None or _is_free(lock)):
                if found.process is not None:
                    process_identity.send(found.process, signal.SIGKILL)  # the server is told by the system
                if not _within(5, lambda: lock is None or _is_free(lock)):
                    raise AdderClawError(
                        f"the supervisor {found.process and found.process.pid} does not end: end it by hand"
                    )
        except PermissionError as error:
            pid = found.process.pid if found.process else "?"
            raise AdderClawError(f"process {pid}, which {supervised.lock_path()} names, is another user's") from error
        finally:
            if lock is not None:
                os.close(lock)

    def _end_server(self, seconds: float) -> None:
        """The server of a supervisor that was killed: it was told to end then, and has its time for that."""
        try:
            found = supervised.said()
        except AdderClawError:
            return
        server = supervised.process(found.server) if found is not None else None
        if server is None or not process_identity.lives(server):
            return
        with contextlib.suppress(PermissionError):
            if sys.platform != "linux":
                process_identity.send(server, signal.SIGTERM)
            if not _within(seconds, lambda: not process_identity.lives(server)):
                process_identity.send(server, signal.SIGKILL)
                _within(5, lambda: not process_identity.lives(server))

    # -------------------------------------------------------------- status, log

    def status(self) -> Status:
        found = supervised.held()
        try:
            state = supervised.said()
        except AdderClawError as error:
            return Status("running" if found else "stopped", str(error))
        if state is None:
            return Status("starting" if found else "stopped")
        if found is None and state.phase not in ("stopped", "failed"):
            return Status("failed", "the supervisor was killed", last_exit=state.last_exit, restarts=state.restarts)
        server = supervised.process(state.server)
        listens = server is not None and _listens(server)
        return Status(
            "starting" if state.phase == "running" and not listens else STATES[state.phase],
            state.reason,
            pid=server.pid if server and process_identity.lives(server) else None,
            since=state.since if server else "",
            last_exit=state.last_exit,
            restarts=state.restarts,
        )

    def logs(self, lines: int, *, follow: bool) -> None:
        print_log(supervised.log_path(), lines, follow=follow)


def print_log(path: str, lines: int, *, follow: bool) -> None:
    """The end of a log, with nothing in it that steers a terminal."""
    from adderclaw.credentials.redaction import visible

    for line in log_files.tail(path, lines):
        print(visible(line, keep_newlines=False))
    sys.stdout.flush()
    if follow:
        from adderclaw.channels.cli.interrupts import heard_in_pauses

        with heard_in_pauses() as pause:
            for line in log_files.follow(path, pause):
                print(visible(line, keep_newlines=False), flush=True)


def _listens(server: Process) -> bool:
    from adderclaw.channels.server import listening

    running = listening.running()
    return running is not None and running.pid == server.pid


def _within(seconds: float, done: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _is_free(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(lock, fcntl.LOCK_UN)
    return True
