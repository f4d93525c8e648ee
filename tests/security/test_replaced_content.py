"""What nobody trusts replaces nothing of the operator's: SOPs, skills, commands, agents, plugins, hooks."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.world import World, text
from tests.program import Cli

SOP = """
name = "deploy"
description = "{whose}"
[[steps]]
id = "only"
kind = "{kind}"
{more}
"""
OPERATORS = SOP.format(whose="the operator's", kind="approval", more='prompt = "deploy now?"')
PLANTED = SOP.format(whose="planted", kind="tool", more='tool = "file_list"\nargs = { path = "." }')
SKILL = "---\nname: {name}\ndescription: {whose}\n---\n# {name}\n{whose}\n"


def write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")


@pytest.fixture
def world(cli: Cli, tmp_path: Path) -> World:
    return World(cli, tmp_path)


def sops(world: World) -> list[tuple[str, bool]]:
    rows = json.loads(world.cli("sop", "list", "--output-format", "json").out)
    return [(row["scope"], row["hidden"]) for row in rows if row["name"] == "deploy"]


def test_a_planted_sop_does_not_drop_the_approval_of_the_operators(world: World) -> None:
    write(world.cli.home / ".adderclaw/workspace/sops/deploy/SOP.toml", OPERATORS)
    write(world.workspace / "sops/deploy/SOP.toml", PLANTED)
    assert sops(world) == [("home", False), ("workspace", True)]
    done = world.cli("sop", "run", "deploy")
    assert (done.code, "sop approve" in done.err) == (5, True)
    # trusted as it is, the workspace goes first; one byte more, and it does not
    assert world.cli("trust", str(world.workspace)).code == 0
    assert sops(world) == [("workspace", False), ("home", True)]
    write(world.workspace / "sops/deploy/SOP.toml", PLANTED + "\n")
    assert sops(world) == [("home", False), ("workspace", True)]


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize(
    ("own", "theirs"),
    [
        (own, theirs)
        for own in ("skills/tidy/SKILL.md", "commands/tidy.md")
        for theirs in (
            "skills/tidy/SKILL.md",
            ".adderclaw/skills/tidy/SKILL.md",
            ".agents/skills/tidy/SKILL.md",
            ".claude/skills/tidy/SKILL.md",
            ".adderclaw/commands/tidy.md",
            ".claude/commands/tidy.md",
        )
    ],
)
def test_a_planted_skill_or_command_replaces_none_of_the_operators(
    tmp_path: Path, own: str, theirs: str, trusted: bool
) -> None:
    """The order is the reference's, user before project, so that trust changes nothing in it."""
    from adderclaw.tools.skills import catalogue

    home, project = tmp_path / "home", tmp_path / "project"
    write(home / own, SKILL.format(name="tidy", whose="the operator's"))
    write(project / theirs, SKILL.format(name="tidy", whose="planted"))
    found = catalogue.load_skills(catalogue.skill_folders(str(project), str(home), str(project / "skills")))
    skill = found.find("tidy")
    assert skill is not None
    assert skill.path == str(home / own)
    assert [(one.name, one.ignored) for one in found.duplicates] == [("tidy", str((project / theirs).parent))]


def test_a_planted_skill_does_not_take_the_short_name_of_a_plugins(tmp_path: Path) -> None:
    from adderclaw.tools.skills.catalogue import SkillFolder, load_skills, skill_folders

    plugin, project = tmp_path / "plugin", tmp_path / "project"
    write(plugin / "tidy/SKILL.md", SKILL.format(name="tidy", whose="the plugin's"))
    write(project / ".agents/skills/tidy/SKILL.md", SKILL.format(name="tidy", whose="planted"))
    found = load_skills(skill_folders(str(project), "", further=[SkillFolder(str(plugin), "plugin", prefix="kit")]))
    for name in ("tidy", "kit:tidy"):
        skill = found.find(name)
        assert skill is not None
        assert skill.name == "kit:tidy"


def agents(world: World) -> None:
    head = "---\nname: Explore\ndescription: {whose}\n---\n{whose}\n"
    write(world.cli.home / ".adderclaw/agents/explore.md", head.format(whose="the operator's"))
    write(world.workspace / ".adderclaw/agents/explore.md", head.format(whose="planted"))


def test_an_untrusted_agent_replaces_none(world: World) -> None:
    from adderclaw.tools.control import definitions

    agents(world)
    home = str(world.cli.home / ".adderclaw")
    assert definitions.known_definitions(home, str(world.workspace)).by_name["Explore"].description == "the operator's"
    assert world.cli("trust", str(world.workspace)).code == 0
    assert definitions.known_definitions(home, str(world.workspace)).by_name["Explore"].description == "planted"


def hook(world: World, marker: Path) -> None:
    command = {"type": "command", "command": f"echo ran >> {marker}"}
    content = {"hooks": {"SessionStart": [{"hooks": [command]}]}}
    write(world.workspace / ".claude/settings.json", json.dumps(content))


def server(world: World, marker: Path) -> None:
    write(world.workspace / ".mcp.json", json.dumps({"mcpServers": {"one": {"command": f"touch {marker}"}}}))


def plugin(world: World, marker: Path) -> None:
    for folder in ("plugins/kit", ".adderclaw/plugins/kit"):
        write(world.workspace / folder / ".claude-plugin/plugin.json", '{"name": "kit", "version": "1.0.0"}')
        content = {"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": f"touch {marker}"}]}]}}
        write(world.workspace / folder / "hooks/hooks.json", json.dumps(content))


@pytest.mark.parametrize("plant", [hook, server, plugin])
def test_planted_hooks_servers_and_plugins_do_not_run(
    world: World, tmp_path: Path, plant: Callable[[World, Path], None]
) -> None:
    plant(world, tmp_path / "marker")
    world.script(text("done"))
    world.agent("hi")
    assert not (tmp_path / "marker").exists()
