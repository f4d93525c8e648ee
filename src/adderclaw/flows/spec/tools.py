"""The two tools with which a coding session changes the status of its project; it has no other way."""

import asyncio
from typing import Any

from adderclaw.core.errors import AdderClawError
from adderclaw.core.host import ToolContext
from adderclaw.core.record import record
from adderclaw.core.types import Json, Tool, ToolResult, Touch, fixed_prepare, own_words, rejected
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
    """With a checker, reporting a pass only records a claim, which the checker must confirm."""

    async def update(arguments: UpdateArguments, context: ToolContext) -> ToolResult:
        try:
            if checker is not None and arguments.passed:
                return _claim(project, checker, arguments.scenario_id, context.session_id)
            if checker is not None:
                checker.withdraw(arguments.scenario_id)
            if arguments.blocked.strip() and not arguments.passed:
                return _answer(await asyncio.to_thread(status.block, project, arguments.scenario_id, arguments.blocked))
            return _answer(await asyncio.to_thread(status.update, project, arguments.scenario_id, arguments.passed))
        except AdderClawError as error:
            return rejected(str(error))

    async def declare(arguments: DeclareArguments, _ctx: ToolContext) -> ToolResult:
        try:
            declared = [Scenario(scenario.id, scenario.feature, scenario.name) for scenario in arguments.scenarios]
            return _answer(await asyncio.to_thread(status.declare, project, declared))
        except AdderClawError as error:
            return rejected(str(error))

    return (
        Tool(
            UPDATE,
            UpdateArguments,
            fixed_prepare(Touch(why=f"records in {FILE} whether a scenario passed", inward=True), update),
            f"Record whether one scenario of {FILE} passed, after you have seen it pass or fail.",
            _UPDATE,
        ),
        Tool(
            DECLARE,
            DeclareArguments,
            fixed_prepare(Touch(why=f"adds scenarios to {FILE}", inward=True), declare),
            f"Add scenarios to {FILE}, none of them passed. Scenarios that are already declared stay unchanged.",
            _DECLARE,
        ),
    )


def _claim(project: str, checker: Checker, scenario_id: str, session_id: str) -> ToolResult:
    now, scenario = status.require_active_scenario(project, scenario_id)
    if scenario.passed:
        return _answer(now)
    checker.claim(scenario, session_id)
    noted = f"Claim recorded: after this session ends, a separate session verifies {scenario.id}."
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
            "description": "Only if it cannot be done without a person's help: what is missing.",
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
                    "feature": {"type": "string", "description": "Its file in features/."},
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
