"""`adderclaw agent`: a REPL, or one turn with -m."""

import asyncio
import sys
from collections.abc import Awaitable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Protocol, runtime_checkable

from adderclaw.agent.conversation.one_turn import one_turn
from adderclaw.agent.loop.loop import ignore_delta, run_turn
from adderclaw.agent.run import Options, Resume, Run, open_run, start_agent
from adderclaw.agent.run.drive import Report, drive, require_script_finished
from adderclaw.agent.run.signals import until_signal
from adderclaw.agent.session.session import TurnResult
from adderclaw.clients.python.channel import Channel, Handle
from adderclaw.core.deltas import GrowingText
from adderclaw.core.errors import UsageError
from adderclaw.core.events import Bus, EventRecord
from adderclaw.core.questions import Operator
from adderclaw.core.redaction import visible
from adderclaw.core.types import Delta, Json, OnDelta, Thinking
from adderclaw.terminal.commands.plain import (
    CONFIG_FILE,
    EFFORT,
    LIMIT,
    MODEL_NAME,
    PERMISSION_MODE,
    PROFILE,
    PROVIDER_NAME,
    STREAM_OUTPUT,
    WORKSPACE_DIR,
    EffortName,
    ModeName,
    Option,
    ProfileName,
    StreamFormat,
    chooser,
    limits,
    print_json,
)
from adderclaw.terminal.operators import Terminal

if TYPE_CHECKING:
    from adderclaw.config.schema.settings import Config


def agent(
    message: Annotated[
        str | None, Option(("--message", "-m"), "Run one turn with this and exit; - reads it from stdin.")
    ] = None,
    go_on: Annotated[bool, Option(("--continue", "-c"), "Go on with the last conversation here.")] = False,
    resume: Annotated[str | None, Option(("--resume", "-r"), "Go on with this conversation.", "ID")] = None,
    pick: Annotated[bool, Option(("--pick",), "Choose the conversation to go on with from a list.")] = False,
    begin_with: Annotated[str | None, Option(("--begin-with",), "Open the REPL with this message.", "TEXT")] = None,
    plain: Annotated[
        bool, Option(("--plain",), "Print lines only, nothing is redrawn: for screen readers and simple terminals.")
    ] = False,
    no_motion: Annotated[bool, Option(("--no-motion",), "Nothing moves on the screen by itself.")] = False,
    profile: Annotated[ProfileName | None, PROFILE] = None,
    permission_mode: Annotated[ModeName | None, PERMISSION_MODE] = None,
    provider: Annotated[str | None, PROVIDER_NAME] = None,
    model: Annotated[str | None, MODEL_NAME] = None,
    effort: Annotated[EffortName | None, EFFORT] = None,
    workspace: Annotated[str | None, WORKSPACE_DIR] = None,
    config: Annotated[str | None, CONFIG_FILE] = None,
    bare: Annotated[
        bool, Option(("--bare",), "Keys only from the environment and your own apiKeyHelper: no login.")
    ] = False,
    maintenance: Annotated[
        bool, Option(("--maintenance",), "Begin with the Setup hooks, in maintenance mode.")
    ] = False,
    plugin_dir: Annotated[
        list[str] | None, Option(("--plugin-dir",), "A plugin by its folder, for this session; may be repeated.", "DIR")
    ] = None,
    limit: Annotated[list[str] | None, LIMIT] = None,
    output_format: Annotated[StreamFormat, STREAM_OUTPUT] = "text",
) -> int:
    """Talk to the agent: a REPL, or one turn with -m.

    The answer is on stdout, everything else on stderr. Approvals are asked on stderr and read from stdin. Without -m,
    what is piped is one message.

    Example: adderclaw agent -m "what is in this project?"
    """
    if (begin_with is not None or pick) and not at_terminal():
        raise UsageError('a conversation needs a terminal; `adderclaw -p "…"` answers one message without one')
    again = Resume(resume, message is None) if go_on or resume is not None else None
    if message == "-" or (message is None and again is None and not _is_terminal()):
        message = _piped()
    if message is not None and not message.strip():
        raise UsageError("-m: the message is empty; say what the agent should do")
    options = Options(
        config_file=config,
        workspace=workspace,
        provider=provider,
        model=model,
        thinking=Thinking(effort),
        profile=profile,
        bare=bare,
        maintenance=maintenance,
        plugin_dirs=tuple(plugin_dir or ()),
        asks="maybe",
        choose=chooser(config),
        overrides=_limited(limits(limit)) | _in_mode(permission_mode),
    )
    if message is None and (again is None or at_terminal()):
        from adderclaw.terminal.repl import ReplRequest, hold

        wanted = ReplRequest(plain, not no_motion)
        options = replace(options, log_level="warning")
        return hold(options, again, wanted, first=begin_with, words="" if pick else resume)
    return converse(OneShot(message, output_format), options, again)


