"""Requests the model's decision as a tool call or as JSON, decodes it and checks its form."""

import json
from typing import Any, Literal, NamedTuple

from adderclaw.agent.session.prompt import Prompt, make_prompt
from adderclaw.core.decode import Invalid, decode
from adderclaw.core.host import ToolContext
from adderclaw.core.json_text import canonical, reject_constant
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json, ProviderCapabilities, Tool, ToolResult, ToolSpec, Touch, fixed_prepare
from adderclaw.flows.task.contracts import PARAMS, SCHEMA, ModelDecision

NAME = "Decision"
DESCRIPTION = "Decide which skill to work with, which parts of it to show, and what to do now."
MAX_ACTIONS, MAX_PATHS, MAX_CHARACTERS = 10, 20, 200_000

type Mode = Literal["native_with_json_fallback", "native", "json"]
type How = Literal["tool", "json", "none"]


class DecisionCall:
    """The tool that receives the decision of a turn, and the input of its first call."""

    def __init__(self) -> None:
        self.input: Json | None = None

    def tool(self) -> Tool[Any]:
        return Tool(
            name=NAME,
            arguments=dict,
            decode=lambda arguments: arguments,
            prepare=fixed_prepare(Touch(why="decides what to do next", inward=True), self._run),
            description=DESCRIPTION,
            parameters=SCHEMA,
        )

    async def _run(self, arguments: Json, _context: ToolContext) -> ToolResult:
        if self.input is not None:
            return ToolResult("You have already decided; only the first decision counts.", ends=True, own=True)
        self.input = arguments
        return ToolResult("Decision recorded.", ends=True, own=True)


def request_method(capabilities: ProviderCapabilities, mode: Mode) -> Literal["tool", "json"]:
    """How to request a decision from a model with these capabilities."""
    able = capabilities.tools and capabilities.tool_choice
    return "tool" if able and capabilities.structured == "tool" and mode != "json" else "json"


def decision_prompt(system: str, by: Literal["tool", "json"]) -> Prompt:
    if by == "tool":
        return make_prompt(system, (ToolSpec(NAME, DESCRIPTION, SCHEMA),), tool_choice=NAME)
    return make_prompt(f"{system}\n\n{schema_in_words()}", (), response_schema=SCHEMA)


def schema_in_words() -> str:
    return f"Answer with one JSON object that matches this schema, and nothing else:\n{canonical(SCHEMA)}"


# ------------------------------------------------------------------ decoding


class Decoded(NamedTuple):
    decision: ModelDecision | None
    how: How
    problems: list[str]


def decode_decision(call_input: Json | None, text: str, mode: Mode, by: Literal["tool", "json"]) -> Decoded:
    """Decodes the input of the call if there was one, or else the text as strict JSON."""
    how: How = "tool"
    if call_input is None:
        if by == "tool" and mode == "native":
            return Decoded(None, "none", [f"{NAME} was not called"])
        how = "json"
        try:
            call_input = parse_json_object(text)
        except ValueError as error:
            return Decoded(None, "none", [f"the reply neither calls {NAME} nor is one JSON object: {error}"])
    try:
        decision = decode(ModelDecision, call_input)
    except Invalid as error:
        return Decoded(None, how, [f"{key}: {message}" if key else message for key, message in error.problems])
    wrong = _problems(decision)
    return Decoded(None if wrong else decision, how, wrong)


def parse_json_object(text: str) -> Json:
    """Parses a text that is only one JSON object, which may be in a code fence. Raises ValueError with the reason."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        text = text[text.index("\n") + 1 : -3]
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"it has more than {MAX_CHARACTERS:,} characters")
    try:
        value: Any = json.loads(text, parse_constant=reject_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"it is not an object: {visible(text[:80], keep_newlines=False)!r}")
    return value  # pyright: ignore[reportUnknownVariableType]


def _problems(decision: ModelDecision) -> list[str]:
    """Finds what is wrong with a decision of the right shape, before checking the names in it."""
    wrong: list[str] = []
    if len(decision.planned_actions) > MAX_ACTIONS:
        wrong.append(f"planned_actions: at most {MAX_ACTIONS} at once")
    if len(decision.required_disclosure_paths) > MAX_PATHS:
        wrong.append(f"required_disclosure_paths: at most {MAX_PATHS} at once")
    for index, action in enumerate(decision.planned_actions):
        try:
            params = decode(PARAMS[action.type], action.params)
        except Invalid as error:
            wrong += [f"planned_actions[{index}].params.{key}: {message}" for key, message in error.problems]
            continue
        empty = [name for name in ("command", "question", "answer") if getattr(params, name, "-").strip() == ""]
        wrong += [f"planned_actions[{index}].params.{name}: is empty" for name in empty]
        if action.type == "finish" and index < len(decision.planned_actions) - 1:
            wrong.append(f"planned_actions[{index}]: finish must be the last action")
    if not decision.planned_actions and not decision.required_disclosure_paths and not decision.selected_skill:
        wrong.append("planned_actions: select a skill or plan an action; with neither, nothing happens")
    return wrong


def reminder(problems: list[str]) -> str:
    """The message that asks the model, once, to correct its decision."""
    listed = "\n".join(f"- {visible(problem, keep_newlines=False)[:500]}" for problem in problems[:20])
    return f"That decision cannot be carried out:\n{listed}\n\nDecide again. {schema_in_words()}"
