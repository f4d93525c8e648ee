"""What the gate would decide on a call, with every opinion; and the tools that a model may call."""

from typing import Any, TypedDict

from adderclaw.agent.queries import clean, looking
from adderclaw.agent.run import start_reading, tool_environment
from adderclaw.agent.session.session import ToolEnvironment
from adderclaw.agent.tool_call.permission_check import prepare_and_judge
from adderclaw.config.legacy.options import Options
from adderclaw.core.types import Risk, Tool, ToolCall
from adderclaw.policy.case import CommandDenial, Verdict


class OpinionRow(TypedDict):
    by: str
    """The guard or judge."""
    verdict: Verdict | None
    """null: it has no opinion."""
    reason: str


class Explained(TypedDict):
    tool: str
    verdict: Verdict
    risk: Risk
    reason: str
    by: str
    """The guard, judge or mode that decided."""
    denial: CommandDenial | None
    opinions: list[OpinionRow]


class ToolRow(TypedDict):
    name: str
    description: str
    aliases: list[str]
    deferred: bool
    """It waits behind ToolSearch."""
    usable: bool
    parameters: dict[str, Any]
    """Its JSON Schema."""


def explained(options: Options, tool: str, arguments: dict[str, Any]) -> Explained:
    """Nothing runs; nobody is at a terminal."""
    return in_scene(judged_in(options), tool, arguments)


def judged_in(options: Options, *, at_terminal: bool = False) -> ToolEnvironment:
    """The tool environment of a new session in this folder; nothing in it can run."""
    environment = tool_environment(start_reading(looking(options)), None)
    environment.at_terminal = at_terminal
    return environment


def in_scene(environment: ToolEnvironment, name: str, arguments: dict[str, Any]) -> Explained:
    prepared_call = prepare_and_judge(environment, ToolCall("explain", name, arguments))
    return clean({**prepared_call.decision.as_json(), "tool": name})


def tools(options: Options) -> list[ToolRow]:
    return [row(tool) for tool in tool_environment(start_reading(looking(options)), None).offered_tools.values()]


def row(tool: Tool[Any]) -> ToolRow:
    return {
        "name": tool.name,
        "description": tool.description,
        "aliases": [alias.name for alias in tool.aliases],
        "deferred": tool.deferred,
        "usable": tool.usable,
        "parameters": dict(tool.parameters),
    }
