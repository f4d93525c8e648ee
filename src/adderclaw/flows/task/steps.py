"""Turns a planned action into a tool call, and the result of the call into the result of a step."""

import shlex
from collections.abc import Callable, Sequence

from adderclaw.agent.tool_call.result import FinishedCall
from adderclaw.core.decode import decode
from adderclaw.core.framing import STDERR, exit_line
from adderclaw.core.redaction import visible
from adderclaw.core.tool_traits import ASK_USER, BASH
from adderclaw.core.types import Json, ToolCall
from adderclaw.flows.task.contracts import ActionStep, AskUser, CallSkill, RunCommand, Status, StepExecutionResult

MAX_SHOWN_OUTPUT = 4_000
"""How many characters of an output the model sees: its beginning and its end."""
TAIL_LENGTH = 1_000
RETRYABLE: frozenset[Status] = frozenset({"failed", "timeout"})
MAX_MS = 600_000


type ScriptArgv = Callable[[str, str], Sequence[str]]
"""Returns the command that runs a script, by the names of its skill and the script; raises PathRefused."""


def call_of(action: ActionStep, skill: str, script_argv: ScriptArgv, call_id: str, seconds: float) -> ToolCall:
    """Returns the call that carries out an action; `skill` owns its script, if it runs one. Raises PathRefused."""
    match action.type:
        case "ask_user":
            params = decode(AskUser, action.params)
            arguments: Json = {"question": params.question, "options": params.options}
            return ToolCall(call_id, ASK_USER, arguments)
        case "call_skill":
            params = decode(CallSkill, action.params)
            command = shlex.join((*script_argv(skill, params.script), *params.args))
            return _bash(call_id, command, seconds, f"{skill}: {params.script}")
        case _:
            return _bash(call_id, decode(RunCommand, action.params).command, seconds, action.expected_output)


def _bash(call_id: str, command: str, seconds: float, about: str) -> ToolCall:
    timeout = max(1, min(int(seconds * 1000), MAX_MS))
    return ToolCall(call_id, BASH, {"command": command, "timeout": timeout, "description": about[:200]})


def shown(call: ToolCall) -> str:
    """The command or question of a call, for the trace."""
    return str(call.input.get("command") or call.input.get("question", ""))


def result_of(step_id: str, done: FinishedCall, retries: int) -> StepExecutionResult:
    result = done.result
    code = result.metadata.get("exit_code")
    out, err = _streams(result.content.removeprefix(exit_line(code)) if code else result.content)
    return StepExecutionResult(
        step_id=step_id,
        exit_code=code if isinstance(code, int) else None,
        stdout_summary=summary(out),
        stderr_summary=summary(err),
        retry_count=retries,
        status=_status(done),
    )


def _status(done: FinishedCall) -> Status:
    result = done.result
    if done.denied:
        return "denied"
    if result.unanswered:
        return "unanswered"
    if not result.is_error:
        return "ok"
    match result.outcome:
        case "unknown" | "failed":
            return result.outcome
        case "timed_out":
            return "timeout"
        case _:
            return "failed" if "exit_code" in result.metadata else "invalid"


def _streams(content: str) -> tuple[str, str]:
    """Splits the result of Bash into stdout and stderr."""
    head, mark, tail = content.rpartition(STDERR)
    return (head, tail) if mark else (content, "")


def summary(text: str) -> str:
    """Returns the beginning and the end of an output, without terminal control sequences."""
    text = visible(text.strip())
    if len(text) <= MAX_SHOWN_OUTPUT:
        return text
    left = len(text) - MAX_SHOWN_OUTPUT
    return f"{text[: MAX_SHOWN_OUTPUT - TAIL_LENGTH]}\n[… {left:,} characters left out …]\n{text[-TAIL_LENGTH:]}"
