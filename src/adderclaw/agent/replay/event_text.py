"""What the loop, the gate and a task's driver tell of a session: the events that a replay tells again."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, cast

from adderclaw.core.types import Json

TOLD = frozenset(
    {
        "turn_started",
        "turn_finished",
        "llm_request_sent",
        "llm_response_received",
        "llm_request_failed",
        "llm_retry_scheduled",
        "tool_requested",
        "tool_approved",
        "tool_denied",
        "tool_completed",
        "tool_failed",
        "receipt_written",
        "approval_requested",
        "approval_answered",
        "approval_expired",
        "loop_warning",
        "changed_later",
        "limit_reached",
        "estop_triggered",
        "context_compacted",
        "memory_persisted",
        "skill_catalog_loaded",
        "skill_prefilter_completed",
        "skill_disclosure_loaded",
        "prompt_budget_computed",
        "prompt_composed",
        "llm_decision_decoded",
        "skill_invocation_started",
        "skill_step_executed",
        "step_retry_scheduled",
        "skill_invocation_finished",
        "sop_step_started",
        "sop_step_retried",
        "sop_step_finished",
    }
)
"""Events that loop, gate, call and drivers tell; the others come from the edges, which are not replayed."""
TIMING = frozenset({"latency_ms", "duration_ms", "expires_at", "seconds"})
ASKED = "approval_requested"
NAMES = frozenset({"approval_id", "receipt_id", "seq", "text", "called"})
"""Names that several sessions draw from one source, and texts that the entries have: compared elsewhere."""
ENDED = frozenset({"tool_completed", "tool_failed", "tool_denied"})
"""The last that the loop tells of a call."""
IN_TOOL = ENDED | {"loop_warning", "changed_later", "tool_approved", "receipt_written"}
"""What the loop tells while tools run; the rest comes from within them."""
BEGINS = frozenset({"run_started", "subagent_started"})
"""What a session tells first in each process that goes on with it."""


def until_the_next_process(events: list[tuple[str, Json]]) -> list[tuple[str, Json]]:
    """Without what a process told that went on with the run, and closed what this one left open, before its own tape.

    A run's own session says `run_started` then, and a child `subagent_started`. Whether the first of them is this
    process's own depends on what was written when its tape began: it is if no turn and no driver has told anything
    before it.
    """
    own = next((number for number, (kind, _) in enumerate(events) if kind in TOLD), len(events))
    ends = (number for number, (kind, _) in enumerate(events) if number > own and kind in BEGINS)
    return events[: next(ends, None)]


def as_object(value: Any) -> Json:
    return cast(Json, value) if isinstance(value, dict) else {}


def kernel_events(
    events: Sequence[tuple[str, Json]], asides: frozenset[str], hashed: bool
) -> Iterator[tuple[str, Json]]:
    """Those that the loop tells, without timing; what a tool or a hook told in between is left out."""
    in_turn, running, aside = False, 0, False
    for kind, payload in events:
        in_turn = in_turn or kind == "turn_started"
        if kind not in TOLD or (kind == "receipt_written" and not in_turn and not running):
            continue  # before a turn, calls that an interruption left are closed
        in_turn = kind != "turn_finished" and in_turn
        if kind == "llm_request_sent":
            aside = payload.get("request_hash") in asides
        left_out = (running and kind not in IN_TOOL) or (aside and kind.startswith("llm_"))
        running = max(0, running + (kind == "tool_approved") - (kind in ENDED))
        if not left_out:
            unlike = TIMING | NAMES | {"run_id", "span_id", *(["plan_hash"] if kind == ASKED and not hashed else [])}
            body = {key: value for key, value in payload.items() if key not in unlike}
            yield kind, json.loads(json.dumps(body))
