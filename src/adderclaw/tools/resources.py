"""ListMcpResources and ReadMcpResource: the resources of MCP servers."""

import json
from typing import Any

from adderclaw.core.errors import AdderClawError
from adderclaw.core.host import ToolContext
from adderclaw.core.record import record
from adderclaw.core.types import Alias, Prepared, Tool, ToolResult, Touch, fixed_prepare, rejected
from adderclaw.tools.specs import builtin_tool

NO_SERVERS = "No MCP server is configured. `adderclaw mcp add` adds one."
SECONDS = 120.0


@record
class ListMcpResourcesArguments:
    server: str | None = None
    """List only the resources of this server."""


@record
class ReadMcpResourceArguments:
    server: str
    """The server's name."""
    uri: str
    """The resource's URI."""


def tools() -> tuple[Tool[Any], ...]:
    async def listed(arguments: ListMcpResourcesArguments, context: ToolContext) -> ToolResult:
        servers = context.host.resources
        if servers is None:
            return rejected(NO_SERVERS)
        try:
            rows, failures = await servers.resources(arguments.server, soon=True)
        except AdderClawError as error:
            return rejected(str(error))
        if arguments.server and failures and not rows:
            return rejected("\n".join(failures))
        lines = [json.dumps(row, ensure_ascii=False) for row in rows] or ["No resources."]
        return ToolResult("\n".join([*lines, *failures]))

    async def read(arguments: ReadMcpResourceArguments, context: ToolContext) -> ToolResult:
        servers = context.host.resources
        return rejected(NO_SERVERS) if servers is None else await servers.read(arguments.server, arguments.uri)

    def reading(arguments: ReadMcpResourceArguments, context: ToolContext) -> Prepared:
        touch = Touch(opaque=True, why=f"reads {arguments.uri[:200]} from the MCP server {arguments.server}")
        return Prepared(touch, lambda: read(arguments, context))

    return (
        builtin_tool(
            "ListMcpResources",
            ListMcpResourcesArguments,
            fixed_prepare(Touch(why="lists the resources of MCP servers"), listed),
            (Alias("ListMcpResourcesTool"),),
            timeout=lambda _: SECONDS,
            deferred=True,
        ),
        builtin_tool(
            "ReadMcpResource",
            ReadMcpResourceArguments,
            reading,
            (Alias("ReadMcpResourceTool"),),
            timeout=lambda _: SECONDS,
            deferred=True,
        ),
    )
