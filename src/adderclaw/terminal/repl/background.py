"""The colour behind the text, asked of the terminal: its reply is no key, whenever it comes."""

import re
from collections.abc import Callable

from prompt_toolkit.application import Application
from prompt_toolkit.input.vt100 import Vt100Input

BACKGROUND_QUERY = "\x1b]11;?\x1b\\\x1b[c"
"""The colour, and what every terminal answers: after that nothing comes any more."""
_HEX = "([0-9a-fA-F]{1,4})"
_COLOUR = re.compile(rf"\x1b\]11;(?:rgba?:{_HEX}/{_HEX}/{_HEX})?[^\x07\x1b]*(?:\x07|\x1b\\)")
_KIND = re.compile(r"\x1b\[\?[\d;]*c")
_BEGUN = re.compile(r"\x1b(?:\](?:1(?:1(?:;[^\x07\x1b]*\x1b?)?)?)?|\[\?[\d;]*)$")
LONGEST = 64
"""Characters of a reply: more is none, and belongs to who typed it."""


class Background:
    """Asks once; until the terminal has answered, what is read is looked through for the answer."""

    def __init__(self, app: Application[None], tell: Callable[[bool], None]) -> None:
        self._app, self._tell = app, tell
        self._held = ""
        """The begin of what may be a reply."""

    def ask(self) -> None:
        """Only while keys are read: the reply would be shown, or be left to the shell."""
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
        """What is left for the keys, and whether the terminal has answered all of it."""
        text = self._held + text
        if (match := _COLOUR.search(text)) is not None and match[1]:
            self._tell(is_light(*match.groups()))
        text, answered = _KIND.subn("", _COLOUR.sub("", text))
        begun = _BEGUN.search(text) if not answered else None
        self._held = begun[0] if begun is not None and len(begun[0]) <= LONGEST else ""
        return text[: len(text) - len(self._held)], bool(answered)


def is_light(red: str, green: str, blue: str) -> bool:
    """By how bright it is to the eye; each part has one to four digits."""
    parts = [int(part, 16) / (16 ** len(part) - 1) for part in (red, green, blue)]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2] > 0.5
