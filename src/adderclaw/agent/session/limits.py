"""Budgets, which are checked before anything is spent, rate counters, and the detector of repeated calls."""

from collections import deque
from threading import Lock

from adderclaw.config.model_facts.catalogue import Prices, Quote, cost
from adderclaw.config.schema import Limits
from adderclaw.core.errors import LimitError
from adderclaw.core.json_text import digest
from adderclaw.core.overseer import NO_SUPERVISOR, ModelCallEstimate, RunSupervisor
from adderclaw.core.types import Clock, ToolCall, ToolResult, Usage

TYPICAL_ANSWER = 1_000
"""Tokens that an answer is expected to take. Reserving the longest would refuse calls that nearly always fit."""
LONG_ANSWER = 16_000
"""Tokens of the longest answer of a model whose limit is unknown."""
OVERHEAD = 1_000
"""Tokens that a provider may add to a request."""


class Budget:
    """What a run and all its children may still spend. `0` means zero, not unlimited.

    A model call is reserved before it is made and settled after. Settled, reserved and expected amounts together must
    fit the limit. So parallel children exceed a limit at most by what the last call of each took beyond its estimate.
    """

    def __init__(
        self,
        limits: Limits,
        clock: Clock,
        prices: Prices,
        outer: RunSupervisor = NO_SUPERVISOR,
        *,
        cost_set_in: str = "",
    ) -> None:
        """`outer`: limits that the run shares with others. `cost_set_in`: where `limits.cost_usd` was set, if anywhere.

        A cost limit that was set rejects models without a price; the default limit ignores them.
        """
        self._limits, self._clock, self._outer = limits, clock, outer
        self.cost_set_in = cost_set_in
        self._began = clock.monotonic()
        self._lock = Lock()
        self._held_tokens = self._lost_tokens = 0
        self._held_cost = self._lost_cost = 0.0
        self._priced = 0
        self.prices = prices
        self.usage = Usage()
        self.steps = 0
        self.tool_calls = 0
        self._calls_before = 0
        self.children = 0
        """The number of child sessions started."""
        self.spent = 0.0
        """US dollars spent on calls with a known price."""
        self.unpriced: set[str] = set()
        """Models that were used and have no known price."""

    def restart_limits(self) -> None:
        """Restart the limits on time and tool calls for a new message of a person or an MCP client.

        Tokens and cost are not reset.
        """
        self._began = self._clock.monotonic()
        self._calls_before = self.tool_calls

    def exclude_wait(self, seconds: float) -> None:
        """Exclude a wait for the provider's quota from the time limit."""
        self._began += seconds

    @property
    def seconds_left(self) -> float:
        return self._limits.seconds - (self._clock.monotonic() - self._began)

    @property
    def cost(self) -> float | None:
        """US dollars, rounded; None if no call had a known price."""
        return round(self.spent, 6) if self._priced or not self.unpriced else None

    @property
    def state(self) -> list[float]:
        """What was used so far: steps, tool calls, those before this message, seconds, tokens by kind, dollars; then
        unreported tokens and dollars, child sessions, calls with a known price, and whether a count is estimated."""
        seconds = round(self._clock.monotonic() - self._began, 4)
        counts = self.steps, self.tool_calls, self._calls_before, seconds
        used = self.usage
        tokens = used.input_tokens, used.output_tokens, used.cache_read_tokens, used.cache_write_tokens
        unreported = self._lost_tokens, self._lost_cost, self.children, self._priced
        return [*counts, *tokens, self.spent, *unreported, *([1] if used.estimated else [])]

    @property
    def state_if_interrupted(self) -> list[float]:
        """The state for a process that resumes after a crash now: running calls count with their estimate."""
        with self._lock:
            state = self.state
            state[9] += self._held_tokens
            state[10] += self._held_cost
        return state

    def restore(self, state: list[float]) -> None:
        """Continue from a stored state, in a replay or a resumed run."""
        steps, tool_calls, before, seconds, *tokens = state[:8]
        self.steps, self.tool_calls, self._calls_before = int(steps), int(tool_calls), int(before)
        self.spent, lost_tokens, self._lost_cost, children, priced, estimated = [*state[8:], 0, 0.0, 0, 0, 0, 0][:6]
        self._began = self._clock.monotonic() - seconds
        sent, received, read, written = map(int, tokens)
        self.usage = Usage(sent, received, read, written, bool(estimated))
        self._lost_tokens, self.children, self._priced = int(lost_tokens), int(children), int(priced)

    def take_over(self, state: list[float]) -> None:
        """Continue the unfinished work of another run: what that run used counts, but is not reported again."""
        earlier = Budget(self._limits, self._clock, self.prices)
        earlier.restore(state)
        self._began = earlier._began
        self._calls_before = earlier._calls_before - earlier.tool_calls
        self._lost_tokens = earlier.usage.total + earlier._lost_tokens
        self._lost_cost = earlier.spent + earlier._lost_cost
        self.children = earlier.children

    def reserve(self, quote: Quote, input_tokens: int, *, cached: int = 0) -> "Reservation":
        """Reserve what a call is expected to take; raises LimitError if it does not fit. `cached` input is cheaper."""
        self._require_time()
        cached = min(cached, input_tokens)
        answer = min(quote.max_tokens or TYPICAL_ANSWER, TYPICAL_ANSWER)
        expected = Usage(input_tokens - cached, answer, cached)
        price = cost(expected, quote.facts)
        with self._lock:
            self._require_tokens(expected.total)
            self._require_price(quote.unpriced)
            self._require_cost(price)
            self._held_tokens += expected.total
            self._held_cost += price or 0.0
        held = Reservation(self, expected, price)
        try:
            held.outer, held.answer = self._outer.reserve(_largest_call(quote, input_tokens, answer))
        except BaseException:
            held.release()
            raise
        return held

    def before_tool_call(self) -> None:
        self._require_time()
        if self.tool_calls - self._calls_before >= self._limits.tool_calls:
            raise LimitError(f"tool call limit reached: {self._limits.tool_calls} (limits.tool_calls)", "tool_calls")

    def end_reservation(self, held: "Reservation", usage: Usage, price: float | None, *, answered: bool) -> None:
        """Replace a reservation by what was actually spent."""
        with self._lock:
            self._held_tokens -= held.expected.total
            self._held_cost -= held.price or 0.0
            if answered:
                self.usage += usage
                self.spent += price or 0.0
                self._priced += price is not None
            else:
                self._lost_tokens += usage.total
                self._lost_cost += price or 0.0
        if held.outer:
            self._outer.settle(held.outer, usage.total, price)

    def _require_time(self) -> None:
        if self.seconds_left <= 0:
            raise LimitError(f"time limit reached: {self._limits.seconds} s (limits.seconds)", "seconds")

    def _require_tokens(self, needed: int) -> None:
        limit, spent = self._limits.tokens, self.usage.total + self._lost_tokens
        if spent + self._held_tokens + needed > limit:
            reserved = f", {self._held_tokens:,} in calls under way" if self._held_tokens else ""
            amounts = f"{spent:,} used{reserved}, the next call needs about {needed:,}, of {limit:,}"
            raise LimitError(f"token limit reached: {amounts} (limits.tokens)", "tokens")

    def _require_price(self, unpriced: str) -> None:
        limit = self._limits.cost_usd
        if not unpriced or not (self.cost_set_in or limit == 0):
            return
        where = f", {self.cost_set_in}," if self.cost_set_in else ""
        fix = f'give its price under [models."{unpriced}"] (input_per_mtok, output_per_mtok), or remove the limit'
        why = (
            f"the price of the model {unpriced!r} is unknown, so limits.cost_usd = {limit:g}{where} cannot be enforced"
        )
        raise LimitError(f"{why}; {fix}: limits.tokens still applies", "price")

    def _require_cost(self, price: float | None) -> None:
        if price is None:
            return
        limit, spent = self._limits.cost_usd, self.spent + self._lost_cost
        if spent + self._held_cost + price > limit:
            reserved = f", ${self._held_cost:.4f} in calls under way" if self._held_cost else ""
            amounts = f"${spent:.4f} spent{reserved}, the next call costs about ${price:.4f}, of ${limit:g}"
            raise LimitError(f"cost limit reached: {amounts} (limits.cost_usd)", "cost_usd")


