"""The screen of a conversation: finished items go into the scrollback once, and the input stays below them."""

import asyncio
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from select import select
from typing import TYPE_CHECKING, TextIO

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_completions, is_done
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import SearchToolbar

from adderclaw.agent.view.items import Call, Item, Line, Notice, Todo, Words
from adderclaw.terminal.repl.draw import ASCII, UNICODE, Drawing, Fragments, ansi, cell_width
from adderclaw.terminal.repl.markdown import Block, RenderStyle, Stream, render, tail_lines
from adderclaw.terminal.repl.terminal_mode import TerminalMode, make_output

if TYPE_CHECKING:
    from adderclaw.terminal.repl.panel import Panel

REDRAW_SECONDS = 0.03
"""The shortest time between two drawings of the live part."""
SPIN_SECONDS = 0.12
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
SPINNER_ASCII = "|/-\\"
OUTPUT_LINES = 3
"""How many of the last lines of a running command's output are shown."""
SUBAGENT_CALLS = 8
"""How many of the last calls of a running subagent are shown."""
MOST_FOLDED = 50
MENU_ROWS = 8
PAUSE_SECONDS = 0.5
"""How long no key must be pressed before a question gets the keys."""
LOW_ROWS = 16
"""In a terminal with fewer rows, only one line of the operator's status command is shown."""
BEGIN_UPDATE, END_UPDATE = "\x1b[?2026h", "\x1b[?2026l"
"""Terminals that support synchronized output show everything between the two at once."""

STYLE = Style.from_dict(
    {
        "dim": "fg:ansibrightblack",
        "tool": "bold",
        "you": "bold",
        "good": "fg:ansigreen",
        "warn": "fg:ansiyellow",
        "bad": "fg:ansired",
        "added": "fg:ansigreen",
        "removed": "fg:ansired",
        "accent": "fg:ansicyan",
        "chosen": "reverse",
    }
)


