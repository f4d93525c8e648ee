"""Where the server of this home listens. Sessions may not connect to it.

A server writes its address to a file, so that the operator's next command finds it. Every connection for a model (web
tools, MCP over HTTP, HTTP hooks) or for a command (the sandbox's proxy, git's broker) is checked here first, regardless
of the operator's lists of hosts: a list that allows `localhost` means the operator's own programs.
"""

import contextlib
import json
import os
from collections.abc import Iterable
from typing import Any, cast

from adderclaw.core import home_names
from adderclaw.core.record import NamedTuple

MOST_BYTES = 4_096
NEVER = (
    "port {port} of this machine is AdderClaw's own server, which sessions may not reach, whatever "
    "security.allowed_domains says"
)


class Running(NamedTuple):
    """A server of this home."""

    address: str
    """http://127.0.0.1:8423"""
    port: int
    socket: str
    """The path of its Unix socket; empty if it has none."""
    pid: int


def folder() -> str:
    """The folder of a server's address file, lock and Unix socket. No sandbox shows it.

    It repeats the path logic of `config.home`, which this layer cannot import: a test checks that both agree.
    """
    home = os.path.abspath(os.path.expanduser(os.environ.get("ADDERCLAW_HOME") or "~/.adderclaw"))
    return os.path.join(home, home_names.SERVER)


def _place() -> str:
    return os.path.join(folder(), "running.json")


def write(running: Running) -> None:
    """Publish the address of the server; call it with the port bound and the lock held."""
    os.makedirs(folder(), mode=0o700, exist_ok=True)
    temporary = f"{_place()}.{os.getpid()}"
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w") as file:
        json.dump(running._asdict(), file)
    os.replace(temporary, _place())


def remove() -> None:
    with contextlib.suppress(OSError):
        os.unlink(_place())


def found() -> Running | None:
    """The server of this home; it may be stale if the server was killed."""
    try:
        with open(_place(), encoding="utf-8") as file:
            table: Any = json.loads(file.read(MOST_BYTES))
    except (OSError, ValueError):
        return None
    if not isinstance(table, dict):
        return None
    fields = cast(dict[str, Any], table)
    address, port, path, pid = (fields.get(name) for name in Running._fields)
    if not isinstance(address, str) or not isinstance(port, int) or not isinstance(pid, int):
        return None
    return Running(address, port, path if isinstance(path, str) else "", pid)


def refusal(port: int, addresses: Iterable[str]) -> str | None:
    """Why a connection is refused: it would reach AdderClaw's own server, by any address of this machine; else None."""
    running = found()
    if running is None or running.port != port or not any(map(_is_here, addresses)):
        return None
    return NEVER.format(port=port)


def _is_here(address: str) -> bool:
    """Whether an address belongs to this machine, which can then bind it; 0.0.0.0 and :: do too."""
    import socket

    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return _is_mapped_here(address)
    return True


def _is_mapped_here(address: str) -> bool:
    """Whether an address is loopback or unspecified, or embeds one of this machine's IPv4 addresses."""
    from ipaddress import IPv6Address, ip_address

    try:
        ip = ip_address(address)
    except ValueError:
        return True  # unknown, so assume the worst
    mapped = ip.ipv4_mapped if isinstance(ip, IPv6Address) else None
    return (mapped or ip).is_loopback or (mapped or ip).is_unspecified or (mapped is not None and _is_here(str(mapped)))
