"""The process that starts those of runs: what it hands on, and what becomes of runs when it sleeps."""

import os
import signal
import socket
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from adderclaw.fleet.keys import environment_for_runs
from adderclaw.fleet.warm import RunForker, RunProcess


@pytest.fixture
def warm() -> Generator[RunForker]:
    made = RunForker(environment_for_runs(os.environ), patience=6.0)
    yield made
    made.close()


def started(warm: RunForker, folder: Path) -> tuple[RunProcess, socket.socket]:
    """A process that waits for its order, and works in this folder already."""
    ours, theirs = socket.socketpair()
    with theirs, (folder / "log").open("ab") as log:
        process = warm.child(theirs, log.fileno(), str(folder), str(folder))
    limit = time.monotonic() + 30
    while Path(f"/proc/{process.pid}/cwd").readlink() != folder:
        assert time.monotonic() < limit
        time.sleep(0.01)
    return process, ours


def test_what_a_run_starts_cannot_speak_to_the_worker(warm: RunForker, tmp_path: Path) -> None:
    """Every descriptor of its process is closed in what that starts, also where nobody asks for it."""
    process, ours = started(warm, tmp_path)
    place = Path(f"/proc/{process.pid}")
    kept = [int(one.name) for one in (place / "fd").iterdir() if "socket" in str(one.readlink())]
    assert kept
    for number in kept:
        (flags,) = [line for line in (place / f"fdinfo/{number}").read_text().splitlines() if line.startswith("flags")]
        assert int(flags.split()[1], 8) & os.O_CLOEXEC, flags
    ours.close()
    assert process.wait(30) == -signal.SIGKILL


def test_one_that_sleeps_is_replaced(warm: RunForker, tmp_path: Path) -> None:
    first, link = started(warm, tmp_path)
    parent = int(Path(f"/proc/{first.pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(parent, signal.SIGSTOP)
    second, other = started(warm, tmp_path)
    assert first.poll() is None
    for process, end in ((first, link), (second, other)):
        end.close()
        assert process.wait(30) == -signal.SIGKILL
