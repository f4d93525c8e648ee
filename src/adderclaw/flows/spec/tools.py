"""How a coding session of a run changes the status of its project: through these two tools, and in no other way."""

import asyncio
from typing import Any

from adderclaw.core.errors import AdderClawError
from adderclaw.core.record import record
from adderclaw.core.types import Json, Tool, ToolContext, ToolResult, Touch, fixed_prepare, own_words, rejected
from adderclaw.flows.spec import status
from adderclaw.flows.spec.checks import Checker
from adderclaw.flows.spec.status import FILE, Scenario, Status

DECLARE, UPDATE = "DeclareScenarios", "UpdateStatus"


@record
class UpdateArguments:
    scenario_id: str
    passed: bool
    blocked: str = ""


@record
class Declared:
    id: str
    feature: str
    name: str


@record
class DeclareArguments:
    scenarios: tuple[Declared, ...]


def tools(project: str, checker: Checker | None = None) -> tuple[Tool[Any], ...]:
    """With a checker a scenario that is said to pass is claimed, and passes when that was checked."""

    async def update(given: UpdateArguments, context: ToolContext) -> ToolResult:
        try:
            if checker is not None and given.passed:
                return _claimed(project, checker, given.scenario_id, context.session_id)
            if checker is not None:
                checker.withdraw(given.scenario_id)
            if given.blocked.strip() and not given.passed:
                return _answer(await asyncio.to_thread(status.block, project, given.scenario_id, given.blocked))
            return _answer(await asyncio.to_thread(status.update, project, given.scenario_id, given.passed))
        except AdderClawError as error:
            return rejected(str(error))

    async def declare(given: DeclareArguments, _ctx: ToolContext) -> ToolResult:
        try:
            wanted = [Scenario(one.id, one.feature, one.name) for one in given.scenarios]
            return _answer(await asyncio.to_thread(status.declare, project, wanted))
        except AdderClawError as error:
            return rejected(str(error))

    return (
        Tool(
            UPDATE,
            UpdateArguments,
            fixed_prepare(Touch(why=f"says in {FILE} whether a scenario passed", inward=True), update),
            f"Say of one scenario of {FILE} whether it passed, after you have seen it pass or fail.",
            _UPDATE,
        ),
        Tool(
            DECLARE,
            DeclareArguments,
            fixed_prepare(Touch(why=f"adds scenarios to {FILE}", inward=True), declare),
            f"Add scenarios to {FILE}, none of them passed. What is declared already stays as it is.",
            _DECLARE,
        ),
    )


def _claimed(project: str, checker: Checker, scenario_id: str, session_id: str) -> ToolResult:
    now, scenario = status.found(project, scenario_id)
    if scenario.passed:
        return _answer(now)
    checker.claim(scenario, session_id)
    noted = f"Noted: when this session ends, another one that knows nothing of it tries {scenario.id}."
    return own_words(f"{noted} {now.passed} of {now.total} scenarios have passed.")


def _answer(status: Status) -> ToolResult:
    return own_words(f"{status.passed} of {status.total} scenarios have passed.")


_UPDATE: Json = {
    "type": "object",
    "properties": {
        "scenario_id": {"type": "string", "description": "Its id, such as SC-F001."},
        "passed": {"type": "boolean"},
        "blocked": {
            "type": "string",
            "description": "Only if it cannot be done without somebody's help: what is missing.",
        },
    },
    "required": ["scenario_id", "passed"],
    "additionalProperties": False,
}
_DECLARE: Json = {
    "type": "object",
    "properties": {
        "scenarios": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "string", "description": "Such as SC-F001; each once."},
                    "feature": {"type": "string", "description": "The file in features/ that it stands in."},
                    "name": {"type": "string"},
                },
                "required": ["id", "feature", "name"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["scenarios"],
    "additionalProperties": False,
}
