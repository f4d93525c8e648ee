"""Progress events of drivers: skills and their steps, goals of workflows, specifications."""

from typing import Literal, NotRequired, TypedDict

from adderclaw.core.types import Json


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


class SkillInvocationStarted(TypedDict):
    event_type: Literal["skill_invocation_started"]
    skill: str
    """Empty if the task is done without a skill."""
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
    """explicit, implicit or unchanged; empty if the rounds ran out."""


class SopStepStarted(TypedDict):
    event_type: Literal["sop_step_started"]
    sop: str
    step: str
    kind: Literal["tool", "agent", "approval"]


class SopStepRetried(TypedDict):
    event_type: Literal["sop_step_retried"]
    sop: str
    step: str
    kind: Literal["tool", "agent", "approval"]
    retry: int
    reason: str


class SopStepFinished(TypedDict):
    event_type: Literal["sop_step_finished"]
    sop: str
    step: str
    kind: Literal["tool", "agent", "approval"]
    status: Literal["succeeded", "failed", "denied", "unknown", "skipped"]
    reason: str


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


class TestJudged(TypedDict):
    """A generated test was run on the tree before the change, and was accepted or rejected."""

    event_type: Literal["test_judged"]
    test: int
    criterion: str
    accepted: bool
    reason: str


class TestRan(TypedDict):
    """A generated test was run on the current tree."""

    event_type: Literal["test_ran"]
    test: int
    criterion: str
    exit_code: int
    seconds: float


class ScenarioChecked(TypedDict):
    event_type: Literal["scenario_checked"]
    scenario_id: str
    verdict: Literal["passed", "failed", "unproven"]
    reason: str
    evidence: int
    """The number of cited results."""
    checked_by: str
    """Id of the session that checked it."""
    tokens: int
    seconds: float


type WorkEvent = (
    SkillCatalogLoaded
    | SkillPrefilterCompleted
    | SkillDisclosureLoaded
    | SkillInvocationStarted
    | SkillStepExecuted
    | StepRetryScheduled
    | SkillInvocationFinished
    | GoalStarted
    | ToolCalled
    | GoalComplete
    | LoopFinished
    | SopStepStarted
    | SopStepRetried
    | SopStepFinished
    | CodingSessionStarted
    | CodingSessionFinished
    | TestJudged
    | TestRan
    | ScenarioChecked
)
