"""Channels that others add: the documented example of fifty lines, run as it stands, with a scripted model."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

import adderclaw
from adderclaw import Channel, Handle, QueryOptions, run_channel
from tests.acceptance.world import World, call, text
from tests.program import Cli

ROOT = Path(__file__).resolve().parent.parent.parent
INBOX = ROOT / "examples" / "channels" / "inbox.py"
WRITE = call("Write", file_path="a.txt", content="one\n")
OTHER = call("Write", file_path="b.txt", content="two\n")


@pytest.fixture
def world(cli: Cli, tmp_path: Path) -> World:
    return World(cli, tmp_path)


class Folder:
    """The example's folder, as somebody uses it."""

    def __init__(self, place: Path) -> None:
        self.inbox, self.outbox = place / "inbox", place / "outbox"

    def put(self, name: str, words: str = "") -> None:
        self.inbox.mkdir(parents=True, exist_ok=True)
        (self.inbox / f".{name}").write_text(words, encoding="utf-8")
        (self.inbox / f".{name}").rename(self.inbox / name)

    def wait(self, name: str) -> str:
        for _ in range(1_500):
            if (self.outbox / name).exists():
                return (self.outbox / name).read_text(encoding="utf-8")
            time.sleep(0.02)
        raise AssertionError(f"no {name} came")


@contextmanager
def running(world: World, place: Path) -> Generator[subprocess.Popen[bytes]]:
    env = {**world.cli.env, "PYTHONPATH": str(ROOT / "src")}
    made = subprocess.Popen(
        [sys.executable, str(INBOX), str(place), str(world.workspace)], env=env, cwd=world.workspace
    )
    try:
        yield made
    finally:
        if made.poll() is None:
            made.kill()
        made.wait(30)


def test_c23_the_example_is_about_fifty_lines_and_public() -> None:
    source = INBOX.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 55
    assert "adderclaw." not in source.replace("adderclaw import", "")  # nothing but the public names
    for name in ("Channel", "Handle", "run_channel", "QueryOptions"):
        assert getattr(adderclaw, name) is not None


def test_c23_the_example_carries_messages_and_questions(world: World, tmp_path: Path) -> None:
    world.script(text("Hello."), WRITE, text("It is written."), OTHER, text("Then not."))
    folder, place = Folder(tmp_path / "chat"), tmp_path / "chat"
    with running(world, place) as channel:
        folder.put("1.txt", "hi")
        assert folder.wait("1.txt") == "Hello."
        folder.put("2.txt", "write it")
        assert "a.txt" in folder.wait("2.question")
        assert not (world.workspace / "a.txt").exists()
        folder.put("2.yes")
        assert folder.wait("2.txt") == "It is written."
        assert (world.workspace / "a.txt").read_text() == "one\n"
        folder.put("3.txt", "again")
        folder.wait("3.question")
        folder.put("3.no")
        assert folder.wait("3.txt").startswith("Then not.")
        assert not (world.workspace / "b.txt").exists()
        folder.put("stop.txt")
        channel.wait(30)
    rows = world.rows("SELECT count(DISTINCT conversation_id) FROM sessions")
    assert rows == [(1,)]
    receipts = (world.cli.data / "tool_receipts.log").read_text(encoding="utf-8")
    assert "(inbox)" in receipts  # who said yes, and where


def test_c23_a_signal_ends_it_with_everything_written(world: World, tmp_path: Path) -> None:
    world.script(text("Hello."), text("more"))
    folder, place = Folder(tmp_path / "chat"), tmp_path / "chat"
    with running(world, place) as channel:
        folder.put("1.txt", "hi")
        folder.wait("1.txt")
        os.kill(channel.pid, signal.SIGTERM)
        assert channel.wait(30) == 128 + signal.SIGTERM
    assert world.rows("SELECT outcome FROM runs") == [("stopped",)]


class Listed:
    """Messages from a list; what is answered is kept. Nobody is there to say yes."""

    name = "listed"
    supports_draft_updates = True

    def __init__(self, *messages: str) -> None:
        self.messages, self.sent, self.drafts = messages, list[str](), list[str]()
        self.conversation = ""

    def start(self, handle: Handle) -> int:
        self.conversation = handle.conversation_id
        return handle.hold(self.messages)

    def send(self, conversation_id: str, message: str) -> None:
        assert conversation_id == self.conversation
        self.sent.append(message)

    def draft(self, conversation_id: str, text: str) -> None:
        assert conversation_id == self.conversation
        self.drafts.append(text)


def test_c23_without_a_way_to_ask_nothing_is_approved_and_a_conversation_goes_on(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixture = tmp_path / "steps.json"
    steps = [text("Hello there."), WRITE, text("It was refused."), text("Again.")]
    fixture.write_text(json.dumps({"steps": steps, "partial": True}), encoding="utf-8")
    monkeypatch.setenv("ADDERCLAW_MOCK_FIXTURE", str(fixture))
    channel = Listed("hi", "  ", "write it")
    is_one: Channel = channel
    options = QueryOptions(cwd=str(world.workspace))
    run_channel(is_one, options)
    assert channel.drafts[-1].endswith("It was refused.")
    assert [one.splitlines()[0] for one in channel.sent] == ["Hello there.", "It was refused."]
    assert not (world.workspace / "a.txt").exists()
    later = Listed("and now?")
    assert run_channel(later, options, resume=channel.conversation) == 0
    assert later.conversation == channel.conversation
    assert later.sent == ["Again."]
