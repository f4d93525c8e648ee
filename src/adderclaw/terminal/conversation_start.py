"""Opens a conversation for a channel of the terminal."""

import sys
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from adderclaw.agent.run import Options, Resume, open_run, start_agent
from adderclaw.clients.python.channel import Channel, Handle
from adderclaw.core.questions import Operator
from adderclaw.terminal.one_shot import OneShot, print_event
from adderclaw.terminal.operators import Terminal

if TYPE_CHECKING:
    from adderclaw.config.schema.settings import Config


def at_terminal() -> bool:
    """Whether a person types the input and sees the output."""
    return is_stdin_terminal() and sys.stdout.isatty()


def is_stdin_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()  # pyright: ignore[reportUnnecessaryComparison] - None where it is closed


@runtime_checkable
class ChannelWithOperator(Protocol):
    """A channel that asks the operator in its own way."""

    def operator_for(self, config: "Config") -> Operator: ...


def start_conversation(channel: Channel, options: Options, again: Resume | None) -> int:
    """Opens a conversation for a channel and runs the channel."""
    runtime = start_agent(options)
    if isinstance(channel, OneShot) and channel.output_format == "stream-json":
        runtime.bus.add_sink("stream", print_event)
    else:
        from adderclaw.storage.telemetry.log import show_brief

        runtime.bus.add_sink("brief", show_brief)
    kind = "agent" if isinstance(channel, OneShot) else channel.name
    operator = channel.operator_for(runtime.config) if isinstance(channel, ChannelWithOperator) else Terminal()
    with open_run(runtime, operator, kind=kind, channel=channel.name, again=again) as run:
        return channel.start(Handle(channel, run))
