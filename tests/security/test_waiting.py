"""Pipes that nobody writes, under every name that we look for by ourselves: no search and no session waits for them."""

import os
from pathlib import Path

import pytest

from tests.acceptance.world import call, text
from tests.security.world import Den

LISTS = (".gitignore", ".ignore", ".rgignore")
IN_THE_HOME = """
import os
home = os.path.expanduser("~")
os.makedirs(home + "/.config/git")
os.mkfifo(home + "/.config/git/ignore")
os.mkfifo(home + "/.gitconfig")
print("made")
"""
FORMS = ("pipe", "link", "zero", "above", "large")


def _put(folder: Path, name: str, form: str) -> Path:
    """An ignore list that has no end; what is to be searched."""
    inner = folder / "inner"
    inner.mkdir(parents=True)
    (inner / "found.txt").write_text("needle\n")
    match form:
        case "pipe":
            os.mkfifo(inner / name)
        case "link":
            os.mkfifo(inner / "pipe")
            (inner / name).symlink_to("pipe")
        case "zero":
            (inner / name).symlink_to("/dev/zero")
        case "above":
            os.mkfifo(folder / name)
        case _:
            with (inner / name).open("wb") as file:
                file.truncate(1 << 40)
    return inner


@pytest.mark.parametrize("form", FORMS)
def test_no_ignore_list_without_an_end_stops_a_search(on_each_rung: Den, form: str) -> None:
    den = on_each_rung
    searched = [_put(den.workspace / f"{number}", name, form) for number, name in enumerate(LISTS)]
    made = den.attack(
        *(call("Grep", pattern="needle", path=str(one.relative_to(den.workspace))) for one in searched),
    )
    assert made.done.code == 0, made.done.err
    assert len(made.results) == len(LISTS)
    for result in made.results:
        assert "Found 1 file" in result
        assert "found.txt" in result
        assert "ignore files were not applied" in result
    den.unharmed(made)


def test_no_list_of_git_without_an_end_stops_a_search(on_each_rung: Den) -> None:
    """Those that commands may put in their home, that lie in a git directory, and that a `.git` file leads to."""
    den = on_each_rung
    os.mkfifo(den.workspace / ".git" / "info" / "excluded")
    (den.workspace / ".git" / "info" / "excluded").replace(den.workspace / ".git" / "info" / "exclude")
    (den.workspace / "sub" / "elsewhere").mkdir(parents=True)
    os.mkfifo(den.workspace / "sub" / "elsewhere" / "commondir")
    (den.workspace / "sub" / ".git").write_text("gitdir: elsewhere\n")
    (den.workspace / "sub" / "found.txt").write_text("needle\n")
    (den.workspace / "pipe.py").write_text(IN_THE_HOME)
    made = den.attack(
        "python3 pipe.py",
        call("Grep", pattern="needle", path="sub"),
        call("Grep", pattern="needle"),
    )
    assert "made" in made.results[0]
    assert [result.splitlines()[0] for result in made.results[1:]] == ["Found 1 file"] * 2
    den.unharmed(made)


def test_ignore_lists_count_where_they_end(on_each_rung: Den) -> None:
    den = on_each_rung
    (den.workspace / "list").write_text("left.txt\n")
    (den.workspace / ".gitignore").symlink_to("list")
    for name in ("left.txt", "found.txt"):
        (den.workspace / name).write_text("needle\n")
    made = den.attack(call("Grep", pattern="needle"))
    assert "left.txt" not in made.last
    assert "found.txt" in made.last
    assert "ignore file" not in made.last
    den.unharmed(made)


