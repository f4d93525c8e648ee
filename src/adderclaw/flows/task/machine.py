"""The states of a task run and the allowed transitions between them."""

from typing import Literal

type State = Literal[
    "INIT",
    "LOAD_SKILL_CATALOG",
    "PREFILTER_SKILLS",
    "DISCLOSE_CONTEXT_STAGE",
    "CALL_LLM",
    "DECODE_DECISION",
    "EXECUTE_STEP",
    "VERIFY_PROGRESS",
    "HANDOFF_OR_FINISH",
    "DONE",
    "ERROR",
]

ALLOWED: dict[State, frozenset[State]] = {
    "INIT": frozenset({"LOAD_SKILL_CATALOG", "ERROR"}),
    "LOAD_SKILL_CATALOG": frozenset({"PREFILTER_SKILLS", "ERROR"}),
    "PREFILTER_SKILLS": frozenset({"DISCLOSE_CONTEXT_STAGE", "ERROR"}),
    "DISCLOSE_CONTEXT_STAGE": frozenset({"CALL_LLM", "ERROR"}),
    # to itself: a retry after a transient failure of the provider
    "CALL_LLM": frozenset({"CALL_LLM", "DECODE_DECISION", "ERROR"}),
    # back: an invalid decision is requested once more
    "DECODE_DECISION": frozenset({"CALL_LLM", "EXECUTE_STEP", "HANDOFF_OR_FINISH", "ERROR"}),
    # to itself: a retry of a failed step
    "EXECUTE_STEP": frozenset({"EXECUTE_STEP", "VERIFY_PROGRESS", "HANDOFF_OR_FINISH", "ERROR"}),
    "VERIFY_PROGRESS": frozenset({"DISCLOSE_CONTEXT_STAGE", "CALL_LLM", "HANDOFF_OR_FINISH", "ERROR"}),
    "HANDOFF_OR_FINISH": frozenset({"DISCLOSE_CONTEXT_STAGE", "DONE", "ERROR"}),
    "DONE": frozenset(),
    "ERROR": frozenset(),
}


class Machine:
    """The current state of a run."""

    def __init__(self) -> None:
        self.state: State = "INIT"

    def to(self, state: State) -> None:
        if state not in ALLOWED[self.state]:
            raise AssertionError(f"a task run cannot go from {self.state} to {state}")
        self.state = state


type Remedy = Literal["retry", "fallback", "abort"]


def remedy(policy: str, *, retryable: bool, retried: bool, fallback: bool) -> Remedy:
    """What to do about a failed step, by `runtime.on_step_failure`."""
    if policy == "abort":
        return "abort"
    if retryable and not retried:
        return "retry"
    return "fallback" if fallback and policy == "retry_once_then_fallback_then_abort" else "abort"
