"""A child session: what is wanted of it, and how it ended."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

from adderclaw.core.record import record
from adderclaw.core.types import DEFAULT_THINKING, EndedBy, Outcome, PermissionMode, Thinking, Tool


@record
class Apart:
    """A child that sees nothing of its parent's and its siblings' work but what is named here.

    It has a sandbox of its own (network, /tmp, processes, browser), and in it nothing of the workspace can be written.
    Its tools are a closed list (`Child.tools`), its system prompt is its order's alone (no file of the project's, no
    memory, no skill), and what it must not see is denied by the gate and hidden by the sandbox.
    """

    workspace: Literal["read", "none"] = "read"
    hidden: tuple[str, ...] = ()
    """Absolute paths in the workspace that it does not see; git's own folder and the records of runs never are."""
    servers: tuple[str, ...] = ()
    """MCP servers that are started anew for it, by their names; it has no other."""
    network: bool = False
    """It reaches the hosts that its parent's commands reach, beside its own 127.0.0.1."""


@record
class Child:
    """A child session that is wanted: what it is told, and how much less than its parent it may do."""

    prompt: str
    agent_type: str = "general-purpose"
    description: str = ""
    system: str | None = None
    """Its own system prompt; None: the one of every session."""
    persona: str = ""
    """What it is told of itself after that."""
    tools: tuple[str, ...] | None = None
    """Those of its parent's tools that it has; None: all of them."""
    without: tuple[str, ...] = ()
    extra: "tuple[Tool[Any], ...]" = ()
    """Tools that only it has: how it hands its result to whoever wanted it."""
    until: Callable[[], str | None] | None = None
    """What it is told when it ends too early; None when it may end. It is told once."""
    mode: PermissionMode | None = None
    """Counts where it is stricter than the parent's."""
    model: str | None = None
    """An entry, `entry/model` or a model of the parent's entry; None: the parent's."""
    thinking: Thinking = DEFAULT_THINKING
    """Over what its parent's thinking is."""
    max_rounds: int | None = None
    """Rounds of tool calls, at most those of the configuration."""
    background: bool = False
    """Nobody waits for it: it can ask nobody."""
    waits: bool = False
    """Where as many run as may, it begins when one of them has ended; else that is an error."""
    unhooked: bool = False
    """No hook hears of it: it is a hook's own."""
    tool_use_id: str = ""
    """The call that wants it."""
    again: str = ""
    """The child session of an earlier process that goes on: it was interrupted, and knows what it is told."""
    rounds: int = 0
    """Rounds of tool calls that it has had already."""
    cwd: str = ""
    """Where in the workspace it begins, a worktree of its own for instance; empty: at the root."""
    apart: Apart | None = None
    wrap: "Callable[[Tool[Any]], Tool[Any]] | None" = None
    """What becomes of each tool that it is given by name, those of servers that come late, too."""


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


type Spawn = Callable[[Child], Awaitable[ChildReport]]
"""Makes a child session and runs its turn. AdderClawError where none may be made."""
