"""The proxy between this machine and the internet that the operator's environment names.

Its login stays in this process: no program in a sandbox sees it, and no message repeats it.
"""

import asyncio
import os
import re
import socket
from collections.abc import Iterable

from adderclaw.core.record import NamedTuple

VARIABLES = {
    "https": ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"),
    "http": ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"),
}
EXCEPTIONS = ("no_proxy", "NO_PROXY")
HEAD_BYTES = 16_384
UNRESOLVED = (
    "{host} has no address on this machine, so nobody can tell whether it is a private one: the proxy is asked for "
    'such a name only where it is listed ("{place}" in [security] allowed_domains)'
)


class Unusable(OSError):
    """The proxy cannot be used or refuses a connection; the text is the reason."""


class Upstream(NamedTuple):
    host: str
    port: int
    login: str = ""
    """The base64 credentials of the `Proxy-Authorization` header; may be empty."""

    def request(self, host: str, port: int) -> bytes:
        """The CONNECT request for a host."""
        target = (f"[{host}]:{port}" if ":" in host else f"{host}:{port}").encode("ascii")
        login = [b"Proxy-Authorization: Basic " + self.login.encode()] if self.login else []
        return b"\r\n".join([b"CONNECT " + target + b" HTTP/1.1", b"Host: " + target, *login, b"", b""])

    def check(self, head: bytes, target: str) -> None:
        """Raise Unusable if the proxy did not connect."""
        match = re.match(rb"HTTP/1\.[01] (\d{3})(?: ([^\r\n]{0,100}))?", head)
        if match is not None and match[1].startswith(b"2"):
            return
        proxy = f"the proxy {self.host}:{self.port}"
        if match is None:
            raise Unusable(f"{proxy} did not reply like an HTTP proxy")
        reason = (match[2] or b"").decode("latin-1")
        fix = ": correct the login in HTTPS_PROXY" if match[1] == b"407" else ""
        raise Unusable(f"{proxy} answered {match[1].decode()} {reason} for {target}{fix}".replace("  ", " "))


def of(scheme: str, host: str, port: int) -> Upstream | None:
    """The proxy for a connection, or None for a direct one. Raises Unusable if the named proxy cannot be used."""
    name = next((name for name in VARIABLES[scheme] if os.environ.get(name)), None)
    if name is None or _is_here(host) or _is_excepted(host, port):
        return None
    return _read(name, os.environ[name])


def logins() -> Iterable[str]:
    """The passwords of all proxies that the environment names, also as encoded in a header."""
    from base64 import b64decode

    for name in {name for names in VARIABLES.values() for name in names}:
        try:
            login = _read(name, os.environ.get(name) or "-").login
        except Unusable:
            continue
        if login:
            yield from (login, b64decode(login).decode("utf-8", "replace").partition(":")[2])


def _read(name: str, value: str) -> Upstream:
    from base64 import b64encode
    from urllib.parse import unquote, urlsplit

    try:
        parts = urlsplit(value if "://" in value else f"http://{value}")
        port = parts.port or 80
    except ValueError:
        raise Unusable(f"{name} is not the address of a proxy, such as http://proxy.example:3128") from None
    if parts.scheme != "http" or not parts.hostname:
        raise Unusable(f"{name} names a proxy of kind {parts.scheme!r}; http:// is the kind that can be used")
    login = ""
    if parts.username is not None:
        login = b64encode(f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()).decode()
    return Upstream(parts.hostname, port, login)


def _is_here(host: str) -> bool:
    from ipaddress import ip_address

    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def _is_excepted(host: str, port: int) -> bool:
    """Whether NO_PROXY covers a host: by a domain, an address or a network, each with or without a port."""
    exceptions = next((os.environ[name] for name in EXCEPTIONS if os.environ.get(name)), "")
    host = host.strip("[]").rstrip(".").lower()
    for entry in re.split(r"[\s,]+", exceptions.strip().lower()):
        name, _, number = entry.rpartition(":") if re.search(r"[^:]:\d+$", entry) else (entry, "", "")
        if number and int(number) != port:
            continue
        if name == "*" or _covers(name.strip("[]").removeprefix("*").lstrip("."), host):
            return True
    return False


def _covers(name: str, host: str) -> bool:
    from ipaddress import ip_address, ip_network

    if name and (host == name or host.endswith(f".{name}")):
        return True
    if "/" not in name:
        return False
    try:
        return ip_address(host) in ip_network(name, strict=False)
    except ValueError:
        return False


def described(host: str, port: int, target: str) -> str:
    """A host for a message, with the reason if the proxy was given an address instead."""
    if host == target:
        return f"{host}:{port}"
    return f"{host}:{port} at {target} (by its name it is asked only for a host that [security] allowed_domains names)"


async def tunnel(upstream: Upstream, host: str, port: int, target: str) -> socket.socket:
    """Connect to a host through the proxy, which is asked for `target`: the host's name or address."""
    connection, loop, head = await _connected(upstream), asyncio.get_running_loop(), bytearray()
    try:
        await loop.sock_sendall(connection, upstream.request(target, port))
        while not head.endswith(b"\r\n\r\n"):  # one byte at a time: what follows is the host's
            part = await loop.sock_recv(connection, 1)
            if not part or len(head) > HEAD_BYTES:
                break
            head += part
        upstream.check(bytes(head), described(host, port, target))
    except BaseException:
        connection.close()
        raise
    return connection


async def _connected(upstream: Upstream) -> socket.socket:
    """A connection to the proxy itself."""
    loop, failure = asyncio.get_running_loop(), Unusable(f"the proxy {upstream.host} has no address")
    try:
        addresses = await loop.getaddrinfo(upstream.host, upstream.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Unusable(f"the proxy {upstream.host} cannot be resolved ({error.strerror})") from None
    for family, kind, protocol, _, address in addresses[:4]:
        connection = socket.socket(family, kind, protocol)
        connection.setblocking(False)
        try:
            await loop.sock_connect(connection, address)
        except BaseException as error:
            connection.close()
            if not isinstance(error, OSError):
                raise
            failure = Unusable(f"the proxy {upstream.host}:{upstream.port} is not reached ({error.strerror})")
        else:
            return connection
    raise failure
