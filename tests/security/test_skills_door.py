"""A skill's folder that a command exchanges for a link: nothing outside is read as a file of the skill."""

from pathlib import Path

import pytest

from adderclaw.core.errors import PathRefused
from adderclaw.tools.skills import catalogue, files
from tests.acceptance.world import call, text
from tests.program import Soak
from tests.security.swapping import swapping
from tests.security.world import Den

SKILL = "---\nname: one\ndescription: does one thing\n---\nSee id_rsa.\n"


def test_a_skill_whose_folder_has_become_a_link_shows_nothing_of_where_it_leads(everywhere: Den) -> None:
    den = everywhere
    folder = den.workspace / ".agents" / "skills" / "one"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)
    (folder / "id_rsa").write_text("inside\n")
    (den.workspace / "swap.sh").write_text(
        f"mv .agents/skills/one .agents/skills/old; ln -s {den.home}/.ssh .agents/skills/one; ls -l .agents/skills\n"
    )
    made = den.attack(
        call("Skill", skill="one", file="id_rsa"),
        "bash swap.sh",
        *(call("Skill", skill="one", file=name) for name in ("id_rsa", "SKILL.md", "")),
        call("Skill", skill="one"),
    )
    assert "inside" in made.results[0]
    assert "one ->" in made.results[1]
    den.unharmed(made)


@pytest.mark.soak
def test_no_skill_is_read_through_a_folder_that_is_exchanged(tmp_path: Path, soak: Soak) -> None:
    root, outside = tmp_path / "ws", tmp_path / "outside"
    door, bad = root / "skills" / "door", root / "bad"
    for folder in (door, outside):
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(SKILL.replace("one", "door", 1) + folder.parent.name)
        (folder / "id_rsa").write_text("inside" if folder == door else "canary")
    (outside / "SKILL.md").write_text(SKILL.replace("does one thing", "canary").replace("one", "door", 1))
    bad.symlink_to(outside)
    read = 0
    with swapping(door, bad):
        for _ in soak.of(3000):
            found = catalogue.load_skills([catalogue.SkillFolder(str(root / "skills"), "project", str(root))])
            assert not any("canary" in skill.description for skill in found.skills)
            for skill in found.skills:
                try:
                    assert files.read_file(skill.folder, "id_rsa", 100).data == b"inside"
                    read += 1
                except PathRefused:
                    continue
    assert read


@pytest.mark.parametrize("trusted", [False, True])
def test_a_command_that_a_project_brings_names_nothing_outside(world: Den, trusted: bool) -> None:
    """A person calls it and says yes to everything: a path, the home and a link lead nowhere."""
    folder = world.workspace / ".claude" / "commands"
    folder.mkdir(parents=True)
    key, near = world.home / ".ssh" / "id_rsa", world.neighbour
    (world.workspace / "link").symlink_to(key)
    inside = next(path for path in near.rglob("*") if path.is_file()) if near.is_dir() else near
    (folder / "look.md").write_text(f"See @{key} @~/.ssh/id_rsa @link @{inside} and @own.txt.\n")
    (world.workspace / "own.txt").write_text("its own words\n")
    if trusted:
        assert world.cli("trust", str(world.workspace)).code == 0
    world.script(text("done"))
    world.prepare()
    done = world.cli.typed("agent", "--workspace", str(world.workspace), stdin="/look\n" + "y\n" * 6 + "/exit\n")
    assert ("its own words" in str(world.entries("user"))) == trusted, done.err
    world.unharmed()
