"""The records of a task run: what the model decides, what a step came to, what a prompt may take."""

from dataclasses import asdict, field
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
    """Those of them that show a skill."""


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

    def as_json(self) -> Json:
        return asdict(self)


@record
class LlmRequestMeta:
    provider: str
    model: str
    attempt: int
    latency_ms: float
    input_tokens: int
    output_tokens: int

    def as_json(self) -> Json:
        return asdict(self)


# ------------------------------------------------------------------ what an action is given


@record
class CallSkill:
    skill: str = ""
    """Empty: the selected one."""
    script: str = ""
    """From the skill's folder. Empty: the work goes on with that skill's instructions."""
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
            "description": "The candidate to work with now; null where none of them helps.",
        },
        "reasoning_summary": _text("Why, in a sentence or two."),
        "required_disclosure_paths": _texts("Files (references/x.md) or sections (SKILL.md#Title) of it to be shown."),
        "planned_actions": {
            "type": "array",
            "description": "What is to be done now, in this order. Empty where more has to be read first.",
            "items": {
                "type": "object",
                "properties": {
                    "type": {"type": "string", "enum": list(PARAMS)},
                    "params": {
                        "type": "object",
                        "properties": {
                            "skill": _text("call_skill: whose script, or which skill to go on with."),
                            "script": _text("call_skill: scripts/NAME of that skill; leave it out to hand over."),
                            "args": _texts("call_skill: arguments of the script."),
                            "command": _text("run_command: one shell command, run in the workspace."),
                            "question": _text("ask_user: what the user must answer."),
                            "options": _texts("ask_user: two to four answers to choose from, if there are such."),
                            "answer": _text("finish: the whole answer to the task, for the user."),
                        },
                    },
                    "expected_output": _text("What it should give."),
                },
                "required": ["type", "params"],
            },
        },
    },
    "required": ["selected_skill", "reasoning_summary", "required_disclosure_paths", "planned_actions"],
}
"""A ModelDecision, as the model is told of it."""
