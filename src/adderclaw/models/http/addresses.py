"""Decides which addresses are public, and whether a connection to a host is allowed."""

from collections.abc import Collection, Iterable

from adderclaw.core.record import NamedTuple


class Unlisted(NamedTuple):
    """Why a host is refused, and how the operator can allow it."""

    why: str
    fix: str

    def __str__(self) -> str:
        return f"{self.why}; {self.fix}"


def clean(host: str) -> str:
    return host.strip("[]").rstrip(".").lower()


def is_public(address: str) -> bool:
    """Whether an address is public; an IPv4 address embedded in an IPv6 address decides for it."""
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
    """Whether the operator listed exactly this host: only those may be on an unusual port."""
    host = clean(host)
    spellings = {host, f"[{host}]", f"{host}:{port}", f"[{host}]:{port}"}
    return not spellings.isdisjoint(entry.lower().rstrip(".") for entry in allowed)


def odd_port(host: str, port: int, allowed: Iterable[str]) -> Unlisted | None:
    """Why a port is refused: ports below 1024 other than 80 and 443 belong to other protocols, unless listed."""
    if port >= 1024 or port in WEB_PORTS or is_named(host, port, allowed):
        return None
    return Unlisted(f"port {port} of {host} is not a web port", _listed(host, port))


def _listed(host: str, port: int) -> str:
    return f'add "{with_port(host, port)}" to security.allowed_domains if that is wanted'


def with_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _means_private(host: str, port: int, allowed: Collection[str]) -> bool:
    """Whether the operator's list allows this host to be private: an address, a local name, or a name with its port.

    A plain domain does not, because its owner could point it to this machine or its network.
    """
    if not is_named(host, port, allowed):
        return False
    from ipaddress import ip_address

    host = clean(host)
    if "." not in host or host.endswith((".localhost", ".local", ".internal", ".localdomain", ".home.arpa")):
        return True
    try:
        ip_address(host)
    except ValueError:
        return with_port(host, port) in {entry.lower().rstrip(".") for entry in allowed}
    return True


def connection(host: str, port: int, addresses: Iterable[str], allowed: Collection[str]) -> Unlisted | None:
    """Why a connection to a host at its resolved addresses is refused, or None. Every client calls it."""
    if _means_private(host, port, allowed):
        return None
    if (odd := odd_port(host, port, allowed)) is not None:
        return odd
    for address in addresses:
        if not is_public(address):
            return Unlisted(f"{host} leads to the private or special address {address}", _listed(host, port))
    return None
