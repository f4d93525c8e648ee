"""Budgets that are checked before the spending, and the detector of a model that goes in circles."""

from adderclaw.config.schema import Limits
from adderclaw.errors import LimitError
from adderclaw.types import Clock, ToolCall, ToolResult, Usage, digest


class Budget:
    """What a run may still spend. `0` means zero, not unlimited."""

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self._limits, self._clock = limits, clock
        self._began = clock.monotonic()
        self.usage = Usage()
        self.steps = 0
        self.tool_calls = 0

    @property
    def seconds_left(self) -> float:
        return self._limits.seconds - (self._clock.monotonic() - self._began)

    def before_model_call(self) -> None:
        self._within_time()
        if self.usage.total >= self._limits.tokens:
            raise LimitError(f"token limit reached: {self.usage.total} of {self._limits.tokens} (limits.tokens)")

    def before_tool_call(self) -> None:
        self._within_time()
        if self.tool_calls >= self._limits.tool_calls:
            raise LimitError(f"tool call limit reached: {self._limits.tool_calls} (limits.tool_calls)")

    def _within_time(self) -> None:
        if self.seconds_left <= 0:
            raise LimitError(f"time limit reached: {self._limits.seconds} s (limits.seconds)")


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

    @property
    def stops(self) -> bool:
        return self.repeats >= self._stop_at
