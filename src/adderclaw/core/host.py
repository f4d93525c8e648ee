"""The session as seen by its tools and drivers, the stand-in used if there is no session, and a call's context."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, Protocol

from adderclaw.core.errors import AdderClawError
from adderclaw.core.questions import Answer, ApprovalRequest, QuestionRequest, answer_with
from adderclaw.core.record import mutable_record, record
from adderclaw.core.types import (
    DEFAULT_THINKING,
    Effort,
    EndedBy,
    Json,
    Outcome,
    PermissionMode,
    Thinking,
    Tool,
    ToolResult,
    Verdict,
    Workspace,
)


@record
class Isolation:
    """Isolates a child from the work of its parent and siblings, except for what the fields here allow.

    The child has its own sandbox (network, /tmp, processes, browser) with a read-only workspace. Its tools are a closed
    list (`Child.tools`). Its system prompt contains no project files, memory or skills. What it must not see is denied
    by the policy and hidden by the sandbox.
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


class Resources(Protocol):
    """The resources of MCP servers."""

    async def resources(self, server: str | None, *, soon: bool = False) -> tuple[list[Json], list[str]]:
        """The resources of one server or of all, and messages about servers that could not be reached."""
        ...

    async def read(self, server: str, uri: str) -> ToolResult: ...


class Host(Protocol):
    """What a tool may request from the session that calls it. `NO_SESSION` is used if there is no session."""

    @property
    def resources(self) -> Resources | None:
        """The resources of MCP servers; None if no server is configured."""
        ...

    @property
    def has_model(self) -> bool: ...

    async def ask(self, request: QuestionRequest) -> Answer:
        """Ask the operator questions."""
        ...

    async def approve(self, request: ApprovalRequest) -> Answer:
        """Ask the operator for approval."""
        ...

    async def run_hooks(self, event: str, fields: Json) -> HookOutcome:
        """Run the hooks of an event."""
        ...

    async def spawn(self, order: ChildRequest) -> ChildReport:
        """Create a child session and run its turn; raises AdderClawError if that is not allowed."""
        ...

    async def call_tool(self, name: str, arguments: Json, why: str, *, asked: bool = False) -> ToolResult:
        """Call a tool for a hook or a skill, outside the conversation. The call is judged and recorded like any other.

        The author of the hook or skill counts as having approved it; with `asked` the operator is asked as usual.
        """
        ...

    async def ask_small_model(self, instructions: str, text: str, purpose: str, model: str) -> str:
        """Ask the small model, or `model`, outside the conversation; raises ProviderError or LimitError."""
        ...

    async def wait_for_servers(self) -> str:
        """Wait briefly for starting servers; returns a message about those that failed or are not ready, if any."""
        ...

    def show_message(self, message: str, attachments: list[str], status: str) -> None:
        """Show the operator a message during the turn."""
        ...

    def tools(self) -> Mapping[str, Tool[Any]]:
        """The session's tools that are advertised to the model."""
        ...

    @property
    def in_plan_mode(self) -> bool:
        """Whether the session is in plan mode, which ends when a plan is approved."""
        ...

    def end_plan_mode(self) -> bool:
        """Leave plan mode after a plan was approved; returns False if the session stays read-only."""
        ...

    def grant_for_turn(self, rules: Sequence[str], effort: Effort | None = None) -> list[str]:
        """Apply permission rules and a thinking effort until the turn ends; returns the rules that were applied."""
        ...


class NoSession:
    """Used if there is no session: calls can be explained, but nothing runs."""

    resources: Resources | None = None
    has_model = False
    in_plan_mode = False

    async def ask(self, request: QuestionRequest) -> Answer:  # noqa: ARG002
        return answer_with(None)

    async def approve(self, request: ApprovalRequest) -> Answer:  # noqa: ARG002
        return Answer(approved=False, by="no_operator")

    async def run_hooks(self, event: str, fields: Json) -> HookOutcome:  # noqa: ARG002
        return NO_HOOKS

    async def spawn(self, order: ChildRequest) -> ChildReport:  # noqa: ARG002
        raise AdderClawError("a subagent needs a session: run this from a conversation")

    async def call_tool(self, name: str, arguments: Json, why: str, *, asked: bool = False) -> ToolResult:  # noqa: ARG002
        raise AdderClawError("a tool call needs a session: run this from a conversation")

    async def ask_small_model(self, instructions: str, text: str, purpose: str, model: str) -> str:  # noqa: ARG002
        raise AdderClawError("a model call needs a session: run this from a conversation")

    async def wait_for_servers(self) -> str:
        return ""

    def show_message(self, message: str, attachments: list[str], status: str) -> None:  # noqa: ARG002
        raise AdderClawError("showing a message needs a session: run this from a conversation")

    def tools(self) -> Mapping[str, Tool[Any]]:
        return {}

    def end_plan_mode(self) -> bool:
        return False

    def grant_for_turn(self, rules: Sequence[str], effort: Effort | None = None) -> list[str]:  # noqa: ARG002
        return []


NO_SESSION: Host = NoSession()


@mutable_record
class ToolContext:
    """What a tool knows about the session and about the call that it prepares. Each call has its own context.

    Anything else that a tool needs is bound when the tool is created.
    """

    conversation_id: str
    session_id: str
    workspace: Workspace
    files_read: dict[str, str] = field(default_factory=dict[str, str])
    """Real path → hash of the content that the model has seen; checked by Edit and Write."""
    free_reads: bool = False
    """The operator runs the tool directly (`--eval`), so it may read outside the workspace."""
    called_as: str = ""
    """The tool name in the call, which may be an alias."""
    tool_use_id: str = ""
    """The id of the call."""
    rewritten: bool = False
    """A hook replaced the input that the model wrote."""
    approved: bool = False
    """A person approved this call."""
    is_hidden: Callable[[str], bool] = lambda _path: False
    """Whether a file that a search encounters may not be read. Its content is then not shown."""
    is_write_protected: Callable[[str], bool] = lambda _path: False
    """Whether a rule denies reading or changing a file. Folders that contain such a file are not deleted either."""
    outputs_folder: str = ""
    """The folder with this session's long outputs. Read, Grep and LS may read it; no tool may write there."""
    readable_folders: tuple[str, ...] = ()
    """Folders of skills and trusted plugins outside the workspace that tools may read."""
    store_output: Callable[[str], str | None] = lambda _text: None
    """Stores a text that is too long to show in full. Returns the path to Read it by, or None if nothing is stored."""
    live_output: dict[str, Callable[[], bytes]] = field(default_factory=dict[str, Callable[[], bytes]])
    """Id of a running call → a function that returns the last complete lines of its output, for live display."""
    host: Host = NO_SESSION
    """The session that calls the tool."""
