"""Folders that killed programs left in /tmp are removed, and no name that somebody else made there is in the way."""

import os
import subprocess
import sys
from pathlib import Path

from adderclaw.sandbox import clearing

NAMES = ["adderclaw-²-x", "adderclaw-x-1", "adderclaw-", f"adderclaw-{10**30}-x", "adderclaw-0-x", "other-1-x"]
"""No process: not swept, and no error. 0 would be our own process group."""


def ended() -> int:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


def test_only_the_folders_of_ended_programs_are_swept(tmp_path: Path) -> None:
    stays = {*NAMES, f"adderclaw-{os.getpid()}-x"}
    for name in stays:
        (tmp_path / name).mkdir()
    dead = ended()
    (tmp_path / f"adderclaw-{dead}-x" / "deep" / "er").mkdir(parents=True)
    (tmp_path / f"adderclaw-{dead}-file").write_text("")
    (tmp_path / f"adderclaw-{dead}-link").symlink_to(tmp_path / "other-1-x")
    clearing.sweep(str(tmp_path))
    assert {one.name for one in tmp_path.iterdir()} == {*stays, f"adderclaw-{dead}-file", f"adderclaw-{dead}-link"}
