"""Who watches a run from outside of its process: asked before what costs or changes something, told what is finished.

On one machine nobody does (`ALONE`). On a worker of a fleet it is the worker, which holds the run's lease.
"""

from collections.abc import Sequence

from adderclaw.core.record import NamedTuple
from adderclaw.core.types import ToolCall


class Begun(NamedTuple):
    """A tool call that is about to run."""

    id: str
    tool: str
    shown: str
    """Its input without secrets, cut."""


class Asking(NamedTuple):
    """What a model call can take at most. Prices are US dollars, 0 where they are not known."""

    model: str
    input_tokens: int
    input_price: float
    """Of all its input."""
    least: int
    most: int
    """Tokens of an answer that is worth asking for, and of the longest."""
    answer_price: float
    """Of one token of the answer."""
    bounded: bool = True
    """Whether the provider ends an answer there by itself; else it must be told to."""
    unpriced: str = ""
    """A model that may answer and has no known price."""


class Granted(NamedTuple):
    """A call may be made."""

    held: str
    """What names it."""
    answer: int | None = None
    """Tokens that its answer may have, where the longest does not fit into what is left."""


class Crowded(Exception):
    """What is left is held by calls that are under way: when they have ended there may be enough."""


class RunSupervisor:
    """Nobody watches: everything passes. Who does watch says otherwise."""

    def halted(self) -> bool:
        """Whether the run is no longer this process's: looked at wherever the emergency stop is."""
        return False

    def pause(self, model: str) -> float:  # noqa: ARG002
        """Seconds to wait before this model is asked: another run may have been told that it asks too often."""
        return 0.0

    def slow(self, model: str, seconds: float | None) -> None:
        """The provider has just refused because it is asked too often; all who ask this model wait."""

    def reserve(self, call: Asking) -> Granted:  # noqa: ARG002
        """Hold what a model call can take, or raise LimitError, or Crowded where it is to be asked again."""
        return Granted("")

    def settle(self, held: str, tokens: int, price: float | None) -> None:
        """What a reserved call took in the end."""

    def begins(self, calls: Sequence[Begun]) -> None:
        """These tool calls are about to run: from here on their outcome is unknown until `ended`. May raise Stopped."""

    def ended(self, call: ToolCall) -> bool:  # noqa: ARG002
        """The call is recorded with its result; whether what the run has reached is to be put away now."""
        return False

    async def put_away(self) -> None:
        """The store is whole: put away what the run has reached, between two units."""

    async def unit(self, place: str) -> None:
        """A part of the work is stored that a resumed run does not repeat."""

    def lost(self) -> str:
        """What the model is told, once: what an earlier process had begun and nobody can say the outcome of."""
        return ""


ALONE = RunSupervisor()
