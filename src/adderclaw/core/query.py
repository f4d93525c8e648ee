"""What a Python program asks with, and the messages that it gets: the nouns of the Python API."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from adderclaw.core.questions import Answer, ApprovalRequest, Question, Replies
from adderclaw.core.types import Effort, Json, Outcome, ToolCall, ToolResultBlock

type PermissionMode = Literal["default", "acceptEdits", "bypassPermissions"]
type CanUseTool = Callable[[ApprovalRequest], Awaitable[bool | Answer]]
"""Called where a person would be asked: yes or no, or an Answer with a comment for the model."""
type AskUser = Callable[[Sequence[Question]], Awaitable[Replies | None]]


class SystemPromptPreset(TypedDict):
    """AdderClaw's own system prompt with something behind it."""

    type: Literal["preset"]
    append: str


@dataclass(frozen=True, kw_only=True)
class QueryOptions:
    """How a query runs. What is left out is as the operator's configuration has it."""

    cwd: str | None = None
    """The workspace."""
    allowed_tools: Sequence[str] | None = None
    """Only these tools are offered, by name or alias; the gate still judges each call."""
    permission_mode: PermissionMode | None = None
    system_prompt: str | SystemPromptPreset | None = None
    """In place of AdderClaw's own, or a preset with an addition to it."""
    mcp_servers: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Name → `{command, args, env}`, `{url}`, or an `MCPServer` of this program; beside the configured ones."""
    hooks: Sequence[Json] | Mapping[str, Sequence[Any]] = ()
    """Beside the configured ones: each `{hook_event_name, matcher, command}`, or event → groups as settings have it."""
    model: str | None = None
    provider: str | None = None
    effort: Effort | None = None
    """How much the model thinks; what its vendor recommends where nothing is said."""
    profile: str | None = None
    max_turns: int | None = None
    """Rounds of tool calls."""
    resume: str | None = None
    """The conversation that goes on, by its id."""
    can_use_tool: CanUseTool | None = None
    """Without it nobody can be asked, and what would be asked is denied."""
    ask_user: AskUser | None = None
    """Answers the questions of AskUserQuestion."""
    include_partial_messages: bool = False
    """Also yield pieces of the answer while they arrive."""
    config_file: str | None = None
    settings: Json = field(default_factory=dict[str, Any])
    """Further configuration, over every file, in the form of config.toml."""


# ------------------------------------------------------------------ messages


@dataclass(frozen=True)
class SystemMessage:
    """The first message: which conversation it is, and what it has to work with."""

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
    """A piece of an answer. `reset` says that what came so far is void."""

    kind: Literal["text", "thinking", "tool", "reset"]
    text: str
    type: Literal["partial"] = "partial"


@dataclass(frozen=True)
class AssistantMessage:
    """One reply of the model: its text, and the calls that it makes."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    type: Literal["assistant"] = "assistant"


@dataclass(frozen=True)
class UserMessage:
    """What the model was told: results of its calls, or a text."""

    text: str
    tool_results: tuple[ToolResultBlock, ...] = ()
    type: Literal["user"] = "user"


@dataclass(frozen=True)
class ResultMessage:
    """The last message: how it ended."""

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
    """What changed of what other programs run later: each `{path, change}`."""
    type: Literal["result"] = "result"

    @property
    def is_error(self) -> bool:
        return self.outcome != "completed"


type AgentMessage = SystemMessage | PartialMessage | AssistantMessage | UserMessage | ResultMessage
