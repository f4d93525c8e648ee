"""`adderclaw attach`: a conversation of the server in a terminal and in pipes; it goes on without who watched it."""

import json
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.acceptance.tmux import Tmux
from tests.acceptance.world import World, call, text
from tests.program import Cli
from tests.server.conftest import Process


@pytest.fixture
def world(cli: Cli, tmp_path: Path) -> World:
    made = World(cli, tmp_path)
    (made.workspace / "AGENTS.md").write_text("A project.\n")
    return made


@pytest.fixture
def servers(world: World) -> Generator[list[Process]]:
    started: list[Process] = []
    yield started
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait(30)
        for stream in (one.process.stdin, one.process.stdout, one.process.stderr):
            if stream is not None:
                stream.close()


def serving(world: World, servers: list[Process]) -> Process:
    servers.append(Process(world.cli, "--workspace", str(world.workspace)))
    return servers[-1]


def conversation(world: World) -> str:
    return str(world.rows("SELECT id FROM conversations ORDER BY rowid DESC LIMIT 1")[0][0])


def test_lines_are_messages_and_answers_and_no_token_is_left(world: World, servers: list[Process]) -> None:
    world.script(
        text("Hello **there**"),
        call("Write", file_path="made.txt", content="by hand\n"),
        text("It is written."),
        text("And on."),
    )
    serving(world, servers)
    out = world.workspace / "all.json"
    done = world.cli("attach", stdin=f"hello\nmake it\ny\n/theme\n/usage\n/export {out}\n/exit\n", timeout=120)
    assert done.code == 0, done.err
    assert "Hello **there**" in done.out
    assert "It is written." in done.out
    assert "Write" in done.err
    assert (world.workspace / "made.txt").read_text() == "by hand\n"
    assert "/theme belongs to the local REPL" in done.out
    assert "3 calls" in done.out
    assert [one["type"] for one in json.loads(out.read_text())["items"]] == ["words", "words", "words", "call", "words"]

    again = world.cli("attach", conversation(world)[:20], stdin="more\n", timeout=120)
    assert again.code == 0, again.err
    assert again.out.count("It is written.") == 1, again.out
    assert again.out.rstrip().endswith("And on.")
    assert "attach" in str(world.rows("SELECT answered_who FROM approvals"))

    rows = world.rows("SELECT mac, revoked_at FROM clients WHERE name = 'attach'")
    assert rows
    assert all(mac == "" and revoked for mac, revoked in rows), rows
    on_disk = b"".join(path.read_bytes() for path in world.cli.data.rglob("*") if path.is_file())
    assert b"adk_" not in on_disk


def test_without_a_server_it_says_what_to_do(world: World) -> None:
    done = world.cli("attach", stdin="hello\n")
    assert done.code == 1
    assert "adderclaw serve" in done.err
    assert "Traceback" not in done.err


def test_a_window_on_a_conversation_that_goes_on_without_it(world: World, servers: list[Process]) -> None:
    """Watched, left in the middle of a turn, come back to, asked, interrupted; and the server killed meanwhile."""
    flag = world.workspace / "go"
    wait = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.05)\nprint('it went')\n"
    (world.workspace / "wait.py").write_text(wait)
    world.configure("full")
    world.script(*STEPS, {"delay_ms": 600_000, "text": "too late"})
    serving(world, servers)
    with Tmux(world, "attach", rows=40) as terminal:
        terminal.wait("Ctrl-D leaves", "idle")
        terminal.write("hello")
        terminal.press("Enter")
        terminal.wait("Hello there")
        terminal.write("wait for it")
        terminal.press("Enter")
        terminal.wait("Bash", "working")
        terminal.press("C-d")
        terminal.wait("left with 0")
    flag.touch()
    with Tmux(world, "attach", conversation(world), rows=40) as terminal:
        terminal.wait("Hello there", "it went", "The wait is over.", "idle")
        assert terminal.all().count("The wait is over.") == 1
        terminal.write("ask me")
        terminal.press("Enter")
        terminal.wait("Which colour?")
        terminal.press("2", "Enter")
        terminal.wait("Then it is blue.", "idle")
        terminal.write("take your time")
        terminal.press("Enter")
        terminal.wait("Esc interrupts")
        terminal.press("Escape")
        terminal.wait("interrupted", "idle")

        servers[0].process.kill()
        servers[0].process.wait(30)
        terminal.wait("is not reached", "trying again")
        world.script(*STEPS, text("Here again."))
        serving(world, servers)
        terminal.wait("the server is there", "idle")
        terminal.write("are you there")
        terminal.press("Enter")
        terminal.wait("Here again.", "idle")
        everything = terminal.all()
        assert everything.count("Then it is blue.") == 1
        assert everything.index("AskUserQuestion") < everything.index("Then it is blue.")
        terminal.write("/help")
        terminal.press("Enter")
        terminal.wait("leave; the turn at hand goes on")
        terminal.press("C-d")
        terminal.wait("left with 0")


ASKED = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [{"label": "red", "description": "as fire"}, {"label": "blue", "description": "as the sea"}],
    "multiSelect": False,
}
STEPS = (
    text("Hello **there**"),
    call("Bash", command="python3 wait.py"),
    text("The wait is over."),
    call("AskUserQuestion", questions=[ASKED]),
    text("Then it is blue."),
)
