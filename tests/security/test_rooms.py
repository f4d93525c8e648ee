"""Servers and whatever only looks have rooms of their own: a hostile program in one reaches nobody in another."""

import asyncio
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path

import pytest

from adderclaw.sandbox import confinement, process
from adderclaw.sandbox.box import Box
from adderclaw.sandbox.bubblewrap import SandboxSpec
from adderclaw.sandbox.piped import start_piped
from adderclaw.sandbox.process import Finished, View
from tests.program import Soak
from tests.sandbox import escapes
from tests.security.world import as_nobody
from tests.trial import why_not

TOKEN = "hunter2-of-the-server"
SPY = f"""
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for name in filter(str.isdigit, os.listdir("/proc")):
    for file in ("environ", "cmdline", "maps"):
        try:
            if b"{TOKEN}" in open(f"/proc/{{name}}/{{file}}", "rb").read():
                print("read", file)
        except OSError:
            pass
for number in range(2, 400):
    if number in (os.getpid(), os.getppid()) or not os.path.exists(f"/proc/{{number}}"):
        continue
    print("sees", number, open(f"/proc/{{number}}/cmdline").read())
try:
    os.kill(-1, 9) if "kill" in sys.argv else None
except OSError:
    pass
"""
SERVER = """
import sys
print("up", flush=True)
for line in sys.stdin:
    print("still here", flush=True)
"""
QUEUE = 'import ctypes; exit(ctypes.CDLL("librt.so.1").mq_open(b"/mine", 0o102, 0o600, None) < 0)'
WRITES = {
    "a file": "echo x > new",
    "a file that is there": "echo x >> a.txt",
    "sort": "sort -o a.txt a.txt",
    "sed": "sed -i s/alpha/beta/ a.txt",
    "a mode": "chmod 777 a.txt",
    "a time": "touch -d 2001-01-01 a.txt",
    "a removal": "rm -f a.txt",
    "a rename": "mv a.txt b.txt",
    "git's settings": "git config core.fsmonitor ./evil",
    "git's index": "git add -A",
    "the home": "echo x > ~/x",
    "shared memory": "echo x > /dev/shm/x",
    "memory that outlives it": "ipcmk -M 100",
    "a semaphore": "ipcmk -S 1",
    "a queue": "ipcmk -Q",
    "a queue by name": f"{escapes.PYTHON} -c '{QUEUE}'",
    "a mount": "mount -o remount,rw / || mount -t tmpfs x /etc",
}
REACHES = {
    "a server of the session": "exec 3<>/dev/tcp/127.0.0.1/8123",
    "a socket in the workspace": f"{escapes.PYTHON} -c 'import socket; socket.socket(1).connect(\"s.sock\")'",
    "any socket": f"{escapes.PYTHON} -c 'import socket; socket.socket()'",
    "a command that runs": "grep -al '[s]erve.py' /proc/[0-9]*/cmdline",
    "its signal": "kill -9 -1; grep -al '[s]erve.py' /proc/[0-9]*/cmdline",
}
SERVE = """
import os, socket, socketserver
one = socket.socket(1); one.bind("s.sock"); one.listen()
two = socket.create_server(("127.0.0.1", 8123))
open("up", "w").close()
import time; time.sleep(1000)
"""


def workspace(root: Path) -> None:
    """A repository whose settings start a program with each look at it."""
    root.mkdir(exist_ok=True)
    (root / "a.txt").write_text("alpha\n")
    (root / "evil").write_text("#!/bin/sh\ntouch ran ~/ran /tmp/ran 2>/dev/null\necho > /dev/tcp/127.0.0.1/8123\n")
    (root / "evil").chmod(0o755)
    (root / "serve.py").write_text(SERVE)
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@y", "-C", str(root)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "a.txt"], check=True)
    subprocess.run([*git, "commit", "-qm", "first"], check=True)
    subprocess.run([*git, "config", "core.fsmonitor", "./evil"], check=True)
    (root / "spy.py").write_text(SPY)
    (root / "server.py").write_text(SERVER)