def _largest_call(quote: Quote, input_tokens: int, answer: int) -> ModelCallEstimate:
    """The most that a call can take: twice the expected input, and the longest answer."""
    facts = quote.facts
    longest = quote.max_tokens or facts.max_output_tokens
    tokens = min(2 * input_tokens + OVERHEAD, max(facts.context_tokens or 2**31, input_tokens))
    dearest = max(facts.input_per_mtok or 0.0, facts.cache_write_per_mtok or 0.0)
    return ModelCallEstimate(
        model=quote.model,
        input_tokens=tokens,
        input_price=tokens * dearest / 1_000_000 if facts.priced else 0.0,
        least=answer,
        most=max(answer, longest or LONG_ANSWER),
        answer_price=(facts.output_per_mtok or 0.0) / 1_000_000 if facts.priced else 0.0,
        bounded=longest is not None,
        unpriced=quote.unpriced,
    )


class Reservation:
    """The reserved estimate of one call, until it is settled, released or forfeited."""

    def __init__(self, budget: Budget, expected: Usage, price: float | None) -> None:
        self._budget = budget
        self.expected, self.price = expected, price
        self.open = True
        self.outer = ""
        """Its id among the limits that are shared with other runs."""
        self.answer: int | None = None
        """The answer's tokens that fit the shared limits, if that is less than the longest answer."""

    def settle(self, usage: Usage, price: float | None) -> None:
        """Settle a call that was answered, with its actual usage."""
        self._end(usage, price, answered=True)

    def release(self) -> None:
        """Release the reservation of a call that was refused and is not billed."""
        self._end(Usage(), None, answered=False)

    def forfeit(self) -> None:
        """Count the estimate of an incomplete call against the limits; it is not reported."""
        self._end(self.expected, self.price, answered=False)

    def _end(self, usage: Usage, price: float | None, *, answered: bool) -> None:
        if self.open:
            self.open = False
            self._budget.end_reservation(self, usage, price, answered=answered)


class Pace:
    """Counts the calls of each kind within the last minute, for rate limits."""

    MINUTE = 60.0

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ran: dict[str, deque[float]] = {}

    def add(self, kind: str) -> None:
        self._ran.setdefault(kind, deque()).append(self._clock.monotonic())

    def recent_count(self, kind: str) -> int:
        times = self._ran.get(kind)
        while times and times[0] <= self._clock.monotonic() - self.MINUTE:
            times.popleft()
        return len(times or ())


class LoopDetector:
    """Counts how often in a row the same call gave the same result."""

    def __init__(self, warn_at: int, stop_at: int) -> None:
        self._warn_at, self._stop_at = warn_at, stop_at
        self._last = ""
        self.repeats = 0

    def add(self, call: ToolCall, result: ToolResult) -> None:
        current = digest([call.name, call.arguments if call.arguments is not None else call.raw, result.content])
        self.repeats = self.repeats + 1 if current == self._last else 1
        self._last = current

    @property
    def warns(self) -> bool:
        return self.repeats >= self._warn_at

    def require_change(self) -> None:
        if self.repeats >= self._stop_at:
            message = f"the same call gave the same result {self.repeats} times (runtime.loop_stop_at)"
            raise LimitError(message, "repeats")
