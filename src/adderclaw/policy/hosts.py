"""Hosts: which are never requested, and whether a domain pattern covers a host."""

import re
from collections.abc import Collection, Iterable

from adderclaw.core import glob_patterns
from adderclaw.core.types import HostFact
from adderclaw.models.http.addresses import Unlisted, clean, connection, is_named, is_public, odd_port, with_port

PLAIN_METHODS = frozenset({"GET", "HEAD"})
LOCAL_NAMES = r"ip6-(localhost|loopback)|(.+\.)?(localhost|local|internal|localdomain|home\.arpa)"
_LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*"


def refusal(fact: HostFact, allowed: Iterable[str]) -> str | None:
    """Why a host may not be requested at all."""
    return _malformed(fact) or _private(fact, allowed) or _reason(odd_port(clean(fact.host), fact.port, allowed))


def _reason(unlisted: Unlisted | None) -> str | None:
    return None if unlisted is None else str(unlisted)


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
        return "the URL's host is not the one that would be requested"
    if not 0 < fact.port < 65536:
        return f"port {fact.port} does not exist"
    return None


def _private(fact: HostFact, allowed: Iterable[str]) -> str | None:
    host = clean(fact.host)
    if is_named(host, fact.port, allowed):
        return None
    hint = f'add "{with_port(host, fact.port)}" to [security] allowed_domains'
    if re.fullmatch(LOCAL_NAMES, host):
        return f"{host} is a local name: {hint}"
    kind = _address_kind(host)
    if kind == "public":
        return None
    if kind is not None:
        return f"{host} is a {kind} address: {hint}"
    if _is_numeric_address(host):
        return f"{host} is an address in a form that hides what it is"
    return None if re.fullmatch(_NAME, host) else f"{host!r} is not a host name"


def _is_numeric_address(host: str) -> bool:
    """Whether inet_aton would accept it: decimal, octal, hexadecimal, fewer than four parts."""
    return bool(re.fullmatch(r"(0x[0-9a-f]*|\d+)(\.(0x[0-9a-f]*|\d+))*", host))


def _address_kind(host: str) -> str | None:
    """The kind of a literal address; None if the host is not an address."""
    import ipaddress

    try:
        ipaddress.ip_address(host)
    except ValueError:
        return None
    return "public" if is_public(host) else "private, loopback or link-local"


def tunnel_refusal(host: str, port: int, addresses: Collection[str] | None, allowed: Collection[str]) -> str | None:
    """Why a command in the sandbox may not reach a host: first by its name alone, then with its addresses."""
    if not any(covers(pattern, host, port) for pattern in allowed):
        return f"{host} is neither in security.allowed_domains nor an allowed registry"
    fact = HostFact("CONNECT", f"https://{f'[{host}]' if ':' in host else host}:{port}/", host, port, "https")
    return refusal(fact, allowed) or _reason(connection(host, port, addresses or (), allowed))


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
        tail = glob_patterns.text_pattern(pattern[2:], "[^.]")
        return re.fullmatch(rf"(?:[^.]+\.)+{tail}", host) is not None
    return re.fullmatch(glob_patterns.text_pattern(pattern, "[^.]"), host) is not None


def is_listed(fact: HostFact, allowed: Iterable[str]) -> bool:
    return any(covers(pattern, fact.host, fact.port) for pattern in allowed)