async def bash(text: str, box: Box, root: Path, view: View = "all") -> Finished:
    argv = ["/bin/bash", "--norc", "--noprofile", "-c", text]
    start = process.in_view(box.start, view)
    return await process.run(argv, cwd=str(root), env=process.environment(workspace_roots=()), timeout=120, start=start)


async def looks(box: Box, root: Path) -> None:
    serving = asyncio.ensure_future(bash("python3 serve.py", box, root))
    assert (await bash("until test -e up; do sleep 0.05; done; echo kept > /tmp/theirs", box, root)).returncode == 0
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in root.rglob("*") if path.is_file()}
    for name, text in WRITES.items():
        done = await bash(text, box, root, "read_only")
        assert done.returncode != 0, f"{name}: {done}"
    for name, text in REACHES.items():
        assert (await bash(text, box, root, "read_only")).returncode != 0, name
    status = await bash("unset GIT_CONFIG_COUNT; git status --short; git diff; cat a.txt", box, root, "read_only")
    assert status.stdout.endswith(b"alpha\n"), status
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in before} == before
    assert {path for path in root.rglob("*") if path.is_file()} == before.keys()
    first = await bash("cat /tmp/theirs; echo mine > /tmp/mine && cat /tmp/mine", box, root, "read_only")
    assert (first.returncode, first.stdout) == (0, b"mine\n"), first
    assert (await bash("ls -A /tmp | grep mine", box, root, "read_only")).returncode == 1
    assert (await bash("cat /tmp/theirs; ls -A /tmp | grep mine", box, root)).stdout == b"kept\n"
    assert not serving.done()
    serving.cancel()
    await asyncio.wait({serving})


async def spies(box: Box, root: Path) -> None:
    env = {**process.environment(workspace_roots=()), "TOKEN": TOKEN}
    servers = [
        await start_piped([escapes.PYTHON, "server.py", TOKEN], cwd=str(root), env=env, start=box.start)
        for _ in range(2)
    ]
    for server in servers:
        assert await server.stdout.readline() == b"up\n", server.errors
    views: tuple[View, ...] = ("all", "git", "read_only", "server", "offline")
    for view in views:
        done = await bash(f"{escapes.PYTHON} {root}/spy.py kill", box, root, view)
        assert (done.stdout, done.stderr) == (b"", b""), done
    for server in servers:
        server.stdin.write(b"x\n")
        assert await server.stdout.readline() == b"still here\n", server.errors
        await server.stop()
    left = await bash("set -- /proc/[0-9]*; echo $#", box, root)
    assert left.stdout == b"2\n"


LEFT = {
    "a file": "echo mine > /tmp/mine",
    "a hidden folder": "mkdir /tmp/.mine",
    "a link": "ln -s a.txt /tmp/mine",
    "a pipe": "mkfifo /tmp/mine",
    "a file beside the workspace": "echo mine > ../mine",
    "a folder that leads to the workspace, renamed": "mv .. ../../mine",
    "a mode": "chmod 700 /tmp",
    "a time": "touch -d @1000 /tmp",
    "an attribute": 'python3 -c \'import os; os.setxattr("/tmp", "user.mine", b"1")\'',
    "the mode of a folder that leads to the workspace": "chmod 700 ..",
}
"""What a command that looks can leave in its /tmp, beneath which the workspace lies."""
SCRATCH = (
    "stat -c '%a %Y' /tmp .. | sed 's/ [0-9]\\{7,\\}$/ now/'; ls -A1 /tmp ..; pwd; "
    "python3 -c 'import os; print(os.listxattr(\"/tmp\"))'"
)


