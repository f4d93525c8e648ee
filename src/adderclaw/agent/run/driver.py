"""What a driver is: a plan that becomes turns of one session; a task, an Agentfile and a SOP are values of it."""

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
from adderclaw.storage.workflows import Begun

type Rows = Callable[[Cursor, Session], None]
"""Writes rows together with the row of a run, in one transaction."""

RESUMABLE = frozenset({"agentfile", "task", "sop", "message"})
"""Kinds of runs that `run --resume` goes on with."""


@record
class Opening:
    """How the run of a driver is opened."""

    kind: str
    """What the run is called in its row and its first event."""
    options: Options
    task: str = ""
    """What is to be done, as the run's first event has it."""
    again: str | None = None
    """The run that goes on."""
    dry: bool = False
    """Nothing is done but planning."""
    rows: tuple[Rows, ...] = ()
    """Writes what is needed to resume the run, in the transaction of the run's own row."""

    @property
    def mode(self) -> str:
        """What the run's last event calls it."""
        return "dry_run" if self.dry else self.kind

    def resume(self, run_id: str) -> str:
        """The command that goes on with a run of it; empty where none does."""
        if self.kind == "sop":
            return f"sop resume {run_id}"
        return f"run --resume {run_id}" if self.kind in RESUMABLE else ""


class RunEnds(Exception):
    """Raised inside of a driver's run: nothing follows, and this is its outcome."""

    def __init__(self, outcome: Outcome, reason: str, by: EndedBy = "") -> None:
        super().__init__(reason)
        self.outcome: Outcome = outcome
        self.reason = reason
        self.by: EndedBy = by


class Driver(Protocol):
    """Made ready: files read, inputs bound, and all refused that can be before a run begins."""

    @property
    def opening(self) -> Opening: ...

    def plan(self) -> Json:
        """What would be asked, without asking."""
        ...

    def plan_text(self) -> str:
        """The same for a person."""
        ...

    def dry(self) -> "Driver | None":
        """Where a dry run is a run, too: it has its events, and asks no model."""
        ...

    async def run(self, session: Session) -> TurnResult:
        """All of it, on an opened session; whatever ends it, its outcome is one of the closed set."""
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
        workflows.begin(cursor, Begun(session.bus.run_id, "", "", "", inputs))

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
