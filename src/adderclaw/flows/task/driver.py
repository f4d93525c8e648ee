"""The driver of a task in words, which skills carry out, or the ordinary agent if there are none."""

from dataclasses import dataclass, replace
from sqlite3 import Cursor
from typing import Protocol, runtime_checkable

from adderclaw.agent.loop.loop import run_turn
from adderclaw.agent.run.driver import Driver, Opening
from adderclaw.agent.session.session import Session, TurnResult
from adderclaw.config import Loaded
from adderclaw.config.legacy.options import Options, stored, unattended
from adderclaw.core.errors import UsageError
from adderclaw.core.types import Json
from adderclaw.flows.task.execute import TaskExecution
from adderclaw.flows.task.transitions import begin_record
from adderclaw.storage import workflows
from adderclaw.tools.skills.catalogue import Catalogue


@runtime_checkable
class _HasCatalogue(Protocol):
    """A skill source that has a catalogue, as that of the Skill tool does."""

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
            raise UsageError("the task is empty; say what to do")

    @property
    def opening(self) -> Opening:
        rows = () if self.planned_only else (self._save_begin,)
        options = replace(self.options, amend=self._limit_turns)
        return Opening("task", options, self.text, self.again, self.planned_only, rows)

    def _limit_turns(self, loaded: Loaded) -> Loaded:
        """Limits the ordinary agent by --max-turns, or else by the limits of unattended work."""
        loaded = self.options.amend(loaded) if self.options.amend is not None else loaded
        turns = self.options.overrides.get("runtime", {}).get("max_turns")
        if turns is None:
            return unattended(loaded)
        runtime = replace(loaded.config.runtime, max_tool_rounds=max(turns - 1, 0))
        return loaded._replace(config=replace(loaded.config, runtime=runtime))

    def _save_begin(self, cursor: Cursor, session: Session) -> None:
        workflows.begin(cursor, begin_record(session, self.text, stored(self.options)))

    def plan(self) -> Json:
        return {"mode": "dry_run", "task": self.text}

    def plan_text(self) -> str:
        return self.text

    def dry(self) -> Driver | None:
        return replace(self, planned_only=True)

    async def run(self, session: Session) -> TurnResult:
        if not self.planned_only and self._is_ordinary(session):
            return await self._run_ordinary(session)
        inputs = None if self.planned_only else stored(self.options)
        execution = TaskExecution(
            session, self.text, lambda: _catalogue(session), inputs=inputs, planned_only=self.planned_only
        )
        return await execution.run()

    def _is_ordinary(self, session: Session) -> bool:
        """Whether the task runs without skills; a resumed run continues as it began."""
        if workflows.goal_results(session.store, session.bus.run_id):
            return False
        if self.again is not None and session.state.history.messages:
            return True
        strict = session.config.skills.prefilter_zero_candidate_strategy == "fail_fast"
        return not strict and not any(skill.for_model for skill in _catalogue(session).skills)

    async def _run_ordinary(self, session: Session) -> TurnResult:
        """Runs the ordinary agent with its tools."""
        message = f"{session.config.skills.dir} has no skills; the task is carried out without one"
        session.bus.publish({"event_type": "warning", "message": message})
        continues = self.again is not None and bool(session.state.history.messages)
        result = await run_turn(session, None if continues else self.text)
        if result.ended_by != "rounds":
            return result
        used = session.config.runtime.max_tool_rounds + 1
        turns = "1 turn is" if used == 1 else f"{used} turns are"
        fix = f"`adderclaw run --resume {session.bus.run_id} --max-turns MORE` continues"
        return result._replace(reason=f"max_turns_exceeded: {turns} used up; {fix}", ended_by="turns")


def _catalogue(session: Session) -> Catalogue:
    skills = session.environment.kit.skills
    return skills.catalogue if isinstance(skills, _HasCatalogue) else Catalogue()
