"""Seatbelt: what a profile says, and commands that really start under one.

There is no Seatbelt here: `tests/platforms/sandbox_exec.py` stands in for `sandbox-exec`, reads the profile and has
bubblewrap enforce it.
"""

import asyncio
import os
import stat
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from adderclaw.core.errors import AdderClawError
from adderclaw.sandbox import confinement, seatbelt
from adderclaw.sandbox.box import Box
from adderclaw.sandbox.bubblewrap import SandboxSpec
from adderclaw.sandbox.process import Finished, View, environment, in_view, run
from adderclaw.sandbox.protected_paths import Mounts
from tests.platforms import SANDBOX_EXEC
from tests.platforms.sandbox_exec import may, read
from tests.rows import rows
from tests.trial import bubblewrap

ODD = '/Users/ada/a "quoted" (deny) \\ ünï'
ROOM = SandboxSpec(
    roots=("/w",), hidden=("/w/.env", "/w/later", "/w/sub/in/.env"), kept=("/w/hooks.sh",), traces=("/w/runs",)
)
MOUNTS = Mounts(kept=("/w/.git", "/w/a/b"), pinned=("/w/a",))


def test_hostile_names_stay_names() -> None:
    forms = read(seatbelt.profile(SandboxSpec(roots=(ODD,), hidden=(f"{ODD}/.env",))))
    assert may(forms, "file-write-data", f"{ODD}/x")
    assert not may(forms, "file-read-data", f"{ODD}/.env")
    assert not may(forms, "file-read-data", "/Users/ada/other")


@rows("path", ["/a\nb", "/a\x1b", "relative", "/a\udcff"])
def test_a_path_that_cannot_be_quoted_is_refused(path: str) -> None:
    with pytest.raises(AdderClawError, match="Seatbelt"):
        seatbelt.profile(SandboxSpec(roots=("/w",), hidden=(path,)))


DENIED = [
    ("all", "file-read-data", "/Users/ada/.ssh/id"),
    ("all", "file-read-data", "/w/.env"),
    ("all", "file-read-data", "/w/later/deep"),
    ("all", "process-exec", "/w/.env"),
    ("all", "file-write-data", "/usr/bin/env"),
    ("all", "file-write-data", "/w/.git/config"),
    ("all", "file-write-data", "/w/a/b"),
    ("all", "file-write-unlink", "/w/a"),
    ("all", "file-write-unlink", "/w/sub/in"),
    ("all", "file-write-unlink", "/w/sub"),
    ("git", "file-write-unlink", "/w/sub"),
    ("all", "file-write-data", "/w/hooks.sh"),
    ("all", "file-write-data", "/w/runs/x"),
    ("all", "network-outbound", "*:*"),
    ("all", "network-bind", "*:*"),
    ("all", "file-write-data", "/private/tmp/other"),
    ("all", "file-write-setugid", "/w/x"),
    ("git", "process-exec", "/w/tool"),
    ("read_only", "file-write-data", "/w/x"),
    ("read_only", "file-write-data", "/private/tmp/s/x"),
]
ALLOWED = [
    ("all", "file-read-data", "/usr/bin/env"),
    ("all", "file-read-data", "/w/.git/config"),
    ("all", "file-write-data", "/w/x"),
    ("all", "file-write-data", "/w/a/c"),
    ("all", "file-write-data", "/w/sub/in/other"),
    ("all", "file-write-data", "/private/tmp/s/x"),
    ("all", "file-write-data", "/dev/null"),
    ("all", "process-exec", "/w/tool"),
    ("git", "process-exec", "/usr/bin/ssh"),
    ("read_only", "file-read-data", "/w/x"),
]


@rows("view, what, path", DENIED)
def test_what_a_profile_denies(view: View, what: str, path: str) -> None:
    assert not may(read(seatbelt.profile(ROOM, tmp="/private/tmp/s", mounts=MOUNTS, view=view)), what, path)


@rows("view, what, path", ALLOWED)
def test_what_a_profile_allows(view: View, what: str, path: str) -> None:
    assert may(read(seatbelt.profile(ROOM, tmp="/private/tmp/s", mounts=MOUNTS, view=view)), what, path)


def test_the_network_is_reached_only_where_the_room_says_so() -> None:
    assert not may(read(seatbelt.profile(SandboxSpec(roots=("/w",), read_only=True))), "file-write-data", "/w/x")
    whole = read(seatbelt.profile(SandboxSpec(network=True)))
    assert may(whole, "network-outbound", "*:*")
    for path in ("/var/run/docker.sock", "/private/tmp/com.apple.launchd.x/Listeners"):
        assert not may(whole, "network-outbound", path), "a socket with a path"
    for view in ("read_only", "offline"):
        assert not may(read(seatbelt.profile(SandboxSpec(network=True), view=view)), "network-outbound", "*:*")
    assert '(deny network-outbound (remote ip "*:8123"))' in seatbelt.profile(
        SandboxSpec(network=True), blocked_port=8123
    )


def test_a_hook_keeps_all_but_the_server(stand_in: Path, tmp_path: Path) -> None:
    program, flag, text = seatbelt.command_without((str(tmp_path / "key"),), 8123, ())
    assert (program, flag) == (str(stand_in), "-p")
    assert read(text)[1] == ["allow", "default"]
    assert not may(read(text), "file-read-data", str(tmp_path / "key"))
    assert '(remote ip "*:8123")' in text
    (tmp_path / "key").write_text("key")
    (tmp_path / "other").write_text("other")
    shown = subprocess.run([program, flag, text, "/bin/cat", "key", "other"], cwd=tmp_path, capture_output=True)
    assert shown.stdout == b"other"


