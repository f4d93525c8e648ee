"""Passes an answer on while it arrives."""

from adderclaw.types import Delta, OnDelta


class DeltaRelay:
    """Passes the pieces of an answer on, and says when those of a failed try are void."""

    def __init__(self, on_delta: OnDelta) -> None:
        self._on_delta = on_delta
        self._shown = False

    def __call__(self, delta: Delta) -> None:
        self._shown = delta.kind != "reset"
        self._on_delta(delta)

    def reset(self) -> None:
        if self._shown:
            self(Delta("reset", ""))