NAMES = (
    *(
        "AGENTS.md",
        "CLAUDE.md",
        "AGENTS.local.md",
        "SPEC.md",
        "Agentfile",
        "status.json",
        ".gitattributes",
        ".gitmodules",
    ),
    *(
        ".gitignore",
        ".ignore",
        ".envrc",
        ".mailmap",
        ".git/info/attributes",
        ".git/info/sparse-checkout",
        ".git/shallow",
    ),
    *(".github/workflows", ".vscode/tasks.json", ".husky", ".pre-commit-config.yaml", "Makefile", "package.json"),
    *("skills/one/SKILL.md", ".agents/skills/two/SKILL.md", ".claude/agents/x.md", ".claude/commands/y.md"),
    *(
        ".adderclaw/agents/z.md",
        ".adderclaw/hooks/h",
        ".adderclaw/commands/c.md",
        ".worktrees/.gitignore",
        "src/AGENTS.md",
    ),
)
SETTINGS = (
    *(".adderclaw/config.toml", ".adderclaw/agent.json", ".adderclaw/policy.toml", ".adderclaw/settings.json"),
    *(
        ".claude/settings.json",
        ".claude/settings.local.json",
        ".mcp.json",
        ".adderclaw",
        ".claude",
        ".agents",
        "agent.json",
    ),
)


def _pipe(place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    os.mkfifo(place)


def test_no_session_waits_for_a_pipe(anyone: Den) -> None:
    for name in NAMES:
        _pipe(anyone.workspace / name)
    made = anyone.attack(
        *(call("Read", file_path=name) for name in ("AGENTS.md", "src/main.py", "src/AGENTS.md", "a.txt")),
        *(call("Write", file_path=name, content="x") for name in ("AGENTS.md", "src/new.txt", "Makefile")),
        call("Edit", file_path=".gitignore", old_string="a", new_string="b"),
        call("Glob", pattern="**/*"),
        call("LS", path="."),
        call("Skill", skill="one"),
        call("Agent", description="x", prompt="x", subagent_type="x"),
        call("Delete", path=".envrc"),
        "echo done > made.txt",
        call("Grep", pattern="alpha"),
    )
    assert made.done.code == 0, made.done.err
    assert "Found 1 file" in made.last
    assert (anyone.workspace / "made.txt").exists()
    anyone.unharmed(made)


def test_a_worktree_with_a_pipe_is_not_waited_for(world: Den) -> None:
    (world.workspace / "pipe.py").write_text("import os\nos.mkfifo('.gitignore')\n")
    made = world.attack(
        call("EnterWorktree", name="apart"),
        "python3 ../../pipe.py",
        call("ExitWorktree", action="remove"),
        call("ExitWorktree", action="remove", discard_changes=True),
    )
    assert ".gitignore never ends" in made.results[2]
    assert not (world.workspace / ".worktrees" / "apart").exists()
    world.unharmed(made)


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes", ".git/info/exclude"])
def test_git_does_not_wait_for_a_pipe_until_its_time_is_over(world: Den, name: str) -> None:
    _pipe(world.workspace / name)
    os.utime(world.workspace / "a.txt", (1, 1))  # git has to look into it, however long ago the commit was
    made = world.attack(call("Bash", command="git status"), call("Bash", command="git add -A && git commit -m x"))
    for result in made.results:
        assert "timed out" not in result
        assert f"git was stopped because it was waiting for {world.workspace / name}" in result
    world.unharmed(made)


def test_git_that_is_slow_is_not_ended_for_a_long_file(world: Den) -> None:
    """Regular files have an end, whatever their names and their length."""
    for name in ("docs/exclude", "docs/.gitattributes", ".mailmap", ".gitignore", ".git/info/exclude"):
        (world.workspace / name).write_text("# a comment in a list of names\n" * 40_000)
    (world.workspace / "apart" / "info").mkdir(parents=True)
    os.mkfifo(world.workspace / "apart" / "info" / "exclude")
    made = world.attack(call("Bash", command="git status --short | (sleep 4; cat)"))
    assert "git was stopped" not in made.last
    assert "?? docs/exclude" in made.last
    world.unharmed(made)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_pipe_in_place_of_settings_is_refused_or_ignored(world: Den, name: str) -> None:
    """Each ends by itself: `cli` would raise at its time limit."""
    _pipe(world.workspace / name)
    world.script(call("Read", file_path="a.txt"), text("done"))
    world.prepare()
    made = world.run()
    assert made.done.code == 0 or "not a regular file" in made.done.err, made.done.err
    for command in (("trust", "--list"), ("hooks", "list")):
        world.cli(*command, cwd=world.workspace, timeout=60)
    world.unharmed(made)
