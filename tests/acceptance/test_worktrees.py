"""Git worktrees to work in apart: made and left through the gate, and nothing that is not saved is lost."""

import json
import subprocess
from typing import Any

import pytest

from tests.acceptance.world import World, call, text


def git(world: World, *words: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    command = ["git", "-C", str(world.workspace), *identity, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(world: World) -> World:
    world.configure(autonomy="full")
    git(world, "init", "-q", "-b", "main")
    (world.workspace / "a.txt").write_text("main\n")
    git(world, "add", ".")
    git(world, "commit", "-qm", "first")
    return world


def enter(**arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": "EnterWorktree", "arguments": arguments}]}


def leave(**arguments: Any) -> dict[str, Any]:
    return call("ExitWorktree", **arguments)


def results(world: World, *steps: dict[str, Any]) -> list[str]:
    world.script(*steps, text("done"))
    done = world.agent("go")
    assert "Traceback" not in done.err
    return [entry["content"] for entry in world.entries("tool_result")]


WRONG: list[tuple[dict[str, Any], str]] = [
    (enter(), "Give either the name"),
    (enter(name="a", path="b"), "Give either the name"),
    (enter(name="../out"), "outside|is not a valid worktree name"),
    (enter(name="a b"), "is not a valid worktree name"),
    (enter(name="-x"), "is not a valid worktree name"),
    (enter(path="/etc"), "Denied"),
    (enter(path="missing"), "is not a worktree"),
    (leave(action="remove"), "not in a worktree"),
    (leave(action="burn"), "do not fit"),
]


@pytest.mark.parametrize(("step", "said"), WRONG)
def test_refused(repository: World, step: dict[str, Any], said: str) -> None:
    (answer,) = results(repository, step)
    assert any(part in answer for part in said.split("|")), answer
    assert git(repository, "worktree", "list").count("\n") == 1


def test_no_repository_and_no_commit(world: World) -> None:
    world.configure(autonomy="full")
    (answer,) = results(world, enter(name="x"))
    assert "needs a git repository with a commit" in answer


def test_work_apart_and_keep_it(repository: World) -> None:
    work = repository.workspace
    answers = results(
        repository,
        enter(name="feature"),
        call("Bash", command="pwd"),
        call("Write", file_path="new.txt", content="x"),
        leave(action="remove"),
        leave(action="keep"),
        call("Bash", command="pwd"),
    )
    place = work / ".worktrees" / "feature"
    assert answers[1].strip() == str(place)
    assert (place / "new.txt").read_text() == "x"
    assert not (work / "new.txt").exists()
    assert "1 uncommitted changes would be lost" in answers[3]
    assert "is kept" in answers[4]
    assert answers[5].strip() == str(work)
    assert git(repository, "status", "--porcelain") == ""
    assert "worktree-feature" in git(repository, "branch", "--list", "worktree-*")


def test_a_clean_one_is_removed_and_a_commit_is_never_lost_silently(repository: World) -> None:
    place = repository.workspace / ".worktrees" / "f"
    results(repository, enter(name="f"), leave(action="remove"))
    assert not place.exists()
    assert git(repository, "branch", "--list", "worktree-*") == ""
    results(repository, enter(name="g"), call("Write", file_path="n", content="n"))
    git(repository, "-C", ".worktrees/g", "add", ".")
    git(repository, "-C", ".worktrees/g", "commit", "-qm", "work")
    answers = results(repository, enter(path=".worktrees/g"), leave(action="remove"))
    assert "1 commits that no other branch has would be lost" in answers[-1]
    answers = results(repository, enter(path=".worktrees/g"), leave(action="remove", discard_changes=True))
    assert "is removed" in answers[-1]


def test_it_is_asked_about_like_any_write(repository: World) -> None:
    repository.configure(autonomy="supervised")
    (answer,) = results(repository, enter(name="x"))
    assert "Denied" in answer
    assert not (repository.workspace / ".worktrees").exists()


def test_hooks_may_make_it_or_refuse_it_and_hear_of_its_end(repository: World) -> None:
    log = repository.cli.home / "heard"
    answer = json.dumps({"hookSpecificOutput": {"hookEventName": "WorktreeCreate", "worktreePath": "/etc"}})
    for command, said in (("exit 2", "refused"), (f"echo '{answer}'", "cannot be used")):
        more = f'[[hooks]]\nhook_event_name = "WorktreeCreate"\nmatcher = ""\ncommand = {json.dumps(command)}'
        repository.configure(autonomy="full", more=more)
        assert said in results(repository, enter(name="x"))[-1]
    keep = json.dumps(f"cat >> {log}")
    more = f'[[hooks]]\nhook_event_name = "WorktreeRemove"\nmatcher = ""\ncommand = {keep}'
    repository.configure(autonomy="full", more=more)
    results(repository, enter(name="y"), leave(action="remove"))
    assert json.loads(log.read_text())["worktree_path"] == str(repository.workspace / ".worktrees" / "y")


def child(world: World, *steps: dict[str, Any]) -> dict[str, str]:
    """Subagents with the model `child` play these steps."""
    script = world.cli.home / "child.json"
    script.write_text(json.dumps({"steps": list(steps), "partial": True}))
    entry = f'[providers.models.child]\nkind = "mock"\nmodel = "m"\nfixture = "{script}"'
    world.configure(autonomy="full", more=entry)
    return {"description": "a task", "prompt": "do it", "model": "child"}


@pytest.mark.parametrize("changes", [True, False])
def test_a_subagent_works_in_a_worktree_of_its_own(repository: World, changes: bool) -> None:
    steps = [call("Write", file_path="n.txt", content="n")] if changes else []
    order = child(repository, *steps, text("did it"))
    answer = results(repository, call("Agent", **order, isolation="worktree"))[-1]
    assert "did it" in answer
    assert not (repository.workspace / "n.txt").exists()
    made = list((repository.workspace / ".worktrees").glob("agent-*"))
    assert [(place / "n.txt").read_text() for place in made] == (["n"] if changes else [])
    assert ("its work is in" in answer) is changes


def test_what_a_subagent_changed_is_restored_with_its_parents_turn(repository: World) -> None:
    order = child(repository, call("Bash", command="echo child > c.txt"), text("did it"))
    results(repository, call("Bash", command="echo parent > p.txt"), call("Agent", **order))
    (group,) = json.loads(repository.cli("checkpoint", "list", "--output-format", "json").out)
    assert (group["text"], group["calls"], group["paths"]) == ("go", 2, 2)
    assert repository.cli("checkpoint", "restore", str(group["id"])).code == 0
    assert git(repository, "status", "--porcelain") == ""


def test_one_in_a_worktree_may_work_in_the_background(repository: World) -> None:
    order = child(repository, call("Write", file_path="n.txt", content="n"), text("did it"))
    repository.script(
        call("Agent", **order, isolation="worktree", run_in_background=True), text("waiting"), text("heard")
    )
    done = repository.agent("go")
    assert (done.code, done.out) == (0, "heard\n"), done.err
    assert "in the background" in repository.entries("tool_result")[0]["content"]
    (told,) = [entry["attachment"]["content"] for entry in repository.entries("attachment")]
    assert "did it" in told
    (made,) = (repository.workspace / ".worktrees").glob("agent-*")
    assert str(made) in told
    assert (made / "n.txt").read_text() == "n"
    assert not (repository.workspace / "n.txt").exists()
