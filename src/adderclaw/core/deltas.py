"""Passes an answer on while it arrives."""

import re
from collections.abc import Callable
from typing import Literal

from adderclaw.core.types import Delta, OnDelta

_ENDS = re.compile(r"[\s\u3000-\u9fff\uac00-\ud7a3]")
"""A word ends with a blank, or with a sign of a script that writes none."""
LOOK_BACK = 400
"""Characters of the line before it that what is shown of a word may depend on."""
MUCH = 4_096
"""Above this many held characters, they are examined only after growing by an eighth, not at each piece."""


class DeltaRelay:
    """Passes the parts of an answer on, and says when those of a failed try are void."""

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
    """A text that arrives in pieces: adding one does not copy those before it."""

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
    """Passes an answer on as it may be shown: word by word, and a secret of several words as one.

    The time that an answer takes is proportional to its length, whatever is in it: only a new piece is searched for
    the end of a word, and what stays held back is examined again only as it grows.
    """

    def __init__(self, on_delta: OnDelta, shown: Callable[[str], str], settled: Callable[[str], int]) -> None:
        """`settled`: how much of a text can be shown whatever comes behind it."""
        self._on_delta, self._shown, self._settled = on_delta, shown, settled
        self._kind: Literal["text", "thinking", "tool", "reset"] = "text"
        self._held = GrowingText()
        self._size = 0
        """Characters that are held back."""
        self._whole = 0
        """The length up to the last word end that was not examined yet."""
        self._examine_from = 0
        """The size from which on they are examined again."""
        self._before = ""
        """What was passed on of this line: whether a word is a secret may depend on it."""

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
        end = next((place for place in range(len(piece), 0, -1) if _ENDS.match(piece, place - 1)), 0)
        self._whole = self._size + end if end else self._whole
        self._held.add(piece)
        self._size += len(piece)
        if self._whole and self._size >= self._examine_from:
            text = str(self._held)
            settled = self._settled(text[: self._whole])
            self._hold(text[settled:])
            self._pass_on(text[:settled])

    def end(self) -> None:
        """The answer is whole: what was held back goes on."""
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
