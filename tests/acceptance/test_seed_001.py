"""Seed 001's ten acceptance tests, word for word, through the installed program."""

import hashlib
import json
import stat
from pathlib import Path

import pytest

from tests.acceptance.world import World, call, text
from tests.program import Cli


def test_c55_init_creates_config_database_and_workspace(cli: Cli) -> None:
    assert not cli.data.exists()
    done = cli("init")
    assert done.code == 0, done.err
    assert (cli.data / "config.toml").is_file()
    assert (cli.data / "memory.sqlite").read_bytes().startswith(b"SQLite format 3")
    assert stat.S_IMODE((cli.data / "memory.sqlite").stat().st_mode) == 0o600
    assert (cli.home / "adderclaw-workspace").is_dir()


def test_c55_init_again_loses_nothing(cli: Cli) -> None:
    cli("init")
    config = cli.data / "config.toml"
    config.write_text(config.read_text() + "\n# mine\n")
    assert cli("init").code == 0
    assert config.read_text().endswith("# mine\n")


def test_c56_an_invalid_autonomy_names_the_allowed_values(world: World) -> None:
    world.configure(autonomy="godmode")
    done = world.cli("config", "validate")
    assert done.code == 2
    said = done.out + done.err
    assert "godmode" in said
    for allowed in ("readonly", "supervised", "full"):
        assert allowed in said
    assert "security.autonomy" in said


def test_c57_text_answer_and_both_turns_in_memory(world: World) -> None:
    world.script(text("hello"))
    done = world.agent("hi")
    assert (done.code, done.out) == (0, "hello\n")
    assert [entry["content"] for entry in world.entries("user")] == [[{"type": "text", "text": "hi"}]]
    assert [entry["content"] for entry in world.entries("assistant")] == [[{"type": "text", "text": "hello"}]]


def test_c58_the_model_lists_files_inside_the_workspace(world: World) -> None:
    (world.workspace / "apple.txt").write_text("a")
    world.script(call("file_list", path="."), text("I see: {{last_result}}"))
    done = world.agent("list files")
    assert done.code == 0, done.err
    assert "apple.txt" in done.out
    (receipt,) = world.receipts()
    assert (receipt["tool"], receipt["status"], receipt["risk"]) == ("file_list", "allowed", "low")


@pytest.mark.parametrize("path", ["/etc/passwd", "../../../etc/passwd", "/proc/self/root/etc/passwd", "~/.ssh/id_rsa"])
def test_c59_workspace_escape_is_blocked(world: World, path: str) -> None:
    world.script(call("file_read", path=path), text("the tool said: {{last_result}}"))
    done = world.agent("read it")
    (receipt,) = world.receipts()
    assert receipt["status"] == "denied"
    (result,) = world.entries("tool_result")
    assert result["is_error"] is True
    assert "Denied" in done.out, "the provider must receive a tool error"
    assert "root:" not in done.out
    assert done.code == 3


def test_c59_a_link_out_of_the_workspace_is_blocked(world: World, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("canary")
    (world.workspace / "link.txt").symlink_to(secret)
    world.script(call("file_read", path="link.txt"), text("{{last_result}}"))
    done = world.agent("read it")
    assert "canary" not in done.out
    assert world.receipts()[0]["status"] == "denied"


@pytest.mark.parametrize("answer", ["", "\n", "n\n", "y\n", "yes\n"])
def test_c60_supervised_writes_are_asked_about(world: World, answer: str) -> None:
    written = answer.startswith("y")
    world.script(call("file_write", path="note.txt", content="hello\n"), text("done"))
    done = world.agent("write a note", stdin=answer)
    for line in ("Tool request:", "tool: file_write", "risk: medium", "reason:", "args:", "Approve? [y/N]"):
        assert line in done.err
    assert (world.workspace / "note.txt").exists() is written
    (receipt,) = world.receipts()
    assert receipt["status"] == ("allowed" if written else "denied")
    assert receipt["decision"]["by"] == ("operator" if answer else "no_operator")
    assert done.code == (0 if written else 3)


@pytest.mark.parametrize("autonomy", ["readonly", "supervised", "full"])
def test_c61_rm_rf_is_blocked_in_every_mode(world: World, autonomy: str) -> None:
    world.configure(autonomy=autonomy)
    (world.workspace / "keep.txt").write_text("x")
    world.script(call("shell", command="rm -rf /"), text("done"))
    world.agent("clean up", stdin="y\n")
    (receipt,) = world.receipts()
    assert receipt["status"] == "denied"
    assert (world.workspace / "keep.txt").exists()


def test_c62_an_edited_receipt_is_named(world: World) -> None:
    world.script(*[call("time") for _ in range(3)], text("done"))
    world.agent("what time is it")
    assert world.cli("receipt", "verify").code == 0
    lines = world.log.read_text().splitlines()
    second = json.loads(lines[1])
    second["tool"] = "file_read"
    lines[1] = json.dumps(second, sort_keys=True, separators=(",", ":"))
    world.log.write_text("\n".join(lines) + "\n")
    done = world.cli("receipt", "verify")
    assert done.code == 1
    assert "invalid chain at receipt 2" in done.out + done.err


def test_c41_the_hash_is_what_the_seed_says(world: World) -> None:
    world.script(call("time"), call("file_list", path="."), text("done"))
    world.agent("look")
    previous = "0" * 64
    for receipt in world.receipts():
        claimed = receipt.pop("receipt_hash")
        made = json.dumps(receipt, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert hashlib.sha256(made.encode()).hexdigest() == claimed
        assert receipt["previous_hash"] == previous
        assert receipt["id"].startswith("receipt-")
        assert receipt["timestamp"].endswith("Z")
        previous = claimed


def test_c63_a_provider_that_times_out_is_replaced(world: World, tmp_path: Path) -> None:
    bad, good = tmp_path / "bad.json", tmp_path / "good.json"
    bad.write_text(json.dumps({"steps": [{"error": "timeout"}]}))
    good.write_text(json.dumps({"steps": [text("from the second")]}))
    world.configure(
        more=f"""
[providers.models.bad_provider]
kind = "mock"
fixture = "{bad}"
[providers.models.mock_provider]
kind = "mock"
fixture = "{good}"
[providers.models.safe]
kind = "reliable"
providers = ["bad_provider", "mock_provider"]
"""
    )
    done = world.agent("hi", "--provider", "safe")
    assert (done.code, done.out) == (0, "from the second\n")
    assert "provider_fallback" in done.err
    assert "bad_provider" in done.err


def test_c64_memory_search_finds_the_conversation(world: World) -> None:
    world.script(text("The Aardvark adapter is ready."))
    world.agent("how is it going?")
    ((conversation,),) = world.rows("SELECT id FROM conversations")
    done = world.cli("memory", "search", "aardvark")
    assert done.code == 0
    assert conversation in done.out
    assert conversation not in world.cli("memory", "search", "zebra").out
