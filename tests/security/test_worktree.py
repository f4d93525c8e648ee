"""EnterWorktree writes in the workspace alone, whatever `.worktrees` is, or becomes while it runs."""

from collections.abc import Callable

import pytest

from tests.acceptance.world import call
from tests.security.world import Den

TARGETS = (".ssh/id_rsa", ".adderclaw/receipt.key", ".adderclaw/config.toml", ".bashrc")


def _file(den: Den, target: str) -> None:
    (den.workspace / ".worktrees").mkdir()
    (den.workspace / ".worktrees" / ".gitignore").symlink_to(den.home / target)


def _folder(den: Den, target: str) -> None:
    (den.workspace / ".worktrees").symlink_to((den.home / target).parent)


def _dangling(den: Den, target: str) -> None:
    (den.workspace / ".worktrees").symlink_to((den.home / target).parent / "new")


TRAPS: dict[str, Callable[[Den, str], None]] = {
    "a link to the file": _file,
    "a link to its folder": _folder,
    "a link to nothing": _dangling,
}


@pytest.mark.parametrize(
    ("trap", "target"),
    [*(("a link to the file", target) for target in TARGETS), *((trap, TARGETS[0]) for trap in list(TRAPS)[1:])],
)
def test_no_link_leads_a_worktree_out(world: Den, trap: str, target: str) -> None:
    TRAPS[trap](world, target)
    made = world.attack(call("EnterWorktree", name="x"), call("Write", file_path="new.txt", content="x"))
    assert made.done.code == 0, made.done.err
    assert "Now working in" not in made.results[0]
    world.unharmed(made)


def test_a_second_name_of_a_file_is_left_alone(world: Den) -> None:
    kept = world.base / "kept.txt"
    kept.write_text("kept\n")
    (world.workspace / ".worktrees").mkdir()
    (world.workspace / ".worktrees" / ".gitignore").hardlink_to(kept)
    made = world.attack(call("EnterWorktree", name="x"))
    assert "hard links" in made.last
    assert kept.read_text() == "kept\n"
    world.unharmed(made)


def test_the_receipts_stay_whole(anyone: Den) -> None:
    anyone.attack("true")
    (anyone.workspace / ".worktrees").mkdir(exist_ok=True)
    (anyone.workspace / ".worktrees" / ".gitignore").symlink_to(anyone.log)
    before = anyone.log.read_bytes()
    made = anyone.attack(call("EnterWorktree", name="x"))
    assert anyone.log.read_bytes().startswith(before)
    assert len(before) > 100
    anyone.unharmed(made)


SWAP = """
import ctypes
libc = ctypes.CDLL(None)
open("started", "w").close()
while True:
    libc.renameat2(-100, b".worktrees", -100, b"bad", 2)
"""


def test_nor_does_one_that_comes_and_goes(anyone: Den) -> None:
    (anyone.workspace / ".worktrees").mkdir()
    (anyone.workspace / "bad").symlink_to(anyone.home / ".ssh")
    (anyone.workspace / "swap.py").write_text(SWAP)
    steps = [call("EnterWorktree", name=f"w{n}") for n in range(12)]
    leave = call("ExitWorktree", action="keep")
    made = anyone.attack(
        call("Bash", command="python3 swap.py", run_in_background=True),
        "sleep 1; ls started",
        *[step for one in steps for step in (one, leave)],
    )
    assert len(made.results) == 2 + 2 * len(steps), made.done.err
    anyone.unharmed(made)


def test_a_worktree_is_made_entered_and_left(everywhere: Den) -> None:
    made = everywhere.attack(
        call("EnterWorktree", name="apart"),
        call("Write", file_path="new.txt", content="x"),
        call("ExitWorktree", action="remove"),
        call("ExitWorktree", action="remove", discard_changes=True),
    )
    assert made.done.code == 0, made.done.err
    assert "Now working in" in made.results[0], made.results
    assert "uncommitted" in made.results[2]
    assert "removed" in made.results[3], made.results
    assert not (everywhere.workspace / ".worktrees" / "apart").exists()
    everywhere.unharmed(made)
