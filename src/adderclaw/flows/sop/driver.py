"""The driver of a SOP with its inputs."""

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
from adderclaw.flows.sop.find import SopLocation
from adderclaw.flows.sop.inputs import Value, bind_inputs
from adderclaw.flows.sop.results import begin_record, planned_step
from adderclaw.flows.sop.sop import Sop
from adderclaw.sandbox import workspace
from adderclaw.storage import workflows
from adderclaw.storage.workflows import WorkflowStart


def prepare(options: Options, sop: str, inputs: Mapping[str, str]) -> "SopDriver":
    """Loads a SOP by its name or path; reports all problems of the file at once."""
    location = find.find(sop, find.sop_folders(options))
    loaded = find.load(location, tool_check.known_tools(options))
    return SopDriver(options, loaded, dict(inputs), bind_inputs(loaded, inputs))


def resume(options: Options, begun: WorkflowStart) -> "SopDriver":
    """Resumes a run with the SOP and the inputs that it began with."""
    options = restored(options, begun.said or {}, begun.run_id)
    path = workspace.resolved_path(begun.file)
    if not workspace.exists(path):
        raise UsageError(f"{begun.file}, the SOP of run {begun.run_id}, does not exist any more; restore the file")
    loaded = find.load(SopLocation(begun.name, "path", path), tool_check.known_tools(options))
    if loaded.fingerprint != begun.digest:
        changed = f"{begun.file} has changed since run {begun.run_id} began"
        raise UsageError(f"{changed}; restore it, or start a new run with `adderclaw sop run`")
    return SopDriver(options, loaded, begun.inputs, bind_inputs(loaded, begun.inputs), again=begun.run_id)


@dataclass(frozen=True)
class SopDriver:
    options: Options
    sop: Sop
    raw_inputs: dict[str, str]
    """The inputs as texts, before they are parsed."""
    values: dict[str, Value]
    again: str | None = None

    @property
    def opening(self) -> Opening:
        options = self.options if self.sop.asks_a_model else replace(self.options, asks="no", choose=None)
        return Opening("sop", options, self.sop.name, again=self.again, rows=(self._save_begin,))

    def _save_begin(self, cursor: Cursor, session: Session) -> None:
        inputs: dict[str, str] = session.secrets.scrub_all(self.raw_inputs)
        workflows.begin(cursor, begin_record(session.bus.run_id, self.sop, inputs, stored(self.options)))

    @property
    def digest(self) -> str:
        """The hash of the SOP's content, by which a schedule pins it."""
        return self.sop.fingerprint

    def plan(self) -> Json:
        return {
            "mode": "dry_run",
            "sop": self.sop.name,
            "description": self.sop.description,
            "file": self.sop.file,
            "inputs": self.values,
            "steps": [planned_step(step) for step in self.sop.steps],
        }

    def plan_text(self) -> str:
        return plan_text(self.plan())

    def dry(self) -> Driver | None:
        return None

    async def run(self, session: Session) -> TurnResult:
        options = stored(self.options)
        return await SopExecution(session, self.sop, self.values, raw_inputs=self.raw_inputs, options=options).run()


def plan_text(plan: Json) -> str:
    """Lists the steps for a person."""
    about = f": {plan['description']}" if plan["description"] else ""
    rows = [f"SOP {plan['sop']}{about}", f"  {plan['file']}"]
    rows += [f"  input {name} = {value}" for name, value in plan["inputs"].items()]
    for number, step in enumerate(plan["steps"], 1):
        what = f"{step['kind']} {step['tool']}" if step.get("tool") else step["kind"]
        arguments = [f"{name} = {value!r}" for name, value in step.get("args", {}).items()]
        arguments += [f"{name} from {source}" for name, source in step.get("from", {}).items()]
        rows.append(f"  {number}. {step['id']} ({what})" + (f": {', '.join(arguments)}" if arguments else ""))
        rows += [f"       {line}" for line in step.get("prompt", "").split("\n") if line]
    return "\n".join(rows)
