"""Git as a user has it: commits in their name, merges, rebases, worktrees, submodules, LFS, in the real sandbox."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.world import World, call, text
from tests.trial import why_not

PROFILES = ["supervised", "sandboxed"]
WHO = ("-c", "user.name=Somebody Else", "-c", "user.email=else@example.org", "-c", "protocol.file.allow=always")


@pytest.fixture(autouse=True)
def _bubblewrap(home: Path) -> None:
    if why := why_not("bubblewrap"):
        pytest.skip(f"bubblewrap does not start on this machine: {why}")


def git(place: Path, *words: str) -> str:
    """The user's own git, outside: to prepare, and to look at what came of it."""
    env = {"PATH": os.environ["PATH"], "HOME": str(place), "GIT_CONFIG_GLOBAL": "/dev/null"}
    done = subprocess.run(["git", *WHO, *words], cwd=place, env=env, capture_output=True, timeout=60, check=True)
    return done.stdout.decode().strip()


@pytest.fixture
def repository(world: World) -> Path:
    place = world.workspace
    (world.cli.home / ".gitconfig").write_text("[user]\n\tname = Ada Lovelace\n\temail = ada@example.org\n")
    (place / "a.txt").write_text("one\n")
    git(place, "init", "-q", "-b", "main")
    git(place, "add", "-A")
    git(place, "commit", "-q", "-m", "first")
    return place


def bash(world: World, profile: str, *commands: str) -> list[str]:
    """Commands that a model asks for, one call each, approved: their results."""
    world.script(*(call("Bash", command=command) for command in commands), text("done"))
    before = len(world.entries("tool_result")) if world.database.exists() else 0
    done = world.agent("go", "--profile", profile, stdin="y\n" * 40)
    assert done.code == 0, done.err
    return [entry["content"] for entry in world.entries("tool_result")[before:]]


@pytest.mark.parametrize("profile", PROFILES)
def test_a_commit_is_the_operators(profile: str, repository: Path, world: World) -> None:
    (repository / "b.txt").write_text("two\n")
    seen = bash(world, profile, "git add -A", "git commit -m 'Add b'", "git log -1 --format=%an")
    assert "1 file changed" in seen[1]
    assert git(repository, "log", "-1", "--format=%an <%ae> %cn <%ce> %s") == (
        "Ada Lovelace <ada@example.org> Ada Lovelace <ada@example.org> Add b"
    )


@pytest.mark.parametrize("profile", PROFILES)
def test_commits_among_other_commands(profile: str, repository: Path, world: World) -> None:
    (repository / "sub").mkdir()
    seen = bash(
        world,
        profile,
        "echo b > b.txt && git add b.txt && git commit -m second | tail -1",
        "cd sub && echo t > t && git add t && git commit -m third && pwd",
        "pwd; false; git commit -m 'nothing to do' || echo went on",
        "cd .. && ls && git commit --allow-empty -m fifth 2>&1 | grep -c fifth",
    )
    assert git(repository, "log", "--format=%s").split("\n") == ["fifth", "third", "second", "first"]
    assert "b.txt" in seen[0]
    assert "second]" not in seen[0], "tail prints the last line alone"
    assert seen[1].rstrip().endswith("/sub")
    assert "/sub\n" in seen[2]
    assert seen[2].rstrip().endswith("went on")
    assert seen[3].rstrip().endswith("1")


def test_a_repositorys_own_name_goes_before_the_operators(repository: Path, world: World) -> None:
    git(repository, "config", "user.email", "ada@work.example.org")
    bash(world, "supervised", "git commit --allow-empty -m x")
    assert git(repository, "log", "-1", "--format=%an %ae") == "Ada Lovelace ada@work.example.org"


