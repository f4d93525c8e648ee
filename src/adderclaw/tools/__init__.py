"""The one tool registry: every built-in tool as a value, found by its name or by another seed's name for it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from adderclaw.types import (
    Alias,
    Answer,
    ApprovalRequest,
    Clock,
    Fire,
    Json,
    Question,
    Replies,
    Spawn,
    Tool,
    ToolResult,
)

if TYPE_CHECKING:
    from adderclaw.config.schema import Config
    from adderclaw.sandbox.process import Start
    from adderclaw.store import Store
    from adderclaw.tools.background import Tasks

NAMES = (
    "Bash",
    "Read",
    "Write",
    "Edit",
    "LS",
    "Glob",
    "Grep",
    "Http",
    "Time",
    "MemorySearch",
    "MemoryRead",
    "MemoryWrite",
    "ListMcpResources",
    "ReadMcpResource",
)


class Resources(Protocol):
    """The resources of MCP servers."""

    async def resources(self, server: str | None) -> tuple[list[Json], list[str]]:
        """Those of one server, or of all; and what is to be said of servers that could not be asked."""
        ...

    async def read(self, server: str, uri: str) -> ToolResult: ...


@dataclass(eq=False, repr=False)
class Kit:
    """What tools are made with. Without a store nothing can run, but everything can be explained."""

    config: "Config"
    store: "Store | None"
    clock: Clock
    start: "Start | None" = None
    """Starts a child in the session's sandbox; None where there is none."""
    fire: Fire | None = None
    """Runs the hooks of an event in the session that the tools belong to; None where there is no session."""
    tools: "Callable[[], Mapping[str, Tool[Any]]] | None" = None
    """All tools of the session, for ToolSearch."""
    connecting: Callable[[], Awaitable[str]] | None = None
    """Waits until servers that are still starting have brought their tools; says which failed, if any."""
    resources: "Resources | None" = None
    """What MCP servers let be read; None where none is configured."""
    ask: Callable[[Sequence[Question]], Awaitable[Replies | None]] | None = None
    """Asks the operator; None comes back where nobody is there."""
    approve: Callable[[ApprovalRequest], Awaitable[Answer]] | None = None
    """Asks the operator for a yes."""
    spawn: Spawn | None = None
    """Makes a child session of the session and runs it to its end."""
    tasks: "Tasks | None" = None
    """The background tasks of the session; None where nothing can run."""


def builtin(kit: Kit) -> "dict[str, Tool[Any]]":
    """Canonical name → tool, always in the order of NAMES, so that the prompt's beginning stays the same."""
    from adderclaw.tools import clock as clocks
    from adderclaw.tools import files, memory, resources, search, shell, web

    made = (
        *shell.tools(kit.config, start=kit.start),
        *files.tools(kit.config),
        *search.tools(kit.config),
        *web.tools(kit.config),
        *clocks.tools(kit.clock),
        *memory.tools(kit.store, kit.clock),
        *resources.tools(lambda: kit.resources),
    )
    by_name = {tool.name: tool for tool in made}
    return {name: by_name[name] for name in NAMES}


def find(tools: Mapping[str, Tool[Any]], name: str) -> tuple[Tool[Any], Alias | None] | None:
    """The tool of that name, with the alias if it is one."""
    if tool := tools.get(name):
        return tool, None
    for tool in tools.values():
        for alias in tool.aliases:
            if alias.name == name:
                return tool, alias
    return None


def nearest(tools: Mapping[str, Tool[Any]], name: str) -> str | None:
    """The known name that looks most like an unknown one."""
    from difflib import get_close_matches

    known = {alias.name.lower(): alias.name for tool in tools.values() for alias in tool.aliases}
    known |= {tool.lower(): tool for tool in tools}
    found = get_close_matches(name[:100].lower(), known, n=1)
    return known[found[0]] if found else None


def arguments_of(alias: Alias | None, given: Json) -> Json:
    """A call's arguments under the tool's own names, with the alias's defaults for what was left out."""
    if alias is None:
        return given
    renamed = {alias.arguments.get(name, name): value for name, value in given.items()}
    return {**alias.defaults, **renamed}
