"""Events of model calls: providers, prompts, requests and responses."""

from typing import Literal, NotRequired, TypedDict


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


class PromptBudgetComputed(TypedDict):
    event_type: Literal["prompt_budget_computed"]
    turn: int
    max_context_tokens: int
    response_headroom_tokens: int
    allocated: dict[str, int]
    """Section → tokens, in the order of allocation."""
    counted: str
    """How the tokens were counted: by the provider or by an estimate."""
    trimmed: list[str]
    """Sections that were shortened or omitted, in that order."""


class PromptComposed(TypedDict):
    event_type: Literal["prompt_composed"]
    turn: int
    bytes: int
    tokens: int


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
    """decoded; repair: it was invalid and is requested once more; invalid: the second attempt was invalid too."""
    how: str
    """How the decision was returned: tool, json or none."""
    selected_skill: str
    summary: str
    actions: list[str]
    disclosure: list[str]
    problems: list[str]


type ModelEvent = (
    ProviderSelected
    | ProviderFallback
    | PromptBudgetComputed
    | PromptComposed
    | LlmRequestSent
    | LlmRetryScheduled
    | LlmResponseReceived
    | LlmRequestFailed
    | LlmDecisionDecoded
)
