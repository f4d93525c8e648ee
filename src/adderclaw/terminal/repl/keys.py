"""What the keys do: in the input, while a turn runs, and while a question is open."""

import os
import re
import time
from collections.abc import Callable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import (
    Condition,
    FilterOrBool,
    has_completions,
    has_focus,
    vi_insert_mode,
    vi_navigation_mode,
)
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent
from prompt_toolkit.keys import Keys as Names

from adderclaw.core.record import NamedTuple
from adderclaw.terminal import editor
from adderclaw.terminal.repl.chips import Chips
from adderclaw.terminal.repl.menu import LOOKED_AT, NAMING
from adderclaw.terminal.repl.screen import Screen

TWICE = 2.0
"""Seconds within which a key counts as pressed twice."""


class Doing(NamedTuple):
    """What keys set off beside the input itself."""

    interrupt: Callable[[], bool]
    """End the turn at hand; False where none runs."""
    rewind: Callable[[], None]
    next_mode: Callable[[], None]
    ends: bool = True
    """Whether the turn at hand ends with the conversation's window: one that lives elsewhere goes on."""


class Pressed:
    """Which key was pressed last, and when."""

    def __init__(self) -> None:
        self._last = ("", 0.0)

    def twice(self, key: str) -> bool:
        now = time.monotonic()
        again = self._last[0] == key and now - self._last[1] < TWICE
        self._last = ("", 0.0) if again else (key, now)
        return again


class Keys:
    """The bindings of one screen, as rows: which keys, when, and what they do."""

    def __init__(self, screen: Screen, chips: Chips, doing: Doing) -> None:
        self.screen, self.chips, self.doing = screen, chips, doing
        self.bindings = KeyBindings()
        self._pressed = Pressed()
        self._awaited: Document | None = None
        """The text whose first completion is to be taken once there is one."""
        typing, asks = has_focus(screen.buffer), screen.answers
        picking = has_completions & Condition(self._picks)
        queued = Condition(lambda: not screen.buffer.text and bool(screen.queue))
        rows: tuple[tuple[tuple[str, ...], FilterOrBool, Callable[[], None]], ...] = (
            (("enter",), typing & picking, self._take),
            (("enter",), typing & ~picking, self._enter),
            (("escape", "enter"), typing, self._newline),
            (("c-j",), typing, self._newline),
            (("tab",), typing & has_completions, self._complete),
            (("tab",), typing & ~has_completions & Condition(self._names), self._complete_soon),
            (("c-g",), typing, self._edit),
            (("backspace",), typing & ~vi_navigation_mode, self._erase),
            (("up",), typing & queued, self._take_back),
            (("c-c",), typing, self._cancel),
            (("c-d",), typing, self._leave),
            (("escape",), typing & ~has_completions & ~vi_insert_mode, self._escape),
            (("escape",), typing & has_completions, screen.buffer.cancel_completion),
            (("s-tab",), typing, doing.next_mode),
            (("c-o",), True, screen.show_whole),
            (("c-z",), True, screen.app.suspend_to_background),
            (("escape",), asks, lambda: self._answer("escape")),
            (("c-c",), asks, lambda: self._answer("escape")),
            (("up",), asks, lambda: self._answer("up")),
            (("down",), asks, lambda: self._answer("down")),
            (("enter",), asks, lambda: self._answer("enter")),
            (("backspace",), asks, lambda: self._answer("backspace")),
            ((" ",), asks, lambda: self._answer("space", " ")),
        )
        for keys, when, do in rows:
            self.bindings.add(*keys, filter=when)(_without_event(do))
        self.bindings.add(Names.Any, filter=asks)(self._typed)
        self.bindings.add(Names.BracketedPaste, filter=typing)(self._paste)
        screen.buffer.on_text_insert += self._shorten
        screen.buffer.on_completions_changed += self._complete_awaited
        screen.app.key_processor.before_key_press += self._hear
        read = screen.app.input.read_keys
        gathers = typing & ~vi_navigation_mode
        screen.app.input.read_keys = lambda: gather_presses(read()) if gathers() else read()

    def _hear(self, _processor: object) -> None:
        self.screen.typed()

    # -------------------------------------------------------------- the input

    def _picks(self) -> bool:
        state = self.screen.buffer.complete_state
        return state is not None and state.complete_index is not None

    def _take(self) -> None:
        """Take the completion; a command without arguments goes off with it."""
        buffer = self.screen.buffer
        buffer.complete_state = None
        if buffer.text.startswith("/") and " " not in buffer.text.strip():
            self._submit()

    def _enter(self) -> None:
        buffer = self.screen.buffer
        if not unfinished(buffer.text):
            self._submit()
            return
        if buffer.text.endswith("\\"):
            buffer.cursor_position = len(buffer.text)
            buffer.delete_before_cursor()
        self._newline()

    def _newline(self) -> None:
        self.screen.buffer.newline(copy_margin=False)

    def _complete(self) -> None:
        state = self.screen.buffer.complete_state
        if state is not None and state.complete_index is None:
            self.screen.buffer.go_to_completion(0)
        self.screen.buffer.complete_state = None

    def _names(self) -> bool:
        return names(self.screen.buffer.document)

    def _complete_soon(self) -> None:
        """The menu is still being made, or made anew: no key is lost for that."""
        self._awaited = self.screen.buffer.document
        self.screen.buffer.start_completion(select_first=False)

    def _complete_awaited(self, buffer: Buffer) -> None:
        state, awaited = buffer.complete_state, self._awaited
        if awaited is None or (awaited == buffer.document and (state is None or not state.completions)):
            return
        self._awaited = None
        if awaited == buffer.document:
            self._complete()

    def _erase(self) -> None:
        """A name or a command that is made shorter is looked for again."""
        buffer = self.screen.buffer
        if buffer.delete_before_cursor() and names(buffer.document):
            buffer.start_completion(select_first=False)

    def _paste(self, event: KeyPressEvent) -> None:
        text = event.data.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
        text = f"{picture} " if (picture := picture_paths(text)) else text
        self.screen.buffer.insert_text(self.chips.add_pasted(text))

    def _shorten(self, _buffer: object) -> None:
        """However it came, a text that is too long to be drawn at each key is a chip."""
        buffer = self.screen.buffer
        if (short := self.chips.shorten(buffer.text)) != buffer.text:
            buffer.document = Document(short, len(short))

    def _edit(self) -> None:
        buffer = self.screen.buffer
        buffer.text = self.chips.expand(buffer.text)
        editor.pin_editor()
        buffer.open_in_editor()

    def _take_back(self) -> None:
        """A message that is queued can be had back."""
        if (text := self.screen.take_back()) is not None:
            self.screen.buffer.text = text
            self.screen.buffer.cursor_position = len(text)

    def _submit(self) -> None:
        buffer = self.screen.buffer
        text = buffer.text
        if not text.strip():
            return
        buffer.append_to_history()
        buffer.reset()
        self.screen.done_typing()
        self.screen.submit(text)

    # -------------------------------------------------------------- the conversation

    def _cancel(self) -> None:
        if self.screen.buffer.text:
            self.screen.buffer.reset()
        elif not self.doing.interrupt():
            if self._pressed.twice("c-c"):
                self.screen.close()
            self.screen.hint = "Ctrl-C once more leaves"

    def _leave(self) -> None:
        if self.screen.buffer.text:
            self.screen.buffer.delete()
        elif not self.doing.ends:
            self.screen.close()
        elif self.screen.busy is None or self._pressed.twice("c-d"):
            self.screen.queue.clear()
            self.screen.close()
            self.doing.interrupt()
        else:
            self.screen.hint = "Ctrl-D once more interrupts this and leaves"

    def _escape(self) -> None:
        if not self.doing.interrupt() and self._pressed.twice("escape") and not self.screen.buffer.text:
            self.doing.rewind()

    def _typed(self, event: KeyPressEvent) -> None:
        """What is typed or pasted at a question; control characters are left out."""
        pasted = event.key_sequence[-1].key == Names.BracketedPaste
        text = "".join(char for char in event.data.replace("\r", "\n").replace("\n", " ") if char.isprintable())
        if text:
            self._answer("paste" if pasted else "", text)

    def _answer(self, name: str, text: str = "") -> None:
        panel = self.screen.panel
        if panel is not None:
            panel.press(name, text)
            if panel.message:
                self.screen.say(panel.message)
                panel.message = ""
            self.screen.redraw()


