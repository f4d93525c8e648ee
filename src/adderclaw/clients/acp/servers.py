"""MCP servers that an editor names: entries of the configuration like any other, so gate, pins and sandbox hold."""

from collections.abc import Iterable, Sequence

from acp import schema

from adderclaw.config.servers import slug
from adderclaw.core.errors import UsageError
from adderclaw.core.types import Json

type Server = schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio

MOST = 50


def configured(servers: Sequence[Server], taken: Iterable[str]) -> Json:
    """Entries of `mcp_servers`; one whose name the operator's configuration has is the operator's, and left out."""
    if len(servers) > MOST:
        raise UsageError(f"mcpServers: at most {MOST} servers; these are {len(servers)}")
    known = {slug(name) for name in taken}
    entries: Json = {}
    for server in servers:
        name = slug(server.name)
        if not name:
            raise UsageError(f"mcpServers: {server.name[:60]!r} is no name of a server")
        if name in known:
            continue
        known.add(name)
        entries[server.name] = _entry(server)
    return entries


def _entry(server: Server) -> Json:
    match server:
        case schema.McpServerStdio():
            return {
                "command": server.command,
                "args": list(server.args),
                "env": {pair.name: pair.value for pair in server.env},
            }
        case schema.HttpMcpServer():
            return {"type": "http", "url": server.url, "headers": {pair.name: pair.value for pair in server.headers}}
        case _:
            raise UsageError(f"mcpServers: {server.name[:60]!r}: only servers of stdio and http can be used")
