"""Approval requests and questions to the operator, and their answers."""

from collections.abc import Awaitable, Callable
from dataclasses import field
from typing import Any, Literal, Protocol

from adderclaw.core.record import NamedTuple, record
from adderclaw.core.tool_traits import ASK_USER
from adderclaw.core.types import Json, Risk

type Kind = Literal["call", "step"]
"""What needs approval: a tool call, or a workflow step whose only purpose is to ask a person."""

type Ask = Callable[[str], Awaitable[str | None]]
"""Asks a person one question; returns None if nobody answers."""

MOST_GRANTED = 6_000
"""Maximum length of a request for which "always" is offered."""


@record
class ApprovalRequest:
    tool: str
    risk: Risk
    reason: str
    shown: str
    """What is being approved, escaped and complete; never shortened."""
    tool_use_id: str
    plan_hash: str = ""
    """Hash of the tool, its input and everything it would touch. The answer applies only to exactly this."""
    grants: tuple[str, ...] = ()
    """Permission rules that would allow exactly this in future; empty if no rule is that exact."""
    id: str = ""
    """Id of the row through which another process may answer."""
    at_terminal: bool = False
    """Only the person at the terminal may approve it; hooks and remote clients may not."""
    raw: bool = False
    """The command could not be analyzed, so no hook or rule may approve it."""
    room: str = ""
    """Additional text for the person who is asked. Unlike the reason, it is neither recorded nor compared."""
    preview: str = ""
    """The complete unified diff of a file that would change, shown instead of the equivalent input."""
    touches: tuple[str, ...] = ()
    """What it would read, write and connect to, one line each."""
    input: Json = field(default_factory=dict[str, Any])
    """The input of the call, for programs that answer requests."""
    registries: tuple[str, ...] = ()
    """Package registries that its programs need and that the operator may allow for this session."""
    stays: bool = False
    """If nobody is there to answer, the question stays open: the run ends, and a resumed run uses the answer."""
    seconds: float | None = None
    """Seconds during which an open question may be answered; None for no limit."""
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
    """Where the request's `grants` apply in future: this session, this project or all projects (in a file of the
    operator's); or `registries`: commands of this session may reach the registries of the request."""
    who: str = ""
    """The person who answered and the channel; empty if nobody did."""
    approval_id: str = ""
    """Id of the question's row."""
    replies: "Replies | None" = None
    """The choices or texts that answer a question with options."""
    input: Json | None = None
    """Input that replaces the call's input; it is decoded and judged like any other."""
    updates: tuple[Json, ...] = ()
    """Permission changes in the form of `config.permissions.PermissionUpdate`."""


def approval_with_registries(request: ApprovalRequest) -> Answer:
    """An approval that also allows this session's commands to reach the request's registries, if it has any."""
    if not request.registries:
        return Answer(approved=True, by="operator")
    comment = f"with {', '.join(request.registries)} for this session"
    return Answer(approved=True, by="operator", comment=comment, remember="registries")


def answer_with(replies: "Replies | None") -> Answer:
    """The answer to a question; `replies` is None if nobody was there to answer."""
    return Answer(replies is not None, "operator" if replies is not None else "no_operator", replies=replies)


@record
class Option:
    label: str
    description: str = ""
    preview: str = ""


@record
class Question:
    """A question from the model. Clients also offer a free-text answer in addition to the options."""

    question: str
    header: str
    options: tuple[Option, ...]
    multi: bool = False


type Replies = dict[str, str]
"""Question → the chosen label (several are comma-separated), or the text that the person entered instead."""


@record
class QuestionRequest:
    """Questions that are asked and answered together."""

    questions: tuple[Question, ...]
    asker: str = ASK_USER
    """The tool, MCP server or part of the session that asks."""
    tool_use_id: str = ""
    """Id of the asking call if it would ask again after an interruption; otherwise empty."""
    id: str = ""
    """Id of the row through which another process may answer."""


class Operator(Protocol):
    """Answers approvals and questions: a terminal, an HTTP, JSON-RPC or ACP client, or nobody."""

    async def approve(self, request: ApprovalRequest) -> Answer: ...
    async def ask(self, request: QuestionRequest) -> Answer:
        """The answer, in `replies`; not approved if nobody is there to answer."""
        ...
