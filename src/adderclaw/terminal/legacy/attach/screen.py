"""A conversation of the server on a screen: drawn as the local one, with the same keys."""

import asyncio
import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from typing import Any

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from adderclaw import config
from adderclaw.agent.view.items import Call, Item, Notice, Words
from adderclaw.core import home_names
from adderclaw.core.errors import AdderClawError
from adderclaw.core.redaction import Secrets, visible
from adderclaw.terminal.legacy.attach.commands import ROWS, command
from adderclaw.terminal.legacy.attach.remote import Remote, State
from adderclaw.terminal.repl.draw import Fragments
from adderclaw.terminal.repl.keys import Chips, KeyActions, Keys, TypedHistory
from adderclaw.terminal.repl.panel import ScreenOperator
from adderclaw.terminal.repl.screen import Screen, ScreenOutput
from adderclaw.terminal.repl.terminal_mode import TerminalMode

THOUGHT = 600
"""Characters of a thought of which the last line is shown."""


class Commands(Completer):
    """The commands, as they are typed."""

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:  # noqa: ARG002
        text = document.text_before_cursor
        if text.startswith("/") and " " not in text:
            for row in ROWS:
                if row.name.startswith(text[1:]):
                    yield Completion(f"/{row.name}", -len(text), display_meta=row.help)


class OnServer:
    """One window on one conversation."""

    def __init__(self, manner: TerminalMode) -> None:
        self._chips = Chips()
        history = TypedHistory(os.path.join(config.home(), home_names.HISTORY), Secrets().scrub)
        buffer = Buffer(
            completer=Commands(),
            complete_while_typing=True,
            history=history,
            multiline=True,
            tempfile_suffix=".md",
            enable_history_search=True,
        )
        on_screen = ScreenOperator(everywhere=False)
        self.operator = on_screen
        self.screen = on_screen.screen = Screen(manner, buffer, self._status)
        doing = KeyActions(self._interrupt, lambda: self.screen.submit("/rewind"), self._no_modes, ends=False)
        self.screen.app.key_bindings = Keys(self.screen, self._chips, doing).bindings
        self.screen.seconds = lambda call: time.monotonic() - self._since.setdefault(call.key, time.monotonic())
        self._since: dict[str, float] = {}
        self._began = 0.0
        self._thinks = ""
        self._tasks: set[asyncio.Task[Any]] = set()
        self.remote: Remote | None = None

    async def converse(self, remote: Remote, first: str | None) -> str | None:
        """Until somebody leaves, or goes to another conversation: its id."""
        self.remote = remote
        printed, other = ScreenOutput(self.screen), None
        following = asyncio.ensure_future(remote.follow())
        ready = asyncio.ensure_future(remote.ready.wait())
        await asyncio.wait({following, ready}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            self.screen.show(Notice("", "note", f"{remote.id} on {remote.link.address}"))
            self.screen.show(Notice("", "note", "/help lists the commands, Ctrl-D leaves: what runs there goes on"))
            self.screen.print_first()
            shown = asyncio.ensure_future(self.screen.app.run_async(handle_sigint=False))
            shown.add_done_callback(lambda _done: self.screen.close())
            if first:
                self.screen.submit(first)
            try:
                while (text := await self.screen.next_message()) is not None:
                    self.screen.hint = ""
                    other = await self._typed(remote, text)
                    if other is not None:
                        break
            finally:
                remote.leave()
                following.cancel()
                await asyncio.wait({following})
                self.screen.draw()
                if self.screen.app.is_running:
                    self.screen.app.exit()
                with contextlib.suppress(asyncio.CancelledError, EOFError, KeyboardInterrupt):
                    await shown
        return None if other == "leave" else other

    async def _typed(self, remote: Remote, text: str) -> str | None:
        line = text.strip()
        if line.startswith("/"):
            self.screen.show(Words("", "user", visible(text)))
            return await command(remote, self._chips.expand(line), lambda said: self.screen.write(f"{visible(said)}\n"))
        try:
            await remote.send(self._chips.expand(text))
        except AdderClawError as error:
            self.screen.show(Notice("", "error", f"not sent: {error}"))
            self.screen.buffer.text = text
        return None

    # -------------------------------------------------------------- what is drawn

    def greet(self, items: Iterable[Item]) -> None:
        self.screen.greet(items)

    def show(self, item: Item) -> None:
        if isinstance(item, Words) and item.role == "assistant":
            self.screen.greet([item])
            self.screen.redraw()
        else:
            self.screen.show(item)
        if isinstance(item, Call) and item.ended:
            self._since.pop(item.key, None)

    def hear(self, kind: str, text: str) -> None:
        if kind == "thinking":
            self._thinks = (self._thinks + text)[-THOUGHT:]
            self.screen.thought = " ".join(visible(self._thinks).strip().rsplit("\n", 1)[-1].split())
            self.screen.redraw()
            return
        self._thinks = self.screen.thought = ""
        if kind == "reset":
            self.screen.drop_answer()
        elif kind == "text":
            self.screen.add_answer(text)

    def whole(self) -> None:
        self.screen.end_answer()

    def changed(self, state: State) -> None:
        if state in ("idle", "ended"):
            self.screen.busy, self.screen.thought, self._thinks = None, "", ""
            self.screen.end_answer()
            self.screen.end_todos()
        elif self.screen.busy is None:
            self._began = time.monotonic()
            self.screen.busy = lambda: f"working ({int(time.monotonic() - self._began)} s; Esc interrupts)"
        self.screen.redraw()

    def ended(self, outcome: str, reason: str) -> None:
        self.screen.end_answer()
        if outcome != "completed":
            self.screen.show(Notice("", "warning", f"{outcome}: {visible(reason)}"))

    def _status(self) -> Fragments:
        remote = self.remote
        if remote is None:
            return []
        about = remote.about
        place = os.path.basename(str(about.get("workspace") or "")) or "/"
        parts = [remote.state, str(about.get("model") or ""), place, remote.link.address]
        return [("dim", f" {self.screen.drawing.marks.dot} ".join(visible(part) for part in parts if part))]

    # -------------------------------------------------------------- keys

    def _interrupt(self) -> bool:
        remote = self.remote
        if remote is None or remote.state in ("idle", "ended"):
            return False
        task = asyncio.ensure_future(self._interrupted(remote))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _interrupted(self, remote: Remote) -> None:
        try:
            await remote.interrupt()
        except AdderClawError as error:
            self.screen.show(Notice("", "error", f"not interrupted: {error}"))

    def _no_modes(self) -> None:
        self.screen.hint = "how much happens unasked is chosen where the conversation is opened"
        self.screen.redraw()
