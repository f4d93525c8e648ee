"""ToolSearch and Call: rarely used tools stay out of the prompt until the model searches for them."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from adderclaw.core.decode import Between
from adderclaw.core.host import ToolContext
from adderclaw.core.json_text import canonical
from adderclaw.core.record import record
from adderclaw.core.types import Json, Tool, ToolResult, Touch, fixed_prepare, own_words, rejected
from adderclaw.tools.lookup import find_tool, nearest_name
from adderclaw.tools.specs import builtin_tool

MAX_RESULTS = 20
MAX_QUERY = 1000


@record
class ToolSearchArguments:
    query: str
    max_results: Annotated[int, Between(1, MAX_RESULTS)] = 5


@record
class CallArguments:
    tool: str
    input: Json


# ------------------------------------------------------------------ the search


def search_tools(tools: Mapping[str, Tool[Any]], query: str, most: int) -> ToolResult:
    """Finds tools by name (`select:A,B`) or by words, where `+word` must occur in the name."""
    if query[:7].lower() == "select:":
        return _select_by_name(tools, [name.strip() for name in query[7:].split(",") if name.strip()])
    words = [word for word in query.lower().split() if word.strip("+")]
    if not words:
        return rejected("query is empty. Give words such as `notebook`, or select:Name,Name.")
    late = {name: tool for name, tool in tools.items() if not tool.traits.finds_tools and tool.deferred}
    scored = [(_score(tool, words), -index, tool) for index, tool in enumerate(late.values())]
    best = sorted((entry for entry in scored if entry[0] > 0), key=lambda entry: entry[:2], reverse=True)
    if not best:
        names = list(late)
        more = f" and {len(names) - 100} more" if len(names) > 100 else ""
        listed = f"Available: {', '.join(names[:100])}{more}." if names else "There are no more tools."
        return own_words(f"No tool matches {query[:100]!r}. {listed}", {"tools": []})
    return _describe_tools([tool for _, _, tool in best[:most]], [])


def _select_by_name(tools: Mapping[str, Tool[Any]], names: list[str]) -> ToolResult:
    if not names:
        return rejected("select: needs a name. Give select:Name or select:Name,Name.")
    selected: dict[str, Tool[Any]] = {}
    missing: list[str] = []
    for name in names[:MAX_RESULTS]:
        known = find_tool(tools, name)
        if known is not None and not known[0].traits.finds_tools:
            selected[known[0].name] = known[0]
        else:
            near = nearest_name(tools, name)
            missing.append(f"there is no tool {name[:100]!r}" + (f"; did you mean {near}?" if near else ""))
    if not selected:
        return rejected("; ".join(missing))
    return _describe_tools(list(selected.values()), missing)


def _describe_tools(tools: list[Tool[Any]], notes: list[str]) -> ToolResult:
    lines = [
        canonical({"tool": tool.name, "description": tool.description, "input": tool.parameters}) for tool in tools
    ]
    lines += notes
    lines.append('Use one with Call {"tool": NAME, "input": {…}}; `input` above is the JSON Schema of its input.')
    about: Json = {"tools": [tool.name for tool in tools]}
    # descriptions of MCP tools come from outside
    foreign = any(tool.name.startswith("mcp__") for tool in tools)
    return ToolResult("\n".join(lines), metadata=about) if foreign else own_words("\n".join(lines), about)


def _score(tool: Tool[Any], words: list[str]) -> int:
    name = tool.name.lower()
    parts = set(re.findall(r"[a-z]+|[A-Z][a-z]*|\d+", tool.name.replace("_", " ")))
    parts = {part.lower() for part in parts}
    description_words = set(re.findall(r"[^\W_]+", tool.description.lower()))
    total = 0
    for word in words:
        needed, bare = word.startswith("+"), word.strip("+")
        in_name = 100 if bare == name else 10 if bare in parts else 5 if bare in name else 0
        if needed and not in_name:
            return 0
        total += in_name + (
            3 if bare in description_words else 1 if len(bare) > 3 and bare in tool.description.lower() else 0
        )
    return total


# ------------------------------------------------------------------ the tools


SEARCH_TOUCH = Touch(why="searches for tools")


def tools() -> tuple[Tool[Any], ...]:
    async def run(arguments: ToolSearchArguments, ctx: ToolContext) -> ToolResult:
        if len(arguments.query) > MAX_QUERY:
            return rejected(f"the query has {len(arguments.query)} characters; at most {MAX_QUERY} are allowed.")
        failed = await ctx.host.wait_for_servers()
        result = search_tools(ctx.host.tools(), arguments.query, arguments.max_results)
        if failed:
            return replace(result, content=f"{result.content}\n{failed}")
        return result

    async def call(arguments: CallArguments, _ctx: ToolContext) -> ToolResult:
        # the kernel unwraps a Call before it is judged, so only a Call that names no other tool arrives here
        return rejected(f"Call cannot call {arguments.tool!r}. Name a tool that ToolSearch finds.")

    return (
        builtin_tool("ToolSearch", ToolSearchArguments, fixed_prepare(SEARCH_TOUCH, run), timeout=lambda _given: 60.0),
        builtin_tool("Call", CallArguments, fixed_prepare(SEARCH_TOUCH, call)),
    )
