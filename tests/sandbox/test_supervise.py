"""The supervisor of Landlock: what becomes of a call when it is not there, and what commands can do to it."""

import asyncio
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from adderclaw.sandbox import confinement, seccomp
from adderclaw.sandbox.box import NO_SUPERVISOR, Box
from adderclaw.sandbox.bubblewrap import SandboxSpec
from adderclaw.sandbox.process import Finished
from tests.sandbox import escapes
from tests.sandbox.test_process import wait_for
from tests.trial import why_not

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def root(home: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "a.txt").write_text("alpha\n")
    (tmp_path / "far.txt").write_text("far\n")
    return folder


@pytest.fixture
def box(root: Path) -> Generator[Box]:
    if why := why_not("landlock"):
        pytest.skip(f"no Landlock here: {why}")
    made = confinement.create_box("landlock", SandboxSpec((str(root),)))
    yield made
    made.close()


def run(text: str, box: Box, root: Path) -> Finished:
    return asyncio.run(escapes.bash(text, box, root))


def supervisor_of(box: Box) -> int:
    inside = getattr(box, "_backend")  # noqa: B009 - what the session has open, which nobody else can reach
    return inside._process.pid


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_modes_owners_times_and_attributes_are_changed_inside(box: Box, root: Path) -> None:
    text = "chmod 640 a.txt && touch -d @7 a.txt && ln -s a.txt link && touch -h -d @9 link && chown -h $(id -u) link"
    done = run(f"{text} && chown $(id -u):$(id -g) a.txt", box, root)
    assert (done.returncode, done.stderr) == (0, b"")
    assert mode(root / "a.txt") == 0o640
    assert (root / "a.txt").stat().st_mtime == 7
    assert (root / "link").lstat().st_mtime == 9
    code = "import os; os.setxattr('a.txt', 'user.x', b'y' * 3000); os.removexattr('a.txt', 'user.x')"
    code += "; os.setxattr('a.txt', 'user.z', b''); os.utime('a.txt', ns=(1, 2_000_000_003))"
    assert run(f'{escapes.PYTHON} -c "{code}"', box, root).returncode == 0
    assert os.listxattr(root / "a.txt") == ["user.z"]
    assert (root / "a.txt").stat().st_mtime_ns == 2_000_000_003


@pytest.mark.parametrize(
    "code",
    [
        "os.setxattr('a.txt', 'security.capability', bytes.fromhex('0100000200000000' + '00' * 12))",
        "os.setxattr('a.txt', 'trusted.x', b'y')",
        "os.chmod('no such file', 0o644)",
        "os.chmod('', 0o644)",
        "os.chmod('x' * 5000, 0o644)",
        "os.fchmod(77, 0o644)",
        "os.chmod('/proc/self/fd/77', 0o644)",
        "os.chmod('/proc/self/cwd/a.txt', 0o600)",
        "os.chmod('/proc/self/root', 0o755)",
        "os.fchmod(os.pipe()[0], 0o600)",
        "os.chmod('/dev/null', 0o600)",
        "os.fchmod(os.open('/dev/null', os.O_RDWR), 0o600)",
        "os.chmod('../far.txt', 0o600)",
        "os.chmod('a.txt/../../far.txt', 0o600)",
        "fail(libc.chmod(ctypes.c_void_p(1), 0o644))",
        "fail(libc.chmod(ctypes.c_void_p(-1), 0o644))",
        "fail(libc.utimensat(-100, b'a.txt', ctypes.c_void_p(1), 0))",
        "fail(libc.utimensat(-100, b'a.txt', None, 0x4000))",
        "fail(libc.setxattr(b'a.txt', b'user.x', ctypes.c_void_p(1), 5, 0))",
        "fail(libc.setxattr(b'a.txt', b'user.x', b'y', ctypes.c_size_t(1 << 40), 0))",
    ],
)
def test_what_it_does_not_do_is_an_error_and_it_goes_on(code: str, box: Box, root: Path) -> None:
    begin = "import ctypes, os; libc = ctypes.CDLL(None, use_errno=True)"
    fail = "def fail(answer):\n    if answer: raise OSError(ctypes.get_errno(), 'failed')"
    script = f"{begin}\n{fail}\ntry:\n    {code}\nexcept OSError as error:\n    print('refused', error.errno)"
    (root / "way.py").write_text(script)
    done = run(f"{escapes.PYTHON} way.py", box, root)
    assert done.stdout.startswith(b"refused "), (done.stdout, done.stderr)
    assert int(done.stdout.split()[1]) > 0
    assert run("chmod 604 a.txt", box, root).returncode == 0
    assert mode(root / "a.txt") == 0o604
    assert mode(root.parent / "far.txt") == 0o644


