"""The session that a tool works for, as tools and drivers see it, and what stands there where there is none."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from adderclaw.core.child import Child, ChildReport
from adderclaw.core.errors import AdderClawError
from adderclaw.core.hook_outcome import NO_HOOKS, Merged
from adderclaw.core.questions import Answer, ApprovalRequest, QuestionRequest, replied
from adderclaw.core.types import Effort, Json, Tool, ToolResult


class Resources(Protocol):
    """The resources of MCP servers."""

    async def resources(self, server: str | None, *, soon: bool = False) -> tuple[list[Json], list[str]]:
        """Those of one server, or of all; and what is to be said of servers that could not be asked."""
        ...

    async def read(self, server: str, uri: str) -> ToolResult: ...


class Host(Protocol):
    """What a tool may want of the session that calls it. Where there is none, `NOBODY` answers."""

    @property
    def resources(self) -> Resources | None:
        """What MCP servers let be read; None where none is configured."""
        ...

    @property
    def has_model(self) -> bool: ...

    async def ask(self, request: QuestionRequest) -> Answer:
        """Ask the operator something."""
        ...

    async def approve(self, request: ApprovalRequest) -> Answer:
        """Ask the operator for a yes."""
        ...

    async def fire(self, event: str, fields: Json) -> Merged:
        """Run the hooks of an event."""
        ...

    async def spawn(self, order: Child) -> ChildReport:
        """Make a child session and run its turn. AdderClawError where none may be made."""
        ...

    async def call(self, name: str, given: Json, why: str, *, asked: bool = False) -> ToolResult:
        """Call a tool for a hook or a skill, beside the conversation; it is judged and recorded as any other call.

        Who wrote the hook or the skill has said yes to it; with `asked` the operator is asked as for the model's own.
        """
        ...

    async def ask_small_model(self, instructions: str, text: str, purpose: str, wanted: str) -> str:
        """Ask the small model, or the one that is wanted, beside the conversation; ProviderError or LimitError."""
        ...

    async def connecting(self) -> str:
        """Wait briefly for servers that are still starting; says which failed or have not answered yet, if any."""
        ...

    def say(self, message: str, attachments: list[str], status: str) -> None:
        """Show the operator a message while the turn goes on."""
        ...

    def tools(self) -> Mapping[str, Tool[Any]]:
        """The tools of the session that the model is told of."""
        ...

    @property
    def in_plan_mode(self) -> bool:
        """Whether the session is in the mode `plan`, which an approved plan ends."""
        ...

    def end_plan_mode(self) -> bool:
        """A plan was approved; False where the session stays read-only."""
        ...

    def lend(self, rules: Sequence[str], effort: Effort | None = None) -> list[str]:
        """Let permission rules, and how much the model thinks, count until the turn ends; gives back rules that do."""
        ...


class Nobody:
    """Stands where there is no session: everything can be explained, and nothing goes on."""

    resources: Resources | None = None
    has_model = False
    in_plan_mode = False

    async def ask(self, request: QuestionRequest) -> Answer:  # noqa: ARG002
        return replied(None)

    async def approve(self, request: ApprovalRequest) -> Answer:  # noqa: ARG002
        return Answer(approved=False, by="no_operator")

    async def fire(self, event: str, fields: Json) -> Merged:  # noqa: ARG002
        return NO_HOOKS

    async def spawn(self, order: Child) -> ChildReport:  # noqa: ARG002
        raise AdderClawError("there is no session that could begin a subagent")

    async def call(self, name: str, given: Json, why: str, *, asked: bool = False) -> ToolResult:  # noqa: ARG002
        raise AdderClawError("there is no session that could call a tool")

    async def ask_small_model(self, instructions: str, text: str, purpose: str, wanted: str) -> str:  # noqa: ARG002
        raise AdderClawError("there is no session whose model could be asked")

    async def connecting(self) -> str:
        return ""

    def say(self, message: str, attachments: list[str], status: str) -> None:  # noqa: ARG002
        raise AdderClawError("there is no session that could show it")

    def tools(self) -> Mapping[str, Tool[Any]]:
        return {}

    def end_plan_mode(self) -> bool:
        return False

    def lend(self, rules: Sequence[str], effort: Effort | None = None) -> list[str]:  # noqa: ARG002
        return []


NOBODY: Host = Nobody()
