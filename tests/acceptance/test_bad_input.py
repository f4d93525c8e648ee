"""Bad input: a clear message with value, place and fix, an exit code from the table, no traceback, nothing lost."""

import json
import sqlite3
from pathlib import Path

import pytest

from tests.acceptance.world import World, call, text
from tests.program import Cli, Done


def clear(done: Done, code: int, *words: str) -> None:
    assert done.code == code, done.out + done.err
    assert "Traceback" not in done.err
    for word in words:
        assert word in done.out + done.err


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("c.toml", "workspace_dir = "),
        ("c.yaml", "runtime: [1, 2"),
        ("c.json", '{"runtime": '),
        ("c.toml", "\x00\x01"),
        ("c.yaml", "a: &a [*a]"),
        ("c.json", "[1]"),
        ("c.ini", "x"),
    ],
)
def test_malformed_configuration(world: World, tmp_path: Path, name: str, content: str) -> None:
    file = tmp_path / name
    file.write_text(content)
    clear(world.cli("config", "validate", "--file", str(file)), 2, name)
    clear(world.cli("agent", "-m", "hi", "--config", str(file)), 2, name)


def test_every_configuration_error_in_one_pass(world: World) -> None:
    world.cli.configure(
        """
default_provider = "nowhere"
wrkspace_dir = "x"
[security]
autonomy = "godmode"
workspace_only = "yes"
[runtime]
max_tool_rounds = -1
"""
    )
    words = ("wrkspace_dir", "workspace_dir", "security.autonomy", "security.workspace_only", "max_tool_rounds")
    clear(world.cli("config", "validate"), 2, *words)


def test_a_missing_configuration_file_is_named(world: World) -> None:
    clear(world.cli("agent", "-m", "hi", "--config", "/nowhere/c.toml"), 2, "/nowhere/c.toml")


def test_unknown_tool_and_malformed_arguments_are_results_for_the_model(world: World) -> None:
    world.script(call("file_raed", path="a"), call("file_read", pth="a"), call("file_read", path=3), text("ok"))
    done = world.agent("go")
    assert done.code == 0
    results = [entry["content"] for entry in world.entries("tool_result")]
    assert "file_read" in results[0]
    assert "pth" in results[1]
    assert [receipt["status"] for receipt in world.receipts()] == ["failed"] * 3


def test_a_model_that_answers_nothing(world: World) -> None:
    world.script(text(""), text(""), text(""), text(""), text(""))
    clear(world.agent("hi"), 1, "answered nothing")


def test_a_script_that_ends_too_early_or_late(world: World) -> None:
    world.script(call("time"))
    clear(world.agent("hi"), 1, "fixture")
    world.script(text("a"), text("b"))
    clear(world.agent("hi"), 1, "not played")


@pytest.mark.parametrize("content", ["{", "[]", '{"steps": 3}', '{"steps": [{"txt": "x"}]}', '{"stepz": []}'])
def test_a_malformed_fixture(world: World, content: str) -> None:
    world.script(text("x"))
    world.fixture.write_text(content)
    clear(world.agent("hi"), 2, "fixture.json")


def test_a_missing_fixture(world: World) -> None:
    world.cli.env["ADDERCLAW_MOCK_FIXTURE"] = "/nowhere.json"
    clear(world.agent("hi"), 2, "/nowhere.json")


def test_no_fixture_is_helpful(world: World) -> None:
    done = world.agent("hi")
    clear(done, 0, "onboard")


def test_an_empty_message(world: World) -> None:
    clear(world.agent("  "), 2, "-m")


@pytest.mark.parametrize("arguments", [("frobnicate",), ("agent", "--nope"), ("tool", "run"), ("memory", "show")])
def test_a_command_line_that_makes_no_sense(world: World, arguments: tuple[str, ...]) -> None:
    clear(world.cli(*arguments), 2)


def test_a_foreign_database_is_left_alone(world: World) -> None:
    with sqlite3.connect(world.database) as connection:
        connection.execute("CREATE TABLE mine (x)")
    before = world.database.read_bytes()
    clear(world.agent("hi"), 1, "memory.sqlite")
    assert world.database.read_bytes() == before


def test_what_is_no_database_is_left_alone(world: World) -> None:
    world.database.write_bytes(b"not a database at all" * 100)
    clear(world.agent("hi"), 1, "memory.sqlite")
    assert world.database.read_bytes().startswith(b"not a database")


def test_a_corrupt_receipt_log_stops_every_tool(world: World) -> None:
    world.script(call("time"), text("ok"))
    world.agent("hi")
    world.log.write_text("rubbish\n" * 3)
    world.script(call("file_write", path="a.txt", content="x"), text("ok"))
    done = world.agent("write", stdin="y\n")
    clear(done, 1, "receipt")
    assert not (world.workspace / "a.txt").exists()


def test_a_deleted_receipt_log_stops_every_tool(world: World) -> None:
    world.script(call("time"), text("ok"))
    world.agent("hi")
    world.log.unlink()
    clear(world.cli("receipt", "verify"), 1, "invalid")
    clear(world.cli("tool", "run", "time"), 1, "receipt")


