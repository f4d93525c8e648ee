"""The items of a conversation: messages, tool calls with verdict, output and changes, and notices."""

from typing import Literal

from adderclaw.core.record import NamedTuple, record
from adderclaw.core.types import Json

type State = Literal["waiting", "asked", "running", "ran", "failed", "denied", "unknown"]
"""The state of a call. failed: it ran and returned an error; unknown: it was interrupted before it returned."""

ENDED: frozenset[State] = frozenset({"ran", "failed", "denied", "unknown"})


class Line(NamedTuple):
    """One line of a change."""

    kind: Literal[" ", "+", "-", "@"]
    """Unchanged, added or removed; @ marks lines that were left out, with an optional text."""
    number: int
    """The line number in the file as it is now; for a removed line, as it was."""
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
    """One tool call in its current state."""

    key: str
    """The call's id."""
    session_id: str
    tool: str
    argument: str
    """Its main argument, in one line."""
    input: Json
    state: State = "waiting"
    by: str = ""
    """What decided: a rule, the mode, the operator …"""
    why: str = ""
    asked: bool = False
    comment: str = ""
    """What the operator wrote with the answer."""
    seconds: float | None = None
    exit_code: int | None = None
    """The exit code of a command, if it is not 0."""
    output: str = ""
    change: Change | None = None
    todos: tuple[Todo, ...] = ()
    child: Child | None = None
    progress: str = ""
    """The progress that an MCP server reports while the call runs."""
    receipt: int | None = None
    at: str = ""
    sequence: int = 0

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    @property
    def verdict(self) -> str:
        """The state and its reason as text. No other code words it."""
        match self.state:
            case "waiting":
                return "…"
            case "asked":
                return f"asks: {self.why}" if self.why else "asks"
            case "denied":
                who = f"denied by {self.by or 'the policy'}"
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
    """A message to the person that is not part of the conversation."""

    key: str
    kind: Literal["note", "warning", "error"]
    text: str
    at: str = ""
    sequence: int = 0


type Item = Words | Call | Notice
