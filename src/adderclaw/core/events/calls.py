"""Events of tool calls, the questions about them, hooks, subagents and background tasks."""

from typing import Literal, NotRequired, TypedDict


class ToolRequested(TypedDict):
    event_type: Literal["tool_requested"]
    tool: str
    called_as: str
    tool_use_id: str
    summary: str


class ToolApproved(TypedDict):
    event_type: Literal["tool_approved"]
    tool: str
    tool_use_id: str
    risk: str
    by: str
    reason: str


class ToolDenied(TypedDict):
    event_type: Literal["tool_denied"]
    tool: str
    tool_use_id: str
    risk: str
    by: str
    reason: str


class ApprovalRequested(TypedDict):
    event_type: Literal["approval_requested"]
    approval_id: str
    tool: str
    tool_use_id: str
    risk: str
    reason: str
    plan_hash: str
    expires_at: float | None


class ApprovalAnswered(TypedDict):
    event_type: Literal["approval_answered"]
    approval_id: str
    tool: str
    tool_use_id: str
    approved: bool
    by: str
    comment: str


class ApprovalExpired(TypedDict):
    event_type: Literal["approval_expired"]
    approval_id: str
    tool: str
    tool_use_id: str
    seconds: float


class ToolCompleted(TypedDict):
    """The call ran to its end, possibly as a command with a nonzero exit code."""

    event_type: Literal["tool_completed"]
    tool: str
    tool_use_id: str
    duration_ms: float
    bytes: int
    exit_code: NotRequired[int]
    """The exit code of a command, if it is not 0."""


class ToolFailed(TypedDict):
    """The call could not run properly: invalid input, a crash, a time limit or a server error."""

    event_type: Literal["tool_failed"]
    tool: str
    tool_use_id: str
    duration_ms: float
    error_class: str
    error: str


class ToolProgress(TypedDict):
    event_type: Literal["tool_progress"]
    tool: str
    progress: float
    total: float | None
    message: str


class ReceiptWritten(TypedDict):
    event_type: Literal["receipt_written"]
    receipt_id: str
    seq: int
    status: str
    tool: str


class HookFinished(TypedDict):
    event_type: Literal["hook_finished"]
    hook_event: str
    ordinal: int
    command: str
    exit_code: int | None
    duration_ms: float
    error: str


class HookMessage(TypedDict):
    event_type: Literal["hook_message"]
    hook_event: str
    message: str


class LoopWarning(TypedDict):
    event_type: Literal["loop_warning"]
    tool: str
    repeats: int


class SubagentStarted(TypedDict):
    event_type: Literal["subagent_started"]
    parent_session_id: str
    agent_type: str
    description: str
    depth: int
    background: bool


class SubagentFinished(TypedDict):
    event_type: Literal["subagent_finished"]
    agent_type: str
    outcome: str
    reason: str


class TaskEnded(TypedDict):
    """A background task has ended. The next request tells the model."""

    event_type: Literal["task_ended"]
    task_id: str
    kind: str
    title: str
    status: str
    summary: str


type CallEvent = (
    ToolRequested
    | ToolApproved
    | ToolDenied
    | ApprovalRequested
    | ApprovalAnswered
    | ApprovalExpired
    | ToolCompleted
    | ToolFailed
    | ToolProgress
    | ReceiptWritten
    | HookFinished
    | HookMessage
    | LoopWarning
    | SubagentStarted
    | SubagentFinished
    | TaskEnded
)
