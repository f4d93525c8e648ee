"""A conversation on a screen: messages, interruptible turns and commands until the person leaves."""

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Literal

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.enums import EditingMode

from adderclaw.agent.loop.loop import run_turn
from adderclaw.agent.run import Run
from adderclaw.agent.run.drive import one_turn
from adderclaw.agent.session.session import NO_ATTACHMENTS, Attached, TurnResult
from adderclaw.agent.view.items import Call, Item, Notice, Words
from adderclaw.agent.view.live import Live
from adderclaw.agent.view.rows import Rows
from adderclaw.core import home_names
from adderclaw.core.deltas import GrowingText
from adderclaw.core.redaction import visible
from adderclaw.core.types import Delta, OnDelta
from adderclaw.terminal.repl import here
from adderclaw.terminal.repl.keys import Chips, KeyActions, Keys, TypedHistory, reload_names
from adderclaw.terminal.repl.manual_commands import ManualCommands
from adderclaw.terminal.repl.menu import Menu
from adderclaw.terminal.repl.screen import Screen, ScreenOutput
from adderclaw.terminal.repl.slash import run_slash_command, runs_at_once
from adderclaw.terminal.repl.status import Status, StatusCommand
from adderclaw.terminal.repl.terminal_mode import Background, TerminalMode
from adderclaw.terminal.repl.titles import Titles

if TYPE_CHECKING:
    from adderclaw.terminal.repl.draw import Fragments
    from adderclaw.terminal.repl.panel import ScreenOperator

DEFERRED_SECONDS = 0.2
"""How long listing files and similar work waits, so that the input appears first."""
QUIET_SECONDS = 10.0
"""After this time without output of the model, the screen says so."""
THOUGHT_CHARS = 600
"""How much of a thought is kept to show its last line."""

type Command = Callable[[Run, str], Awaitable[bool]]
"""Runs a line that begins with /; False ends the conversation."""


