"""The installed program, forked from a process that has imported it: most of a start is importing.

A start by this is a process of its own, a child of the test, with the environment, directory, arguments and streams
that it is given, and from the entry point on it is the same program. What it does not show is the way to the entry
point: the modules in STARTED show that, and every test at a terminal. With ADDERCLAW_TESTS_EXEC=1 each start is one.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any

PRELOADED = ("asyncio", "ctypes", "lark", "pathspec", "rapidfuzz.fuzz", "sqlite3", "ssl", "tomlkit", "tomllib", "yaml")
OURS = (
    *("core", "config", "models", "storage", "policy", "sandbox", "tools", "agent", "flows", "fleet"),
    *("terminal.commands", "terminal.print_mode"),
)
"""Modules of the program, and packages with all that is in them; not those that bring a server."""
NOT = ("adderclaw.storage.telemetry",)

STARTED = frozenset(
    """
    acceptance/test_hops acceptance/test_start acceptance/test_startup acceptance/test_stop_and_limits
    test_cold_start test_deployment test_forked test_program test_setup
    """.split()  # noqa: SIM905
)
"""Where each start is a start: these show the way to the entry point. All other modules use it."""


CLONE, CLONE_PARENT = {"x86_64": 56, "aarch64": 220}.get(os.uname().machine, 0), 0x8000
"""The system call that makes a process, and the flag by which it is a child of the caller's parent."""
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


type Stream = int | IO[bytes]


class Forks:
    """One process that has imported the program, and forks itself for each start."""

    def __init__(
        self, program: str, env: Mapping[str, str], *, before: Sequence[str] = (), modules: Sequence[str] = ()
    ) -> None:
        """With more modules than the usual ones; `before` starts it as somebody else, and ends by exec."""
        self.program = program
        self._lock = threading.Lock()
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
            argv = [*before, sys.executable, __file__, program, *map(str, fds), *modules]
            self._process = subprocess.Popen(argv, env=dict(env), pass_fds=fds, stdin=subprocess.DEVNULL)
        theirs.close()
        self._lines = self._socket.makefile("r")

    def fork(self, argv: Sequence[str], env: Mapping[str, str], cwd: str, fds: Sequence[int]) -> int:
        """The process that is the program, with these three as its streams."""
        asked = json.dumps({"argv": list(argv), "env": dict(env), "cwd": cwd}).encode()
        with self._lock:
            socket.send_fds(self._socket, [len(asked).to_bytes(4, "big")], list(fds))
            self._socket.sendall(asked)
            return int(self._lines.readline())

    def close(self) -> None:
        self._lines.close()
        self._socket.close()
        self._process.wait(timeout=30)
        self._folder.cleanup()


class Forked(subprocess.Popen[bytes]):
    """To a program that is forked what Popen is to one that is started: it is a child of this process like others."""

    def __init__(
        self,
        forks: Forks,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        *,
        stdin: Stream,
        stdout: Stream,
        stderr: Stream,
    ) -> None:
        self._forks = forks
        super().__init__([forks.program, *argv], env=env, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr)

    def _execute_child(self, *given: Any) -> None:
        """In place of fork and exec. Popen has made the pipes, whose other ends are closed here as it would do it."""
        argv, cwd, env, pipes = given[0], given[5], given[6], given[10:16]
        streams = [fd if fd != -1 else number for number, fd in enumerate((pipes[0], pipes[3], pipes[5]))]
        self.pid = self._forks.fork(argv[1:], env, cwd, streams)
        made: Any = self
        made._child_created = True
        made._close_pipe_fds(*pipes)


# ------------------------------------------------------------------ in the other process


def _serve(connection: socket.socket, door: socket.socket, program: str, modules: Sequence[str]) -> None:
    _preload(modules)
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
                _one_by_its_name(caller, program)
                return
            caller.close()
        if connection in ready:
            asked, fds = _asked(connection)
            if asked is None:
                return
            pid = _fork_beside()
            if not pid:
                connection.close()
                door.close()
                _become(asked, fds, program)
                return
            for fd in fds:
                os.close(fd)
            connection.sendall(b"%d\n" % pid)


def _preload(modules: Sequence[str]) -> None:
    for name in (*PRELOADED, *modules):
        importlib.import_module(name)
    for name in OURS:
        found = importlib.import_module(f"adderclaw.{name}")
        inner = pkgutil.walk_packages(found.__path__, f"{found.__name__}.") if hasattr(found, "__path__") else ()
        for one in inner:
            if not one.name.startswith(NOT) and not one.name.endswith("__main__"):
                importlib.import_module(one.name)
    gc.collect()
    gc.freeze()


def _fork_beside() -> int:
    """As os.fork, but that the new process is a child of whoever started this one, who can wait for it."""
    if not CLONE:
        raise OSError(f"no fork beside on {os.uname().machine}: set ADDERCLAW_TESTS_EXEC=1")
    python, system = ctypes.pythonapi, ctypes.PyDLL(None)  # both keep the lock: there is one thread
    python.PyOS_BeforeFork()
    pid: int = system.syscall(CLONE, CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    if pid:
        python.PyOS_AfterFork_Parent()
    else:
        python.PyOS_AfterFork_Child()
    return pid


def _asked(connection: socket.socket) -> tuple[Any, list[int]]:
    """What is asked for, and its streams; None where nobody asks any more."""
    size, fds, _, _ = socket.recv_fds(connection, 4, 3)
    if not size:
        return None, []
    asked = b""
    while len(asked) < int.from_bytes(size, "big"):
        asked += connection.recv(1 << 20)
    return json.loads(asked), fds


def _one_by_its_name(caller: socket.socket, program: str) -> None:
    """One start for a stand-in, which is told the process and how it ended."""
    asked, fds = _asked(caller)
    if asked is None:
        return
    pid = os.fork()
    if not pid:
        caller.close()
        _become(asked, fds, program)
        return
    caller.sendall(b"%d\n" % pid)
    for fd in fds:
        os.close(fd)
    caller.sendall(b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


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
    from adderclaw.terminal.entry import main

    sys.exit(main())


if __name__ == "__main__":
    sys.path[0] = os.path.dirname(sys.argv[1])
    _serve(socket.socket(fileno=int(sys.argv[2])), socket.socket(fileno=int(sys.argv[3])), sys.argv[1], sys.argv[4:])