def _without_event(do: Callable[[], None]) -> Callable[[KeyPressEvent], None]:
    return lambda _event: do()


def unfinished(text: str) -> bool:
    """Whether a message goes on in the next line: a backslash at its end, an open fence, an open quote at its start.

    Inches and apostrophes are too common for any other quote. One of one mark is closed by an empty line, too.
    """
    fences = sum(line.lstrip().startswith("```") for line in text.split("\n"))
    if text.endswith("\\") or fences % 2 == 1:
        return True
    if text.startswith(TRIPLE):
        return text.count(TRIPLE) % 2 == 1
    return text.startswith('"') and text.count('"') % 2 == 1 and not text.endswith("\n")


def names(document: Document) -> bool:
    """Whether a command or a name after @ is being typed."""
    text = document.text_before_cursor
    return (text.startswith("/") and " " not in text) or NAMING.search(text[-LOOKED_AT:]) is not None


def reload_names(buffer: Buffer) -> None:
    """Make the menu of a name anew, unless somebody is choosing in it."""
    state = buffer.complete_state
    if names(buffer.document) and (state is None or state.complete_index is None):
        buffer.complete_state = None
        buffer.start_completion(select_first=False)


def picture_paths(pasted: str) -> str:
    """A pasted path of a picture, as a terminal gives what is dropped on it: as it is named; else nothing."""
    text = pasted.strip()
    if not text or "\n" in text or len(text) > LOOKED_AT or not text.lower().strip("'\"").endswith(PICTURES):
        return ""
    if text.startswith("file://"):
        from urllib.parse import unquote

        text = unquote(text.removeprefix("file://"))
    elif not os.path.exists(os.path.expanduser(text)):
        text = re.sub(r"\\(.)", r"\1", text.strip("'\""))
    if not text.isprintable() or '"' in text or not os.path.isfile(os.path.expanduser(text)):
        return ""
    return f'@"{text}"' if re.search(r"\s", text) else f"@{text}"


TRIPLE = '"' * 3
PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
BURST = 16
"""Letters that arrive together: nobody types so quickly."""


def gather_presses(keys: list[KeyPress]) -> list[KeyPress]:
    """Letters that arrive together as one key that types them all: each key costs a drawing of the input."""
    presses: list[KeyPress] = []
    run: list[KeyPress] = []
    for key in (*keys, None):
        if key is not None and not isinstance(key.key, Names) and key.data == key.key:
            run.append(key)
            continue
        presses += [KeyPress(run[0].key, "".join(press.data for press in run))] if len(run) >= BURST else run
        run = []
        if key is not None:
            presses.append(key)
    return presses
