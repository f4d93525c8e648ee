"""The only tool of a test generator: it submits a test and immediately learns why one is refused."""

import re
from typing import Any

from adderclaw.agent.session.session import Session
from adderclaw.core.host import ToolContext
from adderclaw.core.record import record
from adderclaw.core.types import Json, Tool, ToolResult, Touch, fixed_prepare, own_words, rejected
from adderclaw.flows.sdlc import check_python, check_shell
from adderclaw.flows.sdlc.check import LANGUAGES, MOST_CHARACTERS, Problem
from adderclaw.storage.sdlc import generated_tests
from adderclaw.storage.sdlc.criteria import Criterion
from adderclaw.storage.sdlc.plans import Plan

SUBMIT = "SubmitTest"
MOST = 4
"""Tests that one session may submit for a criterion."""
SHOWN = 8
"""Problems of a refused test that are listed."""
SAME = "the same text was submitted for {criterion}: exercise and assert what this criterion says, and nothing else"


@record
class SubmitArguments:
    criterion: str
    language: str
    content: str


def _same(session: Session, plan: Plan, arguments: SubmitArguments) -> str:
    """Another criterion that the same text was submitted for."""
    text = _bare(arguments.content)
    tests = generated_tests.tests(session.store, plan.id)
    return next(
        (
            test.criterion
            for test in tests
            if test.criterion != arguments.criterion and test.status != "returned" and _bare(test.content) == text
        ),
        "",
    )


def _bare(content: str) -> str:
    """Without comments and layout."""
    return " ".join(re.sub(r"(?m)(^|\s)#.*$", "", content).split())


def submit_tool(session: Session, plan: Plan, unproven: dict[str, Criterion]) -> Tool[Any]:
    """The tool for the criteria without a proved test, by id."""
    attempts: dict[str, int] = {}

    async def submit(arguments: SubmitArguments, context: ToolContext) -> ToolResult:
        if arguments.criterion not in unproven:
            return rejected(f"{arguments.criterion!r} is not an open criterion; these are: {', '.join(unproven)}")
        attempts[arguments.criterion] = attempts.get(arguments.criterion, 0) + 1
        if attempts[arguments.criterion] > MOST:
            return rejected(f"{MOST} tests were already submitted for {arguments.criterion}: continue with the next")
        problems = check_test(arguments.language, arguments.content)
        if other := _same(session, plan, arguments):
            problems = [Problem(0, SAME.format(criterion=other)), *problems]
        reasons = "; ".join(map(str, problems[:SHOWN]))
        with session.store.write() as cursor:
            generated_tests.submit(
                cursor,
                plan_id=plan.id,
                plan_hash=plan.hash,
                criterion=arguments.criterion,
                language=arguments.language if arguments.language in LANGUAGES else "sh",
                content=arguments.content,
                session_id=context.session_id,
                run_id=session.bus.run_id,
                refused=reasons,
            )
        if problems:
            return rejected(f"refused: {reasons}")
        return own_words(f"saved for {arguments.criterion}; it runs on the tree before the change when you are done")

    return Tool(
        SUBMIT,
        SubmitArguments,
        fixed_prepare(Touch(why="submits a test of the plan", inward=True), submit),
        "Submit one test for one criterion: the whole text of the file. It is checked immediately.",
        _SCHEMA,
    )


_SCHEMA: Json = {
    "type": "object",
    "properties": {
        "criterion": {"type": "string", "description": "The id of the criterion that it proves."},
        "language": {"type": "string", "enum": list(LANGUAGES)},
        "content": {"type": "string", "description": "The test: setup, exercise, assertions."},
    },
    "required": ["criterion", "language", "content"],
    "additionalProperties": False,
}


def check_test(language: str, text: str) -> list[Problem]:
    """Why the test is refused, in the order of its lines; empty if it may run."""
    if language not in LANGUAGES:
        return [Problem(0, f"a test must be written in {' or '.join(LANGUAGES)}, not in {language!r}")]
    if not text.strip():
        return [Problem(0, "it is empty")]
    if len(text) > MOST_CHARACTERS:
        return [Problem(0, f"it has {len(text)} characters; at most {MOST_CHARACTERS} are allowed")]
    if any(ord(letter) < 32 and letter not in "\n\t" for letter in text):
        return [Problem(0, "it contains control characters")]
    if language == "python":
        return check_python.problems(text)
    return check_shell.problems(text)
