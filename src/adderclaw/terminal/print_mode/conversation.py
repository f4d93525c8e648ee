"""A stream-json conversation: answers one message, or every message a client sends, each with a result."""

import asyncio
import contextlib
import sys
from collections.abc import Callable
from dataclasses import replace

from adderclaw.agent.run import Options, Resume, Run, open_run, start_agent
from adderclaw.agent.run.drive import Report, drive, exit_code
from adderclaw.agent.run.signals import until_signal
from adderclaw.agent.session.session import NO_ATTACHMENTS, TurnResult
from adderclaw.clients import stdio
from adderclaw.clients.json_rpc.wire import MAX_LINE, Outbox
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.events import EventRecord
from adderclaw.core.types import Json
from adderclaw.terminal.print_mode import PrintOptions, run_turn_in_shape, unattended_operator
from adderclaw.terminal.print_mode import client as clients
from adderclaw.terminal.print_mode.control import Link
from adderclaw.terminal.print_mode.lines import failure
from adderclaw.terminal.print_mode.no_effect import CITATIONS, MESSAGE_FIELDS
from adderclaw.terminal.print_mode.stream import Stream
from adderclaw.terminal.print_mode.user_message import UserMessage, merge_queued_messages

DRAIN_SECONDS = 30.0
"""How long to wait at the end for a client that reads slowly."""
CLOSED = "the client closed its end"
ATTACHED_ALONE = "Look at the attachment."
"""The text sent with a picture or document that came without text."""


type Begin = Callable[[Json, PrintOptions], tuple[Options, PrintOptions]]
"""Builds the options and print options of a run from its flags."""


def converse(begin: Begin, again: Resume | None, print_options: PrintOptions, flags: Json, message: str | None) -> int:
    """Answers the message, or all messages on stdin; returns the exit code."""
    return asyncio.run(_converse(begin, again, print_options, flags, message))


async def _converse(
    begin: Begin, again: Resume | None, print_options: PrintOptions, flags: Json, message: str | None
) -> int:
    loop = asyncio.get_running_loop()
    if message is None and sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] - None where it is closed
        raise UsageError("--input-format stream-json reads from standard input, which is closed")
    writer, written = await stdio.writer(loop)
    writer.transport.set_write_buffer_limits(high=0)
    outbox = Outbox(writer)
    writing = asyncio.ensure_future(outbox.run())
    link = Link(outbox)
    reading: asyncio.Future[None] | None = None
    try:
        if message is None:
            reader = asyncio.StreamReader(limit=MAX_LINE)
            await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), stdio.readable())
            reading = asyncio.ensure_future(link.read(reader))
        return await _open(begin, again, print_options, flags, message, link, outbox)
    except AdderClawError as error:
        outbox.put(failure(str(error), error.exit_code))
        raise
    finally:
        await link.close()
        await outbox.flush(DRAIN_SECONDS)
        for task in (writing, reading):
            if task is not None:
                task.cancel()
        writer.close()
        with contextlib.suppress(asyncio.CancelledError):
            await writing
        written()


async def _open(
    begin: Begin,
    again: Resume | None,
    print_options: PrintOptions,
    flag_values: Json,
    message: str | None,
    link: Link,
    outbox: Outbox,
) -> int:
    initialize = await link.initialize() if message is None else None
    if link.problem is not None:
        raise link.problem
    client = clients.Client(link, flag_values, initialize[1] if initialize is not None else {}, print_options.reports)
    flags = client.flags()
    options, print_options = begin(flags, client.print_options(print_options))
    runtime = start_agent(client.options(options, flags))
    print_options.listen(runtime)
    asks = message is None and client.asks
    operator = client if asks else unattended_operator(runtime.config.security.approval_timeout_seconds)
    with open_run(runtime, operator, kind="agent", channel="print", again=again) as run:
        print_options.prompt(run.session)
        conversation = _Conversation(run, outbox, link, client, print_options, flag_values)
        client.entitle(run)
        if initialize is not None:
            link.answer(initialize[0], client.greeting(run))
        work = conversation.answer_one(message) if message is not None else conversation.answer_all()
        gone = asyncio.ensure_future(conversation.watch())
        try:
            code = exit_code if message is not None else _exit_code
            report = await drive(run, until_signal(run, work), code=code, show=conversation.show)
        finally:
            gone.cancel()
        if link.problem is not None:
            raise link.problem
        return report.exit_code


def _exit_code(result: TurnResult) -> int:
    """The exit code of a conversation. A denial is not a failure, because the client was told of it or made it."""
    return 0 if result.outcome == "denied" else exit_code(result)


class _Conversation:
    """The turns of the conversation."""

    def __init__(
        self, run: Run, outbox: Outbox, link: Link, client: "clients.Client", print_options: PrintOptions, flags: Json
    ) -> None:
        self._run, self._outbox, self._link, self._options = run, outbox, link, print_options
        self._client = client
        self._stream = Stream(run, outbox, partial=bool(flags.get("partial")))
        self._replays = bool(flags.get("replay"))
        if flags.get("hook_events"):
            run.runtime.bus.add_sink("hook events", self._hook_ran)
        client.serve(run, self._stream)
        link.failed = self._leave

    def _hook_ran(self, record: EventRecord) -> None:
        if record.event_type == "hook_finished":
            self._outbox.put(self._stream.lines.hook(record.payload))

    async def answer_one(self, message: str) -> TurnResult:
        self._begin_turn()
        return await self._stream.turn(
            run_turn_in_shape(self._run, message, self._options, self._stream.delta), last=True
        )

    async def answer_all(self) -> TurnResult:
        last = TurnResult("completed", "")
        unanswered: list[UserMessage] = []
        async for message in self._link.messages():
            if not message.asks:
                unanswered.append(message)
                continue
            message, unanswered = merge_queued_messages(unanswered, message), []
            self._run.session.budget.restart_limits()
            for name in message.ignored:
                self._options.reports.add(f"message.{name}", MESSAGE_FIELDS.get(name, CITATIONS))
            self._options.check_media(self._run.session, message.attached)
            self._begin_turn()
            if self._replays:
                self._outbox.put(self._stream.lines.user(message.content, message.uuid))
            last = await self._stream.turn(self._run_turn(message), last=False)
        return last

    async def _run_turn(self, message: UserMessage) -> TurnResult:
        if message.problem:
            return TurnResult("error", "", message.problem)
        text = message.text
        if not text.strip() and message.attached == NO_ATTACHMENTS:
            return TurnResult("error", "", "the message is empty: say what the agent should do")
        print_options = replace(self._options, by_name=self._options.by_name and not message.verbatim)
        self._client.note_prompt(message.uuid)
        return await run_turn_in_shape(
            self._run, text if text.strip() else ATTACHED_ALONE, print_options, self._stream.delta, message.attached
        )

    def _begin_turn(self) -> None:
        """Sends the init message, then each option without effect once."""
        reports, lines = self._options.reports, self._stream.lines
        self._outbox.put(lines.init({"options_without_effect": reports.as_json()} if reports.by_option else {}))
        for row in reports.new():
            self._outbox.put(lines.no_effect(row))

    async def watch(self) -> None:
        """Ends the conversation when the client closes its end."""
        await self._outbox.gone.wait()
        self._leave(CLOSED)

    def _leave(self, why: str = "") -> None:
        self._link.leave()
        self._stream.interrupt(why or "the client sent an invalid message")

    def show(self, report: Report) -> None:
        """Sends the result, also of a turn ended by a signal."""
        if report.result.signal:
            self._stream.end(report.result)
