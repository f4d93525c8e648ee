"""How the model's decision comes: by a tool that it must call, as JSON, or not at all; and what is wrong with it."""

import json
from typing import Any, Literal, NamedTuple

from adderclaw.agent.session.prompt import Prompt, made
from adderclaw.core.decode import Invalid, decode
from adderclaw.core.json_text import canonical, reject_constant
from adderclaw.core.redaction import visible
from adderclaw.core.types import (
    Json,
    ProviderCapabilities,
    Tool,
    ToolContext,
    ToolResult,
    ToolSpec,
    Touch,
    fixed_prepare,
)
from adderclaw.flows.task.contracts import PARAMS, SCHEMA, ModelDecision

NAME = "Decision"
DESCRIPTION = "Say which skill to work with, what of it has to be shown, and what is to be done now."
MOST_ACTIONS, MOST_PATHS, LONGEST = 10, 20, 200_000

type Mode = Literal["native_with_json_fallback", "native", "json"]
type How = Literal["tool", "json", "none"]


class Taken:
    """Takes the one decision of a turn where it comes as a call."""

    def __init__(self) -> None:
        self.given: Json | None = None

    def tool(self) -> Tool[Any]:
        return Tool(
            name=NAME,
            arguments=dict,
            decode=lambda given: given,
            prepare=fixed_prepare(Touch(why="says what is to be done", inward=True), self._run),
            description=DESCRIPTION,
            parameters=SCHEMA,
        )

    async def _run(self, given: Json, _context: ToolContext) -> ToolResult:
        if self.given is not None:
            return ToolResult("There is a decision already: the first one counts.", ends=True, own=True)
        self.given = given
        return ToolResult("Taken down.", ends=True, own=True)


def asked_by(capabilities: ProviderCapabilities, mode: Mode) -> Literal["tool", "json"]:
    """By what a decision is asked for here."""
    able = capabilities.tools and capabilities.tool_choice
    return "tool" if able and capabilities.structured == "tool" and mode != "json" else "json"


def prompt(system: str, by: Literal["tool", "json"]) -> Prompt:
    if by == "tool":
        return made(system, (ToolSpec(NAME, DESCRIPTION, SCHEMA),), tool_choice=NAME)
    return made(f"{system}\n\n{schema_in_words()}", (), response_schema=SCHEMA)


def schema_in_words() -> str:
    return f"Answer with one JSON object of this schema, and nothing else:\n{canonical(SCHEMA)}"


# ------------------------------------------------------------------ decoding


class Decoded(NamedTuple):
    decision: ModelDecision | None
    how: How
    problems: list[str]


def decoded(given: Json | None, text: str, mode: Mode, by: Literal["tool", "json"]) -> Decoded:
    """The call's input where there was a call, else the text as strict JSON."""
    how: How = "tool"
    if given is None:
        if by == "tool" and mode == "native":
            return Decoded(None, "none", [f"{NAME} was not called"])
        how = "json"
        try:
            given = strict(text)
        except ValueError as error:
            return Decoded(None, "none", [f"neither a call of {NAME} nor one JSON object: {error}"])
    try:
        decision = decode(ModelDecision, given)
    except Invalid as error:
        return Decoded(None, how, [f"{key}: {message}" if key else message for key, message in error.problems])
    wrong = _unfit(decision)
    return Decoded(None if wrong else decision, how, wrong)


def strict(text: str) -> Json:
    """A text that is one JSON object, perhaps in a code fence, and nothing else. ValueError says what it is instead."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        text = text[text.index("\n") + 1 : -3]
    if len(text) > LONGEST:
        raise ValueError(f"it has more than {LONGEST:,} characters")
    try:
        value: Any = json.loads(text, parse_constant=reject_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"it is no object: {visible(text[:80], keep_newlines=False)!r}")
    return value  # pyright: ignore[reportUnknownVariableType]


def _unfit(decision: ModelDecision) -> list[str]:
    """What a decision must be beyond its shape, before anybody looks at what it names."""
    wrong: list[str] = []
    if len(decision.planned_actions) > MOST_ACTIONS:
        wrong.append(f"planned_actions: at most {MOST_ACTIONS} at once")
    if len(decision.required_disclosure_paths) > MOST_PATHS:
        wrong.append(f"required_disclosure_paths: at most {MOST_PATHS} at once")
    for place, action in enumerate(decision.planned_actions):
        try:
            params = decode(PARAMS[action.type], action.params)
        except Invalid as error:
            wrong += [f"planned_actions[{place}].params.{key}: {said}" for key, said in error.problems]
            continue
        empty = [name for name in ("command", "question", "answer") if getattr(params, name, "-").strip() == ""]
        wrong += [f"planned_actions[{place}].params.{name}: is empty" for name in empty]
        if action.type == "finish" and place < len(decision.planned_actions) - 1:
            wrong.append(f"planned_actions[{place}]: nothing can follow on finish")
    if not decision.planned_actions and not decision.required_disclosure_paths and not decision.selected_skill:
        wrong.append("planned_actions: without a skill and without an action nothing would happen")
    return wrong


def reminder(problems: list[str]) -> str:
    """What the model is told once, when its decision did not fit."""
    listed = "\n".join(f"- {visible(one, keep_newlines=False)[:500]}" for one in problems[:20])
    return f"That was no decision that can be carried out:\n{listed}\n\nDecide again. {schema_in_words()}"