@pytest.mark.parametrize("profile", PROFILES)
def test_branches_merges_rebases_and_picks(profile: str, repository: Path, world: World) -> None:
    git(repository, "checkout", "-q", "-b", "feature")
    (repository / "f.txt").write_text("f\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "feature")
    git(repository, "checkout", "-q", "-b", "picked", "main")
    (repository / "p.txt").write_text("p\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "picked")
    git(repository, "checkout", "-q", "main")
    bash(
        world,
        profile,
        "git cherry-pick picked",
        "git checkout feature && git rebase main && git checkout main",
        "git merge --no-ff -m merged feature",
        "git tag -a v1 -m 'the first' && git branch old main~1 && git branch -m old older",
        "printf 'changed\n' > a.txt",
        "git stash push -m later",
        "git stash pop",
        "git bisect start && git bisect bad && git bisect good main~2 && git bisect reset",
    )
    assert git(repository, "log", "--first-parent", "--format=%s %cn") == (
        "merged Ada Lovelace\npicked Ada Lovelace\nfirst Somebody Else"
    )
    assert git(repository, "log", "-1", "--format=%s %cn", "feature") == "feature Ada Lovelace"
    assert git(repository, "cat-file", "-t", "v1") == "tag"
    assert git(repository, "rev-parse", "older") == git(repository, "rev-parse", "main~1")
    assert (repository / "a.txt").read_text() == "changed\n"
    assert git(repository, "stash", "list") == ""


@pytest.mark.parametrize("profile", PROFILES)
def test_a_worktree_is_added_used_and_removed(profile: str, repository: Path, world: World) -> None:
    seen = bash(
        world,
        profile,
        "git worktree add -b side trees/side",
        "printf 'side\n' > trees/side/s.txt",
        "git -C trees/side add s.txt",
        "git -C trees/side commit -m side",
    )
    assert git(repository, "log", "-1", "--format=%s %an", "side") == "side Ada Lovelace", seen
    bash(world, profile, "git worktree remove trees/side")
    assert not (repository / "trees" / "side").exists()


@pytest.mark.parametrize("profile", PROFILES)
def test_a_submodule_that_was_fetched_is_updated(profile: str, repository: Path, world: World, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q", "-b", "main")
    (other / "x.txt").write_text("old\n")
    git(other, "add", "-A")
    git(other, "commit", "-q", "-m", "old")
    git(repository, "submodule", "add", "-q", str(other), "libs/other")
    git(repository, "commit", "-q", "-m", "with other")
    (repository / "libs" / "other" / "x.txt").write_text("new\n")
    git(repository / "libs" / "other", "commit", "-q", "-a", "-m", "new")
    seen = bash(world, profile, "git submodule status", "git submodule update", "git status --short")
    assert (repository / "libs" / "other" / "x.txt").read_text() == "old\n", seen
    assert seen[2].strip() == ""


@pytest.mark.parametrize("profile", PROFILES)
def test_large_files_become_pointers_and_come_back(profile: str, repository: Path, world: World) -> None:
    if shutil.which("git-lfs") is None:
        pytest.skip("git-lfs is not installed on this machine")
    (repository / "big.bin").write_bytes(b"large " * 100)
    seen = bash(
        world,
        profile,
        "git lfs track '*.bin'",
        "git add .gitattributes big.bin && git commit -m 'Add a large file'",
        "git checkout -q HEAD~1 && git checkout -q main",
        "git status --short",
    )
    assert git(repository, "show", "HEAD:big.bin").startswith("version https://git-lfs.github.com/spec/v1"), seen
    assert (repository / "big.bin").read_bytes() == b"large " * 100
    assert seen[3].strip() == ""


@pytest.mark.parametrize("where", [".git/hooks", ".husky"])
def test_the_hooks_that_were_left_out_are_named(where: str, repository: Path, world: World) -> None:
    for name in ("pre-commit", "commit-msg", "pre-push"):
        hook = repository / where / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\ntouch ran\nexit 1\n")
        hook.chmod(0o755)
    (repository / ".git" / "hooks" / "post-commit").write_text("not a program")
    if where == ".husky":
        git(repository, "config", "core.hooksPath", where)
    seen = bash(world, "supervised", "git commit --allow-empty -m x", "git log -1 --format=%s")
    assert "hooks not run: pre-commit, commit-msg\n" in seen[0]
    assert seen[1].strip() == "x"
    assert not (repository / "ran").exists()


@pytest.mark.parametrize("profile", PROFILES)
def test_settings_that_name_programs_are_the_users_to_make(profile: str, repository: Path, world: World) -> None:
    """The message does not send the model to what it did already."""
    seen = bash(
        world,
        profile,
        "git config core.hooksPath x",
        "git -c alias.x=log x -1",
        "git --no-pager -c alias.x=log -C . x -1",
    )
    assert "Ask the user to run it" in seen[0]
    assert "run git alone" not in seen[0]
    assert "first" in seen[1], seen[1]
    assert "unknown option" not in seen[1]
    assert "first" in seen[2], seen[2]
    assert git(repository, "config", "--default", "", "core.hooksPath") == ""
