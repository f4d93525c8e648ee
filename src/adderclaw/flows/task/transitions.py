"""Stores the transitions of a task run as they happen, so that a resumed run repeats none of them."""

from collections.abc import Mapping
from sqlite3 import Cursor
from typing import NamedTuple

from adderclaw.agent.loop import resume
from adderclaw.agent.session.session import Session
from adderclaw.agent.tool_call.result import FinishedCall, SaveOutcome
from adderclaw.core.decode import decode
from adderclaw.core.json_text import canonical, to_json
from adderclaw.core.redaction import MARK
from adderclaw.core.types import Json, ToolCall, ToolResult
from adderclaw.flows.task import steps
from adderclaw.flows.task.contracts import ActionStep, ModelDecision, StepExecutionResult
from adderclaw.storage import workflows
from adderclaw.storage.workflows import GoalResult, WorkflowStart

NAME = "task"
"""The workflow name of a task run, which has no file."""
CANDIDATES, DECISION, STEP, STOP = "(candidates)", "(decision)", "(step)", "(stop)"
"""The kinds of transitions, stored in the column that holds the persona of a workflow."""


def begin_record(session: Session, task: str, inputs: Mapping[str, str]) -> WorkflowStart:
    """Returns the record that is needed to resume the run of a task."""
    return WorkflowStart(session.bus.run_id, "", NAME, "", {"task": session.secrets.scrub(task), **inputs})


class Decided(NamedTuple):
    decision: ModelDecision
    requests: int
    """How many model requests the run had made by then."""


class Transitions:
    """The stored transitions of earlier attempts at this run, and those of the current one.

    A row is written in the transaction of what follows from it: a decision with its first step, a step's intent with
    the call, its result with the call's own result and receipt.
    """

    def __init__(self, session: Session) -> None:
        self._session, self._run_id = session, session.bus.run_id
        stored = session.read_outside("kept", {}, lambda: workflows.results_for_tape(session.store, self._run_id))
        self.resumed = bool(stored["rows"])
        self._newly_unknown: set[str] = set()
        self._rows: dict[tuple[str, str], Json] = {(key, kind): body for key, kind, body in stored["rows"]}
        self._earlier = {key for key, kind in self._rows if kind == DECISION}

    def begin(self, task: str, inputs: Mapping[str, str]) -> None:
        begun = begin_record(self._session, task, inputs)
        self._session.store.write_next(lambda cursor: workflows.begin(cursor, begun))

    @property
    def accepted(self) -> bool:
        """Whether the hooks that may refuse the task have allowed it in an earlier attempt."""
        return ("0", CANDIDATES) in self._rows

    def same_candidates(self, digest: str) -> bool:
        """Whether the candidates are those that the run began with."""
        before = self._rows.get(("0", CANDIDATES))
        if before is None:
            self._save("0", CANDIDATES, {"digest": digest})
        return before is None or before["digest"] == digest

    # -------------------------------------------------------------- decisions

    def decision(self, turn: int) -> Decided | None:
        body = self._rows.get((str(turn), DECISION))
        return Decided(decode(ModelDecision, body["decision"]), body["requests"]) if body is not None else None

    def save_decision(self, turn: int, decision: Json, requests: int) -> None:
        self._save(str(turn), DECISION, {"decision": decision, "requests": requests})

    def lacks_secret(self, turn: int, action: ActionStep) -> bool:
        """Whether an action of an earlier attempt has lost a secret, since decisions are stored without secrets."""
        runs = action.type in ("run_command", "call_skill")
        return runs and str(turn) in self._earlier and MARK in canonical(action.params)

    def sent_back(self, turn: int) -> str | None:
        """The reason of a Stop hook that sent the model back to work after this decision; None if none did."""
        body = self._rows.get((str(turn), STOP))
        return str(body["reason"]) if body is not None else None

    def save_sent_back(self, turn: int, reason: str) -> None:
        self._save(str(turn), STOP, {"reason": reason})

    # -------------------------------------------------------------- steps

    def step(self, step_id: str, retry: int) -> StepExecutionResult | None:
        """Returns the stored result of a step; None if it never ran."""
        body = self._rows.get((f"{step_id}.{retry}", STEP))
        if body is None:
            return None
        if body["result"] is not None:
            return StepExecutionResult(**body["result"])
        if resume.never_ran(self._session.store, self._session.session_id, body["call"]):
            return None
        unknown = StepExecutionResult(step_id, None, "", resume.UNKNOWN, retry, "unknown")
        self._save(f"{step_id}.{retry}", STEP, {**body, "result": to_json(unknown)})
        self._newly_unknown.add(f"{step_id}.{retry}")
        return unknown

    def is_newly_unknown(self, step_id: str, retry: int) -> bool:
        """Whether this attempt found that the result of a step is unknown."""
        return f"{step_id}.{retry}" in self._newly_unknown

    def command(self, step_id: str, retry: int) -> str:
        return str(self._rows[f"{step_id}.{retry}", STEP]["command"])

    def save_step(self, step_id: str, retry: int, call: ToolCall) -> SaveOutcome:
        """Stores the call of a step before it runs; returns a callback that stores its result."""
        key, body = f"{step_id}.{retry}", {"call": call.id, "command": steps.summary(steps.shown(call))}
        self._save(key, STEP, {**body, "result": None})

        def save_result(cursor: Cursor, result: ToolResult, denied: bool) -> None:
            stored = to_json(steps.result_of(step_id, FinishedCall(result, denied), retry))
            self._write(cursor, key, STEP, {**body, "result": stored})

        return save_result

    def _save(self, key: str, kind: str, body: Json) -> None:
        self._rows[key, kind] = body
        self._session.store.write_next(lambda cursor: self._write(cursor, key, kind, body))

    def _write(self, cursor: Cursor, key: str, kind: str, body: Json) -> None:
        done = GoalResult(key, kind, "", self._session.session_id, self._session.secrets.scrub_all(body))
        workflows.store_result(cursor, self._run_id, done)
