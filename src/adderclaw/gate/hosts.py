"""Hosts: which addresses are nobody's business, and whether a domain pattern covers a host."""

import re
from collections.abc import Collection, Iterable

from adderclaw.types import HostFact

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
    if is_named(host, fact.port, allowed):
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
        ipaddress.ip_address(host)
    except ValueError:
        return None
    return "public" if is_public(host) else "private, loopback or link-local"


def is_public(address: str) -> bool:
    """Whether an address belongs to the internet at large, also when it carries another one in itself."""
    from ipaddress import IPv4Address, ip_address, ip_network

    ip = ip_address(address)
    if isinstance(ip, IPv4Address):
        special = ("192.0.0.0/24", "192.88.99.0/24")
        plain = ip.is_global and not (ip.is_multicast or ip.is_reserved)
        return plain and not any(ip in ip_network(net) for net in special)
    number = int(ip)
    if ip.scope_id:
        return False
    if ip.ipv4_mapped is not None:
        return is_public(str(ip.ipv4_mapped))
    if ip in ip_network("64:ff9b::/96"):  # NAT64
        return is_public(str(IPv4Address(number & 0xFFFFFFFF)))
    if ip.sixtofour is not None:
        return is_public(str(ip.sixtofour))
    isatap = (number >> 32) & 0xFDFFFFFF == 0x5EFE
    unicast = ip in ip_network("2000::/3") and ip not in ip_network("3fff::/20")
    return unicast and ip.is_global and not isatap


WEB_PORTS = (80, 443)


def is_named(host: str, port: int, allowed: Iterable[str]) -> bool:
    """Whether the operator listed exactly this host: only those may be private, or on an unusual port."""
    host = clean(host)
    spellings = {host, f"[{host}]", f"{host}:{port}", f"[{host}]:{port}"}
    return not spellings.isdisjoint(entry.lower().rstrip(".") for entry in allowed)


def connection(host: str, port: int, addresses: Iterable[str], allowed: Collection[str]) -> str | None:
    """Why no connection may be made to a host at the addresses that its name stands for; asked by every client."""
    if is_named(host, port, allowed):
        return None
    fix = f"; add {host!r} to security.allowed_domains if that is wanted"
    if port < 1024 and port not in WEB_PORTS:
        return f"port {port} of {host} is not a web port{fix}"
    for address in addresses:
        if not is_public(address):
            return f"{host} leads to the private or special address {address}{fix}"
    return None


def tunnel(host: str, port: int, addresses: Collection[str] | None, allowed: Collection[str]) -> str | None:
    """Why a command in the sandbox may not reach a host: first by its name alone, then with its addresses."""
    if not any(covers(pattern, host, port) for pattern in allowed):
        return f"{host} is not in security.allowed_domains"
    fact = HostFact("CONNECT", f"https://{f'[{host}]' if ':' in host else host}:{port}/", host, port, "https")
    return refusal(fact, allowed) or connection(host, port, addresses or (), allowed)


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
