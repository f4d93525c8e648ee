"""Decides whether a step runs, by its `needs` and `when` and the results of earlier steps."""

from collections.abc import Mapping

from adderclaw.flows.sop.inputs import Value
from adderclaw.flows.sop.results import StepResult
from adderclaw.flows.sop.sop import Condition, Step


def why_skipped(step: Step, results: Mapping[str, StepResult], inputs: Mapping[str, Value]) -> str:
    """Returns why a step is skipped; empty if it runs."""
    for name in step.needs:
        if not results[name].succeeded:
            return f"it needs the step {name}, whose status is {results[name].status}"
    for condition in step.when:
        if holds(condition, results, inputs) == condition.negated:
            return f"its condition is not met: {describe(condition)}"
    return ""


def holds(condition: Condition, results: Mapping[str, StepResult], inputs: Mapping[str, Value]) -> bool:
    """Tests a condition without its `not`. A step that did not succeed has no output to compare."""
    if condition.is_input:
        value = inputs[condition.source]
        text = str(value).lower() if isinstance(value, bool) else str(value)
    else:
        result = results[condition.source]
        if condition.test == "is":
            return _has_state(result, condition.value)
        if not result.succeeded:
            return False
        text = result.output
    return text.strip() == condition.value.strip() if condition.test == "equals" else condition.value in text


def _has_state(result: StepResult, state: str) -> bool:
    if state == "failed":
        return result.status in ("failed", "denied", "unknown")
    return result.status == state


def describe(condition: Condition) -> str:
    source = f"input {condition.source}" if condition.is_input else f"step {condition.source}"
    return f"{'not ' if condition.negated else ''}{source} {condition.test} {condition.value[:80]!r}"
