"""The event catalogue, closed. It is there for the type checker alone: nothing imports it when the program runs."""

from typing import Literal, NotRequired, TypedDict

from adderclaw.types import Json

# ------------------------------------------------------------------ life of the program (seed 001)


class Startup(TypedDict):
    event_type: Literal["startup"]
    version: str
    pid: int
    profile: str


class ConfigLoaded(TypedDict):
    """What is to be said of the files is a `warning` each."""

    event_type: Literal["config_path"]
    paths: list[str]


class WorkspaceChosen(TypedDict):
    event_type: Literal["workspace_path"]
    path: str
    reason: str


class ProviderSelected(TypedDict):
    event_type: Literal["provider_selected"]
    provider: str
    model: str


class ProviderFallback(TypedDict):
    event_type: Literal["provider_fallback"]
    provider: str
    next: str
    error: str
    reason: str


class ChannelStarted(TypedDict):
    event_type: Literal["channel_started"]
    channel: str


class ConversationStarted(TypedDict):
    event_type: Literal["conversation_started"]
    conversation_id: str
    session_id: str
    resumed: bool


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
    """It ran to its end; a command that returned something else than 0 did, too."""

    event_type: Literal["tool_completed"]
    tool: str
    tool_use_id: str
    duration_ms: float
    bytes: int
    exit_code: NotRequired[int]
    """Of a command, where it is not 0."""


class ToolFailed(TypedDict):
    """It could not do what it was called for: input that does not fit, a crash, a time limit, an error of a server."""

    event_type: Literal["tool_failed"]
    tool: str
    tool_use_id: str
    duration_ms: float
    error_class: str
    error: str


class ReceiptWritten(TypedDict):
    event_type: Literal["receipt_written"]
    receipt_id: str
    seq: int
    status: str
    tool: str


class MemoryPersisted(TypedDict):
    event_type: Literal["memory_persisted"]
    conversation_id: str
    entries: int


class EstopTriggered(TypedDict):
    event_type: Literal["estop_triggered"]
    reason: str


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


class LimitReached(TypedDict):
    event_type: Literal["limit_reached"]
    reason: str


class ContextCompacted(TypedDict):
    event_type: Literal["context_compacted"]
    trigger: str
    from_sequence: int
    to_sequence: int
    bytes_before: int
    bytes_after: int
    how: str


class Warned(TypedDict):
    event_type: Literal["warning"]
    message: str


class ChangedLater(TypedDict):
    """What other programs run later has appeared or changed."""

    event_type: Literal["changed_later"]
    message: str
    changes: list[dict[str, str]]
    """Of each its `path`, its `change` (new or changed) and, where the operator was asked, the `answer`."""
    tool_use_id: str
    """The call during which it was found; empty at a session's beginning or end."""


class Briefed(TypedDict):
    event_type: Literal["brief"]
    message: str
    attachments: list[str]
    status: str


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


# ------------------------------------------------------------------ life of a run (seed 002)


class TaskEnded(TypedDict):
    """Something that ran in the background is over; the model hears of it with its next request."""

    event_type: Literal["task_ended"]
    task_id: str
    kind: str
    title: str
    status: str
    summary: str


class RunStarted(TypedDict):
    event_type: Literal["run_started"]
    mode: str
    task: str


class SkillCatalogLoaded(TypedDict):
    event_type: Literal["skill_catalog_loaded"]
    skills: int
    invalid: int
    directories: list[str]


class SkillPrefilterCompleted(TypedDict):
    event_type: Literal["skill_prefilter_completed"]
    candidates: list[Json]
    strategy: str


class SkillDisclosureLoaded(TypedDict):
    event_type: Literal["skill_disclosure_loaded"]
    skill: str
    stage: int
    files: list[Json]
    bytes: int
    tokens: int


class PromptBudgetComputed(TypedDict):
    event_type: Literal["prompt_budget_computed"]
    turn: int
    max_context_tokens: int
    response_headroom_tokens: int
    allocated: dict[str, int]
    """Section → tokens, in the order in which they were given their share."""
    counted: str
    """By whom: the provider, or an estimate."""
    trimmed: list[str]
    """What was shortened or left out, in that order."""


class PromptComposed(TypedDict):
    event_type: Literal["prompt_composed"]
    turn: int
    bytes: int
    tokens: int


class TurnStarted(TypedDict):
    event_type: Literal["turn_started"]
    text: NotRequired[str]
    """The message, where telemetry is asked for with content; else how long it is. None where a turn goes on."""


class TurnFinished(TypedDict):
    event_type: Literal["turn_finished"]
    outcome: str
    """Empty when it was interrupted."""


class LlmRequestSent(TypedDict):
    event_type: Literal["llm_request_sent"]
    provider: str
    model: str
    attempt: int
    step: int
    request_hash: str
    messages: int
    tools: int


class LlmRetryScheduled(TypedDict):
    event_type: Literal["llm_retry_scheduled"]
    provider: str
    attempt: int
    delay_seconds: float
    error: str
    reason: str


