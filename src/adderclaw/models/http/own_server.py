"""Where the server of this home listens. Sessions may not connect to it.

A server writes down where it is, so that the operator's next command finds it. Every connection that we make for a
model (the web tools, MCP over http, hooks of kind http) or for a command (the sandbox's proxy, git's broker) asks here
first, whatever the operator's lists of hosts say: a list that lets in `localhost` means their own programs.
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
    """The path of its Unix socket; empty: it has none."""
    pid: int


def folder() -> str:
    """What a server keeps besides the store: this file, its lock, its Unix socket. No room of a sandbox shows it.

    It lies in the folder that `config.home` names, which is above us: a test holds the two together.
    """
    home = os.path.abspath(os.path.expanduser(os.environ.get("ADDERCLAW_HOME") or "~/.adderclaw"))
    return os.path.join(home, home_names.SERVER)


def _place() -> str:
    return os.path.join(folder(), "running.json")


def write(running: Running) -> None:
    """Say where the server is: once its port is bound, and while it holds the lock."""
    os.makedirs(folder(), mode=0o700, exist_ok=True)
    temporary = f"{_place()}.{os.getpid()}"
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w") as file:
        json.dump(running._asdict(), file)
    os.replace(temporary, _place())


def remove() -> None:
    with contextlib.suppress(OSError):
        os.unlink(_place())


def found() -> Running | None:
    """Where the server of this home is, or was when it was killed."""
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
    """Why no connection is made there: it is our own server, by whatever name or address of this machine."""
    running = found()
    if running is None or running.port != port or not any(map(_is_here, addresses)):
        return None
    return NEVER.format(port=port)


def _is_here(address: str) -> bool:
    """Whether an address is this machine's: it can be bound. 0.0.0.0 and :: lead here, too."""
    import socket

    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return _is_mapped_here(address)
    return True


def _is_mapped_here(address: str) -> bool:
    """Loopback is here whether or not this machine has its family; so is what carries such an address in itself."""
    from ipaddress import IPv6Address, ip_address

    try:
        ip = ip_address(address)
    except ValueError:
        return True  # nobody knows where it leads
    mapped = ip.ipv4_mapped if isinstance(ip, IPv6Address) else None
    return (mapped or ip).is_loopback or (mapped or ip).is_unspecified or (mapped is not None and _is_here(str(mapped)))
