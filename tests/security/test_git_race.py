"""A background task exchanges folders for links to git directories while git writes, and while mounts are made."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from adderclaw.sandbox import confinement, process
from adderclaw.sandbox.box import Box
from adderclaw.sandbox.bubblewrap import SandboxSpec
from adderclaw.sandbox.protected_paths import Change
from tests.program import Soak
from tests.sandbox import escapes
from tests.sandbox.test_process import wait_for
from tests.trial import why_not

EVIL = '[core]\n\tfsmonitor = "touch {mark}; false"\n'
TARGETS = {"git": ".git", "info": ".git/info", "modules": ".git/modules/x", "sub": "part/.git"}
"""Folder in the work tree → what it becomes a link to. Each is tracked with what would do harm there."""
NAMES = ("config", "config.worktree", "attributes", "commondir", "hooks/post-checkout")
SWAP = """
import ctypes, os
libc, count, targets = ctypes.CDLL(None), 0, {targets}
def mend(name, target):
    # git puts a folder in the place of a link
    if not os.path.islink(name) and not os.path.islink(name + ".link"):
        os.path.lexists(name + ".link") and os.rename(name + ".link", "gone%d" % count)
        os.symlink(target, name + ".link")
while True:
    for name, target in targets.items():
        try:
            mend(name, target)
            for _ in range(20):
                count += not libc.renameat2(-100, name.encode(), -100, name.encode() + b".link", 2)
        except OSError:
            pass
    with open("count.new", "w") as file:
        file.write(str(count))
    os.rename("count.new", "count")
"""
MOVES = """
import ctypes, os, shutil
libc, count = ctypes.CDLL(None), 0
def tried(function, *arguments):
    try:
        function(*arguments)
    except OSError:
        pass
def planted(top):
    for inner in ("hooks", "objects", "refs"):
        os.makedirs(top + "/.git/" + inner, exist_ok=True)
    with open(top + "/.git/HEAD", "w") as file:
        file.write("ref: refs/heads/main")
names = 0
while True:
    for number in range(names, names + 4):
        one, other = "new%d" % number, "other%d" % number
        tried(planted, one)
        tried(os.symlink, {away!r}, other)
        for _ in range(20):
            count += not libc.renameat2(-100, one.encode(), -100, other.encode(), 2)
        tried(os.rename, one, "moved%d" % number)
        tried(os.rename, "moved%d" % number, one)
        for name in (one, other, "moved%d" % number):
            os.path.islink(name) and tried(os.unlink, name)
            shutil.rmtree(name, ignore_errors=True)
    names += 4 * os.path.lexists("new%d" % names)  # a mount by now, which cannot be moved any more
    for place in (".git/hooks/post-checkout", "part/.git/hooks/post-checkout", "part/.git/config"):
        try:
            open(place, "w").write({evil!r})
        except OSError:
            pass
    with open("count.new", "w") as file:
        file.write(str(count))
    os.rename("count.new", "count")
"""


class Noted:
    """What was reported, by names within the workspace."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.names: set[str] = set()

    def record_first(self, items: Mapping[str, str], roots: Sequence[str]) -> Sequence[Change]:
        return ()

    def record_widened(self, items: Mapping[str, str], roots: Sequence[str]) -> None:
        raise AssertionError("no directory is added here")

    def record_changes(self, changes: Sequence[Change], items: Mapping[str, str]) -> None:
        self.names |= {os.path.relpath(change.path, self._root) for change in changes}


def git(root: Path, *words: str) -> None:
    """The user's own."""
    argv = ["git", "-c", "user.name=me", "-c", "user.email=me@example.org", *words]
    subprocess.run(argv, cwd=root, check=True, timeout=60, capture_output=True)


