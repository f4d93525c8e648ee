"""A start without descriptors or memory leaves no session unconfined, neither itself nor any that follows."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.world import call, text
from tests.program import PROGRAM
from tests.security.world import Den

LIMITS = (10, 12, 14, 16, 18, 20, 24, 28, 32, 40)
"""From where Python itself hardly starts to where all goes well."""


def started(den: Den, descriptors: int) -> subprocess.CompletedProcess[bytes]:
    script = f'ulimit -n {descriptors}; exec "$@"'
    argv = ["/bin/bash", "-c", script, "sh", str(PROGRAM), "agent", "-m", "go"]
    return subprocess.run(
        argv, env=den.cli.env, cwd=den.cli.cwd, input=b"y\n" * 9, capture_output=True, timeout=120, check=False
    )


@pytest.mark.parametrize("known", [False, True])
def test_a_start_for_want_of_descriptors_leaves_nobody_unconfined(known: bool, world: Den) -> None:
    """Whether it has to be tried first or is known to work: where it does not start, the call fails."""
    canary = Path("/var/tmp", f"adderclaw-trial-{os.getpid()}")
    (world.workspace / "out.py").write_text(f"open({str(canary)!r}, 'w')")
    world.configure("full")
    if known:
        world.attack("touch first")
    world.script(call("Bash", command="python3 out.py"), text("done"))
    world.prepare()
    kept, log = world.cli.data / "cache" / "confinement", world.cli.data / "tool_receipts.log"
    for descriptors in LIMITS:
        if not known:
            kept.unlink(missing_ok=True)
        done = started(world, descriptors)
        assert not canary.exists(), (descriptors, done.stderr)
        assert not kept.exists() or kept.read_text().splitlines()[1] == "bubblewrap", (descriptors, kept.read_text())
    found = {receipt["decision"]["sandbox"] for receipt in world.receipts()} if log.exists() else set[str]()
    assert found <= {"bubblewrap"}
    made = world.attack("touch here", arguments=("--profile", "sandboxed"))
    assert made.receipts[0]["decision"]["sandbox"] == "bubblewrap"
    assert (world.workspace / "here").exists(), made.done.err


def test_doctor_says_that_it_could_not_try(world: Den) -> None:
    world.prepare()
    script = 'ulimit -n 20; exec "$@"'
    argv = ["/bin/bash", "-c", script, "sh", str(PROGRAM), "doctor", "--output-format", "json"]
    done = subprocess.run(argv, env=world.cli.env, cwd=world.cli.cwd, capture_output=True, timeout=120, check=False)
    check = next(check for check in json.loads(done.stdout)["checks"] if check["name"] == "sandbox")
    assert check["state"] == "broken", check
    assert "nothing weaker" in check["detail"]
    assert done.returncode == 1
