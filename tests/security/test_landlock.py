"""Where Landlock alone confines commands: nothing outside is changed or reached, and work inside goes on."""

import json
import os
import shutil
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.program import Soak
from tests.security.world import Attack, Den, call, text

HERE = Path(__file__).parent


def attacked(den: Den, *targets: Path) -> Attack:
    """The program that tries everything, run by an operator who says yes."""
    shutil.copy(HERE / "outside.py", den.workspace / "outside.py")
    inside = den.workspace / "inside.txt"
    inside.write_text("x")
    os.setxattr(inside, "user.canary", b"x")
    (den.workspace / "targets.txt").write_text("\n".join(map(str, (*targets, inside))))
    den.configure("supervised")
    made = den.attack("python3 outside.py targets.txt")
    assert "tried all" in made.last, made.last
    return made


def test_nothing_outside_is_changed(landlocked: Den) -> None:
    den = landlocked
    targets = [den.home / ".ssh" / "id_rsa", den.home / ".bashrc", den.neighbour / "secret.txt", den.neighbour]
    targets += [path for folder in den.system for path in (folder / "secret.txt", folder / "writable" / "secret.txt")]
    for path in targets:
        os.setxattr(path, "user.canary", b"x")
    made = attacked(den, *targets)
    for path in targets:
        assert f"{path}: nothing" in made.last, made.last
    den.unharmed(made)


def test_the_same_changes_work_inside(landlocked: Den) -> None:
    """What is refused outside is not refused because nothing works."""
    made = attacked(landlocked)
    (line, *_) = [line for line in made.last.splitlines() if "inside.txt:" in line]
    for name in (
        "fchmodat,",
        "fchmodat without following",
        "fchownat,",
        "utimensat,",
        "utimensat, now",
        "chmod",
        "chown",
    ):
        assert name in line, name
    for name in ("lchown", "utime,", "utimes", "setxattr", "removexattr", "fchmod,", "fchown", "futimens", "fsetxattr"):
        assert name in line, name
    assert "its flags" not in line
    assert "setxattrat" not in line


@pytest.mark.soak
def test_nothing_outside_is_changed_by_a_swap_meanwhile(landlocked: Den, soak: Soak) -> None:
    den, rounds = landlocked, len(soak.of(6_000))
    for name in ("outside_race.py", "swapping.py"):
        shutil.copy(HERE / name, den.workspace / name)
    (den.workspace / "run.sh").write_text(f"python3 outside_race.py {den.neighbour}/secret.txt {rounds}\n")
    den.configure("supervised")
    made = den.attack(call("Bash", command="bash run.sh", timeout=600_000))
    assert "tried all" in made.last, made.last
    for line in made.last.splitlines()[:5]:
        done, swaps = (int(word) for word in line.replace(",", "").split() if word.isdigit())
        assert done > 0, line
        assert swaps >= 10, line
    den.unharmed(made)


# ------------------------------------------------------------------ sockets and other processes


REACH = """
import ctypes, os, socket, sys
stream, datagram, pid = sys.argv[1], sys.argv[2], int(sys.argv[3])
libc = ctypes.CDLL(None)
def connect():
    socket.socket(socket.AF_UNIX).connect(stream)
def connect_by_a_link():
    os.symlink(stream, "to-a-socket")
    socket.socket(socket.AF_UNIX).connect("to-a-socket")
def send():
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"hello", datagram)
def send_from_a_pair():
    socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"hello", datagram)
def send_from_a_raw_pair():
    socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)[0].sendto(b"hello", datagram)
def shared_memory():
    if libc.shmget(0x41444452, 4096, 0o1666) < 0:
        raise OSError
def limits():
    import resource
    resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
def priority():
    os.setpriority(os.PRIO_PROCESS, pid, 19)
def killed():
    os.kill(pid, 0)
ways = (connect, connect_by_a_link, send, send_from_a_pair, send_from_a_raw_pair)
for way in (*ways, shared_memory, limits, priority, killed):
    try:
        way()
        print("came through:", way.__name__)
    except OSError:
        pass
ends = socket.socketpair()
ends[0].send(b"x")
assert ends[1].recv(1) == b"x"
print("tried all")
"""


@contextmanager
def listening(folder: Path) -> Generator[tuple[Path, Path, list[bytes]]]:
    """Two sockets on disk, outside; and what reached them."""
    reached: list[bytes] = []
    paths = folder / "stream.sock", folder / "datagram.sock"
    with socket.socket(socket.AF_UNIX) as stream, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram:
        for made, path in zip((stream, datagram), paths, strict=True):
            made.bind(str(path))
            made.setblocking(False)
            path.chmod(0o777)
        stream.listen()
        yield *paths, reached
        with suppress(BlockingIOError):
            stream.accept()
            reached.append(b"a connection")
        with suppress(BlockingIOError):
            reached.append(datagram.recv(100))


