"""The real sandbox: what a command inside it cannot do, and what it still can."""

import asyncio
import os
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from adderclaw.errors import AdderClawError
from adderclaw.sandbox import confinement, process
from adderclaw.sandbox.process import Finished
from tests.sandbox.test_process import gone, pid_in

type Needs = Callable[[str], str]


@pytest.fixture
def box(home: Path, tmp_path: Path, needs: Needs) -> Path:
    """A workspace with a repository in it, beside a home with secrets; skipped where no sandbox starts."""
    needs("bwrap")
    why = confinement.trial()
    if why:
        pytest.skip(f"bubblewrap does not start on this machine: {why}")
    root = tmp_path / "ws"
    (root / ".git" / "hooks").mkdir(parents=True)
    (root / ".git" / "config").write_text("[core]\n")
    (root / ".adderclaw").mkdir()
    (root / "a.txt").write_text("alpha\n")
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id").write_text("hunter2\n")
    (home / ".adderclaw").mkdir()
    (home / ".adderclaw" / "receipt.key").write_text("hunter2\n")
    return root


def inside(text: str, root: Path, *, network: bool = False, timeout: float = 20.0, **more: tuple[str, ...]) -> Finished:
    argv = confinement.wrap(
        ["/bin/bash", "--norc", "--noprofile", "-c", text],
        workspace_roots=(str(root),),
        writable=more.get("writable", ()),
        cwd=str(root),
        network=network,
    )
    return asyncio.run(process.run(argv, cwd=str(root), env=process.environment(), timeout=timeout))


# ------------------------------------------------------------------ refused


@pytest.mark.parametrize(
    "text",
    [
        "touch /etc/x",
        "touch /usr/x",
        "echo x > .git/config",
        "touch .git/hooks/pre-commit",
        "touch .adderclaw/config.toml",
        "mv .git other",
        "mv .adderclaw other",
        "rm -rf .adderclaw",
        "ln -s /etc out && touch out/x",
        "mount -t tmpfs none /mnt",
        "mount -o remount,rw /",
        "umount .git/config",
        "unshare -m true",
        "unshare -Urm /bin/bash -c 'umount .git/config; echo x > .git/config'",
        "unshare -Urm mount -o remount,bind,rw .git/config",
        "chroot / true",
        "mknod dev b 8 0",
        "cat /dev/sda /dev/vda",
        "kill -0 $HOST_PID",
        "ls /proc/$HOST_PID/environ",
        "hostname other",
    ],
)
def test_what_a_command_cannot_do(text: str, box: Path) -> None:
    done = inside(text.replace("$HOST_PID", str(os.getpid())), box)
    assert done.returncode != 0
    assert (box / ".git" / "config").read_text() == "[core]\n"
    assert not (box / ".git" / "hooks" / "pre-commit").exists()
    assert not list((box / ".adderclaw").iterdir())


@pytest.mark.parametrize("text", ["cat ~/.ssh/id", "cat $HOME/.adderclaw/receipt.key", "grep -rs hunter2 ~ /home"])
def test_homes_are_hidden(text: str, box: Path) -> None:
    assert b"hunter2" not in inside(text, box).stdout


def test_homes_are_hidden_though_the_workspace_is_one(box: Path, home: Path) -> None:
    done = inside("cat .ssh/id .adderclaw/receipt.key; ls -a", home)
    assert b"hunter2" not in done.stdout
    assert b".ssh" in done.stdout


