"""An attack on the server of this home: every way to its port, socket, files, process and to an answer that we know.

`python3 wall_probe.py NAME` reads facts.json and writes what it reached into `reached-NAME.json`, one line for each
thing. It runs in sandboxes, as a server and as a hook: so it needs nothing but Python.
"""

import ctypes
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

GET = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
FAST_OPEN, MULTIPATH = 0x20000000, 262


def talk(one: socket.socket) -> str:
    one.sendall(GET)
    return one.recv(100).decode("latin-1")


def tcp(host: str, port: int, protocol: int = 0) -> str:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM, protocol) as one:
        one.settimeout(3)
        one.connect((host, port))
        return talk(one)


def by_name(host: str, port: int) -> str:
    with socket.create_connection((host, port), 3) as one:
        return talk(one)


def fast_open(port: int) -> str:
    with socket.socket() as one:
        one.settimeout(3)
        one.sendto(GET, FAST_OPEN, ("127.0.0.1", port))
        return one.recv(100).decode("latin-1")


def answer(host: str, port: int, facts: dict[str, Any]) -> str:
    """With a token that somebody gave away."""
    body = b'{"approved": true}'
    head = f"POST /questions/{facts['question']}/answer HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
    head += f"Authorization: Bearer {facts['token']}\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    with socket.create_connection((host, port), 3) as one:
        one.sendall(head.encode() + body)
        return one.recv(1000).decode("latin-1")


def unix(path: str) -> str:
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(3)
        one.connect(path)
        return talk(one)


def by_proxy(target: str, port: int) -> str:
    place = os.environ["HTTP_PROXY"].rpartition("//")[2]
    with socket.create_connection((place.partition(":")[0], int(place.partition(":")[2])), 3) as one:
        one.sendall(f"CONNECT {target}:{port} HTTP/1.1\r\n\r\n".encode())
        answer = one.recv(200)
        return talk(one) if b" 200 " in answer else ""


def by_socks(target: bytes, port: int) -> str:
    place = os.environ["HTTP_PROXY"].rpartition("//")[2]
    with socket.create_connection((place.partition(":")[0], int(place.partition(":")[2])), 3) as one:
        one.sendall(b"\x05\x01\x00")
        one.recv(2)
        one.sendall(b"\x05\x01\x00\x03" + bytes([len(target)]) + target + port.to_bytes(2, "big"))
        answer = one.recv(10)
        return talk(one) if answer[1:2] == b"\x00" else ""


def read(path: str) -> str:
    with open(path, "rb") as file:
        return file.read(1 << 20).decode("latin-1")


def trace(pid: int) -> str:
    """PTRACE_SEIZE, and a read of its memory by the other call."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(0x4206, pid, 0, 0) == 0:
        return "traced"
    raise OSError(ctypes.get_errno(), "ptrace")


def ran(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, timeout=60, check=False)
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""


def ways(facts: dict[str, Any]) -> Iterator[tuple[str, Callable[[], str]]]:
    port, home, pid, program = facts["port"], facts["home"], facts["pid"], facts["program"]
    for host in ("127.0.0.1", "127.1.2.3", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1", *facts["hosts"]):
        yield f"tcp {host}", lambda host=host: tcp(host, port)
    yield "multipath", lambda: tcp("127.0.0.1", port, MULTIPATH)
    yield "fast open", lambda: fast_open(port)
    for host in ("localhost", "ip6-localhost", socket.gethostname()):
        yield f"name {host}", lambda host=host: by_name(host, port)
        yield f"proxy {host}", lambda host=host: by_proxy(host, port)
        yield f"socks {host}", lambda host=host: by_socks(host.encode(), port)
    for host in ("127.0.0.1", "[::1]", "0.0.0.0", "[::ffff:127.0.0.1]", "2130706433"):
        yield f"proxy {host}", lambda host=host: by_proxy(host, port)
    for name in ("server/http.sock", "../.adderclaw/server/http.sock"):
        yield f"unix {name}", lambda name=name: unix(f"{home}/.adderclaw/{name}")
    yield "unix by /proc", lambda: unix(f"/proc/{pid}/root{home}/.adderclaw/server/http.sock")
    yield "abstract", lambda: unix("\0" + facts["abstract"])
    for name in ("server/running.json", "receipt.key"):
        yield f"file {name}", lambda name=name: read(f"{home}/.adderclaw/{name}")
        yield f"file {name} by /proc", lambda name=name: read(f"/proc/{pid}/root{home}/.adderclaw/{name}")
        yield f"file {name} by ~", lambda name=name: read(os.path.expanduser(f"~/.adderclaw/{name}"))
    yield "the store", lambda: read(f"{home}/.adderclaw/memory.sqlite")
    for name in ("environ", "mem", "maps"):
        yield f"process {name}", lambda name=name: read(f"/proc/{pid}/{name}")
    yield "process fd", lambda: " ".join(os.readlink(f"/proc/{pid}/fd/{n}") for n in range(8))
    yield "ptrace", lambda: trace(pid)
    if "token" in facts:
        for host in ("127.0.0.1", "localhost", *facts["hosts"]):
            yield f"answer {host}", lambda host=host: answer(host, port, facts)
    yield "approvals", lambda: ran(program, "approvals", "answer", facts["question"], "yes")
    yield "token", lambda: ran(program, "token", "create", "mine", "--scope", "admin")


def reached(facts: dict[str, Any]) -> Iterator[str]:
    for name, go in ways(facts):
        try:
            if found := go():
                yield f"{name}: {found[:60]!r}"
        except (OSError, KeyError, ValueError, subprocess.SubprocessError):
            continue


def wait(name: str) -> None:
    """Until another of us is through."""
    for _ in range(1_000):
        if os.path.exists(name):
            return
        time.sleep(0.05)


if __name__ == "__main__":
    if sys.argv[1] == "wait":
        wait(sys.argv[2])
        sys.exit()
    wait("facts.json")
    found = list(reached(json.loads(read("facts.json"))))
    with open(f"{sys.argv[1]}.new", "w") as file:
        json.dump(found, file)
    os.rename(f"{sys.argv[1]}.new", f"reached-{sys.argv[1]}.json")
