"""Stores the result of each step of a run, so that a resumed run repeats nothing that is finished."""

from collections.abc import Mapping
from sqlite3 import Cursor

from adderclaw.agent.loop import resume
from adderclaw.agent.session.session import Session
from adderclaw.agent.tool_call.result import SaveOutcome
from adderclaw.core.framing import TRUNCATED
from adderclaw.core.json_text import to_json
from adderclaw.core.record import NamedTuple, record
from adderclaw.core.types import Json, ToolCall, ToolResult
from adderclaw.flows.sop.sop import Sop, Status, Step
from adderclaw.storage import Store, workflows
from adderclaw.storage.workflows import GoalResult, WorkflowStart

PLAN_ROW = "(plan)"
"""Marks the row with the planned steps, in the column that holds the persona of a workflow."""


@record
class StepResult:
    status: Status
    output: str = ""
    error: str = ""
    aborts: bool = False
    """Whether it ended the run; a resumed run tries the step again."""
    cut: bool = False
    """Whether the output is incomplete, because it was too long to store."""

    @property
    def succeeded(self) -> bool:
        return self.status == "succeeded"

    def as_json(self) -> Json:
        return to_json(self, omit=("", False))


def result_of_call(result: ToolResult, *, denied: bool) -> StepResult:
    """Returns the result of a tool call, without what hooks added to its output."""
    text = result.content[: result.frame.length] if result.frame is not None else result.content
    if denied:
        return StepResult("denied", error=text)
    if result.outcome == "unknown":
        return StepResult("unknown", error=text)
    if result.is_error or result.unanswered or result.metadata.get("exit_code"):
        return StepResult("failed", error=text)
    return StepResult("succeeded", text, cut=text.endswith(TRUNCATED))


def begin_record(run_id: str, sop: Sop, inputs: Mapping[str, str], options: Mapping[str, str]) -> WorkflowStart:
    """Returns the record that is needed to resume the run of a SOP."""
    return WorkflowStart(run_id, sop.file, sop.name, sop.fingerprint, dict(inputs), dict(options))


class Attempt(NamedTuple):
    """One call for a tool step. Without a result it was interrupted, or it waits for an answer."""

    number: int
    call_id: str
    result: StepResult | None


class StoredResults:
    """The stored rows of a run, from earlier processes and from this one."""

    def __init__(self, session: Session) -> None:
        self._session, self._run_id = session, session.bus.run_id
        stored = session.read_outside("kept", {}, lambda: workflows.results_for_tape(session.store, self._run_id))
        self._rows: dict[tuple[str, str], Json] = {(step_id, kind): body for step_id, kind, body in stored["rows"]}
        self.resumed = ("", PLAN_ROW) in self._rows

    def begin(self, cursor: Cursor, sop: Sop, inputs: Mapping[str, str], options: Mapping[str, str]) -> None:
        workflows.begin(cursor, begin_record(self._run_id, sop, inputs, options))
        self.write(
            cursor, "", PLAN_ROW, {"description": sop.description, "steps": [planned_step(step) for step in sop.steps]}
        )

    def result(self, step: Step) -> StepResult | None:
        """Returns the result of a step; None if it has none yet."""
        body = self._rows.get((step.id, ""))
        return StepResult(**body) if body is not None else None

    def last_attempt(self, step: Step) -> Attempt | None:
        """Returns the last call that was made for a step."""
        number = self.attempts(step)
        if not number:
            return None
        body = self._rows[step.id, str(number)]
        return Attempt(number, body["call"], StepResult(**body["result"]) if body["result"] is not None else None)

    def attempts(self, step: Step) -> int:
        return sum(step_id == step.id and kind.isdigit() for step_id, kind in self._rows)

    def never_ran(self, attempt: Attempt) -> bool:
        return resume.never_ran(self._session.store, self._session.session_id, attempt.call_id)

    def save_call(self, step: Step, number: int, call: ToolCall, *, last: bool) -> SaveOutcome:
        """Stores a call before it runs; returns a callback that stores its result in the transaction of the call.

        `last` means that its result is the result of the step even if it failed.
        """
        self._write_soon(step.id, str(number), {"call": call.id, "result": None})

        def ended(cursor: Cursor, tool_result: ToolResult, denied: bool) -> None:
            result = result_of_call(tool_result, denied=denied)
            self.write(cursor, step.id, str(number), {"call": call.id, "result": result.as_json()})
            if last or result.status != "failed":
                self.write(cursor, step.id, "", with_abort(step, result).as_json())

        return ended

    def save_unknown(self, step: Step, attempt: Attempt, why: str) -> None:
        """Stores that the result of a call is unknown."""
        result = StepResult("unknown", error=why)
        self._write_soon(step.id, str(attempt.number), {"call": attempt.call_id, "result": result.as_json()})

    def _write_soon(self, step_id: str, kind: str, body: Json) -> None:
        self._rows[step_id, kind] = body
        self._session.store.write_next(lambda cursor: self.write(cursor, step_id, kind, body))

    def write(self, cursor: Cursor, step_id: str, kind: str, body: Json) -> None:
        self._rows[step_id, kind] = body
        done = GoalResult(step_id, kind, step_id, self._session.session_id, self._session.secrets.scrub_all(body))
        workflows.store_result(cursor, self._run_id, done)


def with_abort(step: Step, result: StepResult) -> StepResult:
    """Returns a result that says whether the run ends with it."""
    aborts = result.status not in ("succeeded", "skipped") and step.on_failure == "abort"
    return StepResult(result.status, result.output, result.error, aborts, result.cut)


def planned_step(step: Step) -> Json:
    """Returns a step as it is stored with its run, since the file may change later."""
    details: Json = {"tool": step.tool, "prompt": step.prompt, "args": step.args, "on_failure": step.on_failure}
    if step.references:
        details["from"] = {
            reference.argument: f"input {reference.source}" if reference.is_input else reference.source
            for reference in step.references
        }
    return {"id": step.id, "kind": step.kind, **{name: value for name, value in details.items() if value}}


# ------------------------------------------------------------------ progress


class State(NamedTuple):
    """The progress of a run."""

    begun: WorkflowStart
    description: str
    steps: list[Json]
    """The planned steps, each with `status` (also `waiting` or `pending`), `output`, `error` and `attempts`."""


def load_state(store: Store, run_id: str, waiting: bool = False) -> State | None:
    """Loads the progress of a run. If the run is `waiting`, so is its first step without a result."""
    begun = workflows.get(store, run_id)
    if begun is None:
        return None
    rows = workflows.goal_results(store, run_id)
    plan: Json = rows["", PLAN_ROW].result if ("", PLAN_ROW) in rows else {"description": "", "steps": []}
    steps: list[Json] = []
    for step in plan["steps"]:
        row = rows.get((step["id"], ""))
        attempts = sum(step_id == step["id"] and kind.isdigit() for step_id, kind in rows)
        result = row.result if row is not None else {"status": "waiting" if waiting else "pending"}
        waiting = waiting and row is not None
        steps.append({**step, **result, "attempts": attempts})
    return State(begun, plan["description"], steps)
