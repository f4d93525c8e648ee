"""Passes an answer on while it arrives."""

import re
from collections.abc import Callable
from typing import Literal

from adderclaw.types import Delta, OnDelta

_ENDS = re.compile(r"[\s\u3000-\u9fff\uac00-\ud7a3]")
"""A word ends with a blank, or with a sign of a script that writes none."""
LOOK_BACK = 400
"""Characters of the line before it that what is shown of a word may depend on."""


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


class WholeWords:
    """Passes an answer on as it may be shown: word by word, and a secret of several words as one."""

    def __init__(self, on_delta: OnDelta, shown: Callable[[str], str], settled: Callable[[str], int]) -> None:
        """`settled`: how much of a text can be shown whatever comes behind it."""
        self._on_delta, self._shown, self._settled = on_delta, shown, settled
        self._held = Delta("text", "")
        self._before = ""
        """What was passed on of this line: whether a word is a secret may depend on it."""

    def __call__(self, delta: Delta) -> None:
        if delta.kind == "reset":
            self._held, self._before = Delta("text", ""), ""
        elif delta.kind != self._held.kind:
            self.end()
        if delta.kind not in ("text", "thinking"):
            self._on_delta(delta)
            return
        text = self._held.text + delta.text
        whole = next((place for place in range(len(text), 0, -1) if _ENDS.match(text[place - 1])), 0)
        whole = self._settled(text[:whole])
        self._held = Delta(delta.kind, text[whole:])
        self._pass_on(delta.kind, text[:whole])

    def end(self) -> None:
        """The answer is whole: what was held back goes on."""
        kind, text = self._held
        self._held = Delta("text", "")
        self._pass_on(kind, text)
        self._before = ""

    def _pass_on(self, kind: Literal["text", "thinking", "tool", "reset"], text: str) -> None:
        if not text:
            return
        before, line = self._shown(self._before), self._before + text
        shown = self._shown(line)
        shown = shown[len(before) :] if shown.startswith(before) else self._shown(text)
        self._before = line[line.rfind("\n") + 1 :][-LOOK_BACK:]
        self._on_delta(Delta(kind, shown))
