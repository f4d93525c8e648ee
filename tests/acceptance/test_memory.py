"""`memory search`: the operator's own command looks through all projects, or through one."""

from pathlib import Path

from tests.acceptance.world import World, text


def test_x95_the_command_searches_all_projects_or_one(world: World, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    world.script(text("noted"))
    world.agent("a xylophone here")
    world.agent("a xylophone there", "--workspace", str(other))
    found = world.cli("memory", "search", "xylophone").out
    assert "here" in found
    assert "there" in found
    one = world.cli("memory", "search", "xylophone", "--workspace", str(other)).out
    assert "there" in one
    assert "here" not in one.replace("there", "")
    assert "nothing found" in world.cli("memory", "search", "xylophone", "--workspace", str(tmp_path)).out
