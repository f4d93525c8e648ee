"""Git by structure: whatever a repository looks like, the user's next git command runs nothing of the model's."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.security.world import Den

EVIL = """#!/bin/sh
for hook in pre-commit post-checkout reference-transaction post-index-change; do
  mkdir -p "$1/hooks" && printf '#!/bin/sh\\ntouch {mark}\\n' > "$1/hooks/$hook" && chmod +x "$1/hooks/$hook"
done
printf '[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = "touch {mark}; false"\\n' > "$1/config"
printf '[core]\\n\\tfsmonitor = "touch {mark}; false"\\n' > "$1/config.worktree"
"""


def plain(den: Den) -> tuple[str, str]:
    return ".git", "."


def slashed_submodule(den: Den) -> tuple[str, str]:
    lib = den.base / "lib"
    lib.mkdir()
    den.git("init", "-q", cwd=lib)
    den.git("commit", "-q", "--allow-empty", "-m", "a", cwd=lib)
    den.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", "--name", "x/lib", str(lib), "vendor/lib")
    return ".git/modules/x/lib", "vendor/lib"


def deep_in_dist(den: Den) -> tuple[str, str]:
    place = den.workspace / "dist/a/b/c/d/.cache/e"
    place.mkdir(parents=True)
    den.git("init", "-q", cwd=place)
    return "dist/a/b/c/d/.cache/e/.git", "dist/a/b/c/d/.cache/e"


def by_file(den: Den) -> tuple[str, str]:
    (den.workspace / "build").mkdir()
    den.git("init", "-q", "--separate-git-dir", str(den.workspace / "build/store"), "part")
    return "build/store", "part"


def by_link(den: Den) -> tuple[str, str]:
    den.git("init", "-q", "part")
    (den.workspace / "part/.git").rename(den.workspace / "kept")
    (den.workspace / "part/.git").symlink_to("../kept")
    return "kept", "part"


def work_tree(den: Den) -> tuple[str, str]:
    den.git("worktree", "add", "-q", "trees/x")
    return ".git/worktrees/x", "trees/x"


LAYOUTS = (plain, slashed_submodule, deep_in_dist, by_file, by_link, work_tree)


def commits(den: Den, place: str) -> None:
    """As the user would, next: look, and commit."""
    for words in (("status",), ("commit", "-q", "--allow-empty", "-m", "mine"), ("checkout", "-q", "-b", "another")):
        den.git(*words, cwd=den.workspace / place)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
def test_no_layout_lets_a_script_plant_a_hook(layout: Callable[[Den], tuple[str, str]], anyone: Den) -> None:
    den = anyone
    mark = den.base / "ran"
    git, place = layout(den)
    (den.workspace / "evil.sh").write_text(EVIL.format(mark=mark))
    (den.workspace / "plant.sh").write_text(f"bash evil.sh {git}; bash evil.sh {place}/.git")
    made = den.attack("bash plant.sh", "ls", "bash plant.sh")
    den.unharmed(made)
    assert "Read-only file system" in made.results[0]
    assert "run git alone in a separate call" in made.results[0]
    assert not list((den.workspace / git).glob("hooks/pre-commit"))
    if not den.cli.as_user:
        commits(den, place)
    assert not mark.exists()


REPLACED = {
    "another in its place": "mv {git} away; cp -r away {git}",
    "a folder above": "mv part away; cp -r away part",
    "the pointer": "rm -f {place}/.git; echo gitdir: ../away > {place}/.git",
}


@pytest.mark.parametrize("how", REPLACED)
def test_what_git_goes_by_is_not_replaced(how: str, world: Den) -> None:
    git, place = by_file(world)
    before = (world.workspace / "part/.git").read_text()
    text = REPLACED[how].format(git=git, place=place)
    (world.workspace / "evil.sh").write_text(f"{text}; true")
    made = world.attack("bash evil.sh")
    world.unharmed(made)
    assert (world.workspace / "part/.git").read_text() == before
    assert (world.workspace / git / "HEAD").exists()


NEW = {
    "a bare layout in a folder": (
        "mkdir -p docs/objects docs/refs; echo ref: refs/heads/main > docs/HEAD; bash evil.sh docs",
        {"docs/config", "docs/hooks/pre-commit"},
    ),
    "a copy of .git/modules": (
        "mkdir -p old/x/objects old/x/refs; echo ref: refs/heads/main > old/x/HEAD; bash evil.sh old/x",
        {"old/x/config", "old/x/hooks/pre-commit"},
    ),
    "a repository of its own": (
        "git init -q fresh; bash evil.sh fresh/.git",
        {"fresh/.git/config", "fresh/.git/hooks/pre-commit"},
    ),
    "a pointer to a planted one": (
        "mkdir sub; echo gitdir: ../x > sub/.git; bash evil.sh x",
        {"x/config", "x/hooks/pre-commit"},
    ),
    "a pointer that leads out": ("mkdir sub; echo gitdir: {outside} > sub/.git", {"sub/.git"}),
}


@pytest.mark.parametrize("how", NEW)
@pytest.mark.parametrize("rung", ["bubblewrap", "landlock"], indirect=True)
def test_a_planted_repository_is_reported_before_anybody_goes_there(how: str, on_each_rung: Den) -> None:
    den = on_each_rung
    text, expected = NEW[how]
    (den.workspace / "evil.sh").write_text(EVIL.format(mark=den.base / "ran"))
    (den.workspace / "plant.sh").write_text(text.format(outside=den.neighbour))
    made = den.attack("bash plant.sh")
    found = {one["path"] for one in made.receipts[0]["decision"]["changed_later"]}
    assert expected <= found
    assert all(f"{path} (" in made.results[0] or "more" in made.results[0] for path in expected)
    den.unharmed(made)


def test_hooks_path_is_followed_and_its_folder_is_read_only(anyone: Den) -> None:
    den = anyone
    hooks = den.workspace / "tools/githooks"
    hooks.mkdir(parents=True)
    den.git("config", "core.hooksPath", "tools/githooks")
    mark = den.base / "ran"
    (den.workspace / "evil.sh").write_text(
        f"printf '#!/bin/sh\\ntouch {mark}\\n' > tools/githooks/pre-commit; chmod +x tools/githooks/pre-commit;"
        "mv tools/githooks away; mv tools away; true"
    )
    made = den.attack("bash evil.sh")
    den.unharmed(made)
    assert os.listdir(hooks) == []
    if not den.cli.as_user:
        commits(den, ".")
    assert not mark.exists()


def test_a_tool_that_installs_hooks_is_told_what_to_do(world: Den) -> None:
    (world.workspace / "install.py").write_text(
        "try:\n    open('.git/hooks/pre-commit', 'w')\nexcept OSError as error:\n    raise SystemExit(f'{error}')\n"
    )
    made = world.attack("python3 install.py")
    assert "run git alone in a separate call" in made.last
    assert json.dumps(made.receipts[0]["decision"]).count("changed_later") == 0


def test_a_name_with_a_newline_breaks_no_report(world: Den) -> None:
    (world.workspace / "x.sh").write_text(
        "mkdir -p $'odd\\nname'; echo x > $'odd\\nname/.envrc'; echo y > $'\\e[2J.code-workspace'"
    )
    made = world.attack("bash x.sh")
    paths = [one["path"] for one in made.receipts[0]["decision"]["changed_later"]]
    assert len(paths) == 2
    assert "\x1b" not in made.done.err
    assert Path(world.workspace, "odd\nname/.envrc").exists()