def test_a_home_that_cannot_be_written(cli: Cli) -> None:
    """Nobody writes to /proc, root neither."""
    nowhere = {"ADDERCLAW_HOME": "/proc/adderclaw", "HOME": "/proc"}
    clear(cli("agent", "-m", "hi", "--workspace", str(cli.cwd), env=nowhere), 1, "/proc")
    clear(cli("agent", "-m", "hi", env=nowhere), 2, "/proc")


def test_binary_huge_and_foreign_files(world: World) -> None:
    (world.workspace / "binary.bin").write_bytes(bytes(range(256)) * 10)
    (world.workspace / "latin.txt").write_bytes("caf\u00e9\n".encode("latin-1"))
    with (world.workspace / "huge.txt").open("wb") as file:
        file.truncate(300_000_000)
    (world.workspace / "folder").mkdir()
    names = ["binary.bin", "latin.txt", "huge.txt", "folder", "missing.txt"]
    world.script(*[call("file_read", path=name) for name in names], text("ok"))
    done = world.agent("go")
    clear(done, 0)
    results = world.entries("tool_result")
    assert all(len(entry["content"]) < 400_000 for entry in results)
    assert "caf" in results[1]["content"]
    assert [entry["is_error"] for entry in results[3:]] == [True, True]


def test_control_characters_do_not_reach_the_terminal(world: World) -> None:
    evil = "hi \x1b]0;owned\x07\x1b[2J \u202e x"
    world.script(call("file_write", path="a\x1b[31m.txt", content=evil), text(evil))
    done = world.agent("go", stdin="n\n")
    for stream in (done.out, done.err):
        assert "\x1b" not in stream
        assert "\x07" not in stream
        assert "\u202e" not in stream


def test_a_tool_list_that_leaves_tools_out(world: World) -> None:
    world.configure(more='[channels.cli]\ntools_allow = ["file_read"]')
    done = world.cli("tool", "list", "--output-format", "json")
    assert [tool["name"] for tool in json.loads(done.out)] == ["Read"]
    world.script(call("shell", command="pwd"), text("ok"))
    world.agent("go")
    assert world.receipts()[0]["status"] == "failed"


def test_a_tool_list_names_tools_that_exist(world: World) -> None:
    lists = 'tools_allow = ["file_raed", "time", "mcp__demo__add", "Rea*"]'
    sender = f'[channels.webhook.chat.senders."a@b"]\nworkspace = "{world.workspace}"\ntools_allow = ["Bsh"]'
    world.configure(more=f"[channels.cli]\n{lists}\n{sender}")
    done = world.cli("config", "validate")
    assert done.code == 2
    config = f"{world.cli.data}/config.toml"
    assert f"{config}: channels.cli.tools_allow[0]: there is no tool 'file_raed'; did you mean file_read?" in done.err
    assert (
        "channels.cli.tools_allow[3]: 'Rea*' is not the name of a tool; a list of tools has names, or \"*\"" in done.err
    )
    assert "channels.webhook.chat.senders.a@b.tools_allow[0]: there is no tool 'Bsh'; did you mean Bash?" in done.err
    assert "time" not in done.err
    assert "mcp__demo__add" not in done.err
    problems = json.loads(world.cli("config", "validate", "--output-format", "json").out)["problems"]
    assert problems[0]["key"] == "channels.cli.tools_allow[0]"
    world.workspace.rename(world.workspace.parent / "moved")
    problems = json.loads(world.cli("config", "validate", "--output-format", "json", cwd=world.cli.data).out)[
        "problems"
    ]
    assert [one["key"] for one in problems[:2]] == ["workspace_dir", "channels.cli.tools_allow[0]"]
    (world.workspace.parent / "moved").rename(world.workspace)
    world.script(text("ok"))
    for words in (("agent", "-m", "hi"), ("serve", "--port", "0"), ("tool", "list"), ("-p", "hi")):
        refused = world.cli(*words)
        assert (refused.code, "'file_raed'" in refused.err) == (2, True), words
    assert "'file_raed'" in world.cli("doctor").out
    assert "tools_allow" in world.cli("config", "show").out, "what only shows the settings still does"


def test_a_permission_rule_for_an_unknown_tool_is_named(world: World) -> None:
    world.configure(more='[permissions]\ndeny = ["Bsh(rm *)", "mcp__x"]\nallow = ["file_read"]')
    done = world.cli("config", "validate")
    assert done.code == 0
    said = "permissions.deny: 'Bsh(rm *)' names a tool that does not exist: Bsh; did you mean Bash?"
    assert said in done.out
    assert said in json.loads(world.cli("config", "validate", "--output-format", "json").out)["warnings"]
    assert "mcp__x" not in done.out


def test_a_command_line_that_is_switched_off_as_a_channel(world: World) -> None:
    world.configure(more="[channels.cli]\nenabled = false")
    for words in (("agent", "-m", "hi"), ("-p", "hi"), ("-p", "hi", "--output-format", "stream-json", "--verbose")):
        world.script(text("ok"))
        done = world.cli(*words)
        assert (done.code, "channels.cli.enabled" in done.out + done.err) == (2, True), (words, done)
        assert not done.out.startswith("ok")
