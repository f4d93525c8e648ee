"""The broker's own programs: none of them goes on, and no descriptor stays open, when the call of git is over."""

import asyncio
import contextlib
import gc
import os
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

from adderclaw.sandbox.broker import MAX_ASKED, Broker, Grant
from tests.models.credentials.making import gone

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
    gc.collect()
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


@pytest.mark.parametrize(
    "kind", [b"none", b"ssh\0\0other.example\0git-upload-pack '/x.git'", b"credential\0\0", b"proxy\0\0"]
)
def test_a_channel_that_nobody_reads_stops_nobody(kind: bytes) -> None:
    """Whoever asks says by which socket: it may be full, and none of them may keep us waiting."""

    async def asked() -> float:
        with Broker((GRANT,), ()) as broker:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            theirs.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    theirs.send(b"x" * 1000)
            theirs.setblocking(True)
            there = socket.socket(fileno=os.dup(broker.fds[0]))
            socket.send_fds(there, [kind], [theirs.fileno(), theirs.fileno()])
            threading.Timer(2, ours.close).start()
            began = time.monotonic()
            for _ in range(8):
                await asyncio.sleep(0.01)
            return time.monotonic() - began

    assert asyncio.run(asked()) < 1


@pytest.mark.parametrize("kind", [b"none", b"proxy\0\0"])
def test_what_is_no_socket_is_closed(kind: bytes, tmp_path: Path) -> None:
    gc.collect()  # what tests before it left is closed here, and not within
    before = len(os.listdir("/proc/self/fd"))
    wrong: list[object] = []

    async def asked() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: wrong.append(context))
        with Broker((GRANT,), ()) as broker, (tmp_path / "file").open("w") as file:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with ours, theirs, socket.socket(fileno=os.dup(broker.fds[0])) as there:
                for first in (file, theirs):
                    socket.send_fds(there, [kind], [first.fileno(), file.fileno()])
                    for _ in range(4):
                        await asyncio.sleep(0.01)

    asyncio.run(asked())
    gc.collect()
    assert (len(os.listdir("/proc/self/fd")), wrong) == (before, [])


def test_no_more_programs_run_outside_than_so_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pids, ssh = tmp_path / "pids", tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(f'#!/bin/sh\necho $$ >> "{pids}"\nexec sleep 60\n', encoding="utf-8")
    ssh.chmod(0o755)
    monkeypatch.setenv("ADDERCLAW_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")

    async def asked() -> list[int]:
        with Broker((GRANT,), ()) as broker, socket.socket(fileno=os.dup(broker.fds[0])) as there:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with ours, theirs:
                for _ in range(MAX_ASKED + 20):
                    socket.send_fds(there, [ASKED], [theirs.fileno()])
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0.5)
            return [int(pid) for pid in pids.read_text(encoding="utf-8").split()]

    started = asyncio.run(asked())
    assert len(started) == MAX_ASKED
    time.sleep(0.1)
    assert all(map(gone, started))
