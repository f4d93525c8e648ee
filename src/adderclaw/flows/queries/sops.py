"""SOPs that are there and runs of them, as every channel shows them."""

from typing import Any, TypedDict

from adderclaw.agent.conversation import questions
from adderclaw.agent.queries import clean
from adderclaw.config.legacy.options import Options
from adderclaw.core.errors import UsageError
from adderclaw.flows.sop import find, tool_check, waiting
from adderclaw.flows.sop.find import Found
from adderclaw.flows.sop.results import planned, state_of
from adderclaw.flows.sop.sop import InvalidSop, Sop
from adderclaw.storage import Store, runs, schedules
from adderclaw.storage.approvals import Approval
from adderclaw.storage.runs import Run


class InputRow(TypedDict):
    name: str
    type: str
    required: bool
    default: str | int | float | bool | None
    choices: list[str]
    description: str


class SopRow(TypedDict):
    """A SOP with its steps, or with what is wrong with it."""

    name: str
    description: str
    scope: str
    """workspace, home or path."""
    file: str
    hidden: bool
    """The workspace has one of the same name, which is the one that runs."""
    digest: str
    inputs: list[InputRow]
    steps: list[dict[str, Any]]
    problems: list[str]


class SopState(TypedDict):
    """How far a run has come, and what it waits for."""

    run_id: str
    sop: str
    description: str
    file: str
    inputs: dict[str, str]
    status: str
    reason: str | None
    conversation_id: str
    steps: list[dict[str, Any]]
    """Each with `status`: succeeded, failed, denied, unknown, skipped, waiting, running, interrupted or pending."""
    question: dict[str, Any] | None


def listed(options: Options) -> list[SopRow]:
    known = tool_check.known(options)
    return [row(found, known) for found in find.listed(find.where(options))]


def one(options: Options, name: str) -> SopRow:
    return row(find.find(name, find.where(options)), tool_check.known(options))


def row(found: Found, known: tool_check.Known) -> SopRow:
    try:
        return described(find.load(found, known), found)
    except InvalidSop as error:
        problems = [one.shown(found.file) for one in error.problems]
    except UsageError as error:
        problems = [str(error)]
    made: SopRow = {
        "name": found.name,
        "description": "",
        "scope": found.scope,
        "file": found.file,
        "hidden": found.hidden,
        "digest": "",
        "inputs": [],
        "steps": [],
        "problems": problems,
    }
    return clean(made)


def described(sop: Sop, found: Found) -> SopRow:
    inputs: list[InputRow] = [
        {
            "name": one.name,
            "type": one.type,
            "required": one.is_required,
            "default": one.default,
            "choices": list(one.choices),
            "description": one.description,
        }
        for one in sop.inputs
    ]
    made: SopRow = {
        "name": sop.name,
        "description": sop.description,
        "scope": found.scope,
        "file": sop.file,
        "hidden": found.hidden,
        "digest": sop.fingerprint,
        "inputs": inputs,
        "steps": [planned(step) for step in sop.steps],
        "problems": [],
    }
    return clean(made)


def of_run(store: Store, run: Run) -> SopState | None:
    """None where it never began."""
    asked = waiting.question(store, run) if run.status in waiting.WAITING else None
    state = state_of(store, run.run_id, waiting=asked is not None)
    if state is None:
        return None
    made: SopState = {
        "run_id": run.run_id,
        "sop": state.begun.name,
        "description": state.description,
        "file": state.begun.file,
        "inputs": state.begun.inputs,
        "status": run.status,
        "reason": _reason(store, run, asked),
        "conversation_id": run.conversation_id,
        "steps": _steps(store, run, state.steps),
        "question": questions.as_json(asked) if asked is not None else None,
    }
    return clean(made)


def _reason(store: Store, run: Run, asked: Approval | None) -> str | None:
    """Why it ended; of one that was answered, what keeps it from going on."""
    if asked is None or asked.answer is None:
        return run.reason
    if why := schedules.failed_answer_reason(store, run.run_id, asked.id):
        return f"it was answered and could not go on: {why}"
    return "it was answered; the server goes on with it within seconds, or the next `adderclaw schedule tick`"


def _steps(store: Store, run: Run, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A step that began and came to nothing runs now, or was interrupted with its run."""
    begun = {str(one.payload.get("step")) for one in runs.events_of_types(store, run, ("sop_step_started",), 10_000)}
    now = "running" if run.status == "running" else "interrupted"
    return [{**one, "status": now} if one["status"] == "pending" and one["id"] in begun else one for one in steps]
