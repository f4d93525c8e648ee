"""Standard output while the screen is there: what is printed goes above the input."""

import sys
from typing import TYPE_CHECKING, TextIO

from adderclaw.terminal.repl.draw import cell_width

if TYPE_CHECKING:
    from adderclaw.terminal.repl.screen import Screen


class Printed(TextIO):
    def __init__(self, screen: "Screen") -> None:
        self._screen = screen

    def write(self, text: str, /) -> int:
        self._screen.write("\n".join(row for line in text.split("\n") for row in self._rows(line)))
        return len(text)

    def _rows(self, line: str) -> list[str]:
        """Broken between words; what has a longer one (an address to copy) is left to the terminal."""
        width = self._screen.width
        fits = len(line) <= width or any(cell_width(word) > width for word in line.split())
        return [line] if fits else self._screen.drawing.flowed(line, width)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] - a property is what it takes
        return "utf-8"

    def fileno(self) -> int:
        return sys.__stdout__.fileno() if sys.__stdout__ is not None else 1
