"""What every adapter is made with."""

from adderclaw.credentials.redaction import secret_name
from adderclaw.providers import Parts
from adderclaw.providers.wire import Endpoint, Wire


def wire_of(parts: Parts, place: Endpoint) -> Wire:
    """An entry's connections; the secrets among its headers are kept out of everything that is shown."""
    limit, timeout = parts.config.runtime.max_response_bytes, parts.entry.timeout_seconds
    for header, value in parts.entry.headers.items():
        if secret_name(header):
            parts.secrets.add(value)
    return Wire(parts.name, place, parts.secrets, parts.clock, timeout=timeout, max_bytes=limit)
