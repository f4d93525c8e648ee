"""What an agent's file says of its tools: nothing said is all of them, and an empty list is none."""

from pathlib import Path

import pytest

from adderclaw.core.types import Thinking
from adderclaw.tools.control import definitions
from adderclaw.tools.control.definitions import Definition


def defined(home: Path, line: str) -> Definition:
    (home / "agents").mkdir()
    (home / "agents" / "a.md").write_text(f"---\nname: a\ndescription: d\n{line}\n---\nDo it.\n")
    found = definitions.known_definitions(str(home), "/nowhere")
    assert not found.problems
    return found.by_name["a"]


@pytest.mark.parametrize("written", ['""', "''", "[]", '" "', '","'])
def test_an_empty_list_of_tools_is_none(tmp_path: Path, written: str) -> None:
    assert defined(tmp_path, f"tools: {written}").tools == ()


@pytest.mark.parametrize("line", ["", "tools:", "tools: ~", "tools: null", "tools: NULL", "model: ~\nmaxTurns: null"])
def test_where_nothing_is_said_it_has_all(tmp_path: Path, line: str) -> None:
    made = defined(tmp_path, line)
    assert (made.tools, made.model, made.max_rounds) == (None, None, None)


@pytest.mark.parametrize(
    ("written", "beside"), [("TRUE", True), ("Yes", True), ("on", True), ("no", False), ("~", False)]
)
def test_whether_it_works_beside_the_turn(tmp_path: Path, written: str, beside: bool) -> None:
    assert defined(tmp_path, f"background: {written}").background is beside


@pytest.mark.parametrize("key", ["tools", "disallowedTools"])
def test_a_tool_that_does_not_exist_leaves_the_agent_out(tmp_path: Path, key: str) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "a.md").write_text(f"---\nname: a\ndescription: d\n{key}: Read, Bsh, mcp__x\n---\nDo it.\n")
    found = definitions.known_definitions(str(tmp_path), "/nowhere")
    assert "a" not in found.by_name
    assert found.problems == [f"{tmp_path}/agents/a.md: {key}: there is no tool 'Bsh'; did you mean Bash?"]


def test_an_agent_of_another_program_keeps_the_tools_that_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    home = tmp_path / ".claude" / "agents"
    home.mkdir(parents=True)
    (home / "a.md").write_text("---\nname: a\ndescription: d\ntools: file_read, SlashCommand\n---\nDo it.\n")
    found = definitions.known_definitions(str(tmp_path / "own"), "/nowhere", foreign=True)
    assert found.by_name["a"].tools == ("file_read", "SlashCommand")
    assert found.problems == [f"{home}/a.md: tools: there is no tool 'SlashCommand'; it is left out"]


@pytest.mark.parametrize(
    ("written", "thinking"), [("high", Thinking("high")), ("none", Thinking("none")), ("2048", Thinking(tokens=2048))]
)
def test_how_much_it_thinks(tmp_path: Path, written: str, thinking: Thinking) -> None:
    assert defined(tmp_path, f"effort: {written}").thinking == thinking


def test_an_effort_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="effort: 'huge' is not one of none, minimal"):
        definitions.definition_from_json("a", {"description": "d", "prompt": "p", "effort": "huge"})
    assert definitions.definition_from_json("a", {"description": "d", "prompt": "p", "effort": 9}).thinking == Thinking(
        tokens=9
    )
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "a.md").write_text("---\nname: a\ndescription: d\neffort: huge\n---\nDo it.\n")
    assert "effort: 'huge' is not one of" in definitions.known_definitions(str(tmp_path), "/nowhere").problems[0]
