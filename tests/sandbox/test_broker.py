"""The broker's own programs: none of them goes on, and no descriptor stays open, when the call of git is over."""

import asyncio
import os
import socket
import sys
import time
from pathlib import Path

import pytest

from adderclaw.sandbox.broker import Broker, Grant
from tests.credentials.making import gone

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the broker works on Linux alone")

GRANT = Grant("ssh", "git", "host.example", 0, "/x.git", "git-upload-pack")
ASKED = b"ssh\0\0git@host.example\0git-upload-pack '/x.git'"
LASTS = '#!/bin/sh\nsleep 60 &\necho $$ $! > "{pids}"\nwait\n'


@pytest.mark.parametrize("turns", range(8))
def test_nothing_is_left_whenever_the_call_ends(turns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In each turn of the loop: asked and not begun, begun and not answered. Then the whole loop ends at once."""
    pids, ssh = tmp_path / "pids", tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(LASTS.format(pids=pids), encoding="utf-8")
    ssh.chmod(0o755)
    monkeypatch.setenv("ADDERCLAW_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
    before = len(os.listdir("/proc/self/fd"))

    async def asked() -> None:
        with Broker((GRANT,), ()) as broker:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            there = socket.socket(fileno=os.dup(broker.fds[0]))
            socket.send_fds(there, [ASKED], [theirs.fileno()])
            for _ in range(turns):
                await asyncio.sleep(0)
            for _ in range(300 if turns > 3 else 0):  # it has been started: its own child shall run, too
                if pids.exists() and pids.read_text(encoding="utf-8").endswith("\n"):
                    break
                time.sleep(0.01)  # noqa: ASYNC251 - the loop must not go on
            for one in (ours, theirs, there):
                one.close()

    asyncio.run(asked())
    assert len(os.listdir("/proc/self/fd")) == before
    assert pids.exists() or turns <= 3
    time.sleep(0.1)
    assert not pids.exists() or all(gone(int(pid)) for pid in pids.read_text(encoding="utf-8").split())
