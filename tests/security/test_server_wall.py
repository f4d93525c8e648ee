"""Nothing that a session runs reaches the server of its home: not its port, socket, files or process, nor an answer."""

import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from adderclaw import config
from adderclaw.models.http import own_server
from tests.acceptance.world import call
from tests.rows import rows
from tests.security.world import Den, as_nobody
from tests.server.conftest import Process

HERE = Path(__file__).parent


HOOKS_REACH = {"bubblewrap": ("the store",), "landlock": ("the store", "unix", "file server/running.json")}
"""What a hook reaches all the same: the store is named to it, and without mounts a socket's path leads there. Neither
has a token in it, and neither lets anybody in."""
OF_ROOT = ("process environ", "process maps")
"""Where no process is hidden, root looks at another's environment, in which there is no token either."""


class StandIn(NamedTuple):
    """A server in another process, of the same user."""

    den: Den
    port: int
    pid: int
    log: Path
    abstract: str
    secret: str

    @property
    def connections(self) -> list[str]:
        return self.log.read_text().splitlines()

    def facts(self) -> dict[str, Any]:
        return {
            "port": self.port,
            "home": str(self.den.home),
            "pid": self.pid,
            "program": str(Path(sys.prefix, "bin", "adderclaw")),
            "hosts": addresses(),
            "abstract": self.abstract,
            "question": "approval-",
        }


def addresses() -> list[str]:
    """Of this machine, beside loopback."""
    found: list[str] = []
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        found.append(str(probe.getsockname()[0]))
    return found


@contextlib.contextmanager
def serving(den: Den) -> Generator[StandIn]:
    """A server runs on the den's home, as the den's user."""
    log = den.base / "connections"
    log.touch()
    abstract, secret = f"adderclaw-{secrets.token_hex(6)}", f"adk_{secrets.token_hex(16)}"
    shutil.copy(HERE / "wall_probe.py", den.workspace / "probe.py")
    shutil.copy(HERE / "wall_probe.py", den.home / ".adderclaw" / "hooks" / "probe.py")
    den.prepare()
    argv = [sys.executable, str(HERE / "stand_in_server.py"), str(den.home), str(log), abstract]
    argv = as_nobody(argv) if den.cli.as_user else argv
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, env={**os.environ, "SERVER_TOKEN": secret}, cwd="/")
    assert process.stdout is not None
    try:
        port = int(process.stdout.readline())
        running = own_server.Running(f"http://127.0.0.1:{port}", port, "", process.pid)
        file = den.home / ".adderclaw" / "server" / "running.json"
        file.write_text(json.dumps(running._asdict()))
        made = StandIn(den, port, process.pid, log, abstract, secret)
        (den.workspace / "facts.json").write_text(json.dumps(made.facts()))
        yield made
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def reached(den: Den, name: str) -> list[str]:
    return json.loads((den.workspace / f"reached-{name}.json").read_text())


def hooks(den: Den) -> None:
    entry = {"type": "command", "command": f"python3 {den.home}/.adderclaw/hooks/probe.py hook"}
    made = {"hooks": {"PreToolUse": [{"matcher": "Read", "hooks": [entry]}]}}
    (den.home / ".adderclaw" / "settings.json").write_text(json.dumps(made))


def urls(port: int) -> list[str]:
    hosts = ("127.0.0.1", "localhost", "[::1]", "0.0.0.0", "[::ffff:127.0.0.1]", "127.1.2.3")
    return [f"http://{host}:{port}/health" for host in hosts]


def attacked(den: Den, network: str) -> None:
    """A command, a background task, an MCP server, a hook and WebFetch each try every way to the server."""
    with serving(den) as server:
        listed = 'allowed_domains = ["localhost", "127.0.0.1", "[::1]", "0.0.0.0", "*"]'
        more = '[mcp_servers.probe]\ncommand = "python3"\nargs = ["probe.py", "mcp"]\n'
        den.configure("full", security=f'{listed}\nnetwork = "{network}"', more=more)
        hooks(den)
        made = den.attack(
            "python3 probe.py command",
            call("Bash", command="python3 probe.py task", run_in_background=True),
            call("Read", file_path="a.txt"),
            *(call("WebFetch", url=url, prompt="what is there?") for url in urls(server.port)),
            call("mcp__probe__go"),
            "python3 probe.py wait reached-task.json",
        )
        found: dict[str, list[str]] = {name: reached(den, name) for name in ("command", "task", "mcp", "hook")}
        known = HOOKS_REACH[den.rung] + (OF_ROOT if den.rung == "landlock" and not den.cli.as_user else ())
        for name, ways in found.items():
            more_ways = [way for way in ways if not (name == "hook" and way.startswith(known))]
            assert more_ways == [], (name, made.results)
        by_socket = "http.sock" if den.rung == "landlock" else None
        assert [one for one in server.connections if by_socket is None or by_socket not in one] == []
        assert server.secret not in json.dumps([made.results, found])
    den.unharmed(made)


