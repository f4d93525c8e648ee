"""What the hooks of one event decided together."""

from dataclasses import field
from typing import Any

from adderclaw.core.record import record
from adderclaw.core.types import Json, Verdict

ASKED_BY_SERVERS = frozenset({"Elicitation", "ElicitationResult"})
"""Hooks of what a server asks while one of its tools runs: they belong to that tool's result."""


@record
class Merged:
    """What the hooks of one event said together, in their order."""

    blocked: bool = False
    """Some hook blocks what the event is about: exit code 2, or `decision: block`."""
    reason: str = ""
    """Why, for the model: each blocking hook's words, by its ordinal."""
    verdict: Verdict | None = None
    """PreToolUse: the strictest permission decision given."""
    verdict_reason: str = ""
    updated_input: Json | None = None
    """The whole new input of the call, where a hook rewrote it: decoded and judged again before anything runs."""
    context: tuple[str, ...] = ()
    """Additional context for the model."""
    messages: tuple[str, ...] = ()
    """`systemMessage`s, for the person."""
    stop: str | None = None
    """A hook said `continue: false`: the turn ends, with this reason."""
    specific: Json = field(default_factory=dict[str, Any])
    """What else the event's own arm says: decision, retry, action, content, watchPaths, worktreePath, …"""
    ran: int = 0


NO_HOOKS = Merged()