command = agent

MOST_PIPED = 1 << 20
"""Bytes of a message on stdin: more than any argument may have, and less than no model could read."""


def at_terminal() -> bool:
    """Whether a person types and sees what comes of it."""
    return _is_terminal() and sys.stdout.isatty()


def _is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()  # pyright: ignore[reportUnnecessaryComparison] - None where it is closed


def _piped() -> str:
    """All of stdin as one message, however many lines it has."""
    given = sys.stdin.buffer.read(MOST_PIPED + 1) if sys.stdin is not None else b""  # pyright: ignore[reportUnnecessaryComparison]
    if len(given) > MOST_PIPED:
        fix = "put it into a file of the workspace and name the file in the message"
        raise UsageError(f"standard input: the message has more than {MOST_PIPED:,} bytes; {fix}")
    if not given.strip():
        raise UsageError('standard input: the message is empty; pipe one, give -m "…", or start it at a terminal')
    return given.decode("utf-8", "replace")


def _limited(given: dict[str, float]) -> Json:
    rounds = given.pop("rounds", None)
    said: Json = {"runtime": {"max_tool_rounds": rounds}} if rounds is not None else {}
    return said | ({"limits": given} if given else {})


def _in_mode(mode: ModeName | None) -> Json:
    return {"permissions": {"defaultMode": mode}} if mode is not None else {}


@runtime_checkable
class Asks(Protocol):
    """A channel that has a way of its own to ask."""

    def operator_for(self, config: "Config") -> Operator: ...


def converse(channel: Channel, options: Options, again: Resume | None) -> int:
    """Open a conversation for a channel and let it talk."""
    runtime = start_agent(options)
    if isinstance(channel, OneShot) and channel.output_format == "stream-json":
        runtime.bus.add_sink("stream", stream)
    else:
        from adderclaw.storage.telemetry.log import show_brief

        runtime.bus.add_sink("brief", show_brief)
    kind = "agent" if isinstance(channel, OneShot) else channel.name
    operator = channel.operator_for(runtime.config) if isinstance(channel, Asks) else Terminal()
    with open_run(runtime, operator, kind=kind, channel=channel.name, again=again) as run:
        return channel.start(Handle(channel, run))


class OneShot:
    """One message, one answer on stdout."""

    name = "cli"

    def __init__(self, message: str | None, output_format: StreamFormat) -> None:
        self.message = message
        self.output_format: StreamFormat = output_format
        self._shown: Shown | None = None
        self._rest = ""

    @property
    def supports_draft_updates(self) -> bool:
        return self.output_format == "text" and sys.stdout.isatty()

    def start(self, handle: Handle) -> int:
        return asyncio.run(self._turn(handle.run))

    async def _turn(self, run: Run) -> int:
        """One turn from start to exit code. A signal ends it cleanly: children killed, everything written."""
        self._shown = Shown(run.runtime.bus) if self.supports_draft_updates else None
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
    """The whole report for a program; for a person, why it is not completed."""
    if output_format != "text":
        kind: Json = {"type": "result"} if output_format == "stream-json" else {}
        print_json({**kind, **report.as_json()})
    if report.result.outcome != "completed":
        print(f"adderclaw: {report.result.outcome}: {visible(report.result.reason)}", file=sys.stderr)


ENDS_A_LINE = ("llm_request_sent", "tool_requested", "tool_completed", "tool_failed", "tool_denied")


class Shown:
    """Prints the answer while it arrives, and remembers that it did; each reply begins in a line of its own."""

    def __init__(self, bus: Bus | None = None) -> None:
        self._text = GrowingText()
        self._bus = bus
        self._is_open = False
        """The line at hand is not ended."""
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
                self._bus.deliver()  # what happened before these words stands above them
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


def stream(record: EventRecord) -> None:
    print_json({"type": "event", **record._asdict()})