class ScreenConversation:
    """One conversation with its screen."""

    def __init__(self, run: Run, operator: "ScreenOperator", manner: TerminalMode) -> None:
        self.run = run
        self._chips = chips = Chips()
        menu = Menu(run)
        buffer = Buffer(
            completer=menu,
            complete_while_typing=True,
            history=TypedHistory(os.path.join(run.runtime.home, home_names.HISTORY), run.runtime.secrets.scrub),
            multiline=True,
            tempfile_suffix=".md",
            enable_history_search=True,
        )
        menu.is_current = lambda document: buffer.document == document
        menu.refresh = lambda: reload_names(buffer)
        self._menu = menu
        self.editing: Literal["emacs", "vi"] = "emacs"
        self.screen = operator.screen = Screen(manner, buffer, self._status)
        actions = KeyActions(self.interrupt, lambda: self.screen.submit("/rewind"), self._next_mode)
        self.screen.app.key_bindings = Keys(self.screen, chips, actions).bindings
        self.set_editing(run.session.config.repl.editing)
        root = run.session.environment.context.workspace.root
        self.rows = Rows(run.session.store, run.session.secrets.clean, root)
        self._manual = ManualCommands(run, self.rows, self.screen.show)
        self.live = Live(self.rows, run.session.session_id, self.screen.show, root)
        self.status = Status(run, self.live.busy)
        self.own_line = StatusCommand(run, self.screen, self.live.busy)
        self.titles = Titles(run, self.screen)
        run.runtime.bus.remove_sink("log")  # log lines would break the drawing; important ones are shown as notices
        run.runtime.bus.add_sink("screen", self.live.hear)
        self.screen.peek, self.screen.seconds, self.screen.inside = self._latest_output, self._seconds, self._inside
        self.screen.at_once = self._at_once
        self._commands: set[asyncio.Task[bool]] = set()
        self._insides: tuple[tuple[str, int], list[Item]] = (("", 0), [])
        self._answer: StreamedAnswer | None = None
        self._turn: asyncio.Task[Any] | None = None
        """The current turn, or the work a person does instead."""
        self._began = 0.0
        self._since: dict[str, float] = {}

    async def converse(self, command: Command, first: str | None) -> TurnResult:
        """Handles message after message; returns the last turn's result."""
        output = ScreenOutput(self.screen)
        last = TurnResult("completed", "")
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            self.screen.print_first()
            self.titles.show()
            shown = asyncio.ensure_future(self.screen.app.run_async(handle_sigint=False))
            shown.add_done_callback(lambda _done: self.screen.close())
            asyncio.get_running_loop().call_later(DEFERRED_SECONDS, self._start_deferred)
            if first:
                self.screen.submit(first)
            try:
                while (text := await self.screen.next_message()) is not None:
                    self.screen.hint = ""
                    self.screen.show(Words("", "user", visible(text)))
                    if text.strip().startswith("/"):
                        if not await command(self.run, self._chips.expand(text.strip())):
                            break
                    elif here.bypass_ended(self.run):
                        break
                    else:
                        last = await self._message(text) or last
                        if last.outcome == "completed" and last.answer:
                            self.titles.ask(self._chips.expand(text), last.answer)
            finally:
                await self._menu.close()
                await self.own_line.close()
                await self.titles.close()
                self.screen.draw()
                if self.screen.app.is_running:
                    self.screen.app.exit()
                with contextlib.suppress(asyncio.CancelledError, EOFError, KeyboardInterrupt):
                    await shown
        return last

    def _start_deferred(self) -> None:
        """Starts the work that can wait until the input is drawn."""
        self._menu.files.renew()
        self.own_line.start()
        if self.run.session.config.repl.theme == "auto" and not os.environ.get("COLORFGBG"):
            Background(self.screen.app, self._set_light).ask()

    def _set_light(self, light: bool) -> None:
        self.screen.manner = self.screen.manner._replace(light=light)

    async def _message(self, typed: str) -> TurnResult | None:
        """Runs a message with its attachments as a turn; or runs a command or note by hand, which is not a turn."""
        if await self.beside(self._manual.run_by_hand(typed, self._chips.expand)) is not False:
            return None
        attached = await self.beside(self._manual.attachments(typed))
        return await here.run_turn_here(self.run, self._chips.expand(typed), attached) if attached is not None else None

    async def beside[T](self, work: Coroutine[Any, Any, T]) -> T | None:
        """Runs work by hand and returns its result; None if it was interrupted."""
        return await self._interruptible(work, lambda: self.screen.show(Notice("", "warning", "interrupted")))

    async def _interruptible[T, E](self, work: Coroutine[Any, Any, T], interrupted: Callable[[], E]) -> T | E:
        """Runs work that the person can interrupt; returns its result, or that of `interrupted`."""
        self._began = time.monotonic()
        self.screen.busy = self._busy
        self.screen.redraw()
        self._turn = asyncio.ensure_future(work)
        try:
            return await self._turn
        except asyncio.CancelledError:
            if not self._turn.cancelled() or asyncio.current_task().cancelling():  # pyright: ignore[reportOptionalMemberAccess]
                raise
            return interrupted()
        finally:
            self._turn, self.screen.busy, self.screen.thought, self._answer = None, None, "", None
            self._since.clear()

    async def turn(self, message: str | None, attached: Attached = NO_ATTACHMENTS) -> TurnResult:
        """Runs one turn; after an interrupt its work so far is kept."""
        session = self.run.session
        answer = self._answer = StreamedAnswer(self.screen, self.run)

        def work(hear: OnDelta) -> Awaitable[TurnResult]:
            asked = run_turn(session, message, hear, attached=attached)
            return self._interruptible(asked, lambda: TurnResult("stopped", "", "interrupted"))

        result, rest = await one_turn(session, work, answer)
        if rest:
            self.screen.add_answer(rest)
        self.screen.end_answer()
        self.screen.end_todos()
        if result.outcome != "completed":
            self.screen.show(Notice("", "warning", f"{result.outcome}: {visible(result.reason)}"))
        return result

    def set_editing(self, keys: Literal["emacs", "vi"]) -> None:
        self.editing = keys
        self.screen.app.editing_mode = EditingMode.VI if keys == "vi" else EditingMode.EMACS

    def interrupt(self) -> bool:
        if self._turn is None or self._turn.done():
            return False
        self._turn.cancel()
        return True

    def _at_once(self, text: str) -> bool:
        """Runs a command that may run during a turn."""
        if not runs_at_once(text):
            return False
        self.screen.show(Words("", "user", visible(text)))
        task = asyncio.ensure_future(run_slash_command(self.run, self._chips.expand(text)))
        self._commands.add(task)
        task.add_done_callback(self._commands.discard)
        return True

    # -------------------------------------------------------------- what the screen asks for

    def _latest_output(self, call: Call) -> str:
        latest = self.run.session.environment.context.live_output.get(call.key)
        return self.run.session.secrets.clean(latest().decode("utf-8", "replace")) if latest is not None else ""

    def _seconds(self, call: Call) -> float:
        return time.monotonic() - self._since.setdefault(call.key, time.monotonic())

    def _inside(self, call: Call) -> list[Item]:
        """What a subagent did so far; read again when there is more."""
        assert call.child is not None
        key = (call.child.session_id, call.child.calls if not call.ended else -1)
        if self._insides[0] != key:
            self._insides = key, list(self.rows.session(call.child.session_id))
        return self._insides[1]

    def _busy(self) -> str:
        busy, now = self.live.busy, time.monotonic()
        what = {"model": "thinking", "retry": "waiting to retry"}.get(busy.on, "working")
        parts = [f"{int(now - self._began)} s"]
        parts += [f"{busy.tokens:,} tokens"] if busy.tokens else []
        answer = self._answer
        if answer is not None and answer.thought:
            parts.append(f"{answer.thought:,} characters of thought")
        if answer is not None and busy.on == "model" and now - answer.at >= QUIET_SECONDS:
            parts.append(f"no output for {int(now - answer.at)} s")
        return f"{what} ({', '.join(parts)}; Esc interrupts)"

    def _status(self) -> "Fragments":
        parts = self.status.parts()
        # the permission mode is always shown
        return [("dim", f" {self.screen.drawing.marks.dot} ".join(parts[:1] if self.screen.own_lines else parts))]

    def _next_mode(self) -> None:
        self.screen.hint = here.next_mode(self.run)
        self.own_line.request_run()
        self.screen.redraw()


class StreamedAnswer:
    """Shows the answer while it streams."""

    def __init__(self, screen: Screen, run: Run) -> None:
        self._screen, self._secrets, self._bus = screen, run.runtime.secrets, run.runtime.bus
        self._text = GrowingText()
        self.thought = 0
        """How many characters the model thought since its last action."""
        self._thinks = ""
        self.at = time.monotonic()
        """When the model last sent something."""

    def __call__(self, delta: Delta) -> None:
        self.at = time.monotonic()
        if delta.kind == "thinking":
            self._think(delta.text)
            return
        self.thought, self._thinks, self._screen.thought = 0, "", ""
        if delta.kind == "reset":
            self._text.clear()
            self._screen.drop_answer()
        elif delta.kind == "text":
            self._bus.deliver()  # earlier events are drawn first
            self._text.add(delta.text)
            self._screen.add_answer(delta.text)

    @property
    def text(self) -> str:
        return str(self._text)

    def _think(self, text: str) -> None:
        self.thought += len(text)
        self._thinks = (self._thinks + text)[-THOUGHT_CHARS:]
        lines = visible(self._secrets.scrub(self._thinks)).strip().rsplit("\n", 1)
        self._screen.thought = " ".join(lines[-1].split())
        self._screen.redraw()
