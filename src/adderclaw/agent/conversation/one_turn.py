"""One turn as every channel takes it: what is heard of the answer while it arrives, and what is then left to show."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from adderclaw.agent.loop import lifecycle
from adderclaw.agent.loop.loop import ignore_delta
from adderclaw.agent.session.session import Session, TurnResult
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Delta, OnDelta


class Hears(Protocol):
    """Shows an answer while it arrives."""

    @property
    def text(self) -> str:
        """What it has shown of the reply that came last."""
        ...

    def __call__(self, delta: Delta) -> None: ...


class Turn(NamedTuple):
    result: TurnResult
    rest: str
    """The answer as it is to be shown; empty where all of it was while it arrived."""


async def one_turn(session: Session, work: Callable[[OnDelta], Awaitable[TurnResult]], hears: Hears | None) -> Turn:
    """Do the work of a turn. Where a hook says how an answer is displayed, nothing is shown before it is whole."""
    early = hears if hears is not None and "MessageDisplay" not in session.hooks else None
    result = await work(early or ignore_delta)
    answer = session.secrets.redact(result.answer)
    if not answer or (early is not None and early.text.endswith(answer)):
        return Turn(result, "")
    return Turn(result, answer if result.signal else await lifecycle.text_to_display(session, result.answer))
