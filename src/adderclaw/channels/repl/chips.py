"""Long pastes as one short word in the input; the message has the text itself."""

LINES, CHARACTERS = 10, 1_000
"""From which on a paste is a chip."""


class Chips:
    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def pasted(self, text: str) -> str:
        """What a paste looks like in the input."""
        lines = text.count("\n") + 1
        if lines <= LINES and len(text) <= CHARACTERS:
            return text
        chip = f"[pasted text {len(self._texts) + 1}, {lines:,} lines]"
        self._texts[chip] = text
        return chip

    def whole(self, text: str) -> str:
        """The input with what its chips stand for."""
        for chip, pasted in self._texts.items():
            text = text.replace(chip, pasted)
        return text

    def clear(self) -> None:
        self._texts.clear()
