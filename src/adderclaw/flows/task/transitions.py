"""The transitions of a task run, kept as they happen: whoever resumes it goes through them and does nothing twice."""

from collections.abc import Mapping
from sqlite3 import Cursor
from typing import NamedTuple

from adderclaw.agent.loop import resume
from adderclaw.agent.session.session import Session
from adderclaw.agent.tool_call.hooks import SaveOutcome
from adderclaw.agent.tool_call.result import FinishedCall
from adderclaw.core.decode import decode
from adderclaw.core.json_text import canonical
from adderclaw.core.redaction import MARK
from adderclaw.core.types import Json, ToolCall, ToolResult
from adderclaw.flows.task import steps
from adderclaw.flows.task.contracts import ActionStep, ModelDecision, StepExecutionResult
from adderclaw.storage import workflows
from adderclaw.storage.workflows import Begun, Finished

NAME = "task"
"""Stands where a workflow has its own name; there is no file."""
CANDIDATES, DECISION, STEP, STOP = "(candidates)", "(decision)", "(step)", "(stop)"
"""What kind of transition a row keeps, where a workflow has the persona."""


def begun_with(session: Session, task: str, inputs: Mapping[str, str]) -> Begun:
    """What is needed to resume the run of a task."""
    return Begun(session.bus.run_id, "", NAME, "", {"task": session.secrets.scrub(task), **inputs})


class Decided(NamedTuple):
    decision: ModelDecision
    requests: int
    """How often the model had been asked until then."""


class Transitions:
    """What an earlier try at this run came to; and this one, as it goes on.

    A row rides along with the transaction of what follows from it: a decision with its first step, a step's intent
    with the call, its result with the call's own result and receipt.
    """

    def __init__(self, session: Session) -> None:
        self._session, self._run_id = session, session.bus.run_id
        found = session.read_outside("kept", {}, lambda: workflows.kept(session.store, self._run_id))
        self.resumed = bool(found["rows"])
        self._lost: set[str] = set()
        self._rows: dict[tuple[str, str], Json] = {(place, kind): body for place, kind, body in found["rows"]}
        self._earlier = {place for place, kind in self._rows if kind == DECISION}

    def begin(self, task: str, inputs: Mapping[str, str]) -> None:
        begun = begun_with(self._session, task, inputs)
        self._session.store.soon(lambda cursor: workflows.begin(cursor, begun))

    @property
    def accepted(self) -> bool:
        """Whether an earlier try came past the hooks that may refuse the task: what they refused is asked again."""
        return ("0", CANDIDATES) in self._rows

    def same_candidates(self, digest: str) -> bool:
        """Whether the skills that fit are those that it began with."""
        before = self._rows.get(("0", CANDIDATES))
        if before is None:
            self._keep("0", CANDIDATES, {"digest": digest})
        return before is None or before["digest"] == digest

    # -------------------------------------------------------------- decisions

    def decision(self, turn: int) -> Decided | None:
        body = self._rows.get((str(turn), DECISION))
        return Decided(decode(ModelDecision, body["decision"]), body["requests"]) if body is not None else None

    def decided(self, turn: int, made: Json, requests: int) -> None:
        self._keep(str(turn), DECISION, {"decision": made, "requests": requests})

    def incomplete(self, turn: int, action: ActionStep) -> bool:
        """Whether an action of an earlier try lacks a secret that it held: a decision is kept without secrets."""
        runs = action.type in ("run_command", "call_skill")
        return runs and str(turn) in self._earlier and MARK in canonical(action.params)

    def sent_back(self, turn: int) -> str | None:
        """Why a Stop hook sent the model back to work after this decision, if one did."""
        body = self._rows.get((str(turn), STOP))
        return str(body["reason"]) if body is not None else None

    def sends_back(self, turn: int, reason: str) -> None:
        self._keep(str(turn), STOP, {"reason": reason})

    # -------------------------------------------------------------- steps

    def step(self, step_id: str, retry: int) -> StepExecutionResult | None:
        """What a step came to; None where it has still to be carried out, or never ran."""
        body = self._rows.get((f"{step_id}.{retry}", STEP))
        if body is None:
            return None
        if body["result"] is not None:
            return StepExecutionResult(**body["result"])
        if resume.never_ran(self._session.store, self._session.session_id, body["call"]):
            return None
        unknown = StepExecutionResult(step_id, None, "", resume.UNKNOWN, retry, "unknown")
        self._keep(f"{step_id}.{retry}", STEP, {**body, "result": unknown.as_json()})
        self._lost.add(f"{step_id}.{retry}")
        return unknown

    def lost(self, step_id: str, retry: int) -> bool:
        """Whether it is news that nobody knows what a step came to."""
        return f"{step_id}.{retry}" in self._lost

    def command(self, step_id: str, retry: int) -> str:
        return str(self._rows[f"{step_id}.{retry}", STEP]["command"])

    def begins(self, step_id: str, retry: int, call: ToolCall) -> SaveOutcome:
        """A step's call, kept before anything of it is done; returns what keeps its result, in its own transaction."""
        place, body = f"{step_id}.{retry}", {"call": call.id, "command": steps.summary(steps.shown(call))}
        self._keep(place, STEP, {**body, "result": None})

        def ended(cursor: Cursor, found: ToolResult, denied: bool) -> None:
            result = steps.result_of(step_id, FinishedCall(found, denied), retry).as_json()
            self._write(cursor, place, STEP, {**body, "result": result})

        return ended

    def _keep(self, place: str, kind: str, body: Json) -> None:
        self._rows[place, kind] = body
        self._session.store.soon(lambda cursor: self._write(cursor, place, kind, body))

    def _write(self, cursor: Cursor, place: str, kind: str, body: Json) -> None:
        done = Finished(place, kind, "", self._session.session_id, self._session.secrets.scrub_all(body))
        workflows.store_result(cursor, self._run_id, done)