def test_commands_cannot_reach_it(box: Box, root: Path) -> None:
    run("true", box, root)
    pid = supervisor_of(box)
    ways = (f"kill -9 {pid}", f"kill -STOP {pid}", f"cat /proc/{pid}/environ", f"head -c1 /proc/{pid}/mem")
    ways = (*ways, f"ls -l /proc/{pid}/fd/", f"ls /proc/{pid}/cwd/")
    assert [way for way in ways if run(way, box, root).returncode == 0] == []
    assert run("chmod 600 a.txt", box, root).returncode == 0


def test_a_process_whose_memory_cannot_be_read_changes_nothing(root: Path, box: Box) -> None:
    code = "import ctypes, os; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); os.chmod('../far.txt', 0o666)"
    assert b"PermissionError" in run(f'{escapes.PYTHON} -c "{code}"', box, root).stderr
    assert mode(root.parent / "far.txt") == 0o644


def test_without_its_supervisor_nothing_runs_and_nothing_is_changed(box: Box, root: Path) -> None:
    """However it died: what it started dies with it, and the next command has another."""
    script = "echo $$ > pid; touch began; while :; do chmod 666 ../far.txt a.txt; done"

    async def killed() -> Finished:
        task = asyncio.create_task(escapes.bash(script, box, root))
        await asyncio.to_thread(wait_for, (root / "began").exists, 60, "the command to begin")
        os.kill(supervisor_of(box), signal.SIGKILL)
        return await task

    assert asyncio.run(killed()).returncode != 0
    assert not Path(f"/proc/{(root / 'pid').read_text().strip()}/exe").exists()
    assert mode(root.parent / "far.txt") == 0o644
    assert run("chmod 601 a.txt", box, root).returncode == 0
    assert mode(root / "a.txt") == 0o601


# ------------------------------------------------------------------ where the kernel has no such thing

LISTENER = 8
WITHOUT = """
import asyncio, ctypes, sys
from pathlib import Path
code = bytes.fromhex(sys.argv[1])
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]
libc = ctypes.CDLL(None, use_errno=True)
zero = ctypes.c_ulong(0)
assert libc.prctl(38, ctypes.c_ulong(1), zero, zero, zero) == 0
program = Program(len(code) // 8, code)
assert libc.prctl(22, ctypes.c_ulong(2), ctypes.byref(program), zero, zero) == 0
from adderclaw.sandbox import confinement
from adderclaw.sandbox.bubblewrap import SandboxSpec
from tests.sandbox import escapes
root = Path(sys.argv[2])
box = confinement.create_box("landlock", SandboxSpec((str(root),)), tell=lambda message: print("told:", message))
for text in ("chmod 666 ../far.txt", "chmod 600 a.txt", ": > new && mkdir d && cat a.txt", "true"):
    done = asyncio.run(escapes.bash(text, box, root))
    print(done.returncode, done.stdout)
box.close()
"""


def no_listeners() -> bytes:
    """A filter as some containers have one: whoever wants to be asked about calls is told that it cannot be."""
    install = seccomp.INSTALL[os.uname().machine]
    steps = [(0x20, 0, 0, 0), (0x15, 0, 3, install), (0x20, 0, 0, 24), (0x45, 0, 1, LISTENER)]
    steps += [(0x06, 0, 0, 0x00050000 | 22), (0x06, 0, 0, 0x7FFF0000)]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def test_where_no_supervisor_can_be_asked_all_such_calls_are_refused_and_that_is_reported_once(
    box: Box, root: Path
) -> None:
    argv = [sys.executable, "-c", WITHOUT, no_listeners().hex(), str(root)]
    done = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()
    lines = done.stdout.decode().splitlines()
    assert lines == [f"told: {NO_SUPERVISOR}", "1 b''", "1 b''", "0 b'alpha\\n'", "0 b''"]
    assert (mode(root.parent / "far.txt"), mode(root / "a.txt")) == (0o644, 0o644)
