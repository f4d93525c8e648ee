"""The keys: what they do in the input, during a turn and at a question; long pastes; the history of what was typed."""

import json
import os
import re
import time
from collections.abc import Callable, Iterable

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
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent
from prompt_toolkit.keys import Keys as Names

from adderclaw.core.record import NamedTuple
from adderclaw.terminal import editor
from adderclaw.terminal.repl.menu import NAME_AT_END, SEARCHED_CHARS
from adderclaw.terminal.repl.screen import Screen

MAX_PASTED_LINES, MAX_PASTED_CHARS = 10, 1_000
"""A longer paste becomes a chip."""
MAX_INPUT_CHARS = 20_000
"""A longer input becomes a chip, however it was entered."""


class Chips:
    """Short words in the input that stand for long texts. The message that is sent has the texts themselves."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def add_pasted(self, text: str) -> str:
        """Returns what the input shows for a paste: the text, or a chip."""
        lines = text.count("\n") + 1
        if lines <= MAX_PASTED_LINES and len(text) <= MAX_PASTED_CHARS:
            return text
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        chip = f"[pasted text {len(self._texts) + 1}, {size}]"
        self._texts[chip] = text
        return chip

    def shorten(self, text: str) -> str:
        """Returns the input, or a chip for it if it is too long to be drawn."""
        return text if len(text) <= MAX_INPUT_CHARS else self.add_pasted(self.expand(text))

    def expand(self, text: str) -> str:
        """Replaces the chips of an input by their texts. Pasted text is not searched for chips."""
        if not self._texts:
            return text
        chips = "|".join(map(re.escape, self._texts))
        return re.sub(chips, lambda match: self._texts[match[0]], text)


TWICE_SECONDS = 2.0
"""Within this time, a key counts as pressed twice."""


class KeyActions(NamedTuple):
    """What keys do outside the input itself."""

    interrupt: Callable[[], bool]
    """Ends the current turn; returns False if none runs."""
    rewind: Callable[[], None]
    next_mode: Callable[[], None]
    ends: bool = True
    """Whether leaving ends the current turn. A turn in the server continues."""


class LastKey:
    """The key that was pressed last, and when."""

    def __init__(self) -> None:
        self._last = ("", 0.0)

    def is_repeated(self, key: str) -> bool:
        now = time.monotonic()
        again = self._last[0] == key and now - self._last[1] < TWICE_SECONDS
        self._last = ("", 0.0) if again else (key, now)
        return again


class Keys:
    """The key bindings of one screen."""

    def __init__(self, screen: Screen, chips: Chips, actions: KeyActions) -> None:
        self.screen, self.chips, self.actions = screen, chips, actions
        self.bindings = KeyBindings()
        self._last_key = LastKey()
        self._awaited: Document | None = None
        """The text whose first completion is taken as soon as it is known."""
        typing, asking = has_focus(screen.buffer), screen.answers
        picking = has_completions & Condition(self._has_selection)
        queued = Condition(lambda: not screen.buffer.text and bool(screen.queue))
        rows: tuple[tuple[tuple[str, ...], FilterOrBool, Callable[[], None]], ...] = (
            (("enter",), typing & picking, self._take),
            (("enter",), typing & ~picking, self._enter),
            (("escape", "enter"), typing, self._newline),
            (("c-j",), typing, self._newline),
            (("tab",), typing & has_completions, self._complete),
            (("tab",), typing & ~has_completions & Condition(self._is_naming), self._complete_soon),
            (("c-g",), typing, self._edit),
            (("backspace",), typing & ~vi_navigation_mode, self._erase),
            (("up",), typing & queued, self._take_back),
            (("c-c",), typing, self._cancel),
            (("c-d",), typing, self._leave),
            (("escape",), typing & ~has_completions & ~vi_insert_mode, self._escape),
            (("escape",), typing & has_completions, screen.buffer.cancel_completion),
            (("s-tab",), typing, actions.next_mode),
            (("c-o",), True, screen.show_whole),
            (("c-z",), True, screen.app.suspend_to_background),
            (("escape",), asking, lambda: self._answer("escape")),
            (("c-c",), asking, lambda: self._answer("escape")),
            (("up",), asking, lambda: self._answer("up")),
            (("down",), asking, lambda: self._answer("down")),
            (("enter",), asking, lambda: self._answer("enter")),
            (("backspace",), asking, lambda: self._answer("backspace")),
            ((" ",), asking, lambda: self._answer("space", " ")),
        )
        for keys, when, do in rows:
            self.bindings.add(*keys, filter=when)(_without_event(do))
        self.bindings.add(Names.Any, filter=asking)(self._typed)
        self.bindings.add(Names.BracketedPaste, filter=typing)(self._paste)
        screen.buffer.on_text_insert += self._shorten
        screen.buffer.on_completions_changed += self._complete_awaited
        screen.app.key_processor.before_key_press += self._on_key
        read = screen.app.input.read_keys
        gathers = typing & ~vi_navigation_mode
        screen.app.input.read_keys = lambda: gather_presses(read()) if gathers() else read()

    def _on_key(self, _processor: object) -> None:
        self.screen.typed()

    # -------------------------------------------------------------- the input

    def _has_selection(self) -> bool:
        state = self.screen.buffer.complete_state
        return state is not None and state.complete_index is not None

    def _take(self) -> None:
        """Takes the completion. A command without arguments is sent at once."""
        buffer = self.screen.buffer
        buffer.complete_state = None
        if buffer.text.startswith("/") and " " not in buffer.text.strip():
            self._submit()

    def _enter(self) -> None:
        buffer = self.screen.buffer
        if not is_unfinished(buffer.text):
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

    def _is_naming(self) -> bool:
        return is_naming(self.screen.buffer.document)

    def _complete_soon(self) -> None:
        """Takes the first completion once the menu is ready, so that Tab is not lost."""
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
        """Deletes a character, and searches again if a name or a command is being typed."""
        buffer = self.screen.buffer
        if buffer.delete_before_cursor() and is_naming(buffer.document):
            buffer.start_completion(select_first=False)

    def _paste(self, event: KeyPressEvent) -> None:
        text = event.data.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
        text = f"{picture} " if (picture := picture_paths(text)) else text
        self.screen.buffer.insert_text(self.chips.add_pasted(text))

    def _shorten(self, _buffer: object) -> None:
        """Replaces a text that is too long to be drawn at each key by a chip, however it was entered."""
        buffer = self.screen.buffer
        if (short := self.chips.shorten(buffer.text)) != buffer.text:
            buffer.document = Document(short, len(short))

    def _edit(self) -> None:
        buffer = self.screen.buffer
        buffer.text = self.chips.expand(buffer.text)
        editor.pin_editor()
        buffer.open_in_editor()

    def _take_back(self) -> None:
        """Moves the last queued message back into the input."""
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
        elif not self.actions.interrupt():
            if self._last_key.is_repeated("c-c"):
                self.screen.close()
            self.screen.hint = "press Ctrl-C again to leave"

    def _leave(self) -> None:
        if self.screen.buffer.text:
            self.screen.buffer.delete()
        elif not self.actions.ends:
            self.screen.close()
        elif self.screen.busy is None or self._last_key.is_repeated("c-d"):
            self.screen.queue.clear()
            self.screen.close()
            self.actions.interrupt()
        else:
            self.screen.hint = "press Ctrl-D again to interrupt and leave"

    def _escape(self) -> None:
        if not self.actions.interrupt() and self._last_key.is_repeated("escape") and not self.screen.buffer.text:
            self.actions.rewind()

    def _typed(self, event: KeyPressEvent) -> None:
        """Passes typed or pasted text to the question, without control characters."""
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


def is_unfinished(text: str) -> bool:
    """Whether Enter starts a new line: after a backslash, in an open fence, or in a quote at the start of the message.

    Quotes elsewhere do not count, because inches and apostrophes are too common. An empty line also closes a quote of
    one mark.
    """
    fences = sum(line.lstrip().startswith("```") for line in text.split("\n"))
    if text.endswith("\\") or fences % 2 == 1:
        return True
    if text.startswith(TRIPLE):
        return text.count(TRIPLE) % 2 == 1
    return text.startswith('"') and text.count('"') % 2 == 1 and not text.endswith("\n")


def is_naming(document: Document) -> bool:
    """Whether a command or a name after @ is being typed."""
    text = document.text_before_cursor
    return (text.startswith("/") and " " not in text) or NAME_AT_END.search(text[-SEARCHED_CHARS:]) is not None


def reload_names(buffer: Buffer) -> None:
    """Rebuilds the menu for the name that is being typed, unless the person is choosing in it."""
    state = buffer.complete_state
    if is_naming(buffer.document) and (state is None or state.complete_index is None):
        buffer.complete_state = None
        buffer.start_completion(select_first=False)


def picture_paths(pasted: str) -> str:
    """The mention for a pasted path of a picture, as terminals paste for a dropped file; otherwise empty."""
    text = pasted.strip()
    if not text or "\n" in text or len(text) > SEARCHED_CHARS or not text.lower().strip("'\"").endswith(PICTURES):
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
MIN_BURST = 16
"""So many letters at once are not typed by hand."""


def gather_presses(keys: list[KeyPress]) -> list[KeyPress]:
    """Joins letters that arrive together into one key press, because each press costs a drawing of the input."""
    presses: list[KeyPress] = []
    run: list[KeyPress] = []
    for key in (*keys, None):
        if key is not None and not isinstance(key.key, Names) and key.data == key.key:
            run.append(key)
            continue
        presses += [KeyPress(run[0].key, "".join(press.data for press in run))] if len(run) >= MIN_BURST else run
        run = []
        if key is not None:
            presses.append(key)
    return presses


# ------------------------------------------------------------------ history

HISTORY_BYTES = 1 << 20
"""How many bytes of the file are read. A file of twice the size is cut to this one."""
MAX_ENTRY_CHARS = 20_000


class TypedHistory(History):
    """What was typed, across conversations: a file that only its owner can read, without the values of secrets."""

    def __init__(self, path: str, scrub: Callable[[str], str]) -> None:
        super().__init__()
        self._path, self._scrub = path, scrub

    def load_history_strings(self) -> Iterable[str]:
        """Yields the newest entry first. Lines that are not JSON texts are skipped."""
        try:
            with open(self._open(os.O_RDONLY), "rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(size - HISTORY_BYTES, 0))
                lines = file.read(HISTORY_BYTES).split(b"\n")
        except OSError:
            return
        for line in reversed(lines[1:] if size > HISTORY_BYTES else lines):
            try:
                text = json.loads(line)
            except ValueError:
                continue
            if isinstance(text, str):
                yield text

    def store_string(self, string: str) -> None:
        line = json.dumps(self._scrub(string)[:MAX_ENTRY_CHARS]).encode() + b"\n"
        try:
            with open(self._open(os.O_RDWR | os.O_APPEND | os.O_CREAT), "rb+", buffering=0) as file:
                if file.seek(0, os.SEEK_END) > 2 * HISTORY_BYTES:
                    file.seek(-HISTORY_BYTES, os.SEEK_END)
                    rest = file.read(HISTORY_BYTES).partition(b"\n")[2]
                    file.truncate(0)
                    file.write(rest)
                file.write(line)
        except OSError:
            pass  # a full disk or a foreign file must not prevent sending the message

    def _open(self, flags: int) -> int:
        fd = os.open(self._path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
        os.fchmod(fd, 0o600)
        return fd
