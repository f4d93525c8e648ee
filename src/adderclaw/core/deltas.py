"""Forwards an answer to listeners while it streams."""

import re
from collections.abc import Callable
from typing import Literal

from adderclaw.core.types import Delta, OnDelta

_ENDS = re.compile(r"[\s\u3000-\u9fff\uac00-\ud7a3]")
"""A word ends at whitespace or at a character of a script without spaces."""
LOOK_BACK = 400
"""Characters before a word in its line that may affect whether the word is redacted."""
MUCH = 4_096
"""Above this many buffered characters, they are examined after growing by an eighth, not after each piece."""


class DeltaRelay:
    """Forwards the parts of an answer and tells the listener to discard those of a failed attempt."""

    def __init__(self, on_delta: OnDelta) -> None:
        self._on_delta = on_delta
        self._shown = False

    def __call__(self, delta: Delta) -> None:
        self._shown = delta.kind != "reset"
        self._on_delta(delta)

    def reset(self) -> None:
        if self._shown:
            self(Delta("reset", ""))


class GrowingText:
    """A text that arrives in pieces. Adding a piece does not copy the earlier ones."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def add(self, piece: str) -> None:
        self._pieces.append(piece)

    def clear(self) -> None:
        self._pieces.clear()

    def __bool__(self) -> bool:
        return any(self._pieces)

    def __str__(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""


class WholeWords:
    """Forwards a redacted answer word by word, holding back what may still turn out to be part of a secret.

    The total time is proportional to the length of the answer: only new pieces are searched for the end of a word, and
    buffered text is examined again only after it has grown.
    """

    def __init__(self, on_delta: OnDelta, shown: Callable[[str], str], settled: Callable[[str], int]) -> None:
        """`settled`: how many characters of a text can be shown regardless of what follows."""
        self._on_delta, self._shown, self._settled = on_delta, shown, settled
        self._kind: Literal["text", "thinking", "tool", "reset"] = "text"
        self._held = GrowingText()
        self._size = 0
        """Number of buffered characters."""
        self._whole = 0
        """Buffer length up to the last word end that was not examined yet; 0 if there is none."""
        self._examine_from = 0
        """Buffer size at which the text is examined again."""
        self._before = ""
        """The part of this line already forwarded; whether a word is a secret may depend on it."""

    def __call__(self, delta: Delta) -> None:
        if delta.kind == "reset":
            self._hold("")
            self._before = ""
        elif delta.kind != self._kind:
            self.end()
        self._kind = delta.kind
        if delta.kind not in ("text", "thinking"):
            self._on_delta(delta)
            return
        piece = delta.text
        end = next((index for index in range(len(piece), 0, -1) if _ENDS.match(piece, index - 1)), 0)
        self._whole = self._size + end if end else self._whole
        self._held.add(piece)
        self._size += len(piece)
        if self._whole and self._size >= self._examine_from:
            text = str(self._held)
            settled = self._settled(text[: self._whole])
            self._hold(text[settled:])
            self._pass_on(text[:settled])

    def end(self) -> None:
        """The answer is complete: forwards the buffered text."""
        text = str(self._held)
        self._hold("")
        self._pass_on(text)
        self._before = ""

    def _hold(self, text: str) -> None:
        self._held.clear()
        self._held.add(text)
        self._size, self._whole = len(text), 0
        self._examine_from = self._size * 9 // 8 if self._size > MUCH else 0

    def _pass_on(self, text: str) -> None:
        if not text:
            return
        before, line = self._shown(self._before), self._before + text
        shown = self._shown(line)
        shown = shown[len(before) :] if shown.startswith(before) else self._shown(text)
        self._before = line[line.rfind("\n") + 1 :][-LOOK_BACK:]
        self._on_delta(Delta(self._kind, shown))