@pytest.mark.parametrize("network", ["allow", "deny"])
def test_no_socket_or_process_outside_is_reached(landlocked: Den, network: str) -> None:
    den = landlocked
    (den.workspace / "reach.py").write_text(REACH)
    den.configure("supervised", f'network = "{network}"')
    with listening(den.neighbour) as (stream, datagram, reached):
        (den.workspace / "run.sh").write_text(f"python3 reach.py {stream} {datagram} {os.getpid()}\n")
        made = den.attack("bash run.sh")
    assert "tried all" in made.last, made.last
    assert "came through" not in made.last
    assert reached == []


# ------------------------------------------------------------------ what the rung means for the profiles


ACCEPTED = '[sandbox]\naccept = "landlock"\n'
REFUSED = '[sandbox]\naccept = "bubblewrap"\n'
"""The default, written out: tests accept Landlock where there is nothing else."""


def test_supervised_asks_about_every_command(landlocked: Den) -> None:
    den = landlocked
    looks = ("ls", "cat a.txt", "git status", "wc -l a.txt", "pwd")
    den.script(*(call("Bash", command=look) for look in looks), text("done"))
    den.configure("supervised")
    den.prepare()
    done = den.cli("agent", "-m", "go", stdin="n\n" * len(looks), timeout=300)
    decisions = [receipt["decision"] for receipt in den.receipts()]
    assert [(one["verdict"], one["sandbox"], "asked_by" in one) for one in decisions] == [
        ("deny", "landlock", True)
    ] * len(looks), done.err


@pytest.mark.parametrize("words", [("agent", "-m", "go", "--profile", "sandboxed"), ("run", "Agentfile")])
def test_sandboxed_does_not_start_unless_landlock_is_accepted(landlocked: Den, words: tuple[str, ...]) -> None:
    den = landlocked
    (den.workspace / "agent.toml").write_text(ACCEPTED)  # a project accepts nothing
    (den.workspace / "Agentfile").write_text('NAME w\nGOAL a "x"\nRUN r USING a\n')
    den.script(call("Bash", command="touch ran"), text("done"))
    den.configure("supervised", more=REFUSED)
    den.prepare()
    den.cli("trust", str(den.workspace), cwd=den.workspace)
    done = den.cli(*words, stdin="", timeout=300, cwd=den.workspace)
    assert done.code not in (0, None)
    for part in ("needs bubblewrap", 'accept = "landlock"', "config.toml", "--profile supervised"):
        assert part in done.err, done.err
    assert not (den.workspace / "ran").exists()


def test_sandboxed_runs_where_the_operator_accepts_landlock_and_receipts_record_it(landlocked: Den) -> None:
    den = landlocked
    den.configure("supervised", more=ACCEPTED)
    made = den.attack("touch ran", arguments=("--profile", "sandboxed"))
    assert (den.workspace / "ran").exists(), made.done.err
    assert [receipt["decision"]["sandbox"] for receipt in made.receipts] == ["landlock"]
    assert [receipt["status"] for receipt in made.receipts] == ["allowed"]


@pytest.mark.parametrize("accepted", [True, False])
def test_doctor_shows_whether_landlock_is_accepted(landlocked: Den, accepted: bool) -> None:
    den = landlocked
    den.configure("supervised", more=ACCEPTED if accepted else REFUSED)
    den.prepare()
    checks = json.loads(den.cli("doctor", "--output-format", "json").out)["checks"]
    (found,) = [check for check in checks if check["name"] == "sandbox.accept"]
    assert found["state"] == ("ok" if accepted else "warning")
    assert accepted or 'accept = "landlock"' in found["fix"]


# ------------------------------------------------------------------ what it cannot hold inside


def test_what_it_cannot_keep_inside_is_reported(landlocked: Den) -> None:
    """No mount makes these read-only here: docs/deployment.md lists them, and each change of one is reported."""
    den = landlocked
    changed = (".git/hooks/pre-commit", ".git/config", ".vscode/tasks.json", ".mcp.json", ".envrc", ".husky/pre-push")
    (den.workspace / "plant.py").write_text(
        "import os\n"
        f"for name in {changed!r}:\n"
        "    os.makedirs(os.path.dirname(name) or '.', exist_ok=True)\n"
        "    open(name, 'a').write('[core]\\n\\tfsmonitor = ./x\\n')\n"
        "print('planted')\n"
    )
    den.configure("supervised")
    made = den.attack("python3 plant.py")
    assert "planted" in made.last
    for name in changed:
        assert name in made.last, made.last
        assert name in made.done.err
    den.unharmed(made)
