"""How a model says what came of a goal: through a tool, whose call ends its turn."""

from typing import Any, NamedTuple, cast

from adderclaw.core.decode import Invalid
from adderclaw.core.types import Json, Tool, ToolContext, ToolResult, Touch, fixed_prepare

MAX_TEXT = 200_000


class Result(NamedTuple):
    """What came of a goal, or of one persona's work on it."""

    achieved: bool
    summary: str
    outputs: dict[str, str]
    converged: bool = False
    """Nothing is left to do in the loop that the goal stands in."""
    tool_calls: int = 0

    def as_json(self) -> Json:
        return self._asdict()

    @staticmethod
    def of(data: Json) -> "Result":
        return Result(**data)


class Loop(NamedTuple):
    """The loop that a goal is part of, as far as its result is concerned."""

    until: str
    """When the loop ends, as a clause."""
    alone: bool
    """The goal is the loop's only one: reaching it ends the loop."""


OUTCOMES = ("reached", "converged", "not_reached")
"""What a goal among others of a loop can come to."""


class Report:
    """Takes the one result of a child session.

    With `needed` only the tool counts: text that ends the session does not say whether the goal is reached. A LOOP
    needs none, since it converges by other signs, too, and neither does one view among several.
    """

    def __init__(self, outputs: tuple[str, ...], loop: Loop | None, *, needed: bool) -> None:
        self.name = "GoalResult"
        self.outputs, self.loop, self.needed = outputs, loop, needed or bool(outputs)
        self.result: Result | None = None

    def tool(self) -> Tool[Any]:
        return Tool(
            name=self.name,
            arguments=dict,
            decode=self._decode,
            prepare=fixed_prepare(Touch(why="says what came of the goal", inward=True), self._run),
            description="Say what came of the goal; this ends your work on it. Call it once, at the end.",
            parameters=schema(self.outputs, self.loop),
        )

    def _decode(self, given: Json) -> Json:
        """What the schema says, all problems at once."""
        wrong: list[tuple[str, str]] = []
        known = schema(self.outputs, self.loop)["properties"]
        wrong += [(key, f"no such field (known: {', '.join(known)})") for key in given if key not in known]
        if "outcome" in known:
            if given.get("outcome") not in OUTCOMES:
                wrong.append(("outcome", f"expected one of {', '.join(OUTCOMES)}"))
        elif not isinstance(given.get("achieved"), bool):
            wrong.append(("achieved", "expected true or false"))
        if not isinstance(given.get("summary"), str):
            wrong.append(("summary", "expected a text"))
        outputs: Any = given.get("outputs", {})
        if not isinstance(outputs, dict):
            wrong.append(("outputs", "expected an object with a value for each name"))
        elif given.get("achieved") is True or given.get("outcome") in ("reached", "converged"):
            wrong += [(f"outputs.{name}", "missing") for name in self.outputs if name not in outputs]
            strange = [str(name) for name in cast("Json", outputs) if name not in self.outputs]
            wrong += [(f"outputs.{name}", "no such output") for name in strange]
        if wrong:
            raise Invalid(wrong)
        return given

    async def _run(self, given: Json, _context: ToolContext) -> ToolResult:
        if self.result is not None:
            return ToolResult("The result is taken down already; it stands.", ends=True, own=True)
        self.take(given)
        return ToolResult("Taken down.", ends=True, own=True)

    def take(self, given: Json) -> None:
        """The result, as it was signalled."""
        outcome = given.get("outcome")
        achieved: bool = outcome != "not_reached" if outcome is not None else given["achieved"]
        ends = outcome == "converged" if outcome is not None else achieved and self.loop is not None and self.loop.alone
        self.result = Result(
            achieved=achieved,
            summary=given["summary"][:MAX_TEXT],
            outputs={str(name): _as_text(value) for name, value in given.get("outputs", {}).items()},
            converged=ends,
        )

    def missing(self) -> str | None:
        """What a session is asked that ended without the result or the values that it owes."""
        if self.result is not None or not self.needed:
            return None
        if not self.outputs:
            return "You have not said whether the goal is reached. Call GoalResult now."
        return f"The result needs a value for each of: {', '.join(self.outputs)}. Call GoalResult now."


def schema(outputs: tuple[str, ...], loop: Loop | None) -> Json:
    properties: Json = {
        **_signal(loop),
        "summary": {"type": "string", "description": "What was done and found, or why it cannot be reached."},
    }
    required = [*properties]
    if outputs:
        properties["outputs"] = {
            "type": "object",
            "description": "A value for each of these names.",
            "properties": {name: {"type": "string"} for name in outputs},
        }
        required.append("outputs")
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _signal(loop: Loop | None) -> Json:
    """The one field that says whether the goal is reached and, in a loop, whether another round follows."""
    if loop is None:
        return {"achieved": {"type": "boolean", "description": "Whether the goal is reached."}}
    if loop.alone:
        told = f"True when {loop.until}: that ends the loop. False: another round follows."
        return {"achieved": {"type": "boolean", "description": told}}
    told = (
        f"converged: {loop.until}, so the loop ends here. reached: this goal is done for this round, and the loop"
        " continues. not_reached: the goal cannot be reached."
    )
    return {"outcome": {"type": "string", "enum": list(OUTCOMES), "description": told}}


def _as_text(value: object) -> str:
    from adderclaw.core.json_text import canonical

    return (value if isinstance(value, str) else canonical(value))[:MAX_TEXT]


class Verdict:
    """Takes the one verdict of a reviewer."""

    def __init__(self, approved: bool | None = None, comment: str = "") -> None:
        self.name = "ReviewVerdict"
        self.approved, self.comment = approved, comment

    def as_json(self) -> Json:
        return {"approved": self.approved, "comment": self.comment}

    @staticmethod
    def of(data: Json) -> "Verdict":
        return Verdict(data["approved"], data["comment"])

    def tool(self) -> Tool[Any]:
        return Tool(
            name=self.name,
            arguments=dict,
            decode=self._decode,
            prepare=fixed_prepare(Touch(why="says what the review found", inward=True), self._run),
            description="Say whether the result reaches the goal; this ends the review.",
            parameters={
                "type": "object",
                "properties": {
                    "approved": {"type": "boolean"},
                    "comment": {"type": "string", "description": "What is missing or wrong, if it is."},
                },
                "required": ["approved", "comment"],
                "additionalProperties": False,
            },
        )

    def _decode(self, given: Json) -> Json:
        wrong: list[tuple[str, str]] = []
        if not isinstance(given.get("approved"), bool):
            wrong.append(("approved", "expected true or false"))
        if not isinstance(given.get("comment"), str):
            wrong.append(("comment", "expected a text"))
        if wrong:
            raise Invalid(wrong)
        return given

    async def _run(self, given: Json, _context: ToolContext) -> ToolResult:
        self.take(given)
        return ToolResult("Taken down.", ends=True, own=True)

    def take(self, given: Json) -> None:
        self.approved, self.comment = given["approved"], given["comment"][:20_000]

    def missing(self) -> str | None:
        return None if self.approved is not None else "You ended without a verdict. Call ReviewVerdict now."
