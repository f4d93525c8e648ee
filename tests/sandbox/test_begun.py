"""A sandbox that starts before its first command: it is what that command needs by then, or another takes its place."""

import asyncio
import contextlib
import os
import re
from collections.abc import Generator
from pathlib import Path

import pytest

from adderclaw.config.denied_names import NOTHING, DeniedNames
from adderclaw.sandbox import confinement
from adderclaw.sandbox.box import Box
from adderclaw.sandbox.bubblewrap import SandboxSpec
from adderclaw.sandbox.legacy.survey import Survey
from tests.sandbox import escapes
from tests.sandbox.test_process import gone, is_running
from tests.trial import why_not


class Given:
    """Says what commands see, as the sandbox contents of a session do."""

    def __init__(self, room: SandboxSpec, shut: DeniedNames = NOTHING) -> None:
        self.now, self._shut = room, shut

    def outline(self) -> SandboxSpec:
        return self.now

    def shut(self) -> DeniedNames:
        return self._shut

    def spec(self, outline: SandboxSpec, survey: Survey) -> SandboxSpec:
        del survey
        return outline


@pytest.fixture
def root(home: Path, tmp_path: Path) -> Path:
    del home
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/a.txt").write_text("alpha\n")
    return tmp_path / "ws"


@pytest.fixture
def told() -> list[str]:
    return []


EARLIER: set[int] = set()
"""What other tests have left, on a busy machine, which ends by and by."""


@pytest.fixture
def box(root: Path, told: list[str]) -> Generator[Box]:
    if why := why_not("bubblewrap"):
        pytest.skip(f"bubblewrap does not start on this machine: {why}")
    made = confinement.create_box("bubblewrap", SandboxSpec((str(root),)), tell=told.append)
    EARLIER.update(children())
    yield made
    made.close()


def children() -> list[int]:
    """What we have started: nothing but sandboxes, here."""
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        found = file.read().split()
    pids = [int(pid) for pid in found if int(pid) not in EARLIER]
    return [pid for pid in pids if is_running(pid)]


def of_group(leader: int) -> list[str]:
    """The processes of a group that has lost its leader, or has not; one that has ended is none."""
    found: list[str] = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            words = place.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if words[2] == str(leader) and words[0] not in "ZX":
                found.append(place.parent.name)
    return found


def cat(box: Box, root: Path) -> str:
    return asyncio.run(escapes.bash("cat a.txt", box, root, 60)).stdout.decode()


def test_the_first_command_runs_in_it(box: Box, root: Path, told: list[str]) -> None:
    box.prestart(Given(SandboxSpec((str(root),))))
    begun = children()
    box.prestart(Given(SandboxSpec((str(root),))))
    assert len(begun) == 1
    assert cat(box, root) == "alpha\n"
    assert (children(), told) == (begun, [])


def test_nothing_is_left_of_it_without_a_command(box: Box, root: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    box.prestart(Given(SandboxSpec((str(root),))))
    (begun,) = children()
    assert is_running(begun)
    box.close()
    gone(begun)
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_was_hidden_meanwhile_is_hidden_from_the_first_command(box: Box, root: Path, told: list[str]) -> None:
    """And nobody is told of a sandbox that was started again: nothing was in the first."""
    given = Given(SandboxSpec((str(root),)))
    box.prestart(given)
    begun = children()
    given.now = SandboxSpec((str(root),), hidden=(str(root / "a.txt"),))
    assert cat(box, root) == ""
    assert children() != begun
    assert told == []


def test_one_that_has_ended_is_replaced(box: Box, root: Path, told: list[str]) -> None:
    box.prestart(Given(SandboxSpec((str(root),))))
    (begun,) = children()
    os.kill(begun, 9)
    assert cat(box, root) == "alpha\n"
    assert told == []
    assert of_group(begun) == []  # bwrap alone would leave a child that waits for it


def test_where_rules_need_a_look_nothing_starts_ahead(box: Box, root: Path) -> None:
    box.prestart(Given(SandboxSpec((str(root),)), DeniedNames(re.compile("x"))))
    assert children() == []
    assert cat(box, root) == "alpha\n"
