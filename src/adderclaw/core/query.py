"""The types of the Python API: query options and the messages that a query yields."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from adderclaw.core.questions import Answer, ApprovalRequest, Question, Replies
from adderclaw.core.types import Effort, Json, Outcome, ToolCall, ToolResultBlock

type PermissionMode = Literal["default", "acceptEdits", "bypassPermissions"]
type CanUseTool = Callable[[ApprovalRequest], Awaitable[bool | Answer]]
"""Called when a person would be asked. Returns yes or no, or an Answer with a comment for the model."""
type AskUser = Callable[[Sequence[Question]], Awaitable[Replies | None]]


class SystemPromptPreset(TypedDict):
    """AdderClaw's own system prompt with text appended to it."""

    type: Literal["preset"]
    append: str


@dataclass(frozen=True, kw_only=True)
class QueryOptions:
    """How a query runs. Omitted options come from the operator's configuration."""

    cwd: str | None = None
    """The workspace."""
    allowed_tools: Sequence[str] | None = None
    """Offer only these tools, by name or alias. The gate still judges each call."""
    permission_mode: PermissionMode | None = None
    system_prompt: str | SystemPromptPreset | None = None
    """Replaces AdderClaw's system prompt, or a preset that appends to it."""
    mcp_servers: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Name → `{command, args, env}`, `{url}`, or an `MCPServer` of this program; added to the configured ones."""
    hooks: Sequence[Json] | Mapping[str, Sequence[Any]] = ()
    """Added to the configured ones: each `{hook_event_name, matcher, command}`, or event → groups as in settings."""
    model: str | None = None
    provider: str | None = None
    effort: Effort | None = None
    """How much the model thinks; the vendor's default if None."""
    profile: str | None = None
    max_turns: int | None = None
    """Limit of tool call rounds."""
    resume: str | None = None
    """Id of the conversation to continue."""
    can_use_tool: CanUseTool | None = None
    """Without it nobody can be asked, so calls that need approval are denied."""
    ask_user: AskUser | None = None
    """Answers the questions of AskUserQuestion."""
    include_partial_messages: bool = False
    """Also yield pieces of the answer while it streams."""
    config_file: str | None = None
    settings: Json = field(default_factory=dict[str, Any])
    """Additional configuration in the form of config.toml. Overrides every file."""


# ------------------------------------------------------------------ messages


@dataclass(frozen=True)
class SystemMessage:
    """The first message: identifies the conversation and lists its model and tools."""

    conversation_id: str
    session_id: str
    run_id: str
    cwd: str
    provider: str
    model: str
    tools: tuple[str, ...]
    type: Literal["system"] = "system"


@dataclass(frozen=True)
class PartialMessage:
    """A piece of an answer. `reset` means: discard the pieces so far."""

    kind: Literal["text", "thinking", "tool", "reset"]
    text: str
    type: Literal["partial"] = "partial"


@dataclass(frozen=True)
class AssistantMessage:
    """A reply of the model: its text and its tool calls."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    type: Literal["assistant"] = "assistant"


@dataclass(frozen=True)
class UserMessage:
    """A message sent to the model: results of its calls, or a text."""

    text: str
    tool_results: tuple[ToolResultBlock, ...] = ()
    type: Literal["user"] = "user"


@dataclass(frozen=True)
class ResultMessage:
    """The last message: how the query ended."""

    outcome: Outcome
    answer: str
    reason: str = ""
    run_id: str = ""
    conversation_id: str = ""
    session_id: str = ""
    provider: str = ""
    model: str = ""
    steps: int = 0
    tool_calls: int = 0
    usage: Mapping[str, int] = field(default_factory=dict[str, int])
    cost: float | None = None
    changed_later: Sequence[Mapping[str, str]] = ()
    """Changed files that other programs execute later: each `{path, change}`."""
    type: Literal["result"] = "result"

    @property
    def is_error(self) -> bool:
        return self.outcome != "completed"


type AgentMessage = SystemMessage | PartialMessage | AssistantMessage | UserMessage | ResultMessage
