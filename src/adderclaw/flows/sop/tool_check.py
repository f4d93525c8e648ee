"""Whether the tools that a SOP names are there, and its arguments fit them."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from adderclaw.config.legacy.options import Options
from adderclaw.core.record import NamedTuple
from adderclaw.core.suggestions import did_you_mean
from adderclaw.core.tool_traits import traits
from adderclaw.core.types import Json, Tool
from adderclaw.flows.sop.sop import Problem, Sop, Step
from adderclaw.tools import arguments_of, decoded, find

SERVER = "mcp__"


class Known(NamedTuple):
    """What may be named."""

    tools: Mapping[str, Tool[Any]]
    others: frozenset[str]
    """Tools of plugins: what they take is not looked at."""
    servers: frozenset[str]
    """MCP servers. What tools one has is known when it runs."""

    @property
    def names(self) -> list[str]:
        aliases = [alias.name for tool in self.tools.values() for alias in tool.aliases]
        return [*(name for name in self.tools if not traits(name).finds_tools), *aliases, *self.others]


def known(options: Options) -> Known:
    """What a run with these options has; nothing is started."""
    from adderclaw import config, tools
    from adderclaw.agent.session.clock import SystemClock
    from adderclaw.config.plugins import installed

    loaded = config.load(config_file=options.config_file, workspace=options.workspace, here=options.here)
    made = tools.builtin(tools.Kit(loaded.config, None, SystemClock()))
    others = [tool.name for plugin in installed.active(config.home()) for tool in plugin.manifest.tools]
    return Known(made, frozenset(others), frozenset(loaded.config.mcp_servers))


def problems(sop: Sop, there: Known, broken: Collection[str] = ()) -> Iterator[Problem]:
    """Of a `broken` step only the tool is looked at."""
    for number, step in enumerate(sop.steps, 1):
        who = step.id or str(number)
        for message in _of(step, there, whole=who not in broken):
            yield Problem(step.line, who, message)


def _of(step: Step, there: Known, *, whole: bool) -> Iterator[str]:
    names = [("tool", step.tool)] if step.kind == "tool" else [("tools", name) for name in step.tools or ()]
    for where, name in names:
        if not name:
            continue
        if traits(name).finds_tools:
            yield f"{where}: {name} is for models; name the tool itself"
        elif name.startswith(SERVER):
            yield from _of_server(where, name, there)
        elif name not in there.others and find(there.tools, name) is None:
            yield f"{where}: there is no tool {name[:80]!r}{did_you_mean(name, there.names)}"
        elif whole and step.kind == "tool" and name not in there.others:
            yield from _arguments(step, there)


def _of_server(where: str, name: str, there: Known) -> Iterator[str]:
    server, _, tool = name.removeprefix(SERVER).partition("__")
    if server not in there.servers:
        hint = did_you_mean(server, there.servers)
        yield f"{where}: there is no MCP server {server[:80]!r} ({name[:80]!r}){hint}; `adderclaw mcp list` lists them"
    elif not tool and where == "tool":
        yield f"{where}: {name!r} is a server; name a tool of it, as mcp__SERVER__TOOL"


def _arguments(step: Step, there: Known) -> Iterator[str]:
    """What of the arguments does not fit, as far as that is known before the run."""
    from adderclaw.core.decode import Invalid

    found = find(there.tools, step.tool)
    assert found is not None
    tool, alias = found
    later: Json = {one.argument: "" for one in step.references}
    filled = set(arguments_of(alias, later)) if later else set[str]()
    try:
        decoded(tool, arguments_of(alias, {**(step.args or {}), **later}))
    except Invalid as error:
        own = {name: key for key in (*(step.args or {}), *later) for name in arguments_of(alias, {key: ""})}
        for key, message in error.problems:
            top = key.split(".")[0].split("[")[0]
            if top in filled and key not in error.unknown:
                continue  # its value is not known yet
            yield f"args{f'.{own.get(top, key)}' if key else ''}: {message} (tool {step.tool})"
