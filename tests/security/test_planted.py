"""No program of the workspace is found by its name alone, though PATH holds a folder of the workspace first."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.world import call, text
from tests.program import Done
from tests.security.world import YES, Attack, Den

NAMES = (
    "git",
    "git-lfs",
    "ssh",
    "ssh-keygen",
    "dash",
    "sh",
    "bash",
    "rg",
    "bwrap",
    "node",
    "python3",
    "python",
    "npx",
    "pwsh",
    "powershell",
    "xdg-open",
    "env",
    "cat",
    "find",
    "grep",
    "ls",
    "setpriv",
    "git-credential-planted",
)
PLANT = """#!/bin/sh
echo "${{0##*/}} $*" >> {canary}
echo "PLANTED ${{0##*/}}"
echo "PLANTED ${{0##*/}}" >&2
for real in /usr/bin/${{0##*/}} /bin/${{0##*/}}; do [ -x "$real" ] && exec "$real" "$@"; done
"""
HOOKS = """
[[hooks]]
hook_event_name = "SessionStart"
command = "git --version; python3 -c 0; cat /dev/null"
[[hooks]]
hook_event_name = "PreToolUse"
matcher = "Bash"
command = "python3"
args = ["-c", "0"]
[[hooks]]
hook_event_name = "SessionEnd"
command = "rg --version; ls /"
"""


def _plant(den: Den, folder: str = ".venv/bin") -> tuple[Path, Path]:
    """The folder with a program for each name, and the file outside that they write to when they run."""
    planted, canary = den.workspace / folder, den.home / "CANARY"
    planted.mkdir(parents=True)
    for name in NAMES:
        (planted / name).write_text(PLANT.format(canary=canary))
        (planted / name).chmod(0o755)
    (den.workspace / ".gitignore").write_text(f"{folder.split('/')[0]}\n")
    return planted, canary


def _calls(*steps: Mapping[str, Any] | str) -> list[Mapping[str, Any]]:
    return [call("Bash", command=step) if isinstance(step, str) else step for step in steps]


def _attack(den: Den, planted: Path, *steps: Mapping[str, Any] | str) -> Attack:
    den.script(*_calls(*steps), text("done"))
    den.prepare()
    first, _, rest = den.cli.env["PATH"].partition(os.pathsep)
    # The harness's own folder stays first on Landlock: it is how that rung is had.
    ahead, behind = ([first], rest) if den.expected_rung == "landlock" else ([], den.cli.env["PATH"])
    den.cli.env["PATH"] = os.pathsep.join((*ahead, str(planted), behind))
    return den.run()


def _nothing_planted_ran(canary: Path, attack: Attack) -> None:
    assert not canary.exists(), canary.read_text()
    for shown in (*attack.results, attack.done.out, attack.done.err):
        assert "PLANTED" not in shown, shown


STEPS: tuple[Mapping[str, Any] | str, ...] = (
    "echo hello",
    "ls",
    "cat a.txt",
    "git status --short",
    "git add a.txt && git commit --allow-empty -m second",
    "git log --oneline | cat",
    "timeout 9 git log --oneline",
    "python3 -c 'print(1)'",
    call("Grep", pattern="alpha"),
    call("Glob", pattern="**/*.py"),
    call("Write", file_path="new.txt", content="x"),
    call("EnterWorktree", name="apart"),
    "git status --short",
    call("ExitWorktree", action="remove", discard_changes=True),
    call("Bash", command="git log --oneline", run_in_background=True),
)


def test_no_planted_program_runs(on_each_rung: Den) -> None:
    den = on_each_rung
    den.configure("full", more=HOOKS)
    planted, canary = _plant(den)
    made = _attack(den, planted, *STEPS)
    assert made.done.code == 0, made.done.err
    assert "hello" in made.results[0]
    assert "Now working in" in made.results[11], made.results
    _nothing_planted_ran(canary, made)
    den.unharmed(made)


def test_nor_without_a_sandbox(world: Den) -> None:
    world.configure("full", more=HOOKS)
    planted, canary = _plant(world)
    world.script(*_calls(*STEPS), text("done"))
    world.cli.env["PATH"] = f"{planted}{os.pathsep}{world.cli.env['PATH']}"
    done = world.cli("agent", "-m", "go", "--profile", "permissive", stdin=YES, timeout=300)
    results = [str(entry["content"]) for entry in world.entries("tool_result")]
    assert done.code == 0, done.err
    assert "hello" in results[0]
    assert "Now working in" in results[11], results
    _nothing_planted_ran(canary, Attack(done, tuple(results), ()))


def test_nor_one_that_the_session_writes(on_each_rung: Den) -> None:
    den = on_each_rung
    den.configure("full")
    canary = den.home / "CANARY"
    script = PLANT.format(canary=canary)
    steps = [call("Write", file_path=f".venv/bin/{name}", content=script) for name in ("git", "dash", "rg", "git-lfs")]
    made = _attack(
        den,
        den.workspace / ".venv/bin",
        *steps,
        "chmod -R 755 .venv/bin",
        "echo hello",
        "git add a.txt",
        "git commit --allow-empty -m second",
        call("Grep", pattern="alpha"),
        call("EnterWorktree", name="apart"),
    )
    assert os.access(den.workspace / ".venv/bin/git", os.X_OK), made.results
    # What the program says of the calls of Write has the text of the planted files in it.
    _nothing_planted_ran(canary, made._replace(results=made.results[5:], done=Done(0, "", "")))
    den.unharmed(made)


@pytest.mark.parametrize(
    "url", ["ssh://git@127.0.0.1:9/x.git", "https://127.0.0.1:9/x.git", "http://127.0.0.1:9/x.git"]
)
def test_nor_for_a_remote(world: Den, url: str) -> None:
    world.configure("full")
    planted, canary = _plant(world, "node_modules/.bin")
    (world.home / ".gitconfig").write_text("[credential]\n\thelper = planted\n")
    world.git("remote", "add", "origin", url)
    world.cli.env["SSH_AUTH_SOCK"] = "/run/user/agent.sock"
    made = _attack(world, planted, "git fetch origin", "git push origin main")
    _nothing_planted_ran(canary, made)
    world.unharmed(made)


def test_nor_in_a_further_directory(world: Den) -> None:
    further = world.base / "further"
    world.configure("full", f'additional_directories = ["{further}"]')
    (further / "bin").mkdir(parents=True)
    canary = world.home / "CANARY"
    for name in NAMES:
        (further / "bin" / name).write_text(PLANT.format(canary=canary))
        (further / "bin" / name).chmod(0o755)
    made = _attack(world, further / "bin", "echo hello", "git add a.txt")
    assert made.done.code == 0, made.done.err
    _nothing_planted_ran(canary, made)


def test_nor_in_the_caches_that_commands_fill(world: Den) -> None:
    world.configure("full")
    planted, canary = world.canaries.ours / "caches" / "x" / "cargo" / "bin", world.home / "CANARY"
    planted.mkdir(parents=True)
    for name in ("git", "dash", "ssh", "git-lfs", "bwrap"):
        (planted / name).write_text(PLANT.format(canary=canary))
        (planted / name).chmod(0o755)
    made = _attack(world, planted, "echo hello", "git add a.txt")
    assert made.done.code == 0, made.done.err
    _nothing_planted_ran(canary, made)


def test_nor_by_doctor(world: Den) -> None:
    planted, canary = _plant(world)
    world.prepare()
    world.cli.env["PATH"] = f"{planted}{os.pathsep}{world.cli.env['PATH']}"
    assert "bubblewrap" in world.cli("doctor").out
    assert not canary.exists(), canary.read_text()


def test_a_worktree_runs_no_filter_of_the_repository(on_each_rung: Den) -> None:
    den = on_each_rung
    den.configure("full")
    (den.workspace / ".gitattributes").write_text("* filter=x\n")
    den.git("add", "-A")
    den.git("commit", "--quiet", "-m", "filtered")
    ran = den.workspace / "RAN"
    den.git("config", "filter.x.smudge", f"sh -c 'id > {ran}; cat'")
    den.git("config", "filter.x.clean", f"sh -c 'id > {ran}; cat'")
    den.git("config", "core.fsmonitor", f"id > {ran}")
    hook = den.workspace / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\nid > {ran}\n")
    hook.chmod(0o755)
    made = den.attack(
        call("EnterWorktree", name="apart"),
        call("Write", file_path="new.txt", content="x"),
        call("ExitWorktree", action="remove"),
        call("ExitWorktree", action="remove", discard_changes=True),
    )
    assert "Now working in" in made.results[0], made.results
    assert "1 uncommitted" in made.results[2], made.results
    assert "removed" in made.results[3], made.results
    assert not ran.exists()
    den.unharmed(made)
