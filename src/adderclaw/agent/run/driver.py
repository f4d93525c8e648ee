"""The interface of drivers, which turn a plan (a task, an Agentfile, a SOP …) into turns of a session."""

from collections.abc import Callable
from dataclasses import dataclass
from sqlite3 import Cursor
from typing import Protocol

from adderclaw.agent.loop.loop import run_turn
from adderclaw.agent.session.session import Session, TurnResult
from adderclaw.config.legacy.options import Options, stored
from adderclaw.core.errors import UsageError
from adderclaw.core.record import record
from adderclaw.core.types import EndedBy, Json, Outcome
from adderclaw.storage import workflows
from adderclaw.storage.workflows import WorkflowStart

type Rows = Callable[[Cursor, Session], None]
"""Writes rows in the transaction of a run's row."""

RESUMABLE = frozenset({"agentfile", "task", "sop", "message"})
"""Kinds of runs that `run --resume` can resume."""


@record
class Opening:
    """How the run of a driver is opened."""

    kind: str
    """The kind of the run, in its row and its first event."""
    options: Options
    task: str = ""
    """The task, as in the run's first event."""
    again: str | None = None
    """The id of the run to resume; None for a new one."""
    dry: bool = False
    """Whether the run only plans."""
    rows: tuple[Rows, ...] = ()
    """Write what is needed to resume the run, in the transaction of the run's row."""

    @property
    def mode(self) -> str:
        """The mode of the run's last event."""
        return "dry_run" if self.dry else self.kind

    def resume(self, run_id: str) -> str:
        """The command that resumes a run; empty if none can."""
        if self.kind == "sop":
            return f"sop resume {run_id}"
        return f"run --resume {run_id}" if self.kind in RESUMABLE else ""


class RunEnds(Exception):
    """Raised in a driver's run to end it with this outcome."""

    def __init__(self, outcome: Outcome, reason: str, by: EndedBy = "") -> None:
        super().__init__(reason)
        self.outcome: Outcome = outcome
        self.reason = reason
        self.by: EndedBy = by


class Driver(Protocol):
    """A prepared plan: its files are read, its inputs bound, and errors reported before a run begins."""

    @property
    def opening(self) -> Opening: ...

    def plan(self) -> Json:
        """The plan as JSON, without running it."""
        ...

    def plan_text(self) -> str:
        """The plan as text for a person."""
        ...

    def dry(self) -> "Driver | None":
        """The driver of a dry run with events but without a model; None if a dry run only prints the plan."""
        ...

    async def run(self, session: Session) -> TurnResult:
        """Run the plan in an opened session."""
        ...


@dataclass(frozen=True)
class MessageDriver:
    """One turn, headless."""

    options: Options
    text: str
    again: str | None = None

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise UsageError("the message is empty")

    @property
    def opening(self) -> Opening:
        return Opening("message", self.options, again=self.again, rows=(self._begun,))

    def _begun(self, cursor: Cursor, session: Session) -> None:
        inputs = {"message": session.secrets.scrub(self.text), **stored(self.options)}
        workflows.begin(cursor, WorkflowStart(session.bus.run_id, "", "", "", inputs))

    def plan(self) -> Json:
        return {"mode": "dry_run", "message": self.text}

    def plan_text(self) -> str:
        return self.text

    def dry(self) -> Driver | None:
        return None

    async def run(self, session: Session) -> TurnResult:
        """Run the turn; a message that the conversation already has is not added again."""
        is_stored = self.again is not None and bool(session.state.history.messages)
        return await run_turn(session, None if is_stored else self.text)
