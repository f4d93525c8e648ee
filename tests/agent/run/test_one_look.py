"""The verdict on a command and its sandbox look at the workspace by the same look: no folder is read twice."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = """
import asyncio, sys
from adderclaw.agent.run import Options, start
from adderclaw.agent.run.tool_environment import tool_environment
from adderclaw.sandbox import process
from adderclaw.core.types import Touch
root = sys.argv[1]
runtime = start(Options(workspace=root, config_file=sys.argv[2], log_level="error"))
here, read = tool_environment(runtime, None), []
sys.addaudithook(lambda event, args: read.append(1) if event == "os.scandir" and isinstance(args[0], int) else None)
assert not here.unmasked(Touch())
first = len(read)
looking = process.in_view(here.kit.start, "read_only")
done = asyncio.run(process.run(["/bin/echo", "seen"], cwd=root, env={}, timeout=60, start=looking))
runtime.box.close()
print(done.stdout.decode().strip(), first, len(read) - first)
"""


def test_the_first_look_is_the_only_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, needs: Callable[[str], str]
) -> None:
    needs("bwrap")
    monkeypatch.setenv("ADDERCLAW_HOME", str(tmp_path / "home"))
    root, config = tmp_path / "ws", tmp_path / "config.toml"
    for number in range(100):
        (root / f"{number}").mkdir(parents=True)
    config.write_text('[permissions]\ndeny = ["Read(**/.env)"]\n')
    argv = [sys.executable, "-c", SCRIPT, str(root), str(config)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True)
    word, first, again = done.stdout.split()
    assert (word, int(first)) == ("seen", 101)
    assert int(again) < 10
