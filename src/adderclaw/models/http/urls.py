"""Parses URLs strictly and refuses those that two parsers could read differently."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from adderclaw.core.errors import PathRefused
from adderclaw.core.types import HostFact
from adderclaw.models.http.addresses import Unlisted, connection

MAX_URL = 8192
PORTS = {"http": 80, "https": 443}
HOST = r"(?!-)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?"


def parse(url: str, method: str = "GET") -> HostFact:
    """Parse a URL strictly; raises PathRefused if two parsers could read it differently."""
    from urllib.parse import quote, urlsplit

    if len(url) > MAX_URL:
        raise PathRefused(f"the URL has {len(url)} characters; at most {MAX_URL} are allowed")
    if not url.isprintable() or " " in url or "\\" in url:
        raise PathRefused(f"the URL {url[:200]!a} contains a space, a backslash or a control character")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise PathRefused(f"the URL {url[:200]!r} cannot be read: {error}") from None
    if parts.scheme not in PORTS:
        raise PathRefused(f"the URL {url[:200]!r} must begin with http:// or https://")
    if "@" in parts.netloc:
        raise PathRefused(f"the URL {url[:200]!r} contains a user name or password; remove it")
    host = _host(parts.hostname or "", url)
    port = PORTS[parts.scheme] if port is None else port
    written = f"[{host}]" if ":" in host else host
    suffix = "" if port == PORTS[parts.scheme] else f":{port}"
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=-._~")
    query = f"?{quote(parts.query, safe="/?%:@!$&'()*+,;=-._~[]")}" if parts.query else ""
    return HostFact(method, f"{parts.scheme}://{written}{suffix}{path}{query}", host, port, parts.scheme)


def _host(host: str, url: str) -> str:
    from ipaddress import ip_address

    try:
        address = ip_address(host)
    except ValueError:
        address = None
    if address is not None and "%" not in host:
        return str(address)
    if not re.fullmatch(HOST, host):
        raise PathRefused(f"the URL {url[:200]!r} has no usable host; write international names as xn--…")
    host = host.removesuffix(".")
    if re.fullmatch(r"[0-9]+|0x[0-9a-f]*", host.rpartition(".")[2]):
        raise PathRefused(f"the host {host!r} is a number in disguise: write the address as a.b.c.d")
    return host


class NotListed(PathRefused):
    """A host that is reached only if the operator lists it."""

    def __init__(self, unlisted: Unlisted) -> None:
        super().__init__(str(unlisted))
        self.why = unlisted.why


class Hosts(NamedTuple):
    """The hosts that the operator listed: only they may use an unusual port, and some of them may be private."""

    allowed: frozenset[str] = frozenset()

    @classmethod
    def listed(cls, names: Iterable[str]) -> "Hosts":
        return cls(frozenset(name.lower().removesuffix(".") for name in names))

    @classmethod
    def named_by_operator(cls, target: HostFact) -> "Hosts":
        """Allows exactly the host of a service that the operator's own configuration names, even a private one."""
        return cls(
            frozenset({f"[{target.host}]:{target.port}" if ":" in target.host else f"{target.host}:{target.port}"})
        )

    def check(self, host: str, port: int, addresses: list[str]) -> None:
        """Raise NotListed unless connections to every resolved address are allowed."""
        if unlisted := connection(host, port, addresses, self.allowed):
            raise NotListed(unlisted)
