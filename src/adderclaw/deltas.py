"""Passes an answer on while it arrives."""

import re
from collections.abc import Callable
from typing import Literal

from adderclaw.types import Delta, OnDelta

_ENDS = re.compile(r"[\s\u3000-\u9fff\uac00-\ud7a3]")
"""A word ends with a blank, or with a sign of a script that writes none."""


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
    """Passes an answer on word by word: a secret, or a sign of several characters, that came in two parts is one."""

    def __init__(self, on_delta: OnDelta, scrub: Callable[[str], str]) -> None:
        self._on_delta, self._scrub = on_delta, scrub
        self._held = Delta("text", "")

    def __call__(self, delta: Delta) -> None:
        if delta.kind == "reset":
            self._held = Delta("text", "")
        elif delta.kind != self._held.kind:
            self.end()
        if delta.kind not in ("text", "thinking"):
            self._on_delta(delta)
            return
        text = self._held.text + delta.text
        whole = next((place for place in range(len(text), 0, -1) if _ENDS.match(text[place - 1])), 0)
        self._held = Delta(delta.kind, text[whole:])
        self._pass_on(delta.kind, text[:whole])

    def end(self) -> None:
        """The answer is whole: what was held back goes on."""
        kind, text = self._held
        self._held = Delta("text", "")
        self._pass_on(kind, text)

    def _pass_on(self, kind: Literal["text", "thinking", "tool", "reset"], text: str) -> None:
        if text:
            self._on_delta(Delta(kind, self._scrub(text)))
