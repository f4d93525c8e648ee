"""Workers, forked from a process that has imported the program and the engine: most of a worker's start is importing.

From the entry point on it is the program; what leads there is shown by the tests of other packages. With
ADDERCLAW_TESTS_EXEC=1 each start is a start.
"""

import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

PRELOADED = ("dbos", "psycopg", "obstore", "cryptography.hazmat.primitives.asymmetric.ed25519")
OURS = ("channels.entry", "channels.cli.fleet", "fleet.worker", "fleet.engine")


class Forked:
    """As much of subprocess.Popen as the tests of workers need."""

    def __init__(self, forks: "Forks", pid: int) -> None:
        self._forks, self.pid = forks, pid
        self._fd = os.pidfd_open(pid)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._fd], [], [], 0)[0]:
            self.returncode = int(self._forks.asked({"reap": self.pid})["code"])
            os.close(self._fd)
        return self.returncode

    def wait(self, timeout: float = 60.0) -> int:
        limit = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > limit:
                raise subprocess.TimeoutExpired("worker", timeout)
            select.select([self._fd], [], [], 0.5)
        return code

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def terminate(self) -> None:
        self._send(signal.SIGTERM)

    def _send(self, number: int) -> None:
        if self.poll() is None:
            signal.pidfd_send_signal(self._fd, number)


class Forks:
    def __init__(self, program: str, env: Mapping[str, str]) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair()
        with theirs:
            argv = [sys.executable, __file__, str(theirs.fileno()), program]
            self._process = subprocess.Popen(argv, env=dict(env), pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        self._lines = self._socket.makefile("r")

    def start(self, words: Sequence[str], env: Mapping[str, str], cwd: str, log: int) -> Forked:
        made = self.asked({"argv": list(words), "env": dict(env), "cwd": cwd}, log)
        return Forked(self, int(made["pid"]))

    def asked(self, what: Mapping[str, Any], *fds: int) -> Any:
        with self._lock:
            body = json.dumps(what).encode()
            socket.send_fds(self._socket, [len(body).to_bytes(4, "big")], list(fds))
            self._socket.sendall(body)
            return json.loads(self._lines.readline())

    def close(self) -> None:
        self._lines.close()
        self._socket.close()
        self._process.wait(timeout=30)


# ------------------------------------------------------------------ in the other process


def _serve(connection: socket.socket, program: str) -> None:
    for name in (*PRELOADED, *(f"adderclaw.{one}" for one in OURS)):
        importlib.import_module(name)
    while True:
        size, fds, _, _ = socket.recv_fds(connection, 4, 1)
        if not size:
            return
        body = b""
        while len(body) < int.from_bytes(size, "big"):
            body += connection.recv(1 << 20)
        asked = json.loads(body)
        if "reap" in asked:
            said: Any = {"code": os.waitstatus_to_exitcode(os.waitpid(asked["reap"], 0)[1])}
        else:
            pid = os.fork()
            if not pid:
                connection.close()
                _become(asked, fds[0], program)
                return
            os.close(fds[0])
            said = {"pid": pid}
        connection.sendall(json.dumps(said).encode() + b"\n")


def _become(asked: Any, log: int, program: str) -> None:
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    os.environ.clear()
    os.environ.update(asked["env"])
    time.tzset()
    os.chdir(asked["cwd"])
    sys.argv = [program, *asked["argv"]]
    from adderclaw.channels.entry import main

    sys.exit(main())


if __name__ == "__main__":
    sys.path[0] = os.path.dirname(sys.argv[2])
    _serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
