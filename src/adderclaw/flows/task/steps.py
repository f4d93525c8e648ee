"""One planned action as a tool call of the session: what it asks for, and what came of it."""

import shlex
from collections.abc import Callable, Sequence

from adderclaw.agent.tool_call.result import FinishedCall
from adderclaw.core.decode import decode
from adderclaw.core.framing import STDERR, exit_line
from adderclaw.core.redaction import visible
from adderclaw.core.tool_traits import ASK_USER, BASH
from adderclaw.core.types import Json, ToolCall
from adderclaw.flows.task.contracts import ActionStep, AskUser, CallSkill, RunCommand, Status, StepExecutionResult

MOST = 4_000
"""Characters of an output that the model is told: its beginning, and its end."""
TAIL = 1_000
RETRYABLE: frozenset[Status] = frozenset({"failed", "timeout"})
MAX_MS = 600_000


type Starts = Callable[[str, str], Sequence[str]]
"""What starts a script of a skill, by the names of both; raises Refused."""


def call_of(action: ActionStep, skill: str, starts: Starts, call_id: str, seconds: float) -> ToolCall:
    """The call that carries out an action; `skill` is the one that a script belongs to. Raises Refused."""
    match action.type:
        case "ask_user":
            asked = decode(AskUser, action.params)
            given: Json = {"question": asked.question, "options": asked.options}
            return ToolCall(call_id, ASK_USER, given)
        case "call_skill":
            called = decode(CallSkill, action.params)
            command = shlex.join((*starts(skill, called.script), *called.args))
            return _bash(call_id, command, seconds, f"{skill}: {called.script}")
        case _:
            return _bash(call_id, decode(RunCommand, action.params).command, seconds, action.expected_output)


def _bash(call_id: str, command: str, seconds: float, about: str) -> ToolCall:
    timeout = max(1, min(int(seconds * 1000), MAX_MS))
    return ToolCall(call_id, BASH, {"command": command, "timeout": timeout, "description": about[:200]})


def shown(call: ToolCall) -> str:
    """What was carried out, for the trace."""
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
    """Bash's two streams, as its result has them."""
    head, mark, tail = content.rpartition(STDERR)
    return (head, tail) if mark else (content, "")


def summary(text: str) -> str:
    """The beginning and the end of an output, with nothing in it that a terminal would obey."""
    text = visible(text.strip())
    if len(text) <= MOST:
        return text
    left = len(text) - MOST
    return f"{text[: MOST - TAIL]}\n[… {left:,} characters left out …]\n{text[-TAIL:]}"
