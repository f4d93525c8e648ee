"""The items: words, tool calls with their verdict and output, changes of files, lists, notices."""

from typing import Literal

from adderclaw.core.record import NamedTuple, record
from adderclaw.core.types import Json

type State = Literal["waiting", "asked", "running", "ran", "failed", "denied", "unknown"]
"""Of a call. failed: it ran and came back with an error; unknown: it was interrupted before it came back."""

ENDED: frozenset[State] = frozenset({"ran", "failed", "denied", "unknown"})


class Line(NamedTuple):
    """One line of a change."""

    kind: Literal[" ", "+", "-", "@"]
    """Kept, added, removed; @ stands where lines were left out, and its text says more where there is more to say."""
    number: int
    """Of the file as it is now; of a removed line, as it was."""
    text: str


@record
class Change:
    """What a call changed in a file."""

    path: str
    lines: tuple[Line, ...]

    @property
    def added(self) -> int:
        return sum(line.kind == "+" for line in self.lines)

    @property
    def removed(self) -> int:
        return sum(line.kind == "-" for line in self.lines)


class Todo(NamedTuple):
    text: str
    status: Literal["pending", "in_progress", "completed"]


@record
class Child:
    """A subagent as its parent's call shows it."""

    session_id: str
    kind: str
    calls: int = 0
    last: str = ""
    """Its latest call, in short."""
    outcome: str = ""


@record
class Words:
    """A message of a person or of the model."""

    key: str
    role: Literal["user", "assistant"]
    text: str
    at: str = ""
    sequence: int = 0


@record
class Call:
    """One tool call, as far as it has come."""

    key: str
    """The call's id."""
    session_id: str
    tool: str
    argument: str
    """The one thing that tells it from others, in one line."""
    input: Json
    state: State = "waiting"
    by: str = ""
    """Who decided: a rule, the mode, the operator …"""
    why: str = ""
    asked: bool = False
    comment: str = ""
    """What the operator wrote beside the answer."""
    seconds: float | None = None
    exit_code: int | None = None
    """Of a command that ran and returned something else than 0."""
    output: str = ""
    change: Change | None = None
    todos: tuple[Todo, ...] = ()
    child: Child | None = None
    progress: str = ""
    """What a server says of a call that runs."""
    receipt: int | None = None
    at: str = ""
    sequence: int = 0

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    @property
    def verdict(self) -> str:
        """What became of it and why, in words: the only place that says it."""
        match self.state:
            case "waiting":
                return "…"
            case "asked":
                return f"asks: {self.why}" if self.why else "asks"
            case "denied":
                who = f"denied by {self.by or 'the gate'}"
                return f"{who}: {self.comment or self.why}" if self.comment or self.why else who
            case "running":
                done = "runs"
            case "unknown":
                done = "interrupted, outcome unknown"
            case ended:
                done = f"{ended}, exit {self.exit_code}" if self.exit_code else ended
        return f"{done} · asked, yes by {self.by}" if self.asked else done


@record
class Notice:
    """Something that the person should know."""

    key: str
    kind: Literal["note", "warning", "error"]
    text: str
    at: str = ""
    sequence: int = 0


type Item = Words | Call | Notice
