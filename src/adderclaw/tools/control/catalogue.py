"""ToolSearch and Call: tools that are rarely needed stay out of the prompt until they are looked for."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from adderclaw.core.decode import Between
from adderclaw.core.json_text import canonical
from adderclaw.core.record import record
from adderclaw.core.types import Json, Tool, ToolContext, ToolResult, Touch, fixed_prepare, own_words, rejected
from adderclaw.tools.specs import spec

MOST = 20
MAX_QUERY = 1000


@record
class ToolSearchArguments:
    query: str
    max_results: Annotated[int, Between(1, MOST)] = 5


@record
class CallArguments:
    tool: str
    input: Json


# ------------------------------------------------------------------ the search


def search(tools: Mapping[str, Tool[Any]], query: str, most: int) -> ToolResult:
    """`select:A,B` gives these; otherwise words, of which `+word` has to be in the name."""
    if query[:7].lower() == "select:":
        return _selected(tools, [name.strip() for name in query[7:].split(",") if name.strip()])
    words = [word for word in query.lower().split() if word.strip("+")]
    if not words:
        return rejected("query is empty: give words such as `notebook`, or select:Name,Name.")
    late = {name: tool for name, tool in tools.items() if not tool.traits.finds_tools and tool.deferred}
    scored = [(_score(tool, words), -place, tool) for place, tool in enumerate(late.values())]
    best = sorted((found for found in scored if found[0] > 0), key=lambda found: found[:2], reverse=True)
    if not best:
        return _nothing(query, late)
    return _described([tool for _, _, tool in best[:most]], [])


def _selected(tools: Mapping[str, Tool[Any]], names: list[str]) -> ToolResult:
    from adderclaw.tools import find, nearest

    if not names:
        return rejected("select: names no tool; give select:Name or select:Name,Name.")
    found: dict[str, Tool[Any]] = {}
    missing: list[str] = []
    for name in names[:MOST]:
        known = find(tools, name)
        if known is not None and not known[0].traits.finds_tools:
            found[known[0].name] = known[0]
        else:
            near = nearest(tools, name)
            missing.append(f"there is no tool {name[:100]!r}" + (f"; did you mean {near}?" if near else ""))
    if not found:
        return rejected("; ".join(missing))
    return _described(list(found.values()), missing)


def _described(found: list[Tool[Any]], notes: list[str]) -> ToolResult:
    lines = [
        canonical({"tool": tool.name, "description": tool.description, "input": tool.parameters}) for tool in found
    ]
    lines += notes
    lines.append('Use one with Call {"tool": NAME, "input": {…}}; `input` above is the JSON Schema of its input.')
    about: Json = {"tools": [tool.name for tool in found]}
    # what a server says of its tools comes from outside
    foreign = any(tool.name.startswith("mcp__") for tool in found)
    return ToolResult("\n".join(lines), metadata=about) if foreign else own_words("\n".join(lines), about)


def _nothing(query: str, late: Mapping[str, Tool[Any]]) -> ToolResult:
    names = list(late)
    more = f" and {len(names) - 100} more" if len(names) > 100 else ""
    listed = f"There are: {', '.join(names[:100])}{more}." if names else "There are no further tools."
    return own_words(f"No further tool matches {query[:100]!r}. {listed}", {"tools": []})


def _score(tool: Tool[Any], words: list[str]) -> int:
    name = tool.name.lower()
    parts = set(re.findall(r"[a-z]+|[A-Z][a-z]*|\d+", tool.name.replace("_", " ")))
    parts = {part.lower() for part in parts}
    told = set(re.findall(r"[^\W_]+", tool.description.lower()))
    total = 0
    for word in words:
        needed, bare = word.startswith("+"), word.strip("+")
        in_name = 100 if bare == name else 10 if bare in parts else 5 if bare in name else 0
        if needed and not in_name:
            return 0
        total += in_name + (3 if bare in told else 1 if len(bare) > 3 and bare in tool.description.lower() else 0)
    return total


# ------------------------------------------------------------------ the tools


LOOKING = Touch(why="looks for tools")


def tools() -> tuple[Tool[Any], ...]:
    async def run(given: ToolSearchArguments, ctx: ToolContext) -> ToolResult:
        if len(given.query) > MAX_QUERY:
            return rejected(f"the query has {len(given.query)} characters; at most {MAX_QUERY} are searched for.")
        failed = await ctx.host.wait_for_servers()
        result = search(ctx.host.tools(), given.query, given.max_results)
        if failed:
            return replace(result, content=f"{result.content}\n{failed}")
        return result

    async def call(given: CallArguments, _ctx: ToolContext) -> ToolResult:
        # the kernel unwraps a Call before it is judged: what comes here names no other tool
        return rejected(f"Call cannot call {given.tool!r}; name one of the tools that ToolSearch finds.")

    known, caller = spec("ToolSearch"), spec("Call")
    return (
        Tool(
            "ToolSearch",
            ToolSearchArguments,
            fixed_prepare(LOOKING, run),
            known.description,
            known.parameters,
            timeout=lambda _given: 60.0,
        ),
        Tool("Call", CallArguments, fixed_prepare(LOOKING, call), caller.description, caller.parameters),
    )
