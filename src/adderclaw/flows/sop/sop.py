"""The records of a parsed SOP: its inputs, its steps, and the problems of an invalid file."""

import re
from typing import Any, Literal

from adderclaw.core.errors import UsageError
from adderclaw.core.json_text import digest
from adderclaw.core.record import NamedTuple, record
from adderclaw.core.types import Json

type Kind = Literal["tool", "agent", "approval"]
type OnFailure = Literal["abort", "continue"]
type Status = Literal["succeeded", "failed", "denied", "unknown", "skipped"]
type InputType = Literal["string", "integer", "number", "boolean"]

KINDS: tuple[Kind, ...] = ("tool", "agent", "approval")
ON_FAILURE: tuple[OnFailure, ...] = ("abort", "continue")
FILE = "SOP.toml"
FOLDER = "sops"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""The form of the name of a SOP, a step or an input."""


class Reference(NamedTuple):
    """An argument whose value is the output of an earlier step, or an input."""

    argument: str
    source: str
    is_input: bool = False


class Condition(NamedTuple):
    """A condition of a step: a fixed form, not an expression."""

    source: str
    is_input: bool
    test: Literal["is", "equals", "contains"]
    value: str
    negated: bool = False


@record
class Input:
    name: str
    type: InputType = "string"
    default: str | int | float | bool | None = None
    description: str = ""
    choices: tuple[str, ...] = ()

    @property
    def is_required(self) -> bool:
        return self.default is None


@record
class Step:
    id: str
    kind: Kind
    line: int = 0
    """The line where it begins in its file; 0 if unknown."""
    tool: str = ""
    args: Json | None = None
    """The arguments with fixed values."""
    references: tuple[Reference, ...] = ()
    prompt: str = ""
    on_failure: OnFailure = "abort"
    when: tuple[Condition, ...] = ()
    needs: tuple[str, ...] = ()
    uses: tuple[str, ...] | None = None
    """The steps whose outputs an agent or an approver is shown; None means all earlier steps."""
    tools: tuple[str, ...] | None = None
    """The tools of an agent; None means all tools of the session."""
    model: str = ""
    timeout: float | None = None
    retries: int = 0
    expires: float | None = None


@record
class Sop:
    file: str
    name: str
    description: str
    steps: tuple[Step, ...]
    inputs: tuple[Input, ...] = ()
    text: str = ""
    """The whole file."""

    @property
    def asks_a_model(self) -> bool:
        """Whether a step needs the configured model, because it does not name its own."""
        return any(step.kind == "agent" and not step.model for step in self.steps)

    @property
    def fingerprint(self) -> str:
        """The hash of its content, independent of its path and layout."""
        return digest(repr((self.name, self.description, self.inputs, [_without_line(step) for step in self.steps])))


def _without_line(step: Step) -> dict[str, Any]:
    return {name: value for name, value in vars(step).items() if name != "line"}


class Problem(NamedTuple):
    """A problem of a file."""

    line: int
    step: str
    """The step's id, or its number if it has none; empty for the file as a whole."""
    message: str

    def format(self, file: str) -> str:
        where = f"{file}:{self.line}" if self.line else file
        return f"{where}: step {self.step}: {self.message}" if self.step else f"{where}: {self.message}"


class InvalidSop(UsageError):
    """The file is invalid; the message lists all problems."""

    def __init__(self, file: str, problems: list[Problem]) -> None:
        self.file, self.problems = file, sorted(problems, key=lambda problem: problem.line)
        super().__init__("\n".join(problem.format(file) for problem in self.problems))
