"""Budgets that are checked before the spending, and the detector of a model that goes in circles."""

from collections import deque
from threading import Lock

from adderclaw.config.model_facts.catalogue import Prices, Quote, cost
from adderclaw.config.schema.settings import Limits
from adderclaw.core.errors import LimitError
from adderclaw.core.json_text import digest
from adderclaw.core.overseer import NO_SUPERVISOR, ModelCallEstimate, RunSupervisor
from adderclaw.core.types import Clock, ToolCall, ToolResult, Usage

TYPICAL_ANSWER = 1_000
"""Tokens that an answer is expected to take: its longest would refuse calls that nearly always fit."""
LONG_ANSWER = 16_000
"""Tokens of the longest answer of a model that nobody knows more of."""
OVERHEAD = 1_000
"""Tokens that a provider may add to what it is sent."""


class Budget:
    """What a run and all its children may still spend. `0` means zero, not unlimited.

    A model call is reserved before it is made and settled after: what is settled, what is reserved and what the next
    call is expected to need must fit together. So children that run at once pass a limit by no more than what the last
    call of each took beyond its estimate.
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
        """`outer` has limits that the run shares with others; `cost_set_in` says where `limits.cost_usd` was set.

        A cost limit that somebody set rejects models without a price; the default one does not count them.
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
        """Child sessions that were begun."""
        self.spent = 0.0
        """US dollars of the calls whose price is known."""
        self.unpriced: set[str] = set()
        """Models that were asked and have no known price."""

    def begin(self) -> None:
        """Somebody who keeps asking (a person at the REPL, an MCP client) asks again: time and tool calls count anew.

        Money and tokens go on counting: those are spent however long it was waited in between.
        """
        self._began = self._clock.monotonic()
        self._calls_before = self.tool_calls

    def waited(self, seconds: float) -> None:
        """The operator lets it wait until the provider's quota begins anew: that is no time of work."""
        self._began += seconds

    @property
    def seconds_left(self) -> float:
        return self._limits.seconds - (self._clock.monotonic() - self._began)

    @property
    def cost(self) -> float | None:
        """US dollars, rounded to what matters; None when no call had a known price."""
        return round(self.spent, 6) if self._priced or not self.unpriced else None

    @property
    def state(self) -> list[float]:
        """What was used up so far: steps, tool calls, those before this message, seconds, tokens by kind, dollars;
        then what counts and is in no report (tokens, dollars), child sessions, calls with a known price, and whether
        a count is estimated."""
        seconds = round(self._clock.monotonic() - self._began, 4)
        counts = self.steps, self.tool_calls, self._calls_before, seconds
        used = self.usage
        tokens = used.input_tokens, used.output_tokens, used.cache_read_tokens, used.cache_write_tokens
        unreported = self._lost_tokens, self._lost_cost, self.children, self._priced
        return [*counts, *tokens, self.spent, *unreported, *([1] if used.estimated else [])]

    @property
    def owed(self) -> list[float]:
        """The same for whoever goes on if we are cut off now: calls that are under way count as expected."""
        with self._lock:
            state = self.state
            state[9] += self._held_tokens
            state[10] += self._held_cost
        return state

    def restore(self, state: list[float]) -> None:
        """Go on from there: in a replay, or because this run was interrupted there and is resumed."""
        steps, tool_calls, before, seconds, *tokens = state[:8]
        self.steps, self.tool_calls, self._calls_before = int(steps), int(tool_calls), int(before)
        self.spent, lost_tokens, self._lost_cost, children, priced, estimated = [*state[8:], 0, 0.0, 0, 0, 0, 0][:6]
        self._began = self._clock.monotonic() - seconds
        sent, received, read, written = map(int, tokens)
        self.usage = Usage(sent, received, read, written, bool(estimated))
        self._lost_tokens, self.children, self._priced = int(lost_tokens), int(children), int(priced)

    def owe(self, state: list[float]) -> None:
        """Go on with what another run left unfinished: what that one used up counts, and is not ours to report."""
        earlier = Budget(self._limits, self._clock, self.prices)
        earlier.restore(state)
        self._began = earlier._began
        self._calls_before = earlier._calls_before - earlier.tool_calls
        self._lost_tokens = earlier.usage.total + earlier._lost_tokens
        self._lost_cost = earlier.spent + earlier._lost_cost
        self.children = earlier.children

    def reserve(self, quote: Quote, input_tokens: int, *, cached: int = 0) -> "Reservation":
        """Hold what a call is expected to take, or say which limit it would pass. `cached` input is cheaper."""
        self._within_time()
        cached = min(cached, input_tokens)
        answer = min(quote.max_tokens or TYPICAL_ANSWER, TYPICAL_ANSWER)
        expected = Usage(input_tokens - cached, answer, cached)
        price = cost(expected, quote.facts)
        with self._lock:
            self._fits_tokens(expected.total)
            self._require_price(quote.unpriced)
            self._fits_cost(price)
            self._held_tokens += expected.total
            self._held_cost += price or 0.0
        held = Reservation(self, expected, price)
        try:
            held.outer, held.answer = self._outer.reserve(_at_most(quote, input_tokens, answer))
        except BaseException:
            held.release()
            raise
        return held

    def before_tool_call(self) -> None:
        self._within_time()
        if self.tool_calls - self._calls_before >= self._limits.tool_calls:
            raise LimitError(f"tool call limit reached: {self._limits.tool_calls} (limits.tool_calls)", "tool_calls")

    def end(self, held: "Reservation", usage: Usage, price: float | None, *, answered: bool) -> None:
        """A reservation becomes what was really spent."""
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

    def _within_time(self) -> None:
        if self.seconds_left <= 0:
            raise LimitError(f"time limit reached: {self._limits.seconds} s (limits.seconds)", "seconds")

    def _fits_tokens(self, wanted: int) -> None:
        limit, spent = self._limits.tokens, self.usage.total + self._lost_tokens
        if spent + self._held_tokens + wanted > limit:
            held = f", {self._held_tokens:,} in calls under way" if self._held_tokens else ""
            said = f"{spent:,} used{held}, the next call needs about {wanted:,}, of {limit:,}"
            raise LimitError(f"token limit reached: {said} (limits.tokens)", "tokens")

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

    def _fits_cost(self, price: float | None) -> None:
        if price is None:
            return
        limit, spent = self._limits.cost_usd, self.spent + self._lost_cost
        if spent + self._held_cost + price > limit:
            held = f", ${self._held_cost:.4f} in calls under way" if self._held_cost else ""
            said = f"${spent:.4f} spent{held}, the next call costs about ${price:.4f}, of ${limit:g}"
            raise LimitError(f"cost limit reached: {said} (limits.cost_usd)", "cost_usd")