def test_there_is_no_network(box: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        answer = threading.Thread(target=lambda: server.accept()[0].close(), daemon=True)
        answer.start()
        connect = f"exec 3<>/dev/tcp/127.0.0.1/{port}"
        assert inside(connect, box).returncode != 0
        assert inside("tail -n +3 /proc/net/dev | grep -v lo:", box).stdout == b""
        assert inside(connect, box, network=True).returncode == 0


def test_sockets_of_the_system_are_hidden(box: Path) -> None:
    assert inside("ls -A /run", box).stdout == b""


def test_capabilities_are_dropped(box: Path) -> None:
    line = inside("grep CapEff /proc/self/status", box).stdout.split()[1]
    assert int(line, 16) & ~0b1011 == 0  # CHOWN, DAC_OVERRIDE, FOWNER


def test_other_processes_are_not_seen(box: Path) -> None:
    seen = inside("ls -d /proc/[0-9]*", box).stdout.split()
    assert len(seen) <= 4


@pytest.mark.parametrize(
    "text", ["setsid sleep 1000 &", "env -i setsid sleep 1000 >/dev/null 2>&1 & disown; sleep 900"]
)
def test_nothing_stays_when_it_ends(text: str, box: Path) -> None:
    mark = f"{os.getpid()}.5"
    inside(text.replace("1000", f"1{mark}"), box, timeout=0.5)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if mark.encode() in command and command.startswith(b"sleep"):
            gone(int(pid), within=1)


def test_the_root_is_no_workspace(box: Path) -> None:
    with pytest.raises(AdderClawError, match="choose a directory below"):
        confinement.wrap(["true"], workspace_roots=("/",), writable=(), cwd="/", network=False)


def test_without_a_sandbox_it_says_how_to_go_on(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert confinement.probe() == "none"
    with pytest.raises(AdderClawError, match=r"(?s)bwrap.*apt-get install bubblewrap.*--profile supervised"):
        confinement.required()


def test_a_bubblewrap_that_fails_is_none(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "bin" / "bwrap"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho no permissions to create a new namespace >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(fake.parent))
    with pytest.raises(AdderClawError, match="no permissions to create a new namespace"):
        confinement.required()


# ------------------------------------------------------------------ allowed


@pytest.mark.parametrize(
    "text",
    [
        "cat a.txt",
        "echo x > new && mkdir d && mv new d/",
        "echo x > /tmp/x && cat /tmp/x",
        "echo $TMPDIR | grep -x /tmp",
        "touch .git/index",
        "cat .git/config",
        "echo x > /dev/null",
        "cat /etc/passwd",
        "head -c 1 /dev/urandom",
        f"{os.path.realpath(sys.executable)} -c 'import json'",
    ],
)
def test_what_a_command_can_do(text: str, box: Path) -> None:
    done = inside(text, box)
    assert (done.returncode, done.stderr) == (0, b"")


def test_tmp_is_private(box: Path) -> None:
    inside("echo x > /tmp/adderclaw-private", box)
    assert not Path("/tmp/adderclaw-private").exists()
    assert inside("ls -A /tmp | grep -v '^pytest-of-'", box).stdout == b""


def test_what_lies_beside_the_workspace_is_not_reached(box: Path, tmp_path: Path) -> None:
    (tmp_path / "beside").write_text("before")
    assert inside("cat ../beside", box).returncode != 0
    inside("echo after > ../beside; touch ../new", box)
    assert (tmp_path / "beside").read_text() == "before"
    assert not (tmp_path / "new").exists()


def test_further_directories_can_be_made_writable(box: Path, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    assert inside(f"touch {tmp_path}/more/x", box).returncode != 0
    assert inside(f"touch {tmp_path}/more/x", box, writable=(str(tmp_path / "more"),)).returncode == 0
    assert (tmp_path / "more" / "x").exists()


def test_the_workspace_is_writable_for_root_too_when_somebody_else_owns_it(box: Path) -> None:
    if os.geteuid() == 0:
        os.chown(box, 12345, 12345)
    assert inside("touch x && rm a.txt", box).returncode == 0


def test_a_killed_command_is_gone(box: Path) -> None:
    done = inside("echo $$ > pid; sleep 1000", box, timeout=0.5)
    assert done.timed_out
    assert pid_in(box / "pid") > 0


def test_the_answer_is_kept_for_this_boot(box: Path, home: Path) -> None:
    assert confinement.probe() == "bubblewrap"
    kept = home / ".adderclaw" / "cache" / "confinement"
    assert kept.stat().st_mode & 0o777 == 0o600
    kept.write_text(kept.read_text().replace("bubblewrap", "none"))
    key = kept.read_text().partition("\n")[0]
    kept.write_text(f"{key}\nnone")
    assert confinement.probe() == "none"
    kept.write_text("another boot\nnone")
    assert confinement.probe() == "bubblewrap"
