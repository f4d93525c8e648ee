"""A task in words, worked on with skills: a driver."""

from dataclasses import dataclass, replace
from sqlite3 import Cursor
from typing import Protocol, runtime_checkable

from adderclaw.config.options import Options, stored
from adderclaw.drivers.driver import Driver, Opening
from adderclaw.drivers.task.execute import TaskExecution
from adderclaw.drivers.task.transitions import begun_with
from adderclaw.errors import UsageError
from adderclaw.kernel.session import Session, TurnResult
from adderclaw.skills.catalogue import Catalogue
from adderclaw.store import workflows
from adderclaw.types import Json


@runtime_checkable
class _Catalogued(Protocol):
    """What the session's Skill tool has, too."""

    @property
    def catalogue(self) -> Catalogue: ...


@dataclass(frozen=True)
class TaskDriver:
    options: Options
    text: str
    again: str | None = None
    planned_only: bool = False

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise UsageError("the task is empty: say what is to be done")

    @property
    def opening(self) -> Opening:
        rows = () if self.planned_only else (self._begun,)
        return Opening("task", self.options, self.text, self.again, self.planned_only, rows)

    def _begun(self, cursor: Cursor, session: Session) -> None:
        workflows.begin(cursor, begun_with(session, self.text, stored(self.options)))

    def plan(self) -> Json:
        return {"mode": "dry_run", "task": self.text}

    def plan_text(self) -> str:
        return self.text

    def dry(self) -> Driver | None:
        return replace(self, planned_only=True)

    async def run(self, session: Session) -> TurnResult:
        inputs = None if self.planned_only else stored(self.options)
        execution = TaskExecution(
            session, self.text, lambda: _catalogue(session), inputs=inputs, planned_only=self.planned_only
        )
        return await execution.run()


def _catalogue(session: Session) -> Catalogue:
    skills = session.scene.kit.skills
    return skills.catalogue if isinstance(skills, _Catalogued) else Catalogue()