def _at_most(quote: Quote, input_tokens: int, answer: int) -> ModelCallEstimate:
    """What a call can take: twice the input that is expected (a token for two bytes), and the longest answer."""
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
    """What one call is expected to take, held until one of the three is called."""

    def __init__(self, budget: Budget, expected: Usage, price: float | None) -> None:
        self._budget = budget
        self.expected, self.price = expected, price
        self.open = True
        self.outer = ""
        """What names it among the limits that are shared with others."""
        self.answer: int | None = None
        """Tokens of the answer that fit into those, where that is less than the longest."""

    def settle(self, usage: Usage, price: float | None) -> None:
        """The call was answered and took this."""
        self._end(usage, price, answered=True)

    def release(self) -> None:
        """The call was refused: nobody bills that."""
        self._end(Usage(), None, answered=False)

    def forfeit(self) -> None:
        """The answer never came whole: what was expected counts against the limits, and in no report."""
        self._end(self.expected, self.price, answered=False)

    def _end(self, usage: Usage, price: float | None, *, answered: bool) -> None:
        if self.open:
            self.open = False
            self._budget.end(self, usage, price, answered=answered)


class Pace:
    """How many calls of each kind ran within the last minute: what a rate limit looks at."""

    MINUTE = 60.0

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ran: dict[str, deque[float]] = {}

    def ran(self, kind: str) -> None:
        self._ran.setdefault(kind, deque()).append(self._clock.monotonic())

    def recent(self, kind: str) -> int:
        times = self._ran.get(kind)
        while times and times[0] <= self._clock.monotonic() - self.MINUTE:
            times.popleft()
        return len(times or ())


class LoopDetector:
    """Counts how often the same call gave the same result, one after the other."""

    def __init__(self, warn_at: int, stop_at: int) -> None:
        self._warn_at, self._stop_at = warn_at, stop_at
        self._last = ""
        self.repeats = 0

    def saw(self, call: ToolCall, result: ToolResult) -> None:
        seen = digest([call.name, call.arguments if call.arguments is not None else call.raw, result.content])
        self.repeats = self.repeats + 1 if seen == self._last else 1
        self._last = seen

    @property
    def warns(self) -> bool:
        return self.repeats >= self._warn_at

    def require_change(self) -> None:
        if self.repeats >= self._stop_at:
            circle = f"the same call gave the same result {self.repeats} times (runtime.loop_stop_at)"
            raise LimitError(circle, "repeats")
