"""What each step of a run came to, stored as it ends: who resumes the run repeats nothing that is finished."""

from collections.abc import Mapping
from dataclasses import asdict
from sqlite3 import Cursor

from adderclaw.agent.loop import resume
from adderclaw.agent.session.session import Session
from adderclaw.agent.tool_call.hooks import SaveOutcome
from adderclaw.core.framing import TRUNCATED
from adderclaw.core.record import NamedTuple, record
from adderclaw.core.types import Json, ToolCall, ToolResult
from adderclaw.flows.sop.sop import Sop, Status, Step
from adderclaw.storage import Store, workflows
from adderclaw.storage.workflows import Begun, Finished

PLAN = "(plan)"
"""Stands where a workflow has the persona: the row with the steps as the run began with them."""


@record
class StepResult:
    status: Status
    output: str = ""
    error: str = ""
    aborts: bool = False
    """The run ended with it: who resumes the run tries the step again."""
    cut: bool = False
    """The output is not whole: it was too long to be stored."""

    @property
    def succeeded(self) -> bool:
        return self.status == "succeeded"

    def as_json(self) -> Json:
        return {name: value for name, value in asdict(self).items() if value not in ("", False)}


def of_json(body: Json) -> StepResult:
    return StepResult(**body)


def of_call(result: ToolResult, *, denied: bool) -> StepResult:
    """What a tool call came to; what hooks added to its result is none of its output."""
    text = result.content[: result.frame.length] if result.frame is not None else result.content
    if denied:
        return StepResult("denied", error=text)
    if result.outcome == "unknown":
        return StepResult("unknown", error=text)
    if result.is_error or result.unanswered or result.metadata.get("exit_code"):
        return StepResult("failed", error=text)
    return StepResult("succeeded", text, cut=text.endswith(TRUNCATED))


def begun_with(run_id: str, sop: Sop, inputs: Mapping[str, str], said: Mapping[str, str]) -> Begun:
    """What is needed to resume the run of a SOP."""
    return Begun(run_id, sop.file, sop.name, sop.fingerprint, dict(inputs), dict(said))


class Attempt(NamedTuple):
    """One call for a tool step. Without a result it was interrupted, or it waits for an answer."""

    number: int
    call_id: str
    result: StepResult | None


class Stored:
    """The rows of a run: what an earlier process left, and this one's as they come."""

    def __init__(self, session: Session) -> None:
        self._session, self._run_id = session, session.bus.run_id
        found = session.read_outside("kept", {}, lambda: workflows.kept(session.store, self._run_id))
        self._rows: dict[tuple[str, str], Json] = {(place, kind): body for place, kind, body in found["rows"]}
        self.resumed = ("", PLAN) in self._rows

    def begin(self, cursor: Cursor, sop: Sop, inputs: Mapping[str, str], said: Mapping[str, str]) -> None:
        workflows.begin(cursor, begun_with(self._run_id, sop, inputs, said))
        self.write(cursor, "", PLAN, {"description": sop.description, "steps": [planned(step) for step in sop.steps]})

    def result(self, step: Step) -> StepResult | None:
        """What a step came to, if it did."""
        body = self._rows.get((step.id, ""))
        return of_json(body) if body is not None else None

    def last(self, step: Step) -> Attempt | None:
        """The last call that was made for a step."""
        number = self.attempts(step)
        if not number:
            return None
        body = self._rows[step.id, str(number)]
        return Attempt(number, body["call"], of_json(body["result"]) if body["result"] is not None else None)

    def attempts(self, step: Step) -> int:
        return sum(place == step.id and kind.isdigit() for place, kind in self._rows)

    def never_ran(self, attempt: Attempt) -> bool:
        return resume.never_ran(self._session.store, self._session.session_id, attempt.call_id)

    def begins(self, step: Step, number: int, call: ToolCall, *, last: bool) -> SaveOutcome:
        """Note a call before anything of it is done; returns what stores its result in the call's own transaction.

        `last`: what it comes to is what the step comes to, also where it failed.
        """
        self._soon(step.id, str(number), {"call": call.id, "result": None})

        def ended(cursor: Cursor, found: ToolResult, denied: bool) -> None:
            result = of_call(found, denied=denied)
            self.write(cursor, step.id, str(number), {"call": call.id, "result": result.as_json()})
            if last or result.status != "failed":
                self.write(cursor, step.id, "", ending(step, result).as_json())

        return ended

    def unknown(self, step: Step, attempt: Attempt, why: str) -> None:
        """Nobody knows what a call came to: that is what is stored of it."""
        result = StepResult("unknown", error=why)
        self._soon(step.id, str(attempt.number), {"call": attempt.call_id, "result": result.as_json()})

    def _soon(self, place: str, kind: str, body: Json) -> None:
        self._rows[place, kind] = body
        self._session.store.soon(lambda cursor: self.write(cursor, place, kind, body))

    def write(self, cursor: Cursor, place: str, kind: str, body: Json) -> None:
        self._rows[place, kind] = body
        done = Finished(place, kind, place, self._session.session_id, self._session.secrets.scrub_all(body))
        workflows.store_result(cursor, self._run_id, done)


def ending(step: Step, result: StepResult) -> StepResult:
    """A step's result, and whether the run ends with it."""
    aborts = result.status not in ("succeeded", "skipped") and step.on_failure == "abort"
    return StepResult(result.status, result.output, result.error, aborts, result.cut)


def planned(step: Step) -> Json:
    """A step for who looks at the run: its file may have changed by then."""
    given: Json = {"tool": step.tool, "prompt": step.prompt, "args": step.args, "on_failure": step.on_failure}
    if step.references:
        given["from"] = {one.argument: f"input {one.source}" if one.is_input else one.source for one in step.references}
    return {"id": step.id, "kind": step.kind, **{name: value for name, value in given.items() if value}}


# ------------------------------------------------------------------ for who looks


class State(NamedTuple):
    """How far a run has come."""

    begun: Begun
    description: str
    steps: list[Json]
    """Each step as planned, with `status` (a status, or waiting or pending), `output`, `error` and `attempts`."""


def state_of(store: Store, run_id: str, waiting: bool = False) -> State | None:
    """`waiting`: the run waits for an answer; then its first step without a result does."""
    begun = workflows.get(store, run_id)
    if begun is None:
        return None
    rows = workflows.finished(store, run_id)
    plan: Json = rows["", PLAN].result if ("", PLAN) in rows else {"description": "", "steps": []}
    steps: list[Json] = []
    for step in plan["steps"]:
        found = rows.get((step["id"], ""))
        attempts = sum(place == step["id"] and kind.isdigit() for place, kind in rows)
        result = found.result if found is not None else {"status": "waiting" if waiting else "pending"}
        waiting = waiting and found is not None
        steps.append({**step, **result, "attempts": attempts})
    return State(begun, plan["description"], steps)
