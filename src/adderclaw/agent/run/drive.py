"""Drives a run to its end: waits for the work, stores the outcome, shows the report, and closes the run."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from adderclaw.agent.loop import lifecycle
from adderclaw.agent.loop.loop import ignore_delta
from adderclaw.agent.run.opened import Run
from adderclaw.agent.session.session import Session, TurnResult
from adderclaw.config.schema import LIMIT_NAMES
from adderclaw.core.errors import EXIT_CODES, AdderClawError, StoreError, ended_by, outcome_of
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Delta, Json, OnDelta
from adderclaw.storage import later_files

RAISED = frozenset({*LIMIT_NAMES, "rounds"})
"""The names of the limits that `--limit` can raise."""


class Report(NamedTuple):
    """How a run ended, for display: without anything that looks like a secret."""

    run: Run
    result: TurnResult
    exit_code: int

    def as_json(self) -> Json:
        """For a program that reads it."""
        session, result = self.run.session, self.result
        return {
            "outcome": result.outcome,
            "answer": result.answer,
            "reason": result.reason,
            "run_id": self.run.run_id,
            "conversation_id": session.conversation_id,
            "session_id": session.session_id,
            "provider": session.provider.name,
            "model": session.model,
            "steps": session.budget.steps,
            "tool_calls": session.budget.tool_calls,
            "usage": session.budget.usage.as_json(),
            "cost": session.budget.cost,
            **_changed_later(self.run),
            **(result.details or {}),
        }


def exit_code(result: TurnResult) -> int:
    """The exit code of the outcome, or 128 plus the number of the signal."""
    return 128 + result.signal if result.signal else EXIT_CODES[result.outcome]


def without_secrets(run: Run, result: TurnResult) -> TurnResult:
    """The result without anything that looks like a secret."""
    clean = run.session.secrets
    details = clean.redact_all(result.details) if result.details else result.details
    return result._replace(answer=clean.redact(result.answer), reason=clean.redact(result.reason), details=details)


def show_nothing(_report: Report) -> None:
    """Show nothing, for a caller that shows the report itself."""


async def drive(
    run: Run,
    work: Awaitable[TurnResult],
    *,
    mode: str = "agent",
    resume: str = "",
    code: Callable[[TurnResult], int] = exit_code,
    show: Callable[[Report], None] = show_nothing,
) -> Report:
    """Wait for the work and end its run. `resume`: the command that continues it after a limit.

    `show` is called before the SessionEnd hooks run.
    """
    try:
        result = await work
    except AdderClawError as error:  # the run had begun, so it gets an outcome
        await run.settle()
        ended = TurnResult(outcome_of(error), "", str(error), ended_by=ended_by(error))
        run.finish(ended, exit_code=error.exit_code, mode=mode)
        await run.close()
        raise
    except asyncio.CancelledError:  # the caller is gone, but the run gets an outcome
        await abandon_run(run, mode=mode)
        raise
    result = _with_advice(result, resume) if resume else result
    try:
        await run.settle()
        ended = run.finish(result, exit_code=code(result), mode=mode)
    except StoreError as error:  # such as a full disk: show the answer although it is not stored
        result = result._replace(outcome="error", reason=f"the end of the run could not be stored: {error}")
        ended = exit_code(result)
    report = Report(run, without_secrets(run, result), ended)
    show(report)
    await run.close()
    return report


async def abandon_run(run: Run, *, mode: str = "agent") -> None:
    """End a run whose caller is gone."""
    await run.settle()
    run.finish(TurnResult("stopped", "", "interrupted: the client stopped waiting"), mode=mode)
    await run.close()


def require_script_finished(run: Run, result: TurnResult) -> TurnResult:
    """Turn the result into an error if a scripted model has unused steps."""
    left = getattr(run.session.provider, "finished", None)
    played = run.session.budget.steps > 0 and result.outcome == "completed"
    complaint: str | None = left() if left is not None and played else None
    return TurnResult("error", result.answer, complaint, ended_by="unplayed") if complaint else result


def _with_advice(result: TurnResult, resume: str) -> TurnResult:
    """Add to a limit's reason how to resume with a higher limit."""
    if result.outcome != "limit" or result.ended_by not in RAISED:
        return result
    return result._replace(reason=f"{result.reason}; continue with `adderclaw {resume} --limit {result.ended_by}=MORE`")


def _changed_later(run: Run) -> Json:
    """The files that other programs run later and that changed in this session; empty if none did."""
    rows = later_files.of_session(run.session.store, run.session.session_id)
    top = f"{run.session.environment.context.workspace.root.rstrip('/')}/"
    clean = run.session.secrets.clean
    entries = [clean({"path": row.path.removeprefix(top), "change": row.change}) for row in rows]
    return {"changed_later": entries} if entries else {}


# ------------------------------------------------------------------ one turn


class Hears(Protocol):
    """Shows an answer while it arrives."""

    @property
    def text(self) -> str:
        """What it has shown of the last reply."""
        ...

    def __call__(self, delta: Delta) -> None: ...


class Turn(NamedTuple):
    result: TurnResult
    rest: str
    """The text to show; empty if all of it was shown while it arrived."""


async def one_turn(session: Session, work: Callable[[OnDelta], Awaitable[TurnResult]], hears: Hears | None) -> Turn:
    """Run a turn and show its answer as it arrives, unless MessageDisplay hooks need the complete answer first."""
    early = hears if hears is not None and "MessageDisplay" not in session.hooks else None
    result = await work(early or ignore_delta)
    answer = session.secrets.redact(result.answer)
    if not answer or (early is not None and early.text.endswith(answer)):
        return Turn(result, "")
    return Turn(result, answer if result.signal else await lifecycle.text_to_display(session, result.answer))
