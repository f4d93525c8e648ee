"""A SOP as it was read: its inputs and its steps; and what is wrong with a file that is none."""

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
"""Of a SOP, a step and an input."""


class Reference(NamedTuple):
    """An argument whose value is the output of an earlier step, or an input."""

    argument: str
    source: str
    is_input: bool = False


class Condition(NamedTuple):
    """What must be so for a step to run: a closed form, and no expression."""

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
    """Where it begins in its file; 0 where nobody knows."""
    tool: str = ""
    args: Json | None = None
    """Those that stand in the file as they are."""
    references: tuple[Reference, ...] = ()
    prompt: str = ""
    on_failure: OnFailure = "abort"
    when: tuple[Condition, ...] = ()
    needs: tuple[str, ...] = ()
    uses: tuple[str, ...] | None = None
    """The steps whose outputs an agent or an approver is shown; None: all before it."""
    tools: tuple[str, ...] | None = None
    """The tools of an agent; None: all of the session."""
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
        """Whether it needs the model that the configuration chooses: a step that names its own does not."""
        return any(step.kind == "agent" and not step.model for step in self.steps)

    @property
    def fingerprint(self) -> str:
        """Of all that it says, wherever it lies and however it is laid out."""
        return digest(repr((self.name, self.description, self.inputs, [_placeless(step) for step in self.steps])))


def _placeless(step: Step) -> dict[str, Any]:
    return {name: value for name, value in vars(step).items() if name != "line"}


class Problem(NamedTuple):
    """One thing wrong in a file."""

    line: int
    step: str
    """Its id, or its number where it has none; empty for the file as a whole."""
    message: str

    def shown(self, file: str) -> str:
        where = f"{file}:{self.line}" if self.line else file
        return f"{where}: step {self.step}: {self.message}" if self.step else f"{where}: {self.message}"


class InvalidSop(UsageError):
    """Carries every problem, not the first."""

    def __init__(self, file: str, problems: list[Problem]) -> None:
        self.file, self.problems = file, sorted(problems, key=lambda one: one.line)
        super().__init__("\n".join(one.shown(file) for one in self.problems))
