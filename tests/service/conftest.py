"""The service as tests drive it: the installed program, and servers that do what a test needs of them."""

import contextlib
import json
import os
import signal
import sys
import textwrap
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.program import Cli, Done

SERVER = """
    import fcntl, json, os, signal, sys, time
    folder = os.environ["ADDERCLAW_HOME"] + "/server"
    os.makedirs(folder, exist_ok=True)
    lock = os.open(folder + "/lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("two servers at once", file=sys.stderr)
        sys.exit(2)
    def end(*_):
        time.sleep({slow})
        print("ended well", flush=True)
        sys.exit(0)
    signal.signal(signal.SIGTERM, end)
    {begin}
    with open(folder + "/running.json", "w") as file:
        json.dump(dict(address="http://127.0.0.1:1", port=1, socket="", pid=os.getpid()), file)
    print("it listens", flush=True)
    while True:
        time.sleep(60)
"""


def until(look: Callable[[], Any], what: str = "", seconds: float = 20) -> Any:
    """What it gives, once that is something."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, what or "it did not happen"
        time.sleep(0.02)
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


class Service:
    """`service("start")` runs the installed program; `service.unit(…)` lets it keep a server that the test made up."""

    def __init__(self, cli: Cli) -> None:
        self.cli = cli
        self.folder = cli.data / "service"

    def __call__(self, *words: str, **more: Any) -> Done:
        return self.cli("service", *words, **more)

    def done(self, *words: str) -> str:
        done = self(*words)
        assert done.code == 0, done.err + done.out
        return done.out

    def unit(self, begin: str = "", *, slow: float = 0, **changed: Any) -> None:
        """A unit that somebody edited: another server, and what else it says."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        place, program = self.folder / "detached.json", self.folder.parent / "server.py"
        program.write_text(textwrap.dedent(SERVER).format(begin=begin, slow=slow), encoding="utf-8")
        env = {name: self.cli.env[name] for name in ("ADDERCLAW_HOME", "PATH")}
        keys = str(self.cli.data / "service.env")
        unit = {"written_by": "a test", "environment": env, "environment_file": keys}
        fast = {"command": [sys.executable, "-S", str(program)], "delay_seconds": 0.05, "stop_seconds": 10.0}
        place.write_text(json.dumps({**unit, **fast, **changed}), encoding="utf-8")

    def status(self) -> dict[str, Any]:
        return json.loads(self("status", "--output-format", "json").out)

    def state(self) -> dict[str, Any]:
        try:
            return json.loads((self.folder / "state.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}

    def server(self) -> int:
        """The process of the server."""
        return int(until(lambda: self.state().get("server"), "no server was started")[0])

    def supervisor(self) -> int:
        return int(json.loads((self.folder / "supervisor.pid").read_text(encoding="utf-8"))[0])

    def log(self) -> str:
        return (self.folder / "serve.log").read_text(encoding="utf-8")


@pytest.fixture
def service(cli: Cli) -> Generator[Service]:
    made = Service(cli)
    (cli.cwd / ".git").mkdir()  # a project, which is what is served
    yield made
    state = {}
    with contextlib.suppress(OSError, ValueError):
        state = made.state()
    for name in ("supervisor.pid", "state.json"):
        with contextlib.suppress(OSError):
            (made.folder / name).unlink()  # whatever the test did: a supervisor ends without its file
    for name in ("supervisor", "server"):
        if state.get(name):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(int(state[name][0]), signal.SIGKILL)
