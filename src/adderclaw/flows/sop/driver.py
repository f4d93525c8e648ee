"""A SOP with its inputs: a driver."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from sqlite3 import Cursor

from adderclaw.agent.run.driver import Driver, Opening
from adderclaw.agent.session.session import Session, TurnResult
from adderclaw.config.legacy.options import Options, restored, stored
from adderclaw.core.errors import UsageError
from adderclaw.core.types import Json
from adderclaw.flows.sop import find, tool_check
from adderclaw.flows.sop.execute import SopExecution
from adderclaw.flows.sop.find import Found
from adderclaw.flows.sop.inputs import Value, bound
from adderclaw.flows.sop.results import begun_with, planned
from adderclaw.flows.sop.sop import Sop
from adderclaw.sandbox import workspace
from adderclaw.storage import workflows
from adderclaw.storage.workflows import WorkflowStart


def prepare(options: Options, sop: str, inputs: Mapping[str, str]) -> "SopDriver":
    """`sop` is a name or a path; all that is wrong is refused at once."""
    found = find.find(sop, find.where(options))
    made = find.load(found, tool_check.known(options))
    return SopDriver(options, made, dict(inputs), bound(made, inputs))


def resumed(options: Options, begun: WorkflowStart) -> "SopDriver":
    """A run goes on with the SOP and the inputs that it began with."""
    options = restored(options, begun.said or {}, begun.run_id)
    place = workspace.resolved_path(begun.file)
    if not workspace.exists(place):
        raise UsageError(f"{begun.file}, the SOP of run {begun.run_id}, is gone; put it back, or run another")
    made = find.load(Found(begun.name, "path", place), tool_check.known(options))
    if made.fingerprint != begun.digest:
        changed = f"{begun.file} has changed since run {begun.run_id} began"
        raise UsageError(f"{changed}; put it back, or run it anew with `adderclaw sop run`")
    return SopDriver(options, made, begun.inputs, bound(made, begun.inputs), again=begun.run_id)


@dataclass(frozen=True)
class SopDriver:
    options: Options
    sop: Sop
    given: dict[str, str]
    """The inputs as they were given."""
    values: dict[str, Value]
    again: str | None = None

    @property
    def opening(self) -> Opening:
        options = self.options if self.sop.asks_a_model else replace(self.options, asks="no", choose=None)
        return Opening("sop", options, self.sop.name, again=self.again, rows=(self._begun,))

    def _begun(self, cursor: Cursor, session: Session) -> None:
        given: dict[str, str] = session.secrets.scrub_all(self.given)
        workflows.begin(cursor, begun_with(session.bus.run_id, self.sop, given, stored(self.options)))

    @property
    def digest(self) -> str:
        """Of all that the SOP says: who starts it by itself pins it by this."""
        return self.sop.fingerprint

    def plan(self) -> Json:
        return {
            "mode": "dry_run",
            "sop": self.sop.name,
            "description": self.sop.description,
            "file": self.sop.file,
            "inputs": self.values,
            "steps": [planned(step) for step in self.sop.steps],
        }

    def plan_text(self) -> str:
        return plan_text(self.plan())

    def dry(self) -> Driver | None:
        return None

    async def run(self, session: Session) -> TurnResult:
        said = stored(self.options)
        return await SopExecution(session, self.sop, self.values, given=self.given, said=said).run()


def plan_text(plan: Json) -> str:
    """The steps for a person, one below the other."""
    about = f": {plan['description']}" if plan["description"] else ""
    rows = [f"SOP {plan['sop']}{about}", f"  {plan['file']}"]
    rows += [f"  input {name} = {value}" for name, value in plan["inputs"].items()]
    for number, step in enumerate(plan["steps"], 1):
        what = f"{step['kind']} {step['tool']}" if step.get("tool") else step["kind"]
        given = [f"{name} = {value!r}" for name, value in step.get("args", {}).items()]
        given += [f"{name} from {source}" for name, source in step.get("from", {}).items()]
        rows.append(f"  {number}. {step['id']} ({what})" + (f": {', '.join(given)}" if given else ""))
        rows += [f"       {line}" for line in step.get("prompt", "").split("\n") if line]
    return "\n".join(rows)
