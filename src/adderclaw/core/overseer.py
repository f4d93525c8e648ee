"""The supervisor of a run outside its process: grants what costs or changes something, and is notified of results.

A local run has none (`NO_SUPERVISOR`). In a fleet it is the worker that holds the run's lease.
"""

from collections.abc import Sequence

from adderclaw.core.record import NamedTuple
from adderclaw.core.types import ToolCall


class PendingToolCall(NamedTuple):
    """A tool call that is about to run."""

    id: str
    tool: str
    shown: str
    """Its input, redacted and shortened."""


class ModelCallEstimate(NamedTuple):
    """The maximum cost of a model call. Prices are in US dollars, 0 if unknown."""

    model: str
    input_tokens: int
    input_price: float
    """Price of the whole input."""
    least: int
    most: int
    """Tokens of the shortest useful answer (`least`) and of the longest possible one (`most`)."""
    answer_price: float
    """Price per token of the answer."""
    bounded: bool = True
    """Whether the provider limits answers to `most` by default; otherwise the request must set the limit."""
    unpriced: str = ""
    """A model that may answer but has no known price."""


class Reservation(NamedTuple):
    """A reservation that allows a model call."""

    held: str
    """Id of the reservation."""
    answer: int | None = None
    """Maximum tokens of the answer, if the longest one does not fit into the remaining budget."""


class BudgetReserved(Exception):
    """The remaining budget is reserved by calls in progress. Retry when they have ended."""


class RunSupervisor:
    """The default supervisor, which allows everything. Subclasses restrict it."""

    def has_lost_run(self) -> bool:
        """Whether this process lost the run. Checked wherever the emergency stop is checked."""
        return False

    def seconds_to_wait(self, model: str) -> float:  # noqa: ARG002
        """Seconds to wait before calling this model, because another run may have hit its rate limit."""
        return 0.0

    def report_rate_limit(self, model: str, seconds: float | None) -> None:
        """Report that the provider rate-limited a call, so that all callers of this model wait."""

    def reserve(self, call: ModelCallEstimate) -> Reservation:  # noqa: ARG002
        """Reserve the maximum cost of a model call; raises LimitError, or BudgetReserved to retry later."""
        return Reservation("")

    def settle(self, held: str, tokens: int, price: float | None) -> None:
        """Report the actual cost of a reserved call."""

    def calls_started(self, calls: Sequence[PendingToolCall]) -> None:
        """Report that tool calls are about to run; their outcome is unknown until `call_ended`. May raise Stopped."""

    def call_ended(self, call: ToolCall) -> bool:  # noqa: ARG002
        """Report that a call and its result are recorded; returns whether to save the progress of the run now."""
        return False

    async def save_progress(self) -> None:
        """Save the progress of the run between two units of work, while the store is consistent."""

    async def unit_stored(self, unit: str) -> None:
        """Report that a unit of work is stored, which a resumed run does not repeat."""

    def interrupted_calls_notice(self) -> str:
        """A one-time message to the model about calls of an earlier process whose outcome is unknown."""
        return ""


NO_SUPERVISOR = RunSupervisor()
