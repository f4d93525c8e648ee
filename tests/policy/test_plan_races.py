"""Names that change between the verdict and the run: what runs is what was judged, and nothing outside is reached."""

import os
import threading
from pathlib import Path

import pytest

from adderclaw.core.host import ToolContext
from adderclaw.core.types import Workspace
from adderclaw.policy.legacy.shell.planner import Plan, simples
from adderclaw.tools import shell
from adderclaw.tools.shell import BashArguments
from tests.program import Soak
from tests.tools.conftest import result_of


@pytest.fixture
def ctx(tmp_path: Path) -> ToolContext:
    root = tmp_path / "ws"
    (root / "in").mkdir(parents=True)
    (root / "in/a.txt").write_text("inside\n")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/secret.txt").write_text("outside\n")
    return ToolContext("c", "s", Workspace(str(root)))


def test_what_a_glob_matched_when_it_was_judged_is_what_runs(ctx: ToolContext) -> None:
    root = Path(ctx.workspace.root)
    arguments = BashArguments(command="echo in/*")
    prepared = shell.prepare(arguments, ctx)
    (root / "in/-later").write_text("x")
    again = shell.prepare(arguments, ctx)
    assert result_of(prepared).content == "in/a.txt\n"
    assert result_of(again).content == "in/-later in/a.txt\n"


def test_a_command_runs_where_it_was_judged(ctx: ToolContext) -> None:
    prepared = shell.prepare(BashArguments(command="pwd"), ctx)
    ctx.workspace.cwd = str(Path(ctx.workspace.root) / "in")
    assert result_of(prepared).content == f"{ctx.workspace.root}\n"


@pytest.mark.soak
def test_a_folder_that_is_swapped_for_a_link_shows_no_name_from_outside(ctx: ToolContext, soak: Soak) -> None:
    root = Path(ctx.workspace.root)
    door, done = root / "door", threading.Event()
    door.mkdir()
    (door / "b.txt").write_text("inside\n")

    def swap() -> None:
        while not done.is_set():
            os.rename(door, root / "aside")
            os.symlink("../out", door)
            os.unlink(door)
            os.rename(root / "aside", door)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in soak.of(2_000):
            try:
                command = shell.prepare(BashArguments(command="cat door/*.txt"), ctx).touch.command
            except (OSError, ValueError):
                continue  # refused, as the kernel takes it
            if isinstance(command, Plan):
                words = simples(command)[0].words
                assert words in (("cat", "door/b.txt"), ("cat", "door/*.txt")), words
    finally:
        done.set()
        swapping.join()
    assert (root.parent / "out/secret.txt").read_text() == "outside\n"
