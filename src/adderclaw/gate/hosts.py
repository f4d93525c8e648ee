"""Hosts: which addresses are nobody's business, and whether a domain pattern covers a host."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from adderclaw.types import HostFact

if TYPE_CHECKING:
    import ipaddress

PLAIN_METHODS = frozenset({"GET", "HEAD"})
LOCAL_NAMES = r"ip6-(localhost|loopback)|(.+\.)?(localhost|local|internal|localdomain|home\.arpa)"
_LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*"


def refusal(fact: HostFact, allowed: Iterable[str]) -> str | None:
    """Why a host may not be asked at all."""
    return _malformed(fact) or _private(fact, allowed)


def _malformed(fact: HostFact) -> str | None:
    if fact.scheme.lower() not in ("http", "https"):
        return f"{fact.scheme!r} is not http or https"
    if any(char <= " " or char == "\\" or not char.isprintable() for char in fact.url):
        return "the URL holds a blank, a backslash or a control character"
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)", fact.url)
    if match is None:
        return f"{fact.url!r} is not an absolute URL"
    if match[1].lower() != fact.scheme.lower():
        return "the URL's scheme is not the one that would be used"
    authority = match[2]
    if "@" in authority:
        return "the URL carries a user name or password"
    if not fact.host.isascii() or not authority.isascii():
        return f"the host {fact.host!r} is not ASCII: write it in its xn-- form"
    if clean(re.sub(r":\d*$", "", authority)) != clean(fact.host):
        return "the URL's host is not the one that would be asked"
    if not 0 < fact.port < 65536:
        return f"port {fact.port} does not exist"
    return None


def clean(host: str) -> str:
    return host.strip("[]").rstrip(".").lower()


def _private(fact: HostFact, allowed: Iterable[str]) -> str | None:
    host = clean(fact.host)
    spellings = {host, f"[{host}]", f"{host}:{fact.port}", f"[{host}]:{fact.port}"}
    if spellings & {entry.lower().rstrip(".") for entry in allowed}:
        return None
    hint = f'add "{host}:{fact.port}" to [security] allowed_domains'
    if re.fullmatch(LOCAL_NAMES, host):
        return f"{host} is a local name: {hint}"
    kind = _address(host)
    if kind == "public":
        return None
    if kind is not None:
        return f"{host} is a {kind} address: {hint}"
    if _numeric(host):
        return f"{host} is an address in a form that hides what it is"
    return None if re.fullmatch(_NAME, host) else f"{host!r} is not a host name"


def _numeric(host: str) -> bool:
    """Whether inet_aton would take it: decimal, octal, hexadecimal, fewer than four parts."""
    return bool(re.fullmatch(r"(0x[0-9a-f]*|\d+)(\.(0x[0-9a-f]*|\d+))*", host))


def _address(host: str) -> str | None:
    """What kind of address a literal is; None if it is none."""
    import ipaddress

    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id:
            return "link-local"
        within = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if within is None and address in ipaddress.ip_network("64:ff9b::/96"):
            within = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if within is None and (int(address) >> 32 == 0 or (int(address) >> 32) & 0xFFFFFFFF in (0x5EFE, 0x02005EFE)):
            within = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if within is not None and not _is_public(within):
            return "private or loopback"
    return "public" if _is_public(address) else "private, loopback or link-local"


def _is_public(address: "ipaddress.IPv4Address | ipaddress.IPv6Address") -> bool:
    site_local = getattr(address, "is_site_local", False)
    return address.is_global and not (address.is_multicast or address.is_reserved or site_local)


def covers(pattern: str, host: str, port: int | None = None) -> bool:
    """Whether a domain pattern covers a host: `*.x.com` any subdomain, `*` all, another `*` within one label."""
    host = clean(host)
    pattern = pattern.strip().lower()
    with_port = re.fullmatch(r"(\[[0-9a-f:.]+\]|[^:]+):(\d+)", pattern)
    if with_port:
        if port is None or int(with_port[2]) != port:
            return False
        pattern = with_port[1]
    pattern = clean(pattern)
    if pattern == "*":
        return True
    if pattern.startswith("*."):
        tail = _glob(pattern[2:])
        return re.fullmatch(rf"(?:[^.]+\.)+{tail}", host) is not None
    return re.fullmatch(_glob(pattern), host) is not None


def _glob(pattern: str) -> str:
    return "".join("[^.]*" if char == "*" else re.escape(char) for char in pattern)


def is_listed(fact: HostFact, allowed: Iterable[str]) -> bool:
    return any(covers(pattern, fact.host, fact.port) for pattern in allowed)
