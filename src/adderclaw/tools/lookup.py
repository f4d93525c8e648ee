"""Finds tools by their names and aliases, and prepares the arguments of calls."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from adderclaw.core.tool_traits import CALL, NAMES, TOOL_SEARCH
from adderclaw.core.types import Alias, Json, Tool, ToolCall
from adderclaw.tools.specs import specs

SERVER_PREFIX = "mcp__"
"""Prefix of an MCP server's tools, whose names are known only when the server runs."""


def aliases() -> dict[str, str]:
    """Alias of a built-in tool → its name."""
    return {str(alias["name"]): name for name, known in specs().items() for alias in known.aliases}


def builtin_names() -> tuple[str, ...]:
    """The names and aliases of the built-in tools."""
    return (*NAMES, *aliases())


def without_withheld(tools: "Mapping[str, Tool[Any]]", withheld: Callable[[str], bool]) -> "dict[str, Tool[Any]]":
    """Leaves out the withheld tools, also from the names that ToolSearch lists."""
    offered = {name: tool for name, tool in tools.items() if not withheld(name)}
    search = offered.get(TOOL_SEARCH)
    if search is not None and len(offered) < len(tools):
        listed, left = (
            ", ".join(name for name in NAMES if name in of and of[name].deferred) for of in (tools, offered)
        )
        offered[TOOL_SEARCH] = replace(search, description=search.description.replace(listed, left or "none"))
    return offered


def find_tool(tools: Mapping[str, Tool[Any]], name: str) -> tuple[Tool[Any], Alias | None] | None:
    """The tool with this name or alias, and the alias if the name is one."""
    if tool := tools.get(name):
        return tool, None
    for tool in tools.values():
        for alias in tool.aliases:
            if alias.name == name:
                return tool, alias
    return None


def decode_arguments(tool: Tool[Any], arguments: Json) -> Any:
    """Decodes the model's JSON into the tool's arguments; raises Invalid with every problem."""
    from adderclaw.core.decode import decode

    if other := tool.traits.other_keys:
        arguments = {other.get(key, key): value for key, value in arguments.items()}
        arguments.pop("", None)
    return decode(tool.arguments, arguments) if tool.decode is None else tool.decode(arguments)


def unwrap_call(call: ToolCall) -> ToolCall:
    """The call inside a `Call {tool, input}`, which hooks, the policy and the receipt see; other calls unchanged."""
    arguments = call.arguments
    if call.name != CALL or arguments is None or arguments.keys() - {"tool", "input"}:
        return call
    name, inner = arguments.get("tool"), arguments.get("input", {})
    if not isinstance(name, str) or name == CALL:
        return call
    if isinstance(inner, str):  # some models send the input as a string of JSON
        return ToolCall(call.id, name, _parse_object(inner), inner)
    return ToolCall(call.id, name, cast(Json, inner)) if isinstance(inner, dict) else call


def _parse_object(text: str) -> Json | None:
    import json

    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast(Json, value) if isinstance(value, dict) else None


def nearest_name(tools: Mapping[str, Tool[Any]], name: str) -> str | None:
    """The known name that is most similar to an unknown one."""
    from adderclaw.core.suggestions import closest

    return closest(name, [*tools, *(alias.name for tool in tools.values() for alias in tool.aliases)])


def resolve_arguments(alias: Alias | None, arguments: Json) -> Json:
    """A call's arguments under the tool's own names, with the alias's defaults for missing ones."""
    if alias is None:
        return arguments
    renamed = {alias.arguments.get(name, name): value for name, value in arguments.items()}
    return {**alias.defaults, **renamed}
