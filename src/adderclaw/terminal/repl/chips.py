"""Long pastes as one short word in the input; the message has the text itself."""

import re

LINES, CHARACTERS = 10, 1_000
"""From which on a paste is a chip."""
MOST_TYPED = 20_000
"""Characters of an input that are drawn; more of them, however they came, are a chip, too."""


class Chips:
    """The texts that chips of one conversation stand for: what is queued or called back from the history has them."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def add_pasted(self, text: str) -> str:
        """What a paste looks like in the input."""
        lines = text.count("\n") + 1
        if lines <= LINES and len(text) <= CHARACTERS:
            return text
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        chip = f"[pasted text {len(self._texts) + 1}, {size}]"
        self._texts[chip] = text
        return chip

    def shorten(self, text: str) -> str:
        """An input that is not too long to be drawn."""
        return text if len(text) <= MOST_TYPED else self.add_pasted(self.expand(text))

    def expand(self, text: str) -> str:
        """The input with what its chips stand for; what is pasted is not looked at."""
        if not self._texts:
            return text
        chips = "|".join(map(re.escape, self._texts))
        return re.sub(chips, lambda match: self._texts[match[0]], text)
