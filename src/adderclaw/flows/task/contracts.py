"""The records of a task run: the model's decision, the result of a step, the token budget of a prompt."""

from dataclasses import field
from typing import Any, Literal

from adderclaw.core.record import record
from adderclaw.core.types import Json

type ActionType = Literal["call_skill", "run_command", "ask_user", "finish"]
type Status = Literal["ok", "failed", "timeout", "denied", "unanswered", "invalid", "unknown"]


@record
class SkillCandidate:
    skill_name: str
    score: float
    reason: str


@record
class TokenBudget:
    max_context_tokens: int
    response_headroom_tokens: int
    allocated_prompt_tokens: int
    """All sections of the prompt together."""
    allocated_disclosure_tokens: int
    """The share that shows skills."""


@record
class ActionStep:
    type: ActionType
    params: dict[str, Any] = field(default_factory=dict[str, Any])
    expected_output: str = ""


@record
class ModelDecision:
    selected_skill: str | None
    reasoning_summary: str
    required_disclosure_paths: list[str] = field(default_factory=list[str])
    planned_actions: list[ActionStep] = field(default_factory=list[ActionStep])


@record
class StepExecutionResult:
    step_id: str
    exit_code: int | None
    stdout_summary: str
    stderr_summary: str
    retry_count: int
    status: Status


@record
class LlmRequestMeta:
    provider: str
    model: str
    attempt: int
    latency_ms: float
    input_tokens: int
    output_tokens: int


# ------------------------------------------------------------------ parameters of actions


@record
class CallSkill:
    skill: str = ""
    """Empty: the selected one."""
    script: str = ""
    """A path in the skill's folder. Empty: the work continues with that skill's instructions."""
    args: list[str] = field(default_factory=list[str])


@record
class RunCommand:
    command: str


@record
class AskUser:
    question: str
    options: list[str] = field(default_factory=list[str])


@record
class Finish:
    answer: str


PARAMS: dict[ActionType, type[CallSkill] | type[RunCommand] | type[AskUser] | type[Finish]] = {
    "call_skill": CallSkill,
    "run_command": RunCommand,
    "ask_user": AskUser,
    "finish": Finish,
}


def _text(description: str) -> Json:
    return {"type": "string", "description": description}


def _texts(description: str) -> Json:
    return {"type": "array", "items": {"type": "string"}, "description": description}


SCHEMA: Json = {
    "type": "object",
    "properties": {
        "selected_skill": {
            "type": ["string", "null"],
            "description": "The candidate to work with now; null if none of them helps.",
        },
        "reasoning_summary": _text("Why, in a sentence or two."),
        "required_disclosure_paths": _texts("Its files (references/x.md) or sections (SKILL.md#Title) to show."),
        "planned_actions": {
            "type": "array",
            "description": "What to do now, in this order. Empty if you have to read more first.",
            "items": {
                "type": "object",
                "properties": {
                    "type": {"type": "string", "enum": list(PARAMS)},
                    "params": {
                        "type": "object",
                        "properties": {
                            "skill": _text("call_skill: the skill whose script to run, or to continue with."),
                            "script": _text("call_skill: scripts/NAME of that skill; leave it out to hand over."),
                            "args": _texts("call_skill: arguments of the script."),
                            "command": _text("run_command: one shell command, run in the workspace."),
                            "question": _text("ask_user: what the user must answer."),
                            "options": _texts("ask_user: optionally two to four answers to choose from."),
                            "answer": _text("finish: the whole answer to the task, for the user."),
                        },
                    },
                    "expected_output": _text("What the action should produce."),
                },
                "required": ["type", "params"],
            },
        },
    },
    "required": ["selected_skill", "reasoning_summary", "required_disclosure_paths", "planned_actions"],
}
"""The JSON Schema of a ModelDecision, as sent to the model."""
