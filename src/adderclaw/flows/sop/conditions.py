"""Whether a step runs: what it needs and its `when`, against what the steps before it came to."""

from collections.abc import Mapping

from adderclaw.flows.sop.inputs import Value
from adderclaw.flows.sop.results import StepResult
from adderclaw.flows.sop.sop import Condition, Step


def why_skipped(step: Step, results: Mapping[str, StepResult], inputs: Mapping[str, Value]) -> str:
    """Empty where it runs."""
    for name in step.needs:
        if not results[name].succeeded:
            return f"it needs the step {name}, which was {results[name].status}"
    for one in step.when:
        if holds(one, results, inputs) == one.negated:
            return f"its condition is not met: {in_words(one)}"
    return ""


def holds(one: Condition, results: Mapping[str, StepResult], inputs: Mapping[str, Value]) -> bool:
    """Without its `not`. A step that did not succeed has no output: nothing equals it, and it contains nothing."""
    if one.is_input:
        value = inputs[one.source]
        text = str(value).lower() if isinstance(value, bool) else str(value)
    else:
        result = results[one.source]
        if one.test == "is":
            return _is(result, one.value)
        if not result.succeeded:
            return False
        text = result.output
    return text.strip() == one.value.strip() if one.test == "equals" else one.value in text


def _is(result: StepResult, wanted: str) -> bool:
    if wanted == "failed":
        return result.status in ("failed", "denied", "unknown")
    return result.status == wanted


def in_words(one: Condition) -> str:
    source = f"input {one.source}" if one.is_input else f"step {one.source}"
    return f"{'not ' if one.negated else ''}{source} {one.test} {one.value[:80]!r}"
