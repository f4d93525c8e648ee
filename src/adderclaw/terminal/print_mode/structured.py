"""Structured answers: requested in the prompt, checked against a JSON Schema, retried once."""

import json
import re
from typing import cast

from adderclaw.agent.loop.loop import run_turn
from adderclaw.agent.session import prompt
from adderclaw.agent.session.session import Session, TurnResult
from adderclaw.config.foreign import json_schema as schemas
from adderclaw.core.errors import UsageError
from adderclaw.core.json_text import canonical, reject_constant
from adderclaw.core.types import Json, OnDelta

FENCE = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n?```\s*", re.DOTALL)
MISFIT = "the answer does not match --json-schema, even after a second attempt"
REQUEST = (
    "Your last message must be one JSON value and nothing else: no words before or after it, no code fence. "
    "It must match this JSON Schema:\n{schema}"
)
RETRY = "Your last message does not match the JSON Schema: {problems}. Answer with the corrected JSON value alone."


class Shape:
    """The shape that `--json-schema` asks for."""

    def __init__(self, text: str) -> None:
        try:
            value: object = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"--json-schema: invalid JSON ({error})") from None
        if not isinstance(value, dict):
            raise UsageError('--json-schema: expected a JSON object such as {"type": "object", "properties": {…}}')
        self.schema = cast(Json, value)
        if why := schemas.schema_problem(self.schema):
            raise UsageError(f"--json-schema: cannot be used as a JSON Schema: {why}")

    def ask(self, session: Session) -> None:
        """Adds the request for the shape to the prompt."""
        now = session.prompt
        session.prompt = prompt.make_prompt(
            f"{now.system}\n\n{REQUEST.format(schema=canonical(self.schema))}", now.tools
        )

    async def parse(self, session: Session, result: TurnResult, on_delta: OnDelta) -> TurnResult:
        """Parses the value of an answer; asks once more if it does not fit."""
        if result.outcome != "completed":
            return result
        if why := self._mismatch(result.answer):
            again = await run_turn(session, RETRY.format(problems=why), on_delta, single=True)
            if again.outcome != "completed":
                return again
            result = again
            if why := self._mismatch(result.answer):
                return TurnResult("error", result.answer, f"{MISFIT}: {why}", ended_by="shape")
        value = json.loads(_without_fence(result.answer))
        return result._replace(answer=canonical(value), details={"structured_output": value})

    def _mismatch(self, answer: str) -> str:
        try:
            value: object = json.loads(_without_fence(answer), parse_constant=reject_constant)
        except (ValueError, RecursionError) as error:
            return f"it is not valid JSON ({error})"
        return "; ".join(schemas.problems(self.schema, value))


def _without_fence(answer: str) -> str:
    """The text without the Markdown fence that models often add."""
    fenced = FENCE.fullmatch(answer)
    return fenced[1] if fenced is not None else answer
