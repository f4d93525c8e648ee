"""What was said in one project is not told to another: the model searches its own, and more only by an approval."""

from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.world import World, call, text
from tests.program import Cli

WORD = "xylophone"


@pytest.fixture
def two(cli: Cli, tmp_path: Path) -> World:
    """Something was said in another project before."""
    world = World(cli, tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    world.script(text("noted"))
    assert world.agent(f"the other project's {WORD} is 4711", "--workspace", str(other)).code == 0
    return world


def searched(world: World, stdin: str, **given: Any) -> str:
    world.script(call("MemorySearch", query=WORD, **given), text("done"))
    world.agent("go", stdin=stdin)
    return world.entries("tool_result")[-1]["content"]


@pytest.mark.parametrize("autonomy", ["supervised", "readonly", "full"])
@pytest.mark.parametrize("allow", ["", '[permissions]\nallow = ["MemorySearch"]\n'])
def test_another_projects_conversation_is_not_returned_unasked(two: World, autonomy: str, allow: str) -> None:
    two.configure(autonomy, more=allow)
    assert "No matches found in the notes and in the conversations of this project" in searched(two, "")
    refused = searched(two, "n\n", all=True)
    assert "4711" not in refused
    assert "searches the conversations of every project" in refused
    assert "4711" not in searched(two, "", all=True), "nobody there is a no"
    assert two.receipts()[-1]["status"] == "denied"


def test_the_own_project_needs_no_approval_and_one_shows_the_rest(two: World) -> None:
    two.script(text("noted"))
    two.agent(f"our own {WORD} is 42")
    own = searched(two, "")
    assert "is 42" in own
    assert "4711" not in own
    assert "4711" in searched(two, "y\n", all=True)
    assert two.receipts()[-1]["decision"]["asked_by"] == "other projects"
