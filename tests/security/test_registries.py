"""Registries that a person lets in: a command, a project or a pipe chooses no host."""

import socket
from collections.abc import Iterator
from threading import Event, Thread

import pytest

from tests.acceptance.world import call, text
from tests.security.world import Den


class Listener:
    """A server at an address that no exception from proxies names, and who has reached it."""

    def __init__(self, address: str) -> None:
        self.socket = socket.create_server((address, 0))
        self.socket.settimeout(0.2)
        self.place = f"{address}:{self.socket.getsockname()[1]}"
        self.heard: list[bytes] = []
        self._over = Event()
        self._thread = Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while not self._over.is_set():
            try:
                connection, _ = self.socket.accept()
            except TimeoutError:
                continue
            with connection:
                connection.settimeout(5)
                self.heard.append(connection.recv(65_536))
                connection.sendall(b"HTTP/1.1 404 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self.socket.close()


@pytest.fixture
def servers() -> Iterator[tuple[Listener, Listener]]:
    ours, theirs = Listener("127.0.0.2"), Listener("127.0.0.3")
    yield ours, theirs
    ours.close()
    theirs.close()


FETCH = "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://{place}/x\").status)'"


def test_what_is_let_in_is_the_operators_list_and_nothing_that_a_project_or_command_names(
    world: Den, servers: tuple[Listener, Listener]
) -> None:
    ours, theirs = servers
    world.configure(security=f'registries = ["registry.npmjs.org", "{ours.place}"]\nraw_bash = "deny"')
    (world.workspace / ".npmrc").write_text(f"registry=http://{theirs.place}/\n", encoding="utf-8")
    (world.workspace / "package.json").write_text('{"dependencies": {"evil": "1"}}', encoding="utf-8")
    world.script(
        call("Bash", command="npm install", timeout=60_000),
        call("Bash", command=FETCH.format(place=theirs.place)),
        call("Bash", command=FETCH.format(place=ours.place)),
        text("done"),
    )
    done = world.cli.typed("agent", "-m", "go", stdin="r\ny\ny\n", timeout=120)
    assert theirs.place not in done.err.split("Approve?")[0].split("(r = ")[-1], "what is offered is the operator's"
    assert theirs.heard == [], "the project's own registry is reached by nobody"
    assert any(b"GET /x" in one for one in ours.heard), "and what was let in is"


@pytest.mark.parametrize("stdin", ["r\n", "y\n", "r y\n"])
def test_a_pipe_lets_nothing_in(world: Den, servers: tuple[Listener, Listener], stdin: str) -> None:
    ours, _ = servers
    world.configure(security=f'registries = ["{ours.place}"]')
    (world.workspace / ".npmrc").write_text(f"registry=http://{ours.place}/\n", encoding="utf-8")
    (world.workspace / "package.json").write_text('{"dependencies": {"evil": "1"}}', encoding="utf-8")
    world.script(call("Bash", command="npm install", timeout=60_000), text("done"))
    world.agent("go", stdin=stdin)
    assert ours.heard == []


def test_a_project_adds_no_registry(world: Den, servers: tuple[Listener, Listener]) -> None:
    _, theirs = servers
    world.configure(security='registries = ["registry.npmjs.org"]')
    (world.workspace / ".adderclaw").mkdir(exist_ok=True)
    (world.workspace / ".adderclaw" / "config.toml").write_text(
        f'[security]\nregistries = ["registry.npmjs.org", "{theirs.place}"]\n', encoding="utf-8"
    )
    world.script(call("Bash", command="npm install x", timeout=60_000), text("done"))
    done = world.cli.typed("agent", "-m", "go", stdin="n\n", timeout=120)
    assert theirs.place not in done.err.partition("(r = ")[2].partition("\n")[0]
    assert theirs.heard == []
