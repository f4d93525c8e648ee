"""The one way to drive a run to its end: worked, settled, written down with its one outcome, shown, closed."""

import asyncio
from collections.abc import Awaitable, Callable

from adderclaw.agent.run.opened import Run
from adderclaw.agent.session.session import TurnResult
from adderclaw.core.errors import EXIT_CODES, AdderClawError, StoreError, ended_by, outcome_of
from adderclaw.core.record import NamedTuple
from adderclaw.core.types import Json
from adderclaw.storage import later_files

RAISED = frozenset({"cost_usd", "tokens", "tool_calls", "seconds", "rounds"})
"""The limits that `--limit` raises, as it calls them."""


class Report(NamedTuple):
    """How a run ended, as it is shown: secret shapes are in the rows alone."""

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
    """The outcome's own, or the signal's, as shells have it."""
    return 128 + result.signal if result.signal else EXIT_CODES[result.outcome]


def shown(run: Run, result: TurnResult) -> TurnResult:
    """The result without what has the shape of a secret."""
    clean = run.session.secrets
    details = clean.redact_all(result.details) if result.details else result.details
    return result._replace(answer=clean.redact(result.answer), reason=clean.redact(result.reason), details=details)


def unshown(_report: Report) -> None:
    """Whoever waits for the report shows it."""


async def drive(
    run: Run,
    work: Awaitable[TurnResult],
    *,
    mode: str = "agent",
    resume: str = "",
    code: Callable[[TurnResult], int] = exit_code,
    show: Callable[[Report], None] = unshown,
) -> Report:
    """Wait for the work and end its run. `resume` is the command that goes on with it past a limit.

    What `show` prints is there before hooks of the session's end take their time.
    """
    try:
        result = await work
    except AdderClawError as error:  # refused when the run had begun: it has its outcome, too
        await run.settle()
        ended = TurnResult(outcome_of(error), "", str(error), ended_by=ended_by(error))
        run.finish(ended, exit_code=error.exit_code, mode=mode)
        await run.close()
        raise
    except asyncio.CancelledError:  # whoever waited is gone: the run has its outcome all the same
        await leave(run, mode=mode)
        raise
    result = _advised(result, resume) if resume else result
    try:
        await run.settle()
        ended = run.finish(result, exit_code=code(result), mode=mode)
    except StoreError as error:  # such as a full disk: the answer is shown although it cannot be stored
        result = result._replace(outcome="error", reason=f"the end of the run could not be stored: {error}")
        ended = exit_code(result)
    report = Report(run, shown(run, result), ended)
    show(report)
    await run.close()
    return report


async def leave(run: Run, *, mode: str = "agent") -> None:
    """End a run that nobody waits for any more."""
    await run.settle()
    run.finish(TurnResult("stopped", "", "interrupted: nobody waited for its end"), mode=mode)
    await run.close()


def checked(run: Run, result: TurnResult) -> TurnResult:
    """A scripted model with steps left over is an error: the script and the run did not agree."""
    left = getattr(run.session.provider, "finished", None)
    played = run.session.budget.steps > 0 and result.outcome == "completed"
    complaint: str | None = left() if left is not None and played else None
    return TurnResult("error", result.answer, complaint, ended_by="unplayed") if complaint else result


def _advised(result: TurnResult, resume: str) -> TurnResult:
    """Who hits a limit learns how to go on past it: what was used up counts when a run is resumed."""
    if result.outcome != "limit" or result.ended_by not in RAISED:
        return result
    return result._replace(reason=f"{result.reason}; `adderclaw {resume} --limit {result.ended_by}=MORE` goes on")


def _changed_later(run: Run) -> Json:
    """What changed, in this session, of what other programs run later; nothing where nothing did."""
    found = later_files.of_session(run.session.store, run.session.session_id)
    top = f"{run.session.scene.context.workspace.root.rstrip('/')}/"
    clean = run.session.secrets.clean
    entries = [clean({"path": row.path.removeprefix(top), "change": row.change}) for row in found]
    return {"changed_later": entries} if entries else {}
