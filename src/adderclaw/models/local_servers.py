"""Model servers that run on this machine already, found by asking the ports that they usually have."""

import json
import os
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from typing import Any, NamedTuple, cast

from adderclaw.core.provider_kinds import KINDS, OLLAMA
from adderclaw.core.redaction import visible

PORTS: dict[int, str] = {
    kind.port: kind.name for kind in sorted(KINDS, key=lambda kind: bool(kind.suggested_url)) if kind.port
}
"""Port → the kind of provider that is usually there, the kinds that have an address of their own first."""
SECONDS = 0.3
PATIENCE = 5.0
"""For a server that the operator named."""
LARGEST = 262_144
SHOWN = 3


class Server(NamedTuple):
    kind: str
    base_url: str
    models: tuple[str, ...]

    def __str__(self) -> str:
        more = f" and {len(self.models) - SHOWN} more" if len(self.models) > SHOWN else ""
        listed = ", ".join(self.models[:SHOWN]) + more
        return f"{self.kind} at {self.base_url} ({listed or 'no model loaded'})"


def servers(ports: Mapping[int, str]) -> list[Server]:
    """Those that answer as a model server would; all ports are asked at once, and none is waited for long."""
    with ThreadPoolExecutor(max_workers=len(ports) or 1) as pool:
        return [server for server in pool.map(_ask, ports, ports.values()) if server is not None]


def usual_ports() -> dict[int, str]:
    """The usual ports, and the one of this machine that OLLAMA_HOST names."""
    named = re.fullmatch(
        r"(?:https?://)?(?:localhost|127\.0\.0\.1|0\.0\.0\.0)?:(\d{1,5})/?", os.environ.get("OLLAMA_HOST", "").strip()
    )
    port = int(named[1]) if named else 0
    return {port: OLLAMA, **PORTS} if 0 < port < 65_536 else dict(PORTS)


def address_of(kind: str, base_url: str | None) -> str | None:
    """Where a server of this machine is said to be that can be asked for its models; None for any other."""
    from urllib.parse import urlsplit

    from adderclaw.models.providers.openai_server import base_url_of

    if kind not in PORTS.values() or not (address := base_url_of(kind, base_url)):
        return None
    host = urlsplit(address).hostname or ""
    local = host == "localhost" or (host.startswith("127.") and host.replace(".", "").isdigit())
    return address if local and address.startswith("http://") else None


def at(address: str, kind: str) -> Server | None:
    """The server at such an address, if one answers."""
    from urllib.parse import urlsplit

    parts = urlsplit(address)
    return _listed(parts.hostname or "", parts.port or 80, f"{parts.path.rstrip('/')}/models", kind, address, PATIENCE)


def _ask(port: int, kind: str) -> Server | None:
    return _listed("127.0.0.1", port, "/v1/models", kind, f"http://127.0.0.1:{port}/v1", SECONDS)


def _listed(host: str, port: int, path: str, kind: str, address: str, seconds: float) -> Server | None:
    connection = HTTPConnection(host, port, timeout=seconds)
    try:
        connection.request("GET", path, headers={"accept": "application/json"})
        response = connection.getresponse()
        body = response.read(LARGEST) if response.status == 200 else b""
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()
    models = _models(body)
    return None if models is None else Server(kind, address, models)


def _models(body: bytes) -> tuple[str, ...] | None:
    """The names in a list of models; None when this is no such list: something else has the port."""
    try:
        whole: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    listed: Any = cast(dict[str, Any], whole).get("data", ()) if isinstance(whole, dict) else ()
    if not isinstance(listed, list):
        return () if isinstance(whole, dict) and cast(dict[str, Any], whole).get("object") == "list" else None
    names = [cast(dict[str, Any], model).get("id") for model in cast(list[Any], listed) if isinstance(model, dict)]
    return tuple(visible(name, keep_newlines=False)[:100] for name in names if isinstance(name, str) and name)
