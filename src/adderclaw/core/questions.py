"""What an operator is asked, an approval or a question with options, and what they answer."""

from collections.abc import Awaitable, Callable
from dataclasses import field
from typing import Any, Literal, Protocol

from adderclaw.core.record import NamedTuple, record
from adderclaw.core.tool_traits import ASK_USER
from adderclaw.core.types import Json, Risk

type Kind = Literal["call", "step"]
"""What waits for a yes: a tool call, or a step of a workflow that is there to ask a person and has no risk."""

type Ask = Callable[[str], Awaitable[str | None]]
"""Asks a person one question; None where nobody answers."""

MOST_GRANTED = 6_000
"""Of a request that "always" is offered for."""


@record
class ApprovalRequest:
    tool: str
    risk: Risk
    reason: str
    shown: str
    """What is being approved, whole and escaped: never shortened."""
    tool_use_id: str
    plan_hash: str = ""
    """Of the tool, its input and all that it would touch: the answer holds for exactly this."""
    grants: tuple[str, ...] = ()
    """Permission rules that would allow exactly this from now on; none where that cannot be said exactly."""
    id: str = ""
    """The row by which another process may answer."""
    at_terminal: bool = False
    """It may be asked because a person sits at the terminal: nobody else says yes to it (X-90)."""
    raw: bool = False
    """Nobody looks through the command: no hook and no rule says yes to it."""
    room: str = ""
    """What who is asked reads beside the reason: that is told and compared, this is not."""
    preview: str = ""
    """Of a file that would change: a unified diff, whole. It is shown instead of the input that says the same."""
    touches: tuple[str, ...] = ()
    """What it would read, write and reach, a line each."""
    input: Json = field(default_factory=dict[str, Any])
    """The call's input, for a program that is asked."""
    registries: tuple[str, ...] = ()
    """Package registries that its programs need, and that the operator may let the commands of this session reach."""
    stays: bool = False
    """With nobody there to answer it stays open: the run ends, and the one that resumes it finds the answer."""
    seconds: float | None = None
    """How long a question that stays may be answered; None: for ever."""
    kind: Kind = "call"

    @property
    def why(self) -> str:
        return f"{self.reason}; {self.room}" if self.room else self.reason


class Answer(NamedTuple):
    approved: bool
    by: str
    """Who answered: "operator", "no_operator", "timeout"."""
    comment: str = ""
    remember: Literal["", "session", "project", "user", "registries"] = ""
    """Whether the request's `grants` count from now on: in this session, in this project or everywhere, by a
    file of the operator's; or `registries`: the commands of this session reach those of the request."""
    who: str = ""
    """The person who answered, and on which channel; empty where nobody did."""
    approval_id: str = ""
    """The row of the question."""
    replies: "Replies | None" = None
    """To a question with options: what was chosen or written."""
    input: Json | None = None
    """What is to run in place of what was asked about: decoded and judged like any other."""
    updates: tuple[Json, ...] = ()
    """Changes of permissions that go with it, as `config.permissions.PermissionUpdate` has them."""


def reached(request: ApprovalRequest) -> Answer:
    """A yes that lets the commands of this session reach the registries of the request, where it has any."""
    if not request.registries:
        return Answer(approved=True, by="operator")
    comment = f"with {', '.join(request.registries)} for this session"
    return Answer(approved=True, by="operator", comment=comment, remember="registries")


def replied(replies: "Replies | None") -> Answer:
    """What an operator answers who was asked something; None: nobody was there to do it."""
    return Answer(replies is not None, "operator" if replies is not None else "no_operator", replies=replies)


@record
class Option:
    label: str
    description: str = ""
    preview: str = ""


@record
class Question:
    """What the model wants to know; whoever shows it offers an answer in own words beside the options."""

    question: str
    header: str
    options: tuple[Option, ...]
    multi: bool = False


type Replies = dict[str, str]
"""Question → the label that was chosen (several: comma-separated), or what the person wrote instead."""


@record
class QuestionRequest:
    """Questions that are asked together, and answered together."""

    questions: tuple[Question, ...]
    asker: str = ASK_USER
    """The tool, the MCP server or the part of the session that asks."""
    tool_use_id: str = ""
    """The call that asks, where it asks again after it was interrupted; empty where nobody would."""
    id: str = ""
    """The row by which another process may answer."""


class Operator(Protocol):
    """Whoever can answer an approval: a terminal, an HTTP, JSON-RPC or ACP client, or nobody."""

    async def approve(self, request: ApprovalRequest) -> Answer: ...
    async def ask(self, request: QuestionRequest) -> Answer:
        """What is answered, in `replies`; not approved where nobody is there to do it."""
        ...
