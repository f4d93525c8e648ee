"""Child sessions: what the parent requests and how they end."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

from adderclaw.core.record import record
from adderclaw.core.types import DEFAULT_THINKING, EndedBy, Outcome, PermissionMode, Thinking, Tool


@record
class Isolation:
    """Isolates a child from the work of its parent and siblings, except for what the fields here allow.

    The child has its own sandbox (network, /tmp, processes, browser) with a read-only workspace. Its tools are a closed
    list (`Child.tools`). Its system prompt contains no project files, memory or skills. What it must not see is denied
    by the gate and hidden by the sandbox.
    """

    workspace: Literal["read", "none"] = "read"
    hidden: tuple[str, ...] = ()
    """Absolute paths in the workspace that are hidden from it. The git directory and run records always are."""
    servers: tuple[str, ...] = ()
    """Names of the MCP servers that are started separately for it. It has no others."""
    network: bool = False
    """Whether it can reach its parent's allowed hosts, in addition to its own 127.0.0.1."""


@record
class ChildRequest:
    """A request for a child session: its prompt and its restrictions relative to the parent."""

    prompt: str
    agent_type: str = "general-purpose"
    description: str = ""
    system: str | None = None
    """Its system prompt; None for the standard one."""
    persona: str = ""
    """Text about its role, appended to the system prompt."""
    tools: tuple[str, ...] | None = None
    """The parent's tools that it may use; None for all."""
    excluded_tools: tuple[str, ...] = ()
    extra_tools: "tuple[Tool[Any], ...]" = ()
    """Tools that only this child has, usually to return its result."""
    before_end: Callable[[], str | None] | None = None
    """Called when the child wants to end. Returns a message that makes it continue (used once), or None."""
    mode: PermissionMode | None = None
    """Applies only if it is stricter than the parent's mode."""
    model: str | None = None
    """An entry, `entry/model` or a model of the parent's entry; None for the parent's model."""
    thinking: Thinking = DEFAULT_THINKING
    """Overrides the parent's thinking settings."""
    max_rounds: int | None = None
    """Limit of tool call rounds; cannot exceed the configured limit."""
    background: bool = False
    """Runs in the background, so it cannot ask the operator."""
    waits_for_slot: bool = False
    """If the maximum number of children is running, wait for a free slot instead of failing."""
    without_hooks: bool = False
    """No hooks run for it, because a hook started it."""
    tool_use_id: str = ""
    """The tool call that requested it."""
    resumed_session_id: str = ""
    """Id of the interrupted child session of an earlier process to resume; it already has its prompt."""
    rounds_used: int = 0
    """Rounds of tool calls already used."""
    cwd: str = ""
    """Its initial directory in the workspace, such as its own worktree; empty for the root."""
    isolation: Isolation | None = None
    wrap_tool: "Callable[[Tool[Any]], Tool[Any]] | None" = None
    """Applied to every tool that it gets by name, including tools of servers that connect late."""


@record
class ChildReport:
    """How a child session ended."""

    session_id: str
    outcome: Outcome
    answer: str
    reason: str = ""
    model: str = ""
    tokens: int = 0
    tool_calls: int = 0
    ended_by: EndedBy = ""


type Spawn = Callable[[ChildRequest], Awaitable[ChildReport]]
"""Creates a child session and runs its turn; raises AdderClawError if that is not allowed."""
