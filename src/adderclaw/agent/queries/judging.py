"""What the policy would decide on a call; which tools the model is offered; whether a configured model answers."""

from typing import Any, TypedDict

from adderclaw.agent.queries import clean, read_only
from adderclaw.agent.run import Runtime, start_reading, tool_environment
from adderclaw.agent.session.session import ToolEnvironment
from adderclaw.agent.tool_call.permission_check import prepare_and_judge
from adderclaw.config.legacy.options import Options
from adderclaw.core.history import History
from adderclaw.core.types import ChatRequest, Message, Risk, TextBlock, Tool, ToolCall
from adderclaw.models import providers
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
    """Whether the model finds it only through ToolSearch."""
    usable: bool
    parameters: dict[str, Any]
    """Its JSON Schema."""


def explained(options: Options, tool: str, arguments: dict[str, Any]) -> Explained:
    """Judge a call without running it, as if nobody were at a terminal."""
    return explain_call(judging_environment(options), tool, arguments)


def judging_environment(options: Options, *, at_terminal: bool = False) -> ToolEnvironment:
    """The tool environment of a new session in this folder; nothing in it can run."""
    environment = tool_environment(start_reading(read_only(options)), None)
    environment.at_terminal = at_terminal
    return environment


def explain_call(environment: ToolEnvironment, name: str, arguments: dict[str, Any]) -> Explained:
    prepared_call = prepare_and_judge(environment, ToolCall("explain", name, arguments))
    return clean({**prepared_call.decision.as_json(), "tool": name})


def tools(options: Options) -> list[ToolRow]:
    return [row(tool) for tool in tool_environment(start_reading(read_only(options)), None).offered_tools.values()]


def row(tool: Tool[Any]) -> ToolRow:
    return {
        "name": tool.name,
        "description": tool.description,
        "aliases": [alias.name for alias in tool.aliases],
        "deferred": tool.deferred,
        "usable": tool.usable,
        "parameters": dict(tool.parameters),
    }


# ------------------------------------------------------------------ a model


async def one_word(runtime: Runtime, name: str) -> tuple[float, str]:
    """Ask a model for one word; returns the milliseconds until its answer, and the answer. Raises ProviderError."""
    clock = runtime.clock
    provider = providers.make(
        name,
        runtime.config,
        secrets=runtime.secrets,
        tell=runtime.bus.publish,
        clock=clock,
        credentials=runtime.credentials,
    )
    began = clock.monotonic()
    try:
        request = probe_request("Reply with the one word: ready", providers.model_of(name, runtime.config))
        response = await provider.chat(request, lambda _delta: None)
    finally:
        await provider.close()
    return round((clock.monotonic() - began) * 1000, 1), response.final_text.strip()


def probe_request(text: str, model: str) -> ChatRequest:
    history = History([Message("user", (TextBlock(text),))])
    return ChatRequest("You are being tested by your operator. Be brief.", history, (), model)
