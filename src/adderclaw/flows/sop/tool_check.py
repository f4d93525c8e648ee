"""Checks that the tools of a SOP exist and accept its arguments."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from adderclaw.config.legacy.options import Options
from adderclaw.core.record import NamedTuple
from adderclaw.core.suggestions import did_you_mean
from adderclaw.core.tool_traits import traits
from adderclaw.core.types import Json, Tool
from adderclaw.flows.sop.sop import Problem, Sop, Step
from adderclaw.tools import decode_arguments, find_tool, resolve_arguments

MCP_PREFIX = "mcp__"


class KnownTools(NamedTuple):
    """The tools and servers that a SOP may name."""

    tools: Mapping[str, Tool[Any]]
    others: frozenset[str]
    """Tools of plugins, whose arguments are not checked."""
    servers: frozenset[str]
    """MCP servers, whose tools are only known when they run."""

    @property
    def names(self) -> list[str]:
        aliases = [alias.name for tool in self.tools.values() for alias in tool.aliases]
        return [*(name for name in self.tools if not traits(name).finds_tools), *aliases, *self.others]


def known_tools(options: Options) -> KnownTools:
    """Returns the tools that a run with these options would have, without starting anything."""
    from adderclaw import config, tools
    from adderclaw.agent.session.clock import SystemClock
    from adderclaw.config.plugins import installed

    loaded = config.load(config_file=options.config_file, workspace=options.workspace, here=options.here)
    builtin = tools.builtin_tools(tools.Kit(loaded.config, None, SystemClock()))
    others = [tool.name for plugin in installed.active(config.home()) for tool in plugin.manifest.tools]
    return KnownTools(builtin, frozenset(others), frozenset(loaded.config.mcp_servers))


def tool_problems(sop: Sop, known_tools: KnownTools, broken: Collection[str] = ()) -> Iterator[Problem]:
    """Checks the tools of all steps, and the arguments of those that are not `broken`."""
    for number, step in enumerate(sop.steps, 1):
        who = step.id or str(number)
        for message in _step_problems(step, known_tools, whole=who not in broken):
            yield Problem(step.line, who, message)


def _step_problems(step: Step, known_tools: KnownTools, *, whole: bool) -> Iterator[str]:
    names = [("tool", step.tool)] if step.kind == "tool" else [("tools", name) for name in step.tools or ()]
    for where, name in names:
        if not name:
            continue
        if traits(name).finds_tools:
            yield f"{where}: {name} only helps models find tools; name the tool itself"
        elif name.startswith(MCP_PREFIX):
            yield from _server_problems(where, name, known_tools)
        elif name not in known_tools.others and find_tool(known_tools.tools, name) is None:
            yield f"{where}: there is no tool {name[:80]!r}{did_you_mean(name, known_tools.names)}"
        elif whole and step.kind == "tool" and name not in known_tools.others:
            yield from _argument_problems(step, known_tools)


def _server_problems(where: str, name: str, known_tools: KnownTools) -> Iterator[str]:
    server, _, tool = name.removeprefix(MCP_PREFIX).partition("__")
    if server not in known_tools.servers:
        hint = did_you_mean(server, known_tools.servers)
        yield f"{where}: there is no MCP server {server[:80]!r} ({name[:80]!r}){hint}; `adderclaw mcp list` lists them"
    elif not tool and where == "tool":
        yield f"{where}: {name!r} is a server; name one of its tools, as mcp__SERVER__TOOL"


def _argument_problems(step: Step, known_tools: KnownTools) -> Iterator[str]:
    """Finds invalid arguments, as far as their values are known before the run."""
    from adderclaw.core.decode import Invalid

    tool_and_alias = find_tool(known_tools.tools, step.tool)
    assert tool_and_alias is not None
    tool, alias = tool_and_alias
    later: Json = {reference.argument: "" for reference in step.references}
    filled = set(resolve_arguments(alias, later)) if later else set[str]()
    try:
        decode_arguments(tool, resolve_arguments(alias, {**(step.args or {}), **later}))
    except Invalid as error:
        own = {name: key for key in (*(step.args or {}), *later) for name in resolve_arguments(alias, {key: ""})}
        for key, message in error.problems:
            top = key.split(".")[0].split("[")[0]
            if top in filled and key not in error.unknown:
                continue  # its value is not known yet
            yield f"args{f'.{own.get(top, key)}' if key else ''}: {message} (tool {step.tool})"
