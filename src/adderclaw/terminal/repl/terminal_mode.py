"""What this terminal can show, from its environment, its replies and the person's settings."""

import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress

from prompt_toolkit.application import Application
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.output.vt100 import Vt100_Output

from adderclaw.core.record import NamedTuple


class TerminalMode(NamedTuple):
    """What this terminal can show and the person wants to see."""

    colours: bool = True
    motion: bool = True
    unicode: bool = True
    links: bool = False
    light: bool = False


def detect_mode(*, motion: bool = True, theme: str = "auto") -> TerminalMode:
    """Reads from the environment what the terminal can show."""
    env = os.environ
    language = env.get("LANG", "")
    # Python itself sets LC_CTYPE if LANG is C
    coerced = language in ("C", "POSIX") and env.get("LC_CTYPE") == "C.UTF-8"
    letters = env.get("LC_ALL") or ("" if coerced else env.get("LC_CTYPE")) or language
    known = env.get("TERM_PROGRAM") in ("iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper")
    vte = env.get("VTE_VERSION", "")
    links = known or "WT_SESSION" in env or "KITTY_WINDOW_ID" in env or (vte.isdecimal() and int(vte) >= 5000)
    ground = env.get("COLORFGBG", "").rpartition(";")[2]
    return TerminalMode(
        colours=not env.get("NO_COLOR"),
        motion=motion,
        unicode=not letters or "utf" in letters.lower(),
        links=links,
        light=theme == "light" or (theme == "auto" and ground.isdecimal() and int(ground) in (7, 15)),
    )


class Output(Vt100_Output):
    """Erases in two steps, because some terminals copy a screen that is erased as a whole into the scrollback."""

    def erase_down(self) -> None:
        self.write_raw("\x1b7\x1b[K\x1b[B\x1b[J\x1b8")

    def flush(self) -> None:
        with suppress(OSError):  # the terminal was closed, and its signal ends the run
            super().flush()


def make_output() -> Vt100_Output:
    assert sys.__stdout__ is not None
    return Output.from_pty(sys.__stdout__, term=os.environ.get("TERM"))


BACKGROUND_QUERY = "\x1b]11;?\x1b\\\x1b[c"
"""Asks for the background colour, and then for the device attributes, which every terminal answers last."""
_HEX = "([0-9a-fA-F]{1,4})"
_COLOUR = re.compile(rf"\x1b\]11;(?:rgba?:{_HEX}/{_HEX}/{_HEX})?[^\x07\x1b]*(?:\x07|\x1b\\)")
_ATTRIBUTES = re.compile(r"\x1b\[\?[\d;]*c")
_PARTIAL = re.compile(r"\x1b(?:\](?:1(?:1(?:;[^\x07\x1b]*\x1b?)?)?)?|\[\?[\d;]*)$")
MAX_REPLY_CHARS = 64
"""Longer text is not a reply, and is passed on as typed."""


class Background:
    """Asks the terminal once for its background colour, and removes the reply from what is read as keys."""

    def __init__(self, app: Application[None], set_light: Callable[[bool], None]) -> None:
        self._app, self._set_light = app, set_light
        self._held = ""
        """The beginning of what may be a reply."""

    def ask(self) -> None:
        """Asks only while keys are read; otherwise the terminal would show the reply, or the shell would get it."""
        terminal_input = self._app.input
        if not self._app.is_running or not isinstance(terminal_input, Vt100Input):
            return
        read = terminal_input.stdin_reader.read

        def without_replies(count: int = 1024) -> str:
            text, is_over = self.read_reply(read(count))
            if is_over:
                terminal_input.stdin_reader.read = read
            return text

        terminal_input.stdin_reader.read = without_replies
        self._app.output.write_raw(BACKGROUND_QUERY)
        self._app.output.flush()

    def read_reply(self, text: str) -> tuple[str, bool]:
        """Returns the text without replies, and whether the terminal has answered completely."""
        text = self._held + text
        if (match := _COLOUR.search(text)) is not None and match[1]:
            self._set_light(is_light(*match.groups()))
        text, answered = _ATTRIBUTES.subn("", _COLOUR.sub("", text))
        partial = _PARTIAL.search(text) if not answered else None
        self._held = partial[0] if partial is not None and len(partial[0]) <= MAX_REPLY_CHARS else ""
        return text[: len(text) - len(self._held)], bool(answered)


def is_light(red: str, green: str, blue: str) -> bool:
    """Whether a colour is bright to the eye. Each part has one to four hexadecimal digits."""
    parts = [int(part, 16) / (16 ** len(part) - 1) for part in (red, green, blue)]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2] > 0.5
