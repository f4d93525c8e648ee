"""The installed program, forked from a process that has imported it: most of a start is importing.

A start by this is a process of its own, with the environment, directory, arguments and pipes that it is given, and
from the entry point on it is the same program. What it does not show is the way to the entry point: so only
`Cli.__call__` uses it, in some modules; with ADDERCLAW_TESTS_EXEC=1 each start is a start.
"""

import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

PRELOADED = ("asyncio", "ctypes", "sqlite3", "ssl", "tomllib")
OURS = {
    "channels": ("cli.agent", "cli.interrupts", "cli.plain"),
    "runtime": ("run",),
    "gate": ("commands", "guards", "judges", "modes"),
    "sandbox": ("box", "confinement"),
    "checkpoints": ("tracker",),
    "tools": ("files",),
}

MODULES = frozenset(
    """
    acceptance/test_agentfile acceptance/test_approvals acceptance/test_auth acceptance/test_bad_input
    acceptance/test_checkpoints acceptance/test_claude_folder acceptance/test_compaction acceptance/test_control_tools
    acceptance/test_eval acceptance/test_every_tool acceptance/test_hooks acceptance/test_hook_kinds
    acceptance/test_limits_cost acceptance/test_memory acceptance/test_outcomes acceptance/test_parallel_calls
    acceptance/test_policy acceptance/test_print acceptance/test_replay acceptance/test_replay_tasks
    acceptance/test_review acceptance/test_seed_001 acceptance/test_shapes_shown acceptance/test_shell_words
    acceptance/test_skills acceptance/test_spec acceptance/test_subagents acceptance/test_tasks
    acceptance/test_tools_files acceptance/test_trust acceptance/test_usage acceptance/test_worktrees
    config/test_commands store/test_commands
    """.split()  # noqa: SIM905
)
"""Where it is used: of these the start shows nothing that the tests of the other modules do not show."""


class Ended(NamedTuple):
    code: int
    out: bytes
    err: bytes
    timed_out: bool


class Forks:
    """One process that has imported the program, and forks itself for each start."""

    def __init__(self, program: str, env: Mapping[str, str]) -> None:
        import subprocess

        self.lock = threading.Lock()
        self._socket, theirs = socket.socketpair()
        argv = [sys.executable, __file__, str(theirs.fileno()), program]
        self._process = subprocess.Popen(argv, env=dict(env), pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
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


def _serve(connection: socket.socket, program: str) -> None:
    for name in (*PRELOADED, *(f"adderclaw.{package}.{one}" for package, names in OURS.items() for one in names)):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    while True:
        size, fds, _, _ = socket.recv_fds(connection, 4, 3)
        if not size:
            return
        asked = b""
        while len(asked) < int.from_bytes(size, "big"):
            asked += connection.recv(1 << 20)
        pid = os.fork()
        if not pid:
            connection.close()
            _become(json.loads(asked), fds, program)
            return
        for fd in fds:
            os.close(fd)
        connection.sendall(b"%d\n" % pid)
        connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


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
    sys.path[0] = os.path.dirname(sys.argv[2])
    _serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