class LlmResponseReceived(TypedDict):
    event_type: Literal["llm_response_received"]
    provider: str
    model: str
    attempt: int
    step: int
    latency_ms: float
    input_tokens: int
    output_tokens: int
    cost: float | None
    stop_reason: str
    tool_calls: int
    called: NotRequired[list[str]]
    """The names of the tools, in the order of the calls."""
    text: str


class LlmRequestFailed(TypedDict):
    event_type: Literal["llm_request_failed"]
    provider: str
    model: str
    attempt: int
    error: str
    reason: str


class LlmDecisionDecoded(TypedDict):
    event_type: Literal["llm_decision_decoded"]
    turn: int
    status: str
    """decoded; repair: it did not fit and is asked for once more; invalid: nor did that."""
    how: str
    """By what it came: tool, json, or none of them."""
    selected_skill: str
    summary: str
    actions: list[str]
    disclosure: list[str]
    problems: list[str]


class SkillInvocationStarted(TypedDict):
    event_type: Literal["skill_invocation_started"]
    skill: str
    """Empty where the task is worked on without one."""
    actions: int
    handoff_from: str
    rationale: str


class SkillStepExecuted(TypedDict):
    event_type: Literal["skill_step_executed"]
    skill: str
    step_id: str
    action: str
    command: str
    status: str
    exit_code: int | None
    retry_count: int
    stdout_summary: str
    stderr_summary: str


class StepRetryScheduled(TypedDict):
    event_type: Literal["step_retry_scheduled"]
    skill: str
    step_id: str
    retry: int
    reason: str


class SkillInvocationFinished(TypedDict):
    event_type: Literal["skill_invocation_finished"]
    skill: str
    status: str
    reason: str


class SignalReceived(TypedDict):
    event_type: Literal["signal_received"]
    signal: str


class GracefulShutdownStarted(TypedDict):
    event_type: Literal["graceful_shutdown_started"]
    reason: str
    grace_seconds: float


class RunFinished(TypedDict):
    event_type: Literal["run_finished"]
    outcome: str
    mode: str
    steps: int
    tool_calls: int
    usage: Json
    cost: float | None
    reason: str


class RunFailed(TypedDict):
    event_type: Literal["run_failed"]
    outcome: str
    reason: str
    message: str


# ------------------------------------------------------------------ MCP servers


class McpServer(TypedDict):
    event_type: Literal["mcp_server"]
    server: str
    state: Literal["starting", "ready", "failed", "closed", "changed", "pinned"]
    detail: str


class ToolProgress(TypedDict):
    event_type: Literal["tool_progress"]
    tool: str
    progress: float
    total: float | None
    message: str


# ------------------------------------------------------------------ workflows (seed 004)


class GoalStarted(TypedDict):
    event_type: Literal["goal_started"]
    workflow: str
    goal: str
    agent: NotRequired[str]
    iteration: NotRequired[int]


class ToolCalled(TypedDict):
    event_type: Literal["tool_call"]
    workflow: str
    goal: str
    tool: str
    tool_use_id: str


class GoalComplete(TypedDict):
    event_type: Literal["goal_complete"]
    workflow: str
    goal: str
    outcome: str


class LoopFinished(TypedDict):
    event_type: Literal["loop_finished"]
    workflow: str
    loop: str
    rounds: int
    converged: str
    """explicit, implicit or unchanged; empty when the rounds were used up."""


# ------------------------------------------------------------------ a specification (seed 000)


class CodingSessionStarted(TypedDict):
    event_type: Literal["coding_session_started"]
    number: int
    prompt: Literal["initializer", "coding"]
    passed: int
    total: int


class CodingSessionFinished(TypedDict):
    event_type: Literal["coding_session_finished"]
    number: int
    outcome: str
    reason: str
    passed: int
    total: int


type Body = (
    Startup
    | ConfigLoaded
    | WorkspaceChosen
    | ProviderSelected
    | ProviderFallback
    | ChannelStarted
    | ConversationStarted
    | ToolRequested
    | ToolApproved
    | ToolDenied
    | ApprovalRequested
    | ApprovalAnswered
    | ApprovalExpired
    | ToolCompleted
    | ToolFailed
    | ReceiptWritten
    | MemoryPersisted
    | EstopTriggered
    | HookFinished
    | HookMessage
    | LoopWarning
    | LimitReached
    | ContextCompacted
    | Warned
    | ChangedLater
    | Briefed
    | SubagentStarted
    | SubagentFinished
    | TaskEnded
    | RunStarted
    | SkillCatalogLoaded
    | SkillPrefilterCompleted
    | SkillDisclosureLoaded
    | PromptBudgetComputed
    | PromptComposed
    | TurnStarted
    | TurnFinished
    | LlmRequestSent
    | LlmRetryScheduled
    | LlmResponseReceived
    | LlmRequestFailed
    | LlmDecisionDecoded
    | SkillInvocationStarted
    | SkillStepExecuted
    | StepRetryScheduled
    | SkillInvocationFinished
    | SignalReceived
    | GracefulShutdownStarted
    | RunFinished
    | RunFailed
    | McpServer
    | ToolProgress
    | GoalStarted
    | ToolCalled
    | GoalComplete
    | LoopFinished
    | CodingSessionStarted
    | CodingSessionFinished
)