class Screen:
    """Draws items as they change, and holds the input and the queue of messages."""

    def __init__(self, manner: TerminalMode, buffer: Buffer, status: Callable[[], Fragments]) -> None:
        self.manner, self.buffer, self._status = manner, buffer, status
        self.queue: list[str] = []
        """Messages waiting for the current turn to end."""
        self.panel: Panel | None = None
        """The open question."""
        self.pause = PAUSE_SECONDS
        self._typed_at = float("-inf")
        """When a key was last pressed for a message or an answer that is not finished."""
        self.busy: Callable[[], str] | None = None
        """Returns what the turn is waiting for. None if no turn runs."""
        self.at_once: Callable[[str], bool] = lambda _text: False
        """Runs a message that need not wait for the end of the turn; returns False for any other."""
        self.hint = ""
        self.own_lines: list[Fragments] = []
        """The output of the operator's status command; its styles are those of prompt_toolkit."""
        self.peek: Callable[[Call], str] = lambda _call: ""
        """Returns the latest output of a running call."""
        self.seconds: Callable[[Call], float] = lambda _call: 0.0
        """Returns for how long a call has been running."""
        self._live: dict[str, Call] = {}
        self._stream: Stream | None = None
        self._tail = ""
        self._tail_of: tuple[Block, int] | None = None
        self._pending: list[str] = []
        self._arrived = asyncio.Event()
        self._closed = False
        self._folded: deque[Call] = deque(maxlen=MOST_FOLDED)
        """Calls that are shown in part, the latest last."""
        self.inside: Callable[[Call], Sequence[Item]] = lambda _call: ()
        """Returns what a subagent did."""
        self._open: str | None = None
        """The key of the running subagent whose calls are shown."""
        self.read_before: dict[str, tuple[Line, ...]] = {}
        """Call → its change, if the question about it has already put it into the scrollback."""
        self.todos: tuple[Todo, ...] = ()
        """The to-do list of the current turn."""
        self.thought = ""
        """The end of the model's current thought."""
        self._ends = "\n\n"
        """How the scrollback ends: with a blank line, with an item of one line, or with other text (|)."""
        self._noted = False
        """Whether the scrollback ends with a notice."""
        self._scheduled: asyncio.TimerHandle | None = None
        self._ticking: asyncio.TimerHandle | None = None
        self._drew, self._drawing_took = 0.0, 0.0
        self.app: Application[None] = self._application()

    # -------------------------------------------------------------- items and the answer

    def show(self, item: Item) -> None:
        """Shows a new or changed item. A finished one goes into the scrollback."""
        if isinstance(item, Call) and not item.ended:
            self._live[item.key] = item
        else:
            self._finish_answer()
            if isinstance(item, Call):
                self._live.pop(item.key, None)
            lines = self._finished_lines(item)
            if isinstance(item, Words) and self._ends == "\n":
                self._ends = "|\n"  # a message is always set apart
            self.print(lines, apart=not (self._noted and isinstance(item, Notice)))
            self._noted = isinstance(item, Notice)
        self.redraw()

    def _finished_lines(self, item: Item) -> list[Fragments]:
        """An item as it goes into the scrollback. A call that is shown in part is remembered for `show_whole`."""
        lines = self.drawing.item(item)
        if not isinstance(item, Call):
            return lines
        if item.todos and item.state == "ran":  # the list is drawn once, below, and not after every change
            self.todos = item.todos
            return lines[:1]
        before = self.read_before.pop(item.key, None)
        if before is not None and item.change is not None and _same(before, item.change.lines):
            lines = self.drawing.call(item, above=True)
        if item.child is not None or len(self.drawing.call(item, whole=True)) > len(lines):
            self._folded.append(item)
        return lines

    def add_answer(self, text: str) -> None:
        """Adds the next part of the model's answer."""
        if self._stream is None:
            self._stream = Stream()
        for block in self._stream.feed(text):
            self._put(render(block, self._style()))
        self.redraw()

    def drop_answer(self) -> None:
        """Drops the part of the answer that is not in the scrollback yet."""
        self._stream = None
        self.redraw()

    def end_answer(self) -> None:
        """Puts the rest of the answer into the scrollback."""
        self._finish_answer()
        self.redraw()

    def end_todos(self) -> None:
        """Puts the to-do list into the scrollback at the end of a turn."""
        todos, self.todos = self.todos, ()
        if todos:
            self.print(self.drawing.todos(todos), apart=True)

    def print(self, lines: Sequence[Fragments], *, apart: bool = False) -> None:
        """Puts lines into the scrollback; `apart` adds a blank line before, except between two single lines."""
        if apart and lines and not self._ends.endswith("\n\n") and (len(lines) > 1 or self._ends != "\n"):
            self._put("\n")
        self._put(ansi(lines, colours=self.manner.colours))
        self._ends = "\n" if len(lines) == 1 else "|\n"
        self.redraw()

    def write(self, text: str) -> None:
        """Puts printed text into the scrollback."""
        self._put(text)
        self.redraw()

    def _put(self, text: str) -> None:
        if text:
            self._noted = False
            self._pending.append(text)
            self._ends = "\n\n" if text.endswith("\n\n") or text == "\n" else "|\n"

    def show_whole(self) -> None:
        """Shows or hides the calls of a running subagent. Without one, prints the last folded call whole, then the one
        before it."""
        children = [call.key for call in self._live.values() if call.child is not None]
        if children:
            self._open = None if self._open in children else children[-1]
        elif self._folded:
            call = self._folded.pop()
            self.print(self.drawing.call(call, whole=True), apart=True)
            for item in self.inside(call) if call.child is not None else ():
                self.print([[("dim", "  "), *line] for line in self.drawing.item(item)])
        self.redraw()

    # -------------------------------------------------------------- messages

    def submit(self, text: str) -> None:
        if self.busy is not None and self.at_once(text.strip()):
            return
        self.queue.append(text)
        self._arrived.set()
        self.redraw()

    def take_back(self) -> str | None:
        """Removes and returns the last queued message."""
        return self.queue.pop() if self.queue else None

    def greet(self, items: Iterable[Item]) -> None:
        """Prints the earlier items of a resumed conversation."""
        for item in items:
            if isinstance(item, Words) and item.role == "assistant":
                self._put(render(Block(item.text), self._style()))
            else:
                self.print(self._finished_lines(item), apart=True)
        self.todos = ()

    def print_first(self) -> None:
        """Prints what is pending before the application runs."""
        self.app.output.write_raw("".join(self._pending).replace("\n", "\r\n"))
        self.app.output.flush()
        self._pending = []

    def close(self) -> None:
        """Ends `next_message` after the queued messages."""
        self._closed = True
        self._arrived.set()

    async def next_message(self) -> str | None:
        while not self.queue:
            if self._closed:
                return None
            self._arrived.clear()
            await self._arrived.wait()
        message = self.queue.pop(0)
        self.redraw()
        return message

    # -------------------------------------------------------------- drawing

    @property
    def drawing(self) -> Drawing:
        return Drawing(self.width, UNICODE if self.manner.unicode else ASCII)

    @property
    def width(self) -> int:
        return max(self.app.output.get_size().columns - 1, 10)

    def _style(self) -> RenderStyle:
        code = "ansi_light" if self.manner.light else "ansi_dark"
        return RenderStyle(self.width, self.manner.colours, self.manner.links, code, not self.manner.unicode)

    def redraw(self) -> None:
        """Schedules a drawing. The longer drawing takes, the less often it is done."""
        if self._scheduled is not None:
            return
        pause = max(REDRAW_SECONDS, 4 * self._drawing_took)
        wait = max(self._drew + pause - time.monotonic(), 0.0)
        self._scheduled = asyncio.get_running_loop().call_later(wait, self.draw)

    def draw(self) -> None:
        """Moves finished text to the scrollback and draws the live part below it."""
        if self._scheduled is not None:
            self._scheduled.cancel()
            self._scheduled = None
        began = time.monotonic()
        self._draw_tail()
        if self._pending and self.app.is_running:
            text, self._pending = "".join(self._pending), []
            self._above(text)
        elif self.app.is_running:
            self.app.invalidate()
        self._drew = time.monotonic()
        self._drawing_took = self._drew - began
        if self.busy is not None and self._ticking is None:  # an idle screen writes nothing
            self._ticking = asyncio.get_running_loop().call_later(
                SPIN_SECONDS if self.manner.motion else 1.0, self._tick
            )

    def _tick(self) -> None:
        self._ticking = None
        self.redraw()

    def _above(self, text: str) -> None:
        """Writes text above the input, without touching the scrollback."""
        out, renderer = self.app.output, self.app.renderer
        out.write_raw(BEGIN_UPDATE)
        renderer.erase(leave_alternate_screen=False)
        out.write_raw(text.replace("\n", "\r\n"))
        out.flush()
        self.app.render_counter += 1  # otherwise cached text of the previous drawing is used
        self.app.renderer.render(self.app, self.app.layout)
        out.write_raw(END_UPDATE)
        out.flush()

    def _finish_answer(self) -> None:
        if self._stream is not None:
            for block in self._stream.end():
                self._put(render(block, self._style()))
            self._stream = None

    def _draw_tail(self) -> None:
        rest = self._stream.rest if self._stream is not None else Block("")
        if self._tail_of != (rest, self.width):
            self._tail_of = (rest, self.width)
            self._tail = render(tail_lines(rest), self._style()) if rest.source.strip() else ""

    def _live_text(self) -> StyleAndTextTuples:
        """The live part: the end of the answer, the running calls, what the turn is waiting for, the to-do list."""
        rows = self.app.output.get_size().rows
        room = max(rows - 8, 3)
        lines: list[Fragments] = []
        for call in self._live.values():
            lines += self._running_lines(call)
        if self.thought:
            lines.append([("dim", self.drawing.cut(f"  {self.thought}", self.width))])
        if self.busy is not None:
            lines.append(self.drawing.fitted([("accent", f"{self._spinner()} "), ("dim", self.busy())]))
        lines = [*lines, *self.drawing.todos(self.todos)][-room:]
        tail = self._tail.rstrip("\n").split("\n")[-max(room - len(lines), 1) :] if self._tail else []
        shown: StyleAndTextTuples = []
        if tail:
            shown += ANSI("\n".join(tail)).__pt_formatted_text__()
            shown.append(("", "\n"))
        for line in lines:
            shown += [(f"class:{style}" if style else "", text) for style, text in line]
            shown.append(("", "\n"))
        return shown[:-1]

    def _running_lines(self, call: Call) -> list[Fragments]:
        lines = self.drawing.call(replace(call, seconds=self.seconds(call)) if call.state == "running" else call)
        if call.child is not None and self._open == call.key:
            done = [item for item in self.inside(call) if isinstance(item, Call)]
            lines += [
                self.drawing.fitted([("", "    "), *self.drawing.head(inner)]) for inner in done[-SUBAGENT_CALLS:]
            ]
        printed = self.peek(call).rstrip("\n").split("\n")[-OUTPUT_LINES:]
        below = self.drawing.marks.below
        rows = [f"  {below if not number else ' '} {row}" for number, row in enumerate(printed) if row]
        return lines + [[("dim", self.drawing.cut(row, self.width))] for row in rows]

    def _spinner(self) -> str:
        signs = SPINNER if self.manner.unicode else SPINNER_ASCII
        return signs[int(time.monotonic() / SPIN_SECONDS) % len(signs)] if self.manner.motion else signs[0]

    # -------------------------------------------------------------- layout

    def _application(self) -> "Application[None]":
        search = SearchToolbar(ignore_case=True)
        field = BufferControl(
            self.buffer, search_buffer_control=search.control, focus_on_click=False, preview_search=True
        )
        self._field = Window(
            field,
            dont_extend_height=True,
            wrap_lines=True,
            height=Dimension(min=1, max=12),
            get_line_prefix=lambda line, wrap: [("class:accent", "> " if not line and not wrap else "  ")],
        )
        asks = Condition(lambda: self.panel is not None)
        self._question = Window(
            FormattedTextControl(lambda: self._panel_text(), focusable=True, show_cursor=False),
            dont_extend_height=True,
            wrap_lines=True,
        )
        self.answers = Condition(lambda: self.app.layout.has_focus(self._question))
        """Whether the question has the keys."""
        body = HSplit(
            [
                ConditionalContainer(
                    Window(FormattedTextControl(self._live_text), dont_extend_height=True, wrap_lines=False),
                    Condition(lambda: bool(self._live or self._tail or self.busy)) & ~asks,
                ),
                ConditionalContainer(self._question, asks),
                ConditionalContainer(
                    Window(FormattedTextControl(self._queue_text), dont_extend_height=True),
                    Condition(lambda: bool(self.queue)),
                ),
                ConditionalContainer(self._field, ~is_done & ~self.answers),
                search,
                ConditionalContainer(
                    Window(
                        FormattedTextControl(self._menu_text), dont_extend_height=True, height=Dimension(max=MENU_ROWS)
                    ),
                    has_completions & ~is_done,
                ),
                ConditionalContainer(
                    Window(FormattedTextControl(self._status_text), height=lambda: 1 + len(self._own())),
                    ~has_completions & ~is_done,
                ),
            ]
        )
        return Application(
            Layout(body, focused_element=self._field),
            style=STYLE if self.manner.colours else Style([]),
            min_redraw_interval=REDRAW_SECONDS,
            erase_when_done=True,
            output=make_output(),
        )

    def ask(self, panel: "Panel | None") -> None:
        """Shows a question and gives it the keys once the person stops typing. None gives them back to the input."""
        if self.panel is not None and self.panel.unsent:
            self.buffer.document = Document(self.panel.unsent, len(self.panel.unsent))
        self.panel = panel
        self.hint = ""
        if panel is None:
            self.done_typing()
            self.app.layout.focus(self._field)
        else:
            if self.app.key_processor.input_queue:
                self.typed()  # a key that is not processed yet
            if select([self.app.input.fileno()], [], [], 0)[0]:
                # This may be a reply of the terminal. If it is a key, `typed` is called once it is read.
                asyncio.get_running_loop().call_later(0, self._give_keys)
            else:
                self._give_keys()
        self.draw()

    def say(self, text: str) -> None:
        """Sends a message that was typed at a question as if it had been typed into the input."""
        self.buffer.document = Document(text, len(text))
        self.buffer.append_to_history()
        self.buffer.reset()
        self.submit(text)

    def typed(self) -> None:
        """Records that a key was pressed."""
        self._typed_at = time.monotonic()

    def done_typing(self) -> None:
        """Records that a message was sent or a question answered, so that the next question gets the keys at once."""
        self._typed_at = float("-inf")

    def _give_keys(self) -> None:
        """Gives the question the keys after a pause, because a person who is typing has not read it."""
        if self.panel is None or self.app.layout.has_focus(self._question):
            return
        left = self._typed_at + self.pause - time.monotonic()
        if left > 0:
            self.hint = "you were typing: pause to answer the question"
            asyncio.get_running_loop().call_later(left, self._give_keys)
        else:
            self.hint = ""
            self.buffer.cancel_completion()
            self.panel.take_draft(self.buffer.text)
            self.buffer.reset()
            self.app.layout.focus(self._question)
        self.redraw()

    def _panel_text(self) -> StyleAndTextTuples:
        if self.panel is None:
            return []
        lines, room = self.panel.lines(self.drawing), max(self.room + 1, 3)
        at = next((number for number, line in enumerate(lines) if line and line[0][1].startswith("> ")), 0)
        first = max(0, min(at - room // 2, len(lines) - room))
        return _joined(lines[first : first + room])

    @property
    def room(self) -> int:
        """How many rows a question may have after its first one."""
        typing = self.panel is not None and not self.answers()
        return self.app.output.get_size().rows - 2 - min(len(self.queue), 3) - typing

    def _queue_text(self) -> StyleAndTextTuples:
        cut = self.drawing.cut
        return _joined([[("dim", cut(f"  queued: {' '.join(text.split())}", self.width))] for text in self.queue])

    def _menu_text(self) -> StyleAndTextTuples:
        state = self.buffer.complete_state
        if state is None:
            return []
        index = state.complete_index or 0
        first = max(0, min(index - MENU_ROWS // 2, len(state.completions) - MENU_ROWS))
        shown, drawing = state.completions[first : first + MENU_ROWS], self.drawing
        column = (
            min(max(cell_width(completion.display_text) for completion in shown), max(self.width // 2, 20))
            if shown
            else 0
        )
        lines: list[Fragments] = []
        for number, completion in enumerate(shown, first):
            name, about = completion.display_text, completion.display_meta_text
            padded = name + " " * (column - cell_width(name)) if about else name
            lines.append([("chosen" if number == state.complete_index else "", f"  {padded}"), ("dim", f"  {about}")])
        return _joined([drawing.fitted(line) for line in lines])

    def _own(self) -> list[Fragments]:
        """The lines of the status command; only one in a low terminal, because the input needs the rest."""
        return self.own_lines if self.app.output.get_size().rows >= LOW_ROWS else self.own_lines[:1]

    def _status_text(self) -> StyleAndTextTuples:
        shown: StyleAndTextTuples = []
        for line in self._own():
            shown += [*self.drawing.fitted(line), ("", "\n")]
        return shown + _joined([self.drawing.fitted([("warn", self.hint)] if self.hint else self._status())])


def _same(asked: Sequence[Line], done: Sequence[Line]) -> bool:
    """Whether two changes add and remove the same lines, in whatever context."""
    return [line for line in asked if line.kind in "+-"] == [line for line in done if line.kind in "+-"]


def _joined(lines: Sequence[Fragments]) -> StyleAndTextTuples:
    shown: StyleAndTextTuples = []
    for number, line in enumerate(lines):
        if number:
            shown.append(("", "\n"))
        shown += [(f"class:{style}" if style else "", text) for style, text in line]
    return shown


class ScreenOutput(TextIO):
    """Standard output while the screen is drawn: printed text goes above the input."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def write(self, text: str, /) -> int:
        self._screen.write("\n".join(row for line in text.split("\n") for row in self._rows(line)))
        return len(text)

    def _rows(self, line: str) -> list[str]:
        """Breaks a line between words, unless it has a word longer than a row, such as a URL to copy."""
        width = self._screen.width
        fits = len(line) <= width or any(cell_width(word) > width for word in line.split())
        return [line] if fits else self._screen.drawing.flowed(line, width)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] - the base class declares a property
        return "utf-8"

    def fileno(self) -> int:
        return sys.__stdout__.fileno() if sys.__stdout__ is not None else 1
