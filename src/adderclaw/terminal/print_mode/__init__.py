"""Print mode: answers one message as text or as one result object. `conversation.py` answers as a stream."""

import asyncio
import sys
from collections.abc import Awaitable
from dataclasses import field
from typing import TYPE_CHECKING

from adderclaw.agent.loop.loop import ignore_delta, run_turn
from adderclaw.agent.run import Options, Resume, Run, Runtime, open_run, start_agent
from adderclaw.agent.run.drive import Report, drive, one_turn, require_script_finished
from adderclaw.agent.run.signals import until_signal
from adderclaw.agent.session import prompt
from adderclaw.agent.session.session import NO_ATTACHMENTS, Attached, Session, TurnResult
from adderclaw.agent.tool_call.approvals import NoOperator
from adderclaw.core.events import EventRecord
from adderclaw.core.questions import Operator
from adderclaw.core.record import record
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json, OnDelta
from adderclaw.storage import memory

if TYPE_CHECKING:
    from adderclaw.terminal.print_mode.structured import Shape


FALLBACK = "with-fallback"
"""The entry of providers.models that `--fallback-model` creates."""


class Reports:
    """Collects options without effect. Each is written to stderr at once and goes to the client with the first turn."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self.by_option: dict[str, str] = {}
        self.sent = 0

    def add(self, option: str, reason: str) -> None:
        if option in self.by_option:
            return
        self.by_option[option] = reason
        if not self._quiet:
            print(f"adderclaw: {visible(option)} has no effect: {visible(reason)}", file=sys.stderr, flush=True)

    def as_json(self) -> list[Json]:
        return [{"option": option, "reason": reason} for option, reason in self.by_option.items()]

    def new(self) -> list[Json]:
        """Reports not yet sent to the client."""
        unsent = self.as_json()[self.sent :]
        self.sent += len(unsent)
        return unsent


@record
class PrintOptions:
    """What the flags ask of an open session."""

    system: str | None = None
    """Replaces the usual system prompt."""
    append: str = ""
    """Text appended to the system prompt."""
    shape: "Shape | None" = None
    """The JSON Schema of the answer."""
    by_name: bool = True
    """Whether the message may call a skill or a command; piped input may not."""
    max_turns: int = 0
    """The limit on model replies set by a flag; the message about reaching it names that flag."""
    aloud: bool = False
    """Whether warnings are printed on stderr, without the rest of the log."""
    reports: Reports = field(default_factory=lambda: Reports(quiet=True))
    """Requested options without effect."""

    def check_media(self, session: Session, attached: Attached) -> None:
        """Reports pictures and documents that the model cannot read: it only sees that there was one."""
        if not attached.media:
            return
        from adderclaw.config.model_facts.catalogue import facts_of

        known = facts_of(session.provider.name, session.model, session.config)
        for block in attached.media:
            kind, takes = ("image", known.vision) if block.media_type.startswith("image/") else ("PDF", known.pdf)
            if not takes:
                why = f"{session.model} is not known to read it (`[models.NAME]`) and only sees that there was one"
                self.reports.add(f"{kind} in a message", why)

    def check_thinking(self, session: Session) -> None:
        """Reports a thinking setting that the model does not support."""
        if session.thinking.is_unset or session.thinking.is_off:
            return
        from adderclaw.config.model_facts.catalogue import first_answering
        from adderclaw.models.providers.thinking import sends_thinking

        served = first_answering(session.provider.name, session.model, session.config)
        entry = session.config.providers.models.get(served.provider)
        if entry is not None and not sends_thinking(entry.kind, served.model, session.thinking, session.config):
            self.reports.add("--effort, --thinking", f"the model {served.model} has no such setting")

    def prompt(self, session: Session) -> None:
        """Sets the prompt of a session."""
        self.check_thinking(session)
        if self.system is not None:
            tools, root = session.environment.offered_tools.values(), session.environment.context.workspace.root
            instructions = session.secrets.scrub(session.instructions.text) if session.instructions is not None else ""
            notes = memory.context(session.store, root)
            session.prompt = prompt.compose_prompt(root, notes, tools, system=self.system, instructions=instructions)
        if self.append:
            session.prompt = prompt.make_prompt(f"{session.prompt.system}\n\n{self.append}", session.prompt.tools)
        if self.shape is not None:
            self.shape.ask(session)

    def listen(self, runtime: Runtime) -> None:
        """Listens to warnings. Call this before the run is opened, so that none is missed."""
        if self.aloud:
            runtime.bus.add_sink("warnings", _warn)


def _warn(record: EventRecord) -> None:
    field = {"warning": "message", "plugin_held": "reason"}.get(record.event_type)
    if field is not None:
        print(f"adderclaw: {visible(record.payload[field])}", file=sys.stderr, flush=True)


async def run_turn_in_shape(
    run: Run, message: str, request: PrintOptions, on_delta: OnDelta = ignore_delta, attached: Attached = NO_ATTACHMENTS
) -> TurnResult:
    """Runs one turn and returns its answer in the requested shape."""
    if request.by_name and message.lstrip().startswith("/"):
        from adderclaw.agent.conversation.by_name import expanded

        message = await expanded(run.session, message.lstrip())
    result = await run_turn(run.session, message, on_delta, attached=attached)
    if request.max_turns and result.ended_by == "rounds":
        replies = "1 reply" if request.max_turns == 1 else f"{request.max_turns} replies"
        result = result._replace(reason=f"no answer after {replies} of the model, the limit set by --max-turns")
    return result if request.shape is None else await request.shape.parse(run.session, result, on_delta)


def unattended_operator(waits: float) -> Operator:
    """The operator of an unattended run: denies, or waits for another process if an approval timeout is set."""
    return NoOperator(waits=waits > 0)


def answer_message(
    options: Options, again: Resume | None, message: str, request: PrintOptions, *, as_json: bool
) -> int:
    """Answers the message in a run of its own; returns the exit code."""
    runtime = start_agent(options)
    request.listen(runtime)
    operator = unattended_operator(runtime.config.security.approval_timeout_seconds)
    with open_run(runtime, operator, kind="agent", channel="print", again=again) as run:
        request.prompt(run.session)
        return asyncio.run(_Answer(run, message, request, as_json=as_json).work())


HOW_TO_ALLOW = "print mode cannot ask: allow what the work needs with --allowed-tools, or choose a --permission-mode"


class _Answer:
    """One turn and how its result is printed."""

    def __init__(self, run: Run, message: str, request: PrintOptions, *, as_json: bool) -> None:
        self._run, self._message, self._request, self._as_json = run, message, request, as_json
        self._text = ""
        self._lines = None
        self._was_unasked = False
        """Whether the last denied call would have been asked about."""
        run.runtime.bus.add_sink("print", self._on_event)
        if as_json:
            from adderclaw.terminal.print_mode.lines import Lines

            self._lines = Lines(run)

    def _on_event(self, record: EventRecord) -> None:
        if record.event_type == "tool_denied":
            self._was_unasked = record.payload["by"] == "no_operator"
        if self._lines is not None:
            self._lines.hear(record)

    async def work(self) -> int:
        return (await drive(self._run, self._run_turn(), show=self._show)).exit_code

    async def _run_turn(self) -> TurnResult:
        def work(hear: OnDelta) -> Awaitable[TurnResult]:
            return until_signal(self._run, run_turn_in_shape(self._run, self._message, self._request, hear))

        if self._as_json:
            return require_script_finished(self._run, await work(ignore_delta))
        result, self._text = await one_turn(self._run.session, work, None)
        return require_script_finished(self._run, result)

    def _show(self, report: Report) -> None:
        if self._lines is not None:
            from adderclaw.terminal.output import print_json

            print_json(self._lines.result(report.result, report.exit_code))
        elif self._text:
            print(visible(self._text))
        if report.result.outcome != "completed":
            print(f"adderclaw: {report.result.outcome}: {visible(report.result.reason)}", file=sys.stderr)
        if report.result.outcome == "denied" and self._was_unasked:
            print(f"adderclaw: {HOW_TO_ALLOW}", file=sys.stderr)
        sys.stdout.flush()
