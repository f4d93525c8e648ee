"""Where Landlock alone confines commands: nothing outside is changed or reached, and work inside goes on."""

import os
import shutil
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.program import Soak
from tests.security.world import Attack, Den, call

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
        assert swaps > 100, line
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