async def leaves(box: Box, root: Path) -> None:
    """Whatever one leaves, the next finds its /tmp as the first did; where nothing was left, it is the same one."""
    fresh = await bash(SCRATCH, box, root, "read_only")
    assert b"mine" not in fresh.stdout
    assert fresh.returncode == 0, fresh
    for name, text in LEFT.items():
        left = await bash(text, box, root, "read_only")
        done = await bash(SCRATCH, box, root, "read_only")
        assert (done.returncode, done.stdout) == (0, fresh.stdout), f"{name}: {left} {done}"
    numbers = [(await bash("stat -c %d /tmp; cat a.txt", box, root, "read_only")).stdout for _ in range(3)]
    assert len({*numbers}) == 1, "a new /tmp for nothing"


SCENES: dict[str, Callable[[Box, Path], Coroutine[None, None, None]]] = {
    "looks": looks,
    "spies": spies,
    "leaves": leaves,
}


def play(scene: str, root: Path) -> None:
    box = confinement.create_box("bubblewrap", SandboxSpec((str(root),)))
    try:
        asyncio.run(SCENES[scene](box, root))
    finally:
        box.close()


@pytest.fixture
def place() -> Generator[Path]:
    """A folder beneath /tmp that anybody may go into: pytest closes those of `tmp_path` whenever it starts again."""
    with tempfile.TemporaryDirectory(prefix="adderclaw-rooms-") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("who", ["root", "user"])
@pytest.mark.usefixtures("home")
def test_each_in_its_room(scene: str, who: str, place: Path) -> None:
    """looks: nothing is written, nobody reached. spies: no server's token is read, none is seen or ended. leaves: what
    one leaves in its /tmp, the next does not find."""
    if why := why_not("bubblewrap"):
        pytest.skip(f"bubblewrap does not start on this machine: {why}")
    home, root = place / "home", place / "ws"
    home.mkdir()
    workspace(root)
    if who == "user" and os.geteuid() == 0:
        for folder, _, files in os.walk(place):
            for path in (folder, *(os.path.join(folder, name) for name in files)):
                os.chown(path, 65534, 65534)
        argv = as_nobody([sys.executable, "-m", "tests.security.test_rooms", scene, str(root)])
        env = {"HOME": str(home), "ADDERCLAW_HOME": str(home / ".adderclaw"), "PATH": os.environ["PATH"]}
        here = Path(__file__).parents[2]
        done = subprocess.run(argv, cwd=here, env=env, capture_output=True, timeout=300, check=False)
        assert done.returncode == 0, f"{shlex.join(argv[-3:])}\n{done.stderr.decode()[-3000:]}"
    elif who == "user" or os.geteuid() == 0:
        play(scene, root)
    else:
        pytest.skip("whoever runs the tests is an ordinary user")


@pytest.mark.soak
@pytest.mark.usefixtures("home")
def test_looks_at_once_find_the_workspace_beneath_tmp(place: Path, soak: Soak) -> None:
    """Each round begins with a new /tmp, over which the workspace is mounted again, while another command works."""
    if why := why_not("bubblewrap"):
        pytest.skip(f"bubblewrap does not start on this machine: {why}")
    root = place / "ws"
    workspace(root)
    box = confinement.create_box("bubblewrap", SandboxSpec((str(root),)))

    async def rounds() -> None:
        for i in soak.of(120):
            look = f"ls -A /tmp | grep -c before; cat a.txt && touch /tmp/before-{i}"
            work = f"mkdir -p deep/{i % 7}/.github/workflows && cat a.txt"
            looking = [bash(look if n == 0 else "cat a.txt", box, root, "read_only") for n in range(3)]
            first, *others = await asyncio.gather(*looking, bash(work, box, root))
            assert (first.returncode, first.stdout) == (0, b"0\nalpha\n"), first
            assert [(done.returncode, done.stdout) for done in others] == [(0, b"alpha\n")] * 3, others

    try:
        asyncio.run(rounds())
    finally:
        box.close()


if __name__ == "__main__":
    play(sys.argv[1], Path(sys.argv[2]))
