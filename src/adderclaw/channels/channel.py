"""What a channel is: a way in to a conversation; and how each of them says that a turn has ended."""

from typing import Any, Protocol

from adderclaw.kernel.session import TurnResult
from adderclaw.runtime import Run


class Channel(Protocol):
    """A way in. A conversation is opened for it, and it talks to it until it has nothing more to say."""

    @property
    def name(self) -> str: ...
    @property
    def supports_draft_updates(self) -> bool:
        """Whether an answer can be shown while it is written."""
        ...

    def start(self, run: Run) -> int:
        """Hold the conversation; the exit code when it is over."""
        ...

    def send(self, conversation_id: str, message: str) -> None:
        """Show a message of the conversation to whoever is there."""
        ...


def complaint(run: Run, result: TurnResult) -> TurnResult:
    """A scripted model with steps left over is an error: the script and the run did not agree."""
    left = getattr(run.session.provider, "finished", None)
    played = run.session.budget.steps > 0 and result.outcome == "completed"
    complaint: str | None = left() if left is not None and played else None
    return TurnResult("error", result.answer, complaint) if complaint else result


LIMITS = {
    "(limits.cost_usd)": "cost_usd",
    "(limits.tokens)": "tokens",
    "(limits.tool_calls)": "tool_calls",
    "(limits.seconds)": "seconds",
    "(runtime.max_tool_rounds)": "rounds",
    "LOOP ": "rounds",
}
"""How a reason names a limit, and what `--limit` calls it."""


def advised(result: TurnResult, resume: str) -> TurnResult:
    """Who hits a limit is told how to go on past it: what was used up counts when a run is resumed."""
    name = next((name for said, name in LIMITS.items() if said in result.reason), None)
    if result.outcome != "limit" or name is None:
        return result
    return result._replace(reason=f"{result.reason}; `adderclaw {resume} --limit {name}=MORE` goes on")


def changed_later(run: Run) -> dict[str, Any]:
    """What changed, in this session, of what other programs run later; nothing where nothing did."""
    from adderclaw.store import later

    found = later.of_session(run.session.store, run.session.session_id)
    top = f"{run.session.scene.context.workspace.root.rstrip('/')}/"
    clean = run.session.secrets.clean
    entries = [clean({"path": row.path.removeprefix(top), "change": row.change}) for row in found]
    return {"changed_later": entries} if entries else {}


def report(run: Run, result: TurnResult) -> dict[str, Any]:
    session = run.session
    return {
        "outcome": result.outcome,
        "answer": result.answer,
        "reason": result.reason,
        "run_id": run.run_id,
        "conversation_id": session.conversation_id,
        "session_id": session.session_id,
        "provider": session.provider.name,
        "model": session.model,
        "steps": session.budget.steps,
        "tool_calls": session.budget.tool_calls,
        "usage": session.budget.usage.as_json(),
        "cost": session.budget.cost,
        **changed_later(run),
        **(result.details or {}),
    }
