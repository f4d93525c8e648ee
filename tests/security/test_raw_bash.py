"""Raw bash that the operator approves reaches no network, whatever the setting, and changes no git directory."""

import os
import pty
import select
import shlex
import socket
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.acceptance.world import call, text
from tests.program import PROGRAM
from tests.security.canaries import every
from tests.security.world import Den

ONLINE = 'network = "allow"\nraw_bash = "ask"'
REACH = "x=dev/tcp; exec 3<>/$x/127.0.0.1/{port} && echo reached"
CALL = """
import socket, sys
family, to = (1, sys.argv[1]) if "/" in sys.argv[1] else (2, ("127.0.0.1", int(sys.argv[1])))
socket.socket(family).connect(to)
print("reached")
"""
RELAY = """
import socket
one = socket.socket(1); one.bind("/tmp/relay.sock"); one.listen()
two = socket.create_server(("127.0.0.1", 8124))
open("up", "w").close()
while True:
    one.accept(); open("relayed", "w").close()
"""


@pytest.fixture
def listener() -> Generator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def visitors(server: socket.socket) -> int:
    """How many have connected since this was asked last."""
    count = 0
    while select.select([server], [], [], 0)[0]:
        server.accept()[0].close()
        count += 1
    return count


def raw(command: str) -> str:
    """The same for bash, and no plan: nobody looks through what `eval` is given."""
    return f"eval {shlex.quote(command)}"


def test_approved_raw_bash_has_no_network(anyone: Den, listener: socket.socket) -> None:
    den, port = anyone, listener.getsockname()[1]
    den.configure(security=ONLINE)
    (den.workspace / "call.py").write_text(CALL)
    plain = den.attack(f"python3 call.py {port}")
    assert (plain.last, visitors(listener)) == ("reached\n", 1)
    made = den.attack(
        raw(REACH.format(port=port)),
        raw(f"python3 call.py {port}"),
        raw(f"setsid python3 call.py {port} & wait"),
        call("Bash", command=raw(f"python3 call.py {port}; echo over > over"), run_in_background=True),
        "until test -e over; do sleep 0.05; done",
    )
    assert [one["decision"]["by"] for one in made.receipts[:4]] == ["operator"] * 4
    assert not any("network off" in one["decision"]["reason"] for one in made.receipts)
    assert not any("reached" in result for result in made.results)
    assert (den.workspace / "over").exists()
    assert visitors(listener) == 0
    den.unharmed(plain, made)


def test_nor_by_a_server_or_a_task_of_the_session(anyone: Den) -> None:
    den = anyone
    den.configure(security=ONLINE)
    (den.workspace / "call.py").write_text(CALL)
    (den.workspace / "relay.py").write_text(RELAY)
    made = den.attack(
        call("Bash", command="python3 relay.py", run_in_background=True),
        "until test -e up; do sleep 0.05; done",
        raw("python3 call.py 8124"),
        raw("python3 call.py /tmp/relay.sock"),
        raw("grep -al '[r]elay.py' /proc/[0-9]*/cmdline || echo alone"),
        "python3 call.py 8124",
    )
    assert ["reached\n" in result for result in made.results[2:]] == [False, False, False, True]
    assert "alone\n" in made.results[4]
    assert not (den.workspace / "relayed").exists()
    den.unharmed(made)


def test_a_person_at_the_terminal_is_asked_whatever_the_network(world: Den, listener: socket.socket) -> None:
    den = world
    den.configure(security='network = "allow"')
    command = raw(REACH.format(port=listener.getsockname()[1]) + "; echo $((6 * 7))")
    den.script(call("Bash", command=command), text("done"))
    den.prepare()
    ours, theirs = pty.openpty()
    argv = [str(PROGRAM), "agent", "-m", "go"]
    process = subprocess.Popen(argv, stdin=theirs, stderr=theirs, stdout=theirs, env=den.cli.env, cwd=den.cli.cwd)
    os.close(theirs)
    seen = b""
    while b"Approve? [y/N]" not in seen:
        seen += os.read(ours, 4096)
    os.write(ours, b"y\n")
    try:
        while read := os.read(ours, 4096):
            seen += read
    except OSError:  # the other side has ended
        pass
    os.close(ours)
    assert process.wait(60) == 0
    assert b"network off" in seen
    assert b"always" not in seen
    assert "42" in den.entries("tool_result")[-1]["content"]
    assert visitors(listener) == 0


# ------------------------------------------------------------------ git, called as nobody judges it

HERE = "x=it; x=.g$x; "
"""A word that names a git directory is denied: here nobody reads its name."""
GITS = (
    HERE + "GIT_DIR=$x GIT_WORK_TREE=. git {words}",
    HERE + "GIT_DIR=$PWD/$x; export GIT_DIR; /usr/bin/git {words}",
    HERE + "env -u GIT_CONFIG_COUNT $(command -v git) --git-dir=$x {words}",
    HERE + "(cd $x && GIT_DIR=. GIT_WORK_TREE=.. git {words})",
    "cp $(command -v git) ./mine && env -i PATH=$PATH ./mine {words}",
)
CHANGES = (
    "config core.fsmonitor ./evil.sh",
    "config core.hooksPath ..",
    "commit --allow-empty -m x",
    "update-ref refs/heads/main HEAD~1",
    "branch another",
    "stash --include-untracked",
    "gc --prune=now",
)
NAMED = """#!/bin/sh
cat "$HOME/.ssh/id_rsa" > stolen 2>/dev/null
echo ran > {canary} 2>/dev/null
(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null
echo ran >> ran
cat
"""


def kept(den: Den) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in every(den.workspace / ".git") if path.is_file()}


@pytest.mark.parametrize("how", GITS)
def test_plain_git_changes_no_git_directory(how: str, anyone: Den) -> None:
    den = anyone
    den.configure(security=ONLINE)
    den.git("commit", "--quiet", "--allow-empty", "-m", "second")
    before = kept(den)
    made = den.attack(*(raw(how.format(words=words)) for words in CHANGES))
    assert [one["decision"]["by"] for one in made.receipts] == ["operator"] * len(CHANGES)
    assert kept(den) == before
    assert sum("Read-only file system" in result for result in made.results) >= len(CHANGES) - 1, made.results
    den.unharmed(made)


def test_what_a_repository_names_runs_where_it_harms_nothing(anyone: Den, listener: socket.socket) -> None:
    """Plain git runs filters and drivers that a repository names: confined as the raw bash that called it is."""
    den = anyone
    den.configure(security=ONLINE)
    evil = NAMED.format(canary=den.home / "owned", port=listener.getsockname()[1])
    (den.workspace / "evil.sh").write_text(evil)
    (den.workspace / "evil.sh").chmod(0o755)
    (den.workspace / ".gitattributes").write_text("*.txt filter=x diff=x\n")
    den.git("config", "filter.x.clean", "./evil.sh")
    den.git("config", "diff.x.textconv", "./evil.sh")
    den.git("config", "core.fsmonitor", "./evil.sh")
    (den.workspace / "a.txt").write_text("changed\n")
    before = kept(den)
    made = den.attack(*(raw(how.format(words=words)) for how in GITS for words in ("status", "diff", "add a.txt")))
    assert (den.workspace / "ran").exists(), made.results
    assert (den.workspace / "stolen").read_bytes() == b""
    assert visitors(listener) == 0
    assert kept(den) == before
    den.unharmed(made)
    assert not Path(den.home / "owned").exists()
