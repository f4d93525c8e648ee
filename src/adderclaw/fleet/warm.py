"""A process that has imported everything a run needs, and forks itself for each run of a worker.

Most of the start-up time is importing. Forked processes have the worker's environment without the fleet's secrets, and
no key or address of the fleet was ever in this process. It has one thread and no open files when it forks, and it reaps
a process only when the worker asks, so that process ids stay valid.
"""

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping

from adderclaw.core.types import Json

PRELOADED = """
asyncio ctypes email.message sqlite3 ssl tomllib
adderclaw.sandbox.legacy.checkpoints.tracker adderclaw.fleet.child adderclaw.policy.legacy.commands
adderclaw.policy.guards adderclaw.policy.judges adderclaw.policy.modes adderclaw.models.providers.mock
adderclaw.agent.run.opened adderclaw.sandbox.box adderclaw.sandbox.confinement adderclaw.tools.files
""".split()  # noqa: SIM905


class CannotStart(OSError):
    """No process for a run can be started on this machine."""


class RunProcess:
    """The process of a run. It leads a process group and is identified by a pidfd, so its id cannot be reused."""

    def __init__(self, warm: "RunForker", pid: int) -> None:
        self._warm, self.pid = warm, pid
        self._fd = os.pidfd_open(pid)
        self._code: int | None = None
        self._lock = threading.Lock()

    def wait(self, timeout: float | None = None) -> int | None:
        """The exit code, as in subprocess; None if the process still runs."""
        with self._lock:
            if self._code is None and select.select([self._fd], [], [], timeout)[0]:
                self._kill_group()  # the rest of its group; the id is still valid
                self._code = self._warm.reaped(self.pid)
                os.close(self._fd)
            return self._code

    def poll(self) -> int | None:
        return self.wait(0)

    def kill(self) -> None:
        """Kills the process and its group. Its sandboxes end with it."""
        if self._code is None:
            self._kill_group()

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


class RunForker:
    """The worker's side. Starts the forking process with the first run, and again if it has ended."""

    def __init__(self, environment: Mapping[str, str], *, patience: float = 30.0) -> None:
        """`patience`: seconds without a reply after which the forking process is considered dead."""
        self._environment, self._patience = dict(environment), patience
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def start(self) -> None:
        """Waits for the imports, so that the first run does not have to."""
        with self._lock:
            try:
                self._started().sendall(b"{}\n")
                self._line(self._started())
            except OSError:
                self._forget()

    def child(self, link: socket.socket, log: int, home: str, workspace: str) -> RunProcess:
        """Starts the process of a run in this workspace, with one end of a link and a file for its output."""
        order = json.dumps({"home": home, "workspace": workspace}).encode() + b"\n"
        with self._lock:
            for _ in range(2):
                try:
                    talk = self._started()
                    socket.send_fds(talk, [order], [link.fileno(), log])
                    reply = self._line(talk)
                    break
                except OSError:
                    self._forget()
            else:
                raise CannotStart("the process that forks runs does not start; check the free memory")
            if "pid" not in reply:
                raise CannotStart(f"no process can be started: {reply.get('error')}")
            try:
                return RunProcess(self, int(reply["pid"]))
            except ProcessLookupError:
                self._forget()
                raise CannotStart("the process that forks runs was killed") from None

    def reaped(self, pid: int) -> int:
        """The exit code of a process that has ended; that of a killed one if it is unknown."""
        with self._lock:
            if self._socket is None:
                return -signal.SIGKILL
            try:
                self._socket.sendall(json.dumps({"reap": pid}).encode() + b"\n")
                return int(self._line(self._socket)["code"])
            except OSError:
                self._forget()
                return -signal.SIGKILL

    def close(self) -> None:
        with self._lock:
            self._forget()

    def _started(self) -> socket.socket:
        if self._socket is None:
            ours, theirs = socket.socketpair()
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "adderclaw.fleet.warm", str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    env=self._environment,
                    start_new_session=True,
                )
            ours.settimeout(self._patience)
            self._socket = ours
        return self._socket

    def _line(self, talk: socket.socket) -> Json:
        line = b""
        while not line.endswith(b"\n"):
            part = talk.recv(4096)
            if not part:
                raise OSError("the process that forks runs has ended")
            line += part
        message: Json = json.loads(line)
        return message

    def _forget(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()
        self._socket = self._process = None


# ------------------------------------------------------------------ in the other process


def _serve(connection: socket.socket) -> None:
    """Serves the worker until it is gone, then kills the processes that it started."""
    for name in PRELOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    running: set[int] = set()
    rest, descriptors = b"", list[int]()
    while True:
        if b"\n" not in rest:
            part, fds, _, _ = socket.recv_fds(connection, 4096, 8)
            for fd in fds:  # programs of a run must not inherit the link
                os.set_inheritable(fd, False)
            descriptors += fds
            if not part:
                break
            rest += part
            continue
        line, _, rest = rest.partition(b"\n")
        asked: Json = json.loads(line)
        if "reap" in asked:
            _tell(connection, {"code": _reaped(int(asked["reap"]), running)})
            continue
        if not asked:
            _tell(connection, {})
            continue
        try:
            pid = os.fork()
        except OSError as error:
            _tell(connection, {"error": str(error)})
        else:
            if not pid:
                connection.close()
                _become(asked, *descriptors[:2])
                return
            running.add(pid)
            _tell(connection, {"pid": pid})
        for fd in descriptors:
            os.close(fd)
        descriptors.clear()
    for pid in running:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def _tell(connection: socket.socket, message: Json) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


def _reaped(pid: int, running: set[int]) -> int:
    running.discard(pid)
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        return -signal.SIGKILL


def _become(asked: Json, link: int, log: int) -> None:
    from adderclaw.fleet import child

    os.setsid()
    os.environ["ADDERCLAW_HOME"] = asked["home"]
    os.chdir(asked["workspace"])
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    child.main(socket.socket(fileno=link))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        _serve(socket.socket(fileno=int(sys.argv[1])))