@pytest.fixture
def root(home: Path, tmp_path: Path) -> Path:
    """Two branches with harmful files in each folder that can become a link to a git directory."""
    folder = tmp_path / "ws"
    (folder / "part").mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    git(folder / "part", "init", "-q")
    (folder / ".git/info/exclude").write_text("part\ncount*\n*.link\ngone*\nnew*\nother*\nmoved*\n")
    for branch in ("one", "two"):
        git(folder, "checkout", "-q", "--orphan", branch)
        for name in (f"{top}/{inner}" for top in TARGETS for inner in NAMES):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(EVIL.format(mark=tmp_path / "ran") + f"# {branch}\n")
        git(folder, "add", "-A", "-f", *TARGETS)
        git(folder, "commit", "-q", "-m", branch)
    (folder / ".git/modules/x").mkdir(parents=True)
    return folder


@pytest.fixture
def noted(root: Path) -> Noted:
    return Noted(root)


@pytest.fixture
def box(root: Path, noted: Noted) -> Generator[Box]:
    if why := why_not("bubblewrap"):
        pytest.skip(f"bubblewrap does not start on this machine: {why}")
    made = confinement.create_box("bubblewrap", SandboxSpec((str(root),)), tell=lambda _: None, recorder=noted)
    yield made
    made.close()


def state(root: Path) -> dict[str, str]:
    """Every setting and hook of the git directories."""
    places = [root / top / name for top in TARGETS.values() for name in NAMES]
    return {str(place): place.read_text() for place in places if place.exists()}


@asynccontextmanager
async def beside(box: Box, root: Path, text: str) -> AsyncGenerator[None]:
    """While this runs in the background, in the sandbox like every other command."""
    argv = [f"{sys.base_prefix}/bin/python3", "-c", text]
    run = process.run(argv, cwd=str(root), env=process.environment(workspace_roots=()), timeout=3000, start=box.start)
    task = asyncio.ensure_future(run)
    await asyncio.to_thread(wait_for, lambda: task.done() or (root / "count").exists(), 60, "the task to begin")
    assert not task.done(), task.result()
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


def swaps(root: Path) -> int:
    return int((root / "count").read_text())


async def checked_out(box: Box, root: Path, branch: str) -> int:
    argv = ["/bin/bash", "-c", f"rm -f .git/index.lock; git checkout -q -f {branch}"]
    start = process.in_view(box.start, "git")
    return (
        await process.run(argv, cwd=str(root), env=process.environment(workspace_roots=()), timeout=60, start=start)
    ).returncode


@pytest.mark.soak
def test_no_checkout_writes_the_models_text_into_a_git_directory(
    box: Box, root: Path, tmp_path: Path, soak: Soak
) -> None:
    before, rounds = state(root), len(soak.of(600))

    async def race() -> list[int]:
        async with beside(box, root, SWAP.format(targets=TARGETS)):
            return [await checked_out(box, root, ("one", "two")[number % 2]) for number in range(rounds)]

    codes = asyncio.run(race())
    assert codes.count(0) > rounds / 2, "most of them checked something out"
    assert swaps(root) > 10 * rounds
    assert state(root) == before
    git(root, "status")
    git(root / "part", "status")
    assert not (tmp_path / "ran").exists()


@pytest.mark.soak
def test_mounts_that_are_made_while_folders_change_places_keep_what_they_have_to(
    box: Box, root: Path, tmp_path: Path, noted: Noted, soak: Soak
) -> None:
    before, rounds = state(root), len(soak.of(600))
    text = MOVES.format(away=str(tmp_path), evil=EVIL.format(mark=tmp_path / "ran"))

    async def race() -> list[str]:
        async with beside(box, root, text):
            done = [await escapes.bash("echo there", box, root) for _ in range(rounds)]
        return [one.stdout.decode() for one in done]

    said = asyncio.run(race())
    assert said == ["there\n"] * rounds, "no task that moves folders keeps commands from running"
    assert swaps(root) > 10 * rounds
    assert state(root) == before
    assert not noted.names & {".git/hooks/post-checkout", "part/.git/config"}
    git(root, "status")
    assert not (tmp_path / "ran").exists()
    assert not {*os.listdir(tmp_path)} - {"ws", "home"}
