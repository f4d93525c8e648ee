"""The installed program, forked from a process that has imported it: most of a start is importing.

A start by this is a process of its own, with the environment, directory, arguments and pipes that it is given, and
from the entry point on it is the same program. What it does not show is the way to the entry point: so only
`Cli.__call__` and the commands of the documentation use it; with ADDERCLAW_TESTS_EXEC=1 each start is a start.
"""

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

PRELOADED = ("asyncio", "ctypes", "lark", "pathspec", "rapidfuzz.fuzz", "sqlite3", "ssl", "tomlkit", "tomllib", "yaml")
OURS = (
    *("channels.cli", "channels.print_mode", "fleet", "schedules", "hosted", "mcp"),
    *("runtime", "replay", "drivers", "kernel", "hooks", "skills", "sinks", "tools", "providers", "gate", "sandbox"),
    *("checkpoints", "view", "workspace", "store", "config", "credentials", "net", "events"),
)
"""Modules of the program, and packages with all that is in them; not those that bring a server."""
NOT = ("adderclaw.sinks.telemetry",)

STARTED = frozenset(
    """
    acceptance/test_hops acceptance/test_start acceptance/test_startup acceptance/test_stop_and_limits
    test_cold_start test_deployment test_forked test_program test_setup
    """.split()  # noqa: SIM905
)
"""Where each start is a start: these show the way to the entry point. All other modules use it."""


ODD = ("PYTHON", "LC_", "LD_", "COVERAGE")
"""Variables that the interpreter reads when it starts: with one of them a start is a start."""
STAND_IN = """\
#!{python} -ISs
import json, os, signal, socket, sys
real, odd = {real!r}, {odd!r}
apart = any(word in ("serve", "service", "fleet", "--detach") for word in sys.argv[1:])
if apart or os.environ.get("LANG") != "C.UTF-8" or any(name.startswith(odd) for name in os.environ):
    os.execv(real, [real, *sys.argv[1:]])
asked = json.dumps({{"argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd()}}).encode()
there = socket.socket(socket.AF_UNIX)
there.connect({place!r})
socket.send_fds(there, [len(asked).to_bytes(4, "big")], [0, 1, 2])
there.sendall(asked)
lines = there.makefile("r")
pid = int(lines.readline())
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda number, _: os.kill(pid, number))
code = int(lines.readline())
os._exit(code if code >= 0 else 128 - code)
"""
"""A program that lets itself be forked, for what is called by its name: nothing is imported."""


class Ended(NamedTuple):
    code: int
    out: bytes
    err: bytes
    timed_out: bool


class Forks:
    """One process that has imported the program, and forks itself for each start."""

    def __init__(self, program: str, env: Mapping[str, str]) -> None:
        import subprocess
        import tempfile

        self.lock = threading.Lock()
        self._socket, theirs = socket.socketpair()
        self._folder = tempfile.TemporaryDirectory(prefix="adderclaw-forks-")
        place = os.path.join(self._folder.name, "socket")
        self.folder = os.path.join(self._folder.name, "bin")
        """For PATH: it holds an `adderclaw` that is forked."""
        os.mkdir(self.folder)
        text = STAND_IN.format(python=os.path.realpath(sys.executable), real=program, odd=ODD, place=place)
        with open(os.open(os.path.join(self.folder, "adderclaw"), os.O_CREAT | os.O_WRONLY, 0o755), "w") as file:
            file.write(text)
        with socket.socket(socket.AF_UNIX) as door:
            door.bind(place)
            door.listen(16)
            fds = [theirs.fileno(), door.fileno()]
            argv = [sys.executable, __file__, program, *map(str, fds)]
            self._process = subprocess.Popen(argv, env=dict(env), pass_fds=fds, stdin=subprocess.DEVNULL)
        theirs.close()
        self._lines = self._socket.makefile("r")

    def run(self, argv: Sequence[str], env: Mapping[str, str], cwd: str, stdin: bytes, timeout: float) -> Ended:
        pipes = [os.pipe() for _ in range(3)]
        theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
        asked = json.dumps({"argv": list(argv), "env": dict(env), "cwd": cwd}).encode()
        socket.send_fds(self._socket, [len(asked).to_bytes(4, "big")], theirs)
        self._socket.sendall(asked)
        for fd in theirs:
            os.close(fd)
        pid = int(self._lines.readline())
        heard = [b"", b""]

        def listen(number: int) -> None:
            with open(pipes[number + 1][0], "rb", buffering=0) as file:
                heard[number] = file.readall()

        def tell() -> None:
            with contextlib.suppress(BrokenPipeError), open(pipes[0][1], "wb", buffering=0) as file:
                left = memoryview(stdin)
                while left:
                    left = left[file.write(left) :]

        work = [threading.Thread(target=listen, args=(number,)) for number in (0, 1)] + [threading.Thread(target=tell)]
        for thread in work:
            thread.start()
        end = time.monotonic() + timeout
        for thread in work:
            thread.join(max(0.0, end - time.monotonic()))
        late = any(thread.is_alive() for thread in work)
        if late:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            for thread in work:
                thread.join()
        return Ended(int(self._lines.readline()), heard[0], heard[1], late)


# ------------------------------------------------------------------ in the other process


def _serve(connection: socket.socket, door: socket.socket, program: str) -> None:
    _preload()
    while True:
        ready, _, _ = select.select([connection, door], [], [])
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if door in ready:
            caller, _ = door.accept()
            if not os.fork():
                door.close()
                connection.close()
                _forked(caller, program)
                return
            caller.close()
        if connection in ready and not _forked(connection, program):
            return


def _preload() -> None:
    for name in PRELOADED:
        importlib.import_module(name)
    for name in OURS:
        found = importlib.import_module(f"adderclaw.{name}")
        inner = pkgutil.walk_packages(found.__path__, f"{found.__name__}.") if hasattr(found, "__path__") else ()
        for one in inner:
            if not one.name.startswith(NOT) and not one.name.endswith("__main__"):
                importlib.import_module(one.name)
    gc.collect()
    gc.freeze()


def _forked(connection: socket.socket, program: str) -> bool:
    """One start that is asked for, to its end; False where nobody asks any more, and in the start itself."""
    size, fds, _, _ = socket.recv_fds(connection, 4, 3)
    if not size:
        return False
    asked = b""
    while len(asked) < int.from_bytes(size, "big"):
        asked += connection.recv(1 << 20)
    pid = os.fork()
    if not pid:
        connection.close()
        _become(json.loads(asked), fds, program)
        return False
    for fd in fds:
        os.close(fd)
    connection.sendall(b"%d\n" % pid)
    connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    return True


def _become(asked: Any, fds: list[int], program: str) -> None:
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(asked["env"])
    time.tzset()
    os.chdir(asked["cwd"])
    sys.argv = [program, *asked["argv"]]
    old_in, old_out, old_err = sys.stdin, sys.stdout, sys.stderr
    sys.stdin = open(0, encoding=old_in.encoding, errors=old_in.errors, closefd=False)  # noqa: SIM115 - to its end
    sys.stdout = open(1, "w", encoding=old_out.encoding, errors=old_out.errors, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding=old_err.encoding, errors=old_err.errors, closefd=False)  # noqa: SIM115
    from adderclaw.channels.entry import main

    sys.exit(main())


if __name__ == "__main__":
    sys.path[0] = os.path.dirname(sys.argv[1])
    _serve(socket.socket(fileno=int(sys.argv[2])), socket.socket(fileno=int(sys.argv[3])), sys.argv[1])
