"""The tools by which a model reports the result of a goal or of a review, and so ends its turn."""

from typing import Any, NamedTuple, cast

from adderclaw.core.decode import Invalid
from adderclaw.core.host import ToolContext
from adderclaw.core.types import Json, Tool, ToolResult, Touch, fixed_prepare

MAX_TEXT = 200_000


class Result(NamedTuple):
    """The result of a goal, or of one persona's work on it."""

    achieved: bool
    summary: str
    outputs: dict[str, str]
    converged: bool = False
    """Whether the goal's loop has nothing left to do."""
    tool_calls: int = 0


class LoopSignal(NamedTuple):
    """What the result of a goal needs to know about its loop."""

    until: str
    """The condition that ends the loop, as a clause."""
    alone: bool
    """Whether the loop has only this goal, so that reaching it ends the loop."""


OUTCOMES = ("reached", "converged", "not_reached")
"""The outcomes of a goal in a loop of several goals."""


class GoalReport:
    """Receives the result of a child session through the tool GoalResult.

    `needed` means that the tool must be called, since a final text does not say whether the goal is reached. It is
    not needed in a LOOP, which can converge by other signs, nor for one view among several.
    """

    def __init__(self, outputs: tuple[str, ...], loop: LoopSignal | None, *, needed: bool) -> None:
        self.name = "GoalResult"
        self.outputs, self.loop, self.needed = outputs, loop, needed or bool(outputs)
        self.result: Result | None = None

    def tool(self) -> Tool[Any]:
        return Tool(
            name=self.name,
            arguments=dict,
            decode=self._decode,
            prepare=fixed_prepare(Touch(why="reports the result of the goal", inward=True), self._run),
            description="Report the result of the goal. This ends your work on it, so call it once, at the end.",
            parameters=schema(self.outputs, self.loop),
        )

    def _decode(self, arguments: Json) -> Json:
        """Validates the arguments against the schema and reports all problems at once."""
        wrong: list[tuple[str, str]] = []
        known = schema(self.outputs, self.loop)["properties"]
        wrong += [(key, f"no such field (known: {', '.join(known)})") for key in arguments if key not in known]
        if "outcome" in known:
            if arguments.get("outcome") not in OUTCOMES:
                wrong.append(("outcome", f"expected one of {', '.join(OUTCOMES)}"))
        elif not isinstance(arguments.get("achieved"), bool):
            wrong.append(("achieved", "expected true or false"))
        if not isinstance(arguments.get("summary"), str):
            wrong.append(("summary", "expected a text"))
        outputs: Any = arguments.get("outputs", {})
        if not isinstance(outputs, dict):
            wrong.append(("outputs", "expected an object with a value for each name"))
        elif arguments.get("achieved") is True or arguments.get("outcome") in ("reached", "converged"):
            wrong += [(f"outputs.{name}", "missing") for name in self.outputs if name not in outputs]
            strange = [str(name) for name in cast("Json", outputs) if name not in self.outputs]
            wrong += [(f"outputs.{name}", "no such output") for name in strange]
        if wrong:
            raise Invalid(wrong)
        return arguments

    async def _run(self, arguments: Json, _context: ToolContext) -> ToolResult:
        if self.result is not None:
            return ToolResult("You have already reported a result; only the first one counts.", ends=True, own=True)
        self.accept(arguments)
        return ToolResult("Result recorded.", ends=True, own=True)

    def accept(self, arguments: Json) -> None:
        """Sets the result from the arguments of the call."""
        outcome = arguments.get("outcome")
        achieved: bool = outcome != "not_reached" if outcome is not None else arguments["achieved"]
        ends = outcome == "converged" if outcome is not None else achieved and self.loop is not None and self.loop.alone
        self.result = Result(
            achieved=achieved,
            summary=arguments["summary"][:MAX_TEXT],
            outputs={str(name): _as_text(value) for name, value in arguments.get("outputs", {}).items()},
            converged=ends,
        )

    def missing(self) -> str | None:
        """The reminder for a session that ended without a needed result; None if nothing is missing."""
        if self.result is not None or not self.needed:
            return None
        if not self.outputs:
            return "You have not said whether the goal is reached. Call GoalResult now."
        return f"The result needs a value for each of: {', '.join(self.outputs)}. Call GoalResult now."


def schema(outputs: tuple[str, ...], loop: LoopSignal | None) -> Json:
    properties: Json = {
        **_outcome_field(loop),
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


def _outcome_field(loop: LoopSignal | None) -> Json:
    """The field that reports whether the goal is reached and, in a loop, whether another round follows."""
    if loop is None:
        return {"achieved": {"type": "boolean", "description": "Whether the goal is reached."}}
    if loop.alone:
        description = f"True when {loop.until}: that ends the loop. False: another round follows."
        return {"achieved": {"type": "boolean", "description": description}}
    description = (
        f"converged: {loop.until}, so the loop ends here. reached: this goal is done for this round, and the loop"
        " continues. not_reached: the goal cannot be reached."
    )
    return {"outcome": {"type": "string", "enum": list(OUTCOMES), "description": description}}


def _as_text(value: object) -> str:
    from adderclaw.core.json_text import canonical

    return (value if isinstance(value, str) else canonical(value))[:MAX_TEXT]


class ReviewVerdict:
    """Receives the verdict of a reviewer through the tool ReviewVerdict."""

    def __init__(self, approved: bool | None = None, comment: str = "") -> None:
        self.name = "ReviewVerdict"
        self.approved, self.comment = approved, comment

    def as_json(self) -> Json:
        return {"approved": self.approved, "comment": self.comment}

    @staticmethod
    def of(data: Json) -> "ReviewVerdict":
        return ReviewVerdict(data["approved"], data["comment"])

    def tool(self) -> Tool[Any]:
        return Tool(
            name=self.name,
            arguments=dict,
            decode=self._decode,
            prepare=fixed_prepare(Touch(why="reports the verdict of the review", inward=True), self._run),
            description="Report whether the result reaches the goal. This ends the review.",
            parameters={
                "type": "object",
                "properties": {
                    "approved": {"type": "boolean"},
                    "comment": {"type": "string", "description": "What is missing or wrong, if anything."},
                },
                "required": ["approved", "comment"],
                "additionalProperties": False,
            },
        )

    def _decode(self, arguments: Json) -> Json:
        wrong: list[tuple[str, str]] = []
        if not isinstance(arguments.get("approved"), bool):
            wrong.append(("approved", "expected true or false"))
        if not isinstance(arguments.get("comment"), str):
            wrong.append(("comment", "expected a text"))
        if wrong:
            raise Invalid(wrong)
        return arguments

    async def _run(self, arguments: Json, _context: ToolContext) -> ToolResult:
        self.accept(arguments)
        return ToolResult("Verdict recorded.", ends=True, own=True)

    def accept(self, arguments: Json) -> None:
        self.approved, self.comment = arguments["approved"], arguments["comment"][:20_000]

    def missing(self) -> str | None:
        return None if self.approved is not None else "You ended without a verdict. Call ReviewVerdict now."
