"""The driver of a plan's proof, whose workspace is an empty folder instead of the project's."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from adderclaw.agent.run.driver import Driver, Opening
from adderclaw.agent.session.session import Session, TurnResult
from adderclaw.config.legacy.options import Options
from adderclaw.core.errors import UsageError
from adderclaw.core.types import Json
from adderclaw.flows.sdlc.execute import Proof
from adderclaw.flows.sdlc.trees import Trees, Where
from adderclaw.storage.sdlc import criteria
from adderclaw.storage.sdlc.plans import Plan

KIND = "proof"


@dataclass(frozen=True)
class ProofDriver:
    options: Options
    """Those of the generator, whose workspace is a separate folder."""
    conversation: str
    """The conversation whose plan is proved."""
    plan_row: Plan
    where: Where
    """The project."""

    @property
    def opening(self) -> Opening:
        return Opening(KIND, self.options, f"prove plan {self.plan_row.id} of {self.conversation}")

    def plan(self) -> Json:
        parsed = criteria.parse(self.plan_row.content)
        return {"mode": "dry_run", "plan": self.plan_row.id, "criteria": [criterion.id for criterion in parsed]}

    def plan_text(self) -> str:
        return "\n".join(f"{criterion.id}: {criterion.text}" for criterion in criteria.parse(self.plan_row.content))

    def dry(self) -> Driver | None:
        return None

    async def run(self, session: Session) -> TurnResult:
        with _alone(session, self.plan_row.id):
            trees = Trees(session.store, self.where, self.plan_row.id)
            return await Proof(session, self.plan_row, trees).run()


@contextmanager
def _alone(session: Session, plan_id: int) -> Generator[None]:
    """Ensures that only one run at a time proves a plan."""
    from adderclaw.storage import locks

    if by := locks.run_in_session(session.store.path, name := f"proof-{plan_id}"):
        raise UsageError(f"run {by} is already proving plan {plan_id}: wait for it, or end it")
    with locks.session_lock(session.store.path, name, session.bus.run_id):
        yield