def test_nothing_of_a_session_reaches_the_server(everywhere: Den) -> None:
    attacked(everywhere, "deny")


def test_nor_does_a_session_that_shares_the_network_of_the_machine(on_each_rung: Den) -> None:
    attacked(on_each_rung, "allow")


# ------------------------------------------------------------------ its own question


def test_a_session_of_the_server_does_not_answer_its_own_question(world: Den) -> None:
    """A task of the session tries, with a token that was given away, while the question waits."""
    den = world
    shutil.copy(HERE / "wall_probe.py", den.workspace / "probe.py")
    den.script(
        call("Bash", command="python3 probe.py task", run_in_background=True),
        call("Write", file_path="made.txt", content="x"),
        {"text": "done"},
    )
    den.prepare()
    server = Process(den.cli, "--workspace", str(den.workspace))
    try:
        token = server.token()
        with server.client(token) as client:
            id = client.post("/conversations", json={"text": "go"}).json()["id"]
            first = asked(client, id, "Bash")
            assert client.post(f"/conversations/{id}/questions/{first}/answer", json={"approved": True}).is_success
            second = asked(client, id, "Write")
            facts = {**known(den, server), "question": second, "token": token}
            (den.workspace / "facts.new").write_text(json.dumps(facts))
            (den.workspace / "facts.new").rename(den.workspace / "facts.json")
            until((den.workspace / "reached-task.json").exists)
            assert reached(den, "task") == []
            assert asked(client, id, "Write") == second
            assert not (den.workspace / "made.txt").exists()
            assert client.post(f"/questions/{second}/answer", json={"approved": True}).is_success
            until((den.workspace / "made.txt").exists)
        assert server.end() == 0
    finally:
        server.process.kill()
        server.process.wait()
        for stream in filter(None, (server.process.stdin, server.process.stdout, server.process.stderr)):
            stream.close()
    answers = den.rows("SELECT tool, answer, answered_who FROM approvals ORDER BY rowid")
    assert [(tool, word) for tool, word, who in answers if "tester" in who] == [("Bash", "yes"), ("Write", "yes")]
    assert len(den.rows("SELECT id FROM clients")) == 1


def known(den: Den, server: Process) -> dict[str, Any]:
    port = int(server.url.rpartition(":")[2])
    program = str(Path(sys.prefix, "bin", "adderclaw"))
    return {
        "port": port,
        "home": str(den.home),
        "pid": server.process.pid,
        "program": program,
        "hosts": addresses(),
        "abstract": "none",
    }


def asked(client: httpx2.Client, id: str, tool: str) -> str:
    """The question about this tool, as soon as it is open."""
    found: list[str] = []

    def look() -> bool:
        found[:] = [one["id"] for one in client.get(f"/conversations/{id}").json()["questions"] if one["tool"] == tool]
        return bool(found)

    until(look)
    return found[0]


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


# ------------------------------------------------------------------ by which address


HERE_ONCE = ("127.0.0.1", "127.9.9.9", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1", "::ffff:0.0.0.0")


@rows("address", [*HERE_ONCE, *addresses()])
def test_an_address_of_this_machine_is_one_however_it_is_written(home: Path, address: str) -> None:
    own_server.write(own_server.Running("http://127.0.0.1:8423", 8423, "", os.getpid()))
    assert "own server" in (own_server.refusal(8423, [address]) or "")
    assert own_server.refusal(8424, [address]) is None


def test_a_server_keeps_its_files_in_our_own_folder(home: Path) -> None:
    assert own_server.folder() == os.path.join(config.home(), "server")


def test_a_port_of_another_machine_is_not_ours(home: Path) -> None:
    own_server.write(own_server.Running("http://127.0.0.1:8423", 8423, "", os.getpid()))
    assert own_server.refusal(8423, ["192.0.2.7", "2001:db8::7"]) is None
    own_server.remove()
    assert own_server.refusal(8423, ["127.0.0.1"]) is None


@rows("text", ["", "{", "[]", '{"address": 1}', '{"address": "x", "port": "8423", "pid": 1}'])
def test_what_says_nothing_of_a_server_is_none(home: Path, text: str) -> None:
    Path(own_server.folder()).mkdir(parents=True, exist_ok=True)
    Path(own_server.folder(), "running.json").write_text(text)
    assert own_server.found() is None
