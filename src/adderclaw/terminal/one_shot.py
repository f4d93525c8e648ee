"""Opens a conversation for a channel of the terminal; and the channel of `agent -m`, which answers one message."""

import asyncio
import sys
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from adderclaw.agent.loop.loop import ignore_delta, run_turn
from adderclaw.agent.run import Options, Resume, Run, open_run, start_agent
from adderclaw.agent.run.drive import Report, drive, one_turn, require_script_finished
from adderclaw.agent.run.signals import until_signal
from adderclaw.agent.session.session import TurnResult
from adderclaw.clients.python.channel import Channel, Handle
from adderclaw.core.deltas import GrowingText
from adderclaw.core.events import Bus, EventRecord
from adderclaw.core.questions import Operator
from adderclaw.core.redaction import visible
from adderclaw.core.types import Delta, Json, OnDelta
from adderclaw.terminal.operators import Terminal
from adderclaw.terminal.output import StreamFormat, print_json

if TYPE_CHECKING:
    from adderclaw.config.schema import Config


class OneShot:
    """Sends one message and prints the answer on stdout."""

    name = "cli"

    def __init__(self, message: str | None, output_format: StreamFormat) -> None:
        self.message = message
        self.output_format: StreamFormat = output_format
        self._shown: AnswerPrinter | None = None
        self._rest = ""

    @property
    def supports_draft_updates(self) -> bool:
        return self.output_format == "text" and sys.stdout.isatty()

    def start(self, handle: Handle) -> int:
        return asyncio.run(self._turn(handle.run))

    async def _turn(self, run: Run) -> int:
        """Runs one turn and returns its exit code. A signal ends it cleanly: children are killed, records written."""
        self._shown = AnswerPrinter(run.runtime.bus) if self.supports_draft_updates else None
        resume = f"agent --resume {run.session.conversation_id}"
        return (await drive(run, self._worked(run), resume=resume, show=self._show)).exit_code

    async def _worked(self, run: Run) -> TurnResult:
        def work(hear: OnDelta) -> Awaitable[TurnResult]:
            return until_signal(run, run_turn(run.session, self.message, hear))

        if self.output_format != "text":
            return require_script_finished(run, await work(ignore_delta))
        result, self._rest = await one_turn(run.session, work, self._shown)
        return require_script_finished(run, result)

    def _show(self, report: Report) -> None:
        if self.output_format == "text":
            self.send(report.run.session.conversation_id, self._rest)
        show_outcome(report, self.output_format)
        sys.stdout.flush()

    def send(self, conversation_id: str, message: str) -> None:  # noqa: ARG002 - there is one conversation
        if message:
            print(visible(message))
        elif self._shown is not None:
            self._shown.end_line()


def show_outcome(report: Report, output_format: StreamFormat) -> None:
    """Prints the whole report for a program; for a person, only why the turn did not complete."""
    if output_format != "text":
        kind: Json = {"type": "result"} if output_format == "stream-json" else {}
        print_json({**kind, **report.as_json()})
    if report.result.outcome != "completed":
        print(f"adderclaw: {report.result.outcome}: {visible(report.result.reason)}", file=sys.stderr)


ENDS_A_LINE = ("llm_request_sent", "tool_requested", "tool_completed", "tool_failed", "tool_denied")


class AnswerPrinter:
    """Prints the answer while it streams, each reply on its own line, and keeps its text."""

    def __init__(self, bus: Bus | None = None) -> None:
        self._text = GrowingText()
        self._bus = bus
        self._is_open = False
        """Whether the current line has not ended."""
        if bus is not None:
            bus.remove_sink("answer")
            bus.add_sink("answer", self._hear)

    @property
    def text(self) -> str:
        return str(self._text)

    def __call__(self, delta: Delta) -> None:
        if delta.kind == "reset":
            self.end_line()
            self._text.clear()
        elif delta.kind == "text":
            if self._bus is not None:
                self._bus.deliver()  # earlier events are printed first
            self._text.add(delta.text)
            print(visible(delta.text), end="", flush=True)
            self._is_open = not delta.text.endswith("\n")

    def _hear(self, record: EventRecord) -> None:
        if record.event_type in ENDS_A_LINE:
            self.end_line()

    def end_line(self) -> None:
        if self._is_open:
            print(flush=True)
        self._is_open = False


def print_event(record: EventRecord) -> None:
    print_json({"type": "event", **record._asdict()})


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
