"""`run --branch` and `run --worktree`: what is not committed stays, and nothing of a hostile repository runs."""

import subprocess
from pathlib import Path

import pytest

from tests.acceptance.world import World, call, text

HOOKS = ("post-checkout", "pre-commit", "post-index-change", "reference-transaction", "post-commit", "pre-push")


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "core.hooksPath=/dev/null"]
    plain = ["-c", "core.fsmonitor=false", "-c", "filter.evil.clean=cat", "-c", "filter.evil.smudge=cat"]
    command = ["git", "-C", str(folder), *identity, *plain, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def hostile(world: World, tmp_path: Path) -> World:
    """A repository with staged, unstaged, untracked and ignored work, and programs that git would run."""
    world.configure(autonomy="full", security='allowed_commands = ["touch", "git"]')
    here = world.workspace
    git(here, "init", "-q", "-b", "main")
    for name in ("a.txt", "staged.txt", "changed.txt"):
        (here / name).write_text("first\n")
    (here / ".gitignore").write_text("ignored.txt\n")
    (here / ".gitattributes").write_text("*.txt filter=evil\n")
    git(here, "add", ".")
    git(here, "commit", "-qm", "first")
    evil = tmp_path / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran {here}/ran\ncat\n")
    evil.chmod(0o755)
    for hook in HOOKS:
        (here / ".git" / "hooks" / hook).symlink_to(evil)
    with (here / ".git" / "config").open("a") as config:
        config.write(f'[core]\n\tfsmonitor = {evil}\n[filter "evil"]\n\tclean = {evil}\n\tsmudge = {evil}\n')
    for name in ("staged.txt", "changed.txt", "untracked.txt", "ignored.txt"):
        (here / name).write_text("mine\n")
    git(here, "add", "staged.txt")
    return world


def kept(here: Path) -> dict[str, bytes]:
    """Every file of the person's, its repository's own and all."""
    files = (file for file in here.rglob("*") if file.is_file())
    own = (".worktrees", ".adderclaw", "runs")
    return {str(file): file.read_bytes() for file in files if file.relative_to(here).parts[0] not in own}


def test_a_worktree_leaves_every_byte_of_the_persons_own(hostile: World, tmp_path: Path) -> None:
    here = hostile.workspace
    before = kept(here)
    (here.parent / "flow").mkdir()
    flow = here.parent / "flow" / "Agentfile"
    flow.write_text('NAME flow\nGOAL work "Work"\nRUN main USING work\n')
    write = {"name": "Write", "arguments": {"file_path": "new.txt", "content": "second\n"}}
    outside = {"name": "Write", "arguments": {"file_path": str(here / "never.txt"), "content": "never\n"}}
    look = {"name": "Bash", "arguments": {"command": "git add new.txt"}}
    index = {"name": "Bash", "arguments": {"command": f"touch {here}/.git/index.lock {here}/touched"}}
    end = {"name": "GoalResult", "arguments": {"achieved": True, "summary": "done"}}
    hostile.script(*({"tool_calls": [one]} for one in (write, outside, index, look)))
    done = hostile.cli(
        "run", "--workspace", str(here), "--agentfile", str(flow), "--worktree", "one", "--limit", "tool_calls=1"
    )
    assert (done.code, "the work is in " in done.err) == (4, True), done.err
    hostile.script(*({"tool_calls": [one]} for one in (write, outside, index, look, look, end)))
    ((run_id,),) = hostile.rows("SELECT run_id FROM runs")
    done = hostile.cli("run", "--resume", run_id, "--limit", "tool_calls=9")
    assert done.code == 0, done.err
    copy = here / ".worktrees" / "one"
    assert (copy / "new.txt").read_text() == "second\n", done.err
    assert git(copy, "status", "--porcelain") == "A  new.txt\n"
    assert git(copy, "branch", "--show-current") == "worktree-one\n"
    assert (copy / "staged.txt").read_text() == "first\n"
    assert kept(here) == before
    assert not (tmp_path / "ran").exists()
    again = hostile.cli("run", "--workspace", str(here), "--agentfile", str(flow), "--worktree", "one")
    assert (again.code, "already exists" in again.err) == (2, True), again.err


def test_a_branch_keeps_what_is_not_committed(hostile: World, tmp_path: Path) -> None:
    here = hostile.workspace
    before = {
        name: (here / name).read_bytes() for name in ("staged.txt", "changed.txt", "untracked.txt", "ignored.txt")
    }
    status = git(here, "status", "--porcelain", "--ignored")
    git(here, "branch", "taken")
    flow = tmp_path / "Agentfile"
    flow.write_text('NAME flow\nGOAL work "Work"\nRUN main USING work\n')
    end = {"name": "GoalResult", "arguments": {"achieved": True, "summary": "done"}}
    hostile.script({"tool_calls": [end]})
    for name, said in (("taken", "already"), ("a..b", "not a valid branch name"), ("-x", "--branch")):
        refused = hostile.cli("run", "--workspace", str(here), "--agentfile", str(flow), f"--branch={name}")
        assert (refused.code, said in refused.err) == (2, True), refused.err
    assert git(here, "branch", "--show-current") == "main\n"
    done = hostile.cli("run", "--workspace", str(here), "--agentfile", str(flow), "--branch", "mine")
    assert (done.code, "the work is on the branch mine" in done.err) == (0, True), done.err
    assert git(here, "branch", "--show-current") == "mine\n"
    assert {name: (here / name).read_bytes() for name in before} == before
    assert [line for line in git(here, "status", "--porcelain", "--ignored").splitlines() if "runs/" not in line] == (
        status.splitlines()
    )
    assert not (tmp_path / "ran").exists()
    subprocess.run(["git", "-C", here, "status"], check=False, capture_output=True)
    assert (tmp_path / "ran").exists()  # they would have


def test_what_is_not_there_is_said_before_anything_begins(world: World) -> None:
    here = world.workspace
    (here / "SPEC.md").write_text("# It greets\n")
    world.script(text("never asked"))
    for flags in (("--branch", "b"), ("--worktree", "w")):
        done = world.cli("run", *flags)
        assert (done.code, "need a git repository with a commit" in done.err) == (2, True), done.err
    git(here, "init", "-q", "-b", "main")
    done = world.cli("run", "--worktree", "w")
    assert "no commit" in done.err, done.err
    git(here, "commit", "-q", "--allow-empty", "-m", "first")
    done = world.cli("run", "--worktree", "w")
    assert (done.code, "SPEC.md is not in the last commit" in done.err) == (2, True), done.err
    assert sorted(path.name for path in here.iterdir()) == [".git", "SPEC.md"]
    git(here, "add", "SPEC.md")
    git(here, "commit", "-qm", "second")
    declared = [{"id": "SC-1", "feature": "greet", "name": "It greets"}]
    world.script(call("DeclareScenarios", scenarios=declared), text("declared"), text("no more"))
    done = world.cli("run", "--worktree", "w", "-n", "2")
    assert (here / ".worktrees" / "w" / ".adderclaw" / "status.json").exists(), done.err
    assert sorted(path.name for path in here.iterdir()) == [".git", ".worktrees", "SPEC.md"]
    assert git(here, "status", "--porcelain") == ""