# ------------------------------------------------------------------ commands that start


def put(folder: Path, text: str) -> Path:
    """A program of the name `sandbox-exec`."""
    made = folder / "sandbox-exec"
    made.write_text(text, encoding="utf-8")
    made.chmod(made.stat().st_mode | stat.S_IXUSR)
    return made


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    bwrap = bubblewrap()
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return put(folder, f'#!/bin/sh\nexec {sys.executable} -I -S {SANDBOX_EXEC} {bwrap} "$@"\n')


def test_a_rung_that_confines_is_taken(stand_in: Path) -> None:
    assert seatbelt.prove(()) is None
    assert confinement.try_confinement("seatbelt", ()) == f"seatbelt does not exist on {sys.platform}", (
        "macOS alone has it"
    )
    with pytest.raises(AdderClawError, match="`sandbox-exec` is not on PATH"):
        seatbelt.prove((str(stand_in.parent),))  # one of the workspace is not run


HOLES = [
    ('shift 2; exec "$@"', "it let a command read a file outside the workspace"),
    ("echo 'unknown operation' >&2; exit 65", "sandbox-exec ended with 65: unknown operation"),
    ("exit 0", "sandbox-exec ended with 0"),
    ("exit 9", "a command could not write in its own workspace"),
]


@rows("text, why", HOLES)
def test_a_rung_that_does_not_hold_is_not_taken(stand_in: Path, text: str, why: str) -> None:
    put(stand_in.parent, f"#!/bin/sh\n{text}\n")
    assert str(seatbelt.prove(())).startswith(why)


WEAKER = [
    ("(deny file-read*", "(deny file-ioctl", "it let a command read a hidden file"),
    ("(deny file-write* (subpath", "(deny file-ioctl (subpath", "it let a command change a protected file"),
    (
        "(deny file-write* (literal",
        "(deny file-ioctl (literal",
        "it let a command move a folder above a protected file",
    ),
    ("(deny network*)", "(allow network*)", "it let a command reach the network"),
]


@rows("rule, other, why", WEAKER)
def test_each_rule_is_proved(stand_in: Path, rule: str, other: str, why: str) -> None:
    """As if this version of the system did not know that rule."""
    known = f"import sys; sys.path.insert(0, {str(SANDBOX_EXEC.parent)!r}); import sandbox_exec as s"
    main = f"s.main({bubblewrap()!r}, sys.argv[1:])"
    weaken = f"sys.argv[2] = sys.argv[2].replace({rule!r}, {other!r}); s.KNOWN.add('file-ioctl'); {main}"
    put(stand_in.parent, f"#!{sys.executable} -IS\n{known}; {weaken}\n")
    assert seatbelt.prove(()) == why


@pytest.fixture
def root(tmp_path: Path, home: Path) -> Path:
    folder = tmp_path / "ws"
    (folder / ".git" / "hooks").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / ".git" / "config").write_text("[core]\n")
    (folder / ".env").write_text("KEY=1\n")
    (home / "secret").write_text("secret\n")
    return folder


@pytest.fixture
def box(stand_in: Path, root: Path) -> Generator[Box]:
    made = confinement.create_box("seatbelt", SandboxSpec((str(root),), hidden=(str(root / ".env"),)))
    yield made
    made.close()


def bash(text: str, box: Box, root: Path, view: View = "all", timeout: float = 60) -> Finished:
    env = environment(workspace_roots=(str(root),))
    start = in_view(box.start, view)
    return asyncio.run(run(("bash", "-c", text), cwd=str(root), env=env, timeout=timeout, start=start))


def test_a_session_by_its_effects(box: Box, root: Path, home: Path) -> None:
    tried = (
        f"cat {home}/secret; cat .env; echo x >> .git/config; mv .git away; echo x > {home}/new; "
        "echo x > /usr/new; (exec 3<> /dev/tcp/127.0.0.1/9)"
    )
    done = bash(f"{tried}; echo made > made; echo $HOME $TMPDIR; cat .git/HEAD", box, root)
    assert b"secret" not in done.stdout
    assert b"KEY" not in done.stdout
    assert done.stdout.endswith(b"ref: refs/heads/main\n")
    assert str(home).encode() not in done.stdout, "its home is the session's"
    assert (root / "made").read_text() == "made\n"
    assert (root / ".git" / "config").read_text() == "[core]\n"
    assert not (home / "new").exists()
    assert bash("echo kept > $TMPDIR/x", box, root).returncode == 0
    assert bash("cat $TMPDIR/x", box, root).stdout == b"kept\n", "its /tmp lasts as long as the session"
    assert bash("echo x >> made", box, root, "read_only").returncode != 0
    assert bash("echo '[user]' >> .git/config; echo x > .git/hooks/pre-commit", box, root, "git").returncode != 0
    assert (root / ".git" / "config").read_text() == "[core]\n[user]\n", "git's own view"
    assert not (root / ".git" / "hooks" / "pre-commit").exists()


def test_time_limits_and_ends(box: Box, root: Path) -> None:
    done = bash("sleep 600 & sleep 600", box, root, timeout=1.5)
    assert done.timed_out
    box.close()
    with pytest.raises(OSError, match="no-such-program"):
        asyncio.run(run(("no-such-program",), cwd=str(root), env={}, timeout=9, start=box.start))


def test_what_it_cannot_do_is_refused(stand_in: Path, root: Path) -> None:
    copied = confinement.create_box("seatbelt", SandboxSpec((str(root),), stand_in=str(root)))
    with pytest.raises(AdderClawError, match="bubblewrap can"):
        copied.open()
