"""SIGINT is heard: in a pause that it came just before, and by every command whose starter had it ignored."""

import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from adderclaw.terminal.commands.replay import interrupt_in_pauses
from tests.acceptance.world import World, text
from tests.program import PROGRAM, Cli

LONG = 3000.0
"""Seconds that no test waits: what is not heard fails by the time limit of the test."""


@pytest.fixture
def swallowed() -> Iterator[None]:
    """As in a destructor: the handler ran, and nothing came of it."""

    def nothing(number: int, frame: object) -> None: ...

    before = signal.signal(signal.SIGINT, nothing)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("swallowed")
def test_a_signal_that_came_before_the_pause_ends_it() -> None:
    with interrupt_in_pauses() as pause:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            pause(LONG)


@pytest.mark.usefixtures("swallowed")
def test_a_signal_in_the_last_moment_counts() -> None:
    with pytest.raises(KeyboardInterrupt), interrupt_in_pauses():
        signal.raise_signal(signal.SIGINT)


def test_no_signal_is_no_interruption_and_nothing_is_left_behind() -> None:
    before = len(os.listdir("/proc/self/fd"))
    with interrupt_in_pauses() as pause:
        pause(0)
        pause(0.001)
    assert len(os.listdir("/proc/self/fd")) == before
    assert signal.set_wakeup_fd(-1) == -1


def events(cli: Cli, base: Path) -> list[str]:
    """`replay --event-stream` of a run whose model let it wait, so slowly that the answer is hours away."""
    world = World(cli, base)
    world.script({"delay_ms": 20, **text("hello")})
    assert world.agent("hi").code == 0
    return ["replay", str(world.rows("SELECT run_id FROM runs")[0][0]), "--event-stream", "--speed", "0.000001"]


@pytest.mark.parametrize("ignored", [True, False])
def test_a_stream_ends_at_once_however_it_was_started(cli: Cli, tmp_path: Path, ignored: bool) -> None:
    """`sh` without job control starts what stands before `&` with SIGINT ignored."""
    words = [str(PROGRAM), *events(cli, tmp_path), "--workspace", str(tmp_path / "workspace")]
    before = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"] if ignored else []
    with subprocess.Popen([*before, *words], stdout=-1, stderr=-1, env=cli.env, cwd=cli.cwd) as process:
        assert process.stdout is not None
        assert b"workspace_path" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=90)
    assert process.returncode == 130
    assert b"run_finished" not in out  # events of one millisecond are shown at once: how many those are is not ours
    assert b"Traceback" not in err


def test_the_first_ctrl_c_leaves_no_traceback() -> None:
    """It comes while the command line is still being imported."""
    module, _, function = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"][
        "scripts"
    ]["adderclaw"].partition(":")
    program = (
        "import os, sys\n"
        "class Early:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'adderclaw.terminal.commands':\n"
        "            os.kill(os.getpid(), 2)\n"
        "sys.meta_path.insert(0, Early())\n"
        f"from {module} import {function}\n"
        f"{function}()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "doctor"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")
