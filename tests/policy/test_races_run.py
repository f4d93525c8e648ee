"""Commands that are judged and really run while a thread swaps paths of the workspace for links that lead out of it."""

import asyncio
import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from adderclaw import policy as gate
from adderclaw.config.schema import Config, Security
from adderclaw.core.host import ToolContext
from adderclaw.core.types import Workspace
from adderclaw.policy.case import Case
from adderclaw.sandbox import confinement
from adderclaw.sandbox.bubblewrap import SandboxSpec
from adderclaw.tools import shell
from adderclaw.tools.paths import PathRefused
from adderclaw.tools.shell import BashArguments, CommandSetup
from tests.program import Soak

ROUNDS = 2_000
SECRET = "outside, and not to be seen"
READING = (
    "cat door/*",
    "head -n 1 door/*.txt",
    "grep -r . door",
    "cat door/b.txt",
    "cd door && cat *",
    "wc -c < door/b.txt",
)
WRITING = (
    "echo changed > door/b.txt",
    "echo more >> door/new.txt",
    "cp b.txt door/b.txt",
    "touch door/b.txt door/made.txt",
    "cd door && echo changed > b.txt",
    "tee door/b.txt < b.txt",
    "for f in door/*; do echo changed > $f; done",
)
UNNAMED = ("cat door/*", "head -n 1 door/*.txt", "for f in door/*; do cat $f; done", "ls door/* && cat door/[a-z]*.txt")
"""Commands whose names come from a glob: those outside have other names."""


class Land(NamedTuple):
    """A workspace, and beside it what must be neither read nor changed."""

    root: Path
    outside: Path

    def planted(self, name: str) -> "Land":
        (self.root / "door").mkdir(parents=True)
        (self.root / "door/b.txt").write_text("inside\n")
        (self.root / "b.txt").write_text("inside\n")
        self.outside.mkdir()
        (self.outside / name).write_text(SECRET)
        return self

    def seen_outside(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.outside.iterdir()}

    @contextmanager
    def swapping(self) -> Generator[None]:
        door, aside, done = self.root / "door", self.root / "aside", threading.Event()

        def swap() -> None:
            while not done.is_set():
                with suppress(OSError):
                    os.rename(door, aside)
                    os.symlink("../out", door)
                    done.wait(0.0005)
                    os.unlink(door)
                    os.rename(aside, door)
                done.wait(0.0005)

        thread = threading.Thread(target=swap)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


async def allowed_and_run(command: str, ctx: ToolContext, policy: gate.Policy, means: CommandSetup) -> str | None:
    """What a command printed, or None where it was refused."""
    arguments = BashArguments(command=command, timeout=20_000)
    try:
        prepared = shell.prepare(arguments, ctx, means)
    except (PathRefused, OSError, ValueError):
        return None
    if gate.judge(Case("Bash", "Bash", {"command": command}, prepared.touch, policy)).verdict != "allow":
        return None
    return (await prepared.run()).content


def policy_of(root: Path, home: Path, *, sandboxed: bool) -> gate.Policy:
    config = Config(security=Security(autonomy="full"))
    return gate.policy_of(config, str(root), str(home), sandboxed=sandboxed, autonomy_set=True)


async def played(land: Land, commands: tuple[str, ...], rounds: range, means: CommandSetup, *, sandboxed: bool) -> int:
    ctx = ToolContext("c", "s", Workspace(str(land.root)))
    policy = policy_of(land.root, land.root.parent / "home", sandboxed=sandboxed)
    before = land.seen_outside()
    ran = 0
    for number in rounds:
        command = commands[number // 6 % len(commands)]
        printed = await allowed_and_run(command, ctx, policy, means)
        ctx.workspace.cwd = ctx.workspace.root
        if printed is not None:
            ran += 1
            assert SECRET not in printed, command
            assert land.seen_outside() == before, command
    return ran


@pytest.mark.soak
def test_in_the_sandbox_nothing_outside_is_read_or_changed(
    tmp_path: Path, soak: Soak, needs: Callable[[str], str]
) -> None:
    """The files outside have the same names as those inside: only the sandbox stands between."""
    needs("bwrap")
    land = Land(tmp_path / "ws", tmp_path / "out").planted("b.txt")
    box = confinement.create_box("bubblewrap", SandboxSpec(roots=(str(land.root),)))
    try:
        with land.swapping():
            setup = CommandSetup(box.start)
            ran = asyncio.run(played(land, (*READING, *WRITING), soak.of(ROUNDS), setup, sandboxed=True))
    finally:
        box.close()
    assert ran > len(soak.of(ROUNDS)) // 80, "too few were allowed for this to show anything"


@pytest.mark.soak
def test_without_a_sandbox_no_glob_leads_outside(tmp_path: Path, soak: Soak) -> None:
    """Full autonomy and nothing that confines: what a glob matches was looked up inside, so no name is from outside."""
    land = Land(tmp_path / "ws", tmp_path / "out").planted("secret.txt")
    with land.swapping():
        ran = asyncio.run(played(land, UNNAMED, soak.of(ROUNDS), CommandSetup(), sandboxed=False))
    assert ran > len(soak.of(ROUNDS)) // 80, "too few were allowed for this to show anything"
