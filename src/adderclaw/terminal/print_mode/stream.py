"""stream-json: sends the messages of a run, one per line, as they are produced."""

import asyncio
from collections.abc import Awaitable, Callable

from adderclaw.agent.run import Run
from adderclaw.agent.run.drive import exit_code, require_script_finished, without_secrets
from adderclaw.agent.session.session import TurnResult
from adderclaw.clients.json_rpc.wire import Outbox
from adderclaw.clients.python.new_messages import NewMessages
from adderclaw.core.errors import AdderClawError, outcome_of
from adderclaw.core.events import EventRecord
from adderclaw.core.types import Delta, Json, Message
from adderclaw.terminal.print_mode.lines import Lines

INTERRUPTED = "interrupted by the client"


class Parts:
    """Turns the deltas of an answer into stream events: blocks are opened before and closed after their deltas."""

    def __init__(self, lines: Lines, put: Callable[[Json], None]) -> None:
        self._lines, self._put = lines, put
        self._open = ""
        self._index = -1

    def delta(self, delta: Delta) -> None:
        if delta.kind == "reset":
            self._stop_block()
            self._index, self._lines.message_id = -1, ""
        elif delta.kind in ("text", "thinking"):
            self._begin(delta.kind)
            part: Json = {"type": f"{delta.kind}_delta", delta.kind: delta.text}
            self._emit({"type": "content_block_delta", "index": self._index, "delta": part})

    def end(self) -> None:
        """Ends the stream events of a reply."""
        if self._index < 0:
            return
        self._stop_block()
        stop: Json = {"stop_reason": self._lines.stop_reason, "stop_sequence": None}
        self._emit({"type": "message_delta", "delta": stop, "usage": {}})
        self._emit({"type": "message_stop"})
        self._index = -1

    def _begin(self, kind: str) -> None:
        if self._open == kind:
            return
        if self._index < 0:
            self._emit({"type": "message_start", "message": self._lines.envelope()})
        self._stop_block()
        self._index, self._open = self._index + 1, kind
        block: Json = {"type": kind, kind: ""} | ({"signature": ""} if kind == "thinking" else {})
        self._emit({"type": "content_block_start", "index": self._index, "content_block": block})

    def _stop_block(self) -> None:
        if self._open:
            self._emit({"type": "content_block_stop", "index": self._index})
        self._open = ""

    def _emit(self, event: Json) -> None:
        self._put(self._lines.stream_event(event))


class Stream:
    """Runs turns one after the other and sends their messages and results."""

    def __init__(self, run: Run, outbox: Outbox, *, partial: bool) -> None:
        self._run, self._outbox = run, outbox
        self.lines = Lines(run)
        self._parts = Parts(self.lines, self._put_part) if partial else None
        self._heard = NewMessages(run.session, self._message)
        self._turn: asyncio.Future[TurnResult] | None = None
        self._why = ""
        self._counted = False
        """Whether the figures of the next reply are known."""
        self.free = asyncio.Lock()
        """Held while a turn runs."""
        run.runtime.bus.add_sink("stream", self._event)

    def _event(self, record: EventRecord) -> None:
        """Events may arrive late and in batches: each reply waits for the event with its figures."""
        self._counted = self.lines.hear(record) or self._counted
        self._heard.event(record)

    def _message(self, message: Message) -> bool:
        if message.role == "assistant":
            if not self._counted:
                return False
            self._counted = False
            if self._parts is not None:
                self._parts.end()
        if (line := self.lines.message(message)) is not None:
            self._outbox.put(line)
        return True

    def _all(self) -> None:
        """Sends all messages up to now."""
        self._run.runtime.bus.deliver()
        self._heard.check()

    def delta(self, delta: Delta) -> None:
        if self._parts is not None:
            self._all()
            self._parts.delta(delta)

    def _put_part(self, line: Json) -> None:
        """Sends a delta, unless the client reads too slowly: the whole message repeats it."""
        if not self._outbox.is_full:
            self._outbox.put(line, event=True)

    def interrupt(self, why: str = INTERRUPTED) -> bool:
        """Ends the current turn; returns False if there is none."""
        if self._turn is None or self._turn.done():
            return False
        self._why = why
        self._turn.cancel()
        return True

    async def turn(self, work: Awaitable[TurnResult], *, last: bool) -> TurnResult:
        """Runs a turn to its result. `last`: no turn follows, so a scripted model must have played its whole script."""
        async with self.free:
            return await self._finish_turn(work, last=last)

    async def _finish_turn(self, work: Awaitable[TurnResult], *, last: bool) -> TurnResult:
        self._heard.begin()
        self.lines.begin()
        self._counted = False
        self._why, self._turn = "", asyncio.ensure_future(work)
        try:
            result = await self._turn
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._why or (task is not None and task.cancelling()):  # a signal ends the whole run
                raise
            result = TurnResult("stopped", "", self._why)
        except AdderClawError as error:
            result = TurnResult(outcome_of(error), "", str(error))
        finally:
            self._all()
            self._counted = True
            self._heard.check()
        if last:
            result = require_script_finished(self._run, result)
        self.end(result)
        return result

    def end(self, result: TurnResult) -> None:
        self._outbox.put(self.lines.result(without_secrets(self._run, result), exit_code(result)))
