"""What clients show about SOPs and their runs."""

from typing import Any, TypedDict

from adderclaw.agent.conversation import questions
from adderclaw.agent.queries import clean
from adderclaw.config.legacy.options import Options
from adderclaw.core.errors import UsageError
from adderclaw.flows.sop import find, tool_check, waiting
from adderclaw.flows.sop.find import SopLocation
from adderclaw.flows.sop.results import load_state, planned_step
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
    known = tool_check.known_tools(options)
    return [row(location, known) for location in find.list_sops(find.sop_folders(options))]


def one(options: Options, name: str) -> SopRow:
    return row(find.find(name, find.sop_folders(options)), tool_check.known_tools(options))


def row(location: SopLocation, known: tool_check.KnownTools) -> SopRow:
    try:
        return described(find.load(location, known), location)
    except InvalidSop as error:
        problems = [problem.format(location.file) for problem in error.problems]
    except UsageError as error:
        problems = [str(error)]
    broken_row: SopRow = {
        "name": location.name,
        "description": "",
        "scope": location.scope,
        "file": location.file,
        "hidden": location.hidden,
        "digest": "",
        "inputs": [],
        "steps": [],
        "problems": problems,
    }
    return clean(broken_row)


def described(sop: Sop, location: SopLocation) -> SopRow:
    inputs: list[InputRow] = [
        {
            "name": input_.name,
            "type": input_.type,
            "required": input_.is_required,
            "default": input_.default,
            "choices": list(input_.choices),
            "description": input_.description,
        }
        for input_ in sop.inputs
    ]
    described_row: SopRow = {
        "name": sop.name,
        "description": sop.description,
        "scope": location.scope,
        "file": sop.file,
        "hidden": location.hidden,
        "digest": sop.fingerprint,
        "inputs": inputs,
        "steps": [planned_step(step) for step in sop.steps],
        "problems": [],
    }
    return clean(described_row)


def of_run(store: Store, run: Run) -> SopState | None:
    """The progress of a run; None if it never began."""
    asked = waiting.open_question(store, run) if run.status in waiting.WAITING else None
    state = load_state(store, run.run_id, waiting=asked is not None)
    if state is None:
        return None
    sop_state: SopState = {
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
    return clean(sop_state)


def _reason(store: Store, run: Run, asked: Approval | None) -> str | None:
    """Why a run ended; if its question was answered, why it has not continued."""
    if asked is None or asked.answer is None:
        return run.reason
    if why := schedules.failed_answer_reason(store, run.run_id, asked.id):
        return f"it was answered but could not continue: {why}"
    return "it was answered; the server or the next `adderclaw schedule tick` continues it within seconds"


def _steps(store: Store, run: Run, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Shows a pending step that has begun as running, or as interrupted if its run ended."""
    begun = {str(step.payload.get("step")) for step in runs.events_of_types(store, run, ("sop_step_started",), 10_000)}
    now = "running" if run.status == "running" else "interrupted"
    return [{**step, "status": now} if step["status"] == "pending" and step["id"] in begun else step for step in steps]
