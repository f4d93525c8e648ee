"""The combined outcome of the hooks of an event."""

from dataclasses import field
from typing import Any

from adderclaw.core.record import record
from adderclaw.core.types import Json, Verdict

ASKED_BY_SERVERS = frozenset({"Elicitation", "ElicitationResult"})
"""Hook events for questions that a server asks while its tool runs. They belong to that tool's result."""


@record
class HookOutcome:
    """The combined results of an event's hooks, in their order."""

    blocked: bool = False
    """A hook blocked the action, by exit code 2 or `decision: block`."""
    reason: str = ""
    """The reasons of all blocking hooks by ordinal, for the model."""
    verdict: Verdict | None = None
    """PreToolUse: the strictest permission decision."""
    verdict_reason: str = ""
    updated_input: Json | None = None
    """The complete new input if a hook rewrote the call; it is decoded and judged again before the call runs."""
    context: tuple[str, ...] = ()
    """Additional context for the model."""
    messages: tuple[str, ...] = ()
    """`systemMessage`s for the user."""
    stop: str | None = None
    """The reason why the turn ends, if a hook returned `continue: false`."""
    specific: Json = field(default_factory=dict[str, Any])
    """Event-specific fields: decision, retry, action, content, watchPaths, worktreePath, …"""
    ran: int = 0


NO_HOOKS = HookOutcome()
