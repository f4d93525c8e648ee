"""ListMcpResources and ReadMcpResource: what MCP servers let be read."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from adderclaw.errors import AdderClawError
from adderclaw.record import record
from adderclaw.tools.specs import spec
from adderclaw.types import Alias, Prepared, Tool, ToolContext, ToolResult, Touch, preparing, rejected

if TYPE_CHECKING:
    from adderclaw.tools import Resources

NONE = "No MCP server is configured. `adderclaw mcp add` adds one."
SECONDS = 120.0


@record
class ListMcpResourcesArguments:
    server: str | None = None
    """Only this server's."""


@record
class ReadMcpResourceArguments:
    server: str
    """The server's name."""
    uri: str
    """The resource's URI."""


def tools(resources: "Callable[[], Resources | None]") -> tuple[Tool[Any], ...]:
    """`resources` gives the servers of the session, or None."""

    async def listed(arguments: ListMcpResourcesArguments, _context: ToolContext) -> ToolResult:
        servers = resources()
        if servers is None:
            return rejected(NONE)
        try:
            rows, failures = await servers.resources(arguments.server)
        except AdderClawError as error:
            return rejected(str(error))
        if arguments.server and failures and not rows:
            return rejected("\n".join(failures))
        said = [json.dumps(row, ensure_ascii=False) for row in rows] or ["No resources."]
        return ToolResult("\n".join([*said, *failures]))

    async def read(arguments: ReadMcpResourceArguments) -> ToolResult:
        servers = resources()
        return rejected(NONE) if servers is None else await servers.read(arguments.server, arguments.uri)

    def reading(arguments: ReadMcpResourceArguments, _context: ToolContext) -> Prepared:
        touch = Touch(opaque=True, why=f"reads {arguments.uri[:200]} from the MCP server {arguments.server}")
        return Prepared(touch, lambda: read(arguments))

    return (
        Tool(
            "ListMcpResources",
            ListMcpResourcesArguments,
            preparing(Touch(why="lists what MCP servers let be read"), listed),
            spec("ListMcpResources").description,
            spec("ListMcpResources").parameters,
            (Alias("ListMcpResourcesTool"),),
            timeout=lambda _: SECONDS,
            deferred=True,
        ),
        Tool(
            "ReadMcpResource",
            ReadMcpResourceArguments,
            reading,
            spec("ReadMcpResource").description,
            spec("ReadMcpResource").parameters,
            (Alias("ReadMcpResourceTool"),),
            timeout=lambda _: SECONDS,
            deferred=True,
        ),
    )
