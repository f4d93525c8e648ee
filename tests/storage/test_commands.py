"""`memory`, `receipt` and `runs` as a user meets them: output, exit codes, and nothing changed by looking."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from adderclaw.storage import Store, model_calls, runs, transcript
from tests.program import Cli
from tests.storage.book import Book
from tests.storage.test_transcript import say
from tests.storage.test_verify import edit_second, rewrite_with_the_key


@pytest.fixture
def kept(cli: Cli) -> Book:
    """A home with one conversation, three receipts and one run, as earlier processes left it."""
    cli.configure(f'workspace_dir = "{cli.cwd}"\n')
    book = Book(cli.data)
    book.log = cli.data / "tool_receipts.log"
    book.write(3)
    say(
        book.store,
        "session",
        "The Aardvark adapter \x1b[31m is red, and the key is sk-abcdefghijklmnopqrstuvwxyz012345",
    )
    with book.store.write() as cursor:
        runs.begin(
            cursor, run_id="20260512-140000-ab", kind="agent", conversation_id="conversation", session_id="session",
            pid=os.getpid(),
        )  # fmt: skip
        runs.finish(
            cursor, run_id="20260512-140000-ab", outcome="limit", exit_code=4, answer="partial", usage={"total": 7},
            reason="max_tool_rounds",
        )  # fmt: skip
        model_calls.record(
            cursor, session_id="session", step=1, provider="local", model="mock", request_hash="h" * 64,
            response={}, usage={}, attempts=1, latency_ms=3, status="ok", error=None,
        )  # fmt: skip
    book.store.close()
    return book


@pytest.mark.parametrize(
    "command",
    [
        ["memory", "list"],
        ["memory", "search", "x"],
        ["memory", "show", "x"],
        ["memory", "clear", "--yes"],
        ["runs", "list"],
        ["runs", "show", "x"],
    ],
)
def test_with_no_database_it_says_how_to_make_one_and_makes_none(cli: Cli, command: list[str]) -> None:
    cli.configure(f'workspace_dir = "{cli.cwd}"\n')
    done = cli(*command)
    assert done.code == 1
    assert "adderclaw init" in done.err
    assert "Traceback" not in done.err
    assert not (cli.data / "memory.sqlite").exists()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["memory", "clear"], "--yes"),
        (["memory", "show", "nowhere"], "memory list"),
        (["runs", "show", "nowhere"], "runs list"),
        (["receipt", "verify", "--against", "what"], "receipt head"),
        (["receipt", "verify", "--archive", "../x"], "without the folder"),
        (["receipt", "archive"], "--yes"),
    ],
)
def test_a_command_line_that_makes_no_sense(cli: Cli, kept: Book, command: list[str], said: str) -> None:
    done = cli(*command)
    assert done.code == 2
    assert said in done.err
    assert len(transcript.conversations(Store.open(str(kept.database), read_only=True), 5)) == 1


def test_memory(cli: Cli, kept: Book) -> None:
    for command in (["memory", "list"], ["memory", "search", "aardvark"], ["memory", "show", "conv"]):
        done = cli(*command)
        assert (done.code, done.err) == (0, "")
        assert "conversation" in done.out
        assert "Aardvark adapter" in done.out or "_use Read" in done.out
        assert "\x1b" not in done.out
        assert "abcdefghijklm" not in done.out
    assert "nothing found" in cli("memory", "search", "zebra").out
    hits = json.loads(cli("memory", "search", "AARDVARK", "--output-format", "json").out)
    assert hits[0]["conversation_id"] == "conversation"
    shown = json.loads(cli("memory", "show", "conversation", "--output-format", "json").out)
    assert [entry["entry_type"] for entry in shown["entries"]][-1] == "user"


def test_memory_clear(cli: Cli, kept: Book) -> None:
    assert "cleared 1 conversation;" in cli("memory", "clear", "--yes").out
    assert "no conversations" in cli("memory", "list").out
    assert cli("receipt", "verify").out.startswith("valid: 3 receipts\n")


def test_receipts(cli: Cli, kept: Book) -> None:
    listed = cli("receipt", "list", "-n", "2")
    assert [line.split()[0] for line in listed.out.splitlines()] == ["2", "3"]
    done = cli("receipt", "verify")
    assert done.code == 0
    assert done.out.splitlines()[0] == "valid: 3 receipts"
    assert done.out.splitlines()[1].startswith("complete: 3 tool calls")
    kept_head = cli("receipt", "head").out.strip()
    assert cli("receipt", "verify", "--against", kept_head).code == 0
    found = json.loads(cli("receipt", "verify", "--output-format", "json").out)
    assert found["head"] == kept_head
    assert found.keys() >= {"valid", "receipts", "first_broken", "reason", "completeness", "head"}


@pytest.mark.parametrize(("spoil", "first"), [(edit_second, 2), (rewrite_with_the_key, 3)])
def test_a_tampered_chain(cli: Cli, kept: Book, spoil: Callable[[Book], None], first: int) -> None:
    kept_head = cli("receipt", "head").out.strip()
    spoil(kept)
    done = cli("receipt", "verify")
    assert done.code == 1
    assert f"invalid chain at receipt {first}" in done.out
    found = json.loads(cli("receipt", "verify", "--against", kept_head, "--output-format", "json").out)
    assert (found["valid"], found["first_broken"]) == (False, first)
    head = cli("receipt", "head")
    assert head.code == 1 or head.out.strip() == kept_head, "never the head of what was changed"
    archived = cli("receipt", "archive", "--yes")
    assert archived.code == 0
    assert cli("receipt", "verify").out.startswith("valid: 0 receipts\n")


def test_the_log_alone_is_verified_and_that_is_said(cli: Cli, kept: Book) -> None:
    for path in cli.data.glob("memory.sqlite*"):
        path.unlink()
    done = cli("receipt", "verify")
    assert done.code == 0
    assert "no store" in done.out
    assert not kept.database.exists()


def test_a_copy_of_the_home_can_be_verified(cli: Cli, kept: Book, tmp_path: Path) -> None:
    done = cli("receipt", "verify", env={"ADDERCLAW_HOME": str(shutil.copytree(cli.data, tmp_path / "copy"))})
    assert done.out.startswith("valid: 3 receipts\n")


def test_runs(cli: Cli, kept: Book) -> None:
    assert "20260512-140000-ab" in cli("runs", "list").out
    shown = cli("runs", "show", "20260512").out
    assert "max_tool_rounds" in shown
    assert "local/mock" in shown
    found = json.loads(cli("runs", "show", "20260512", "--output-format", "json").out)
    assert (found["status"], found["exit_code"], len(found["model_calls"])) == ("limit", 4, 1)
