"""The session as seen by its tools and drivers, the stand-in used if there is no session, and a call's context."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from adderclaw.core.child import ChildReport, ChildRequest
from adderclaw.core.errors import AdderClawError
from adderclaw.core.hook_outcome import NO_HOOKS, HookOutcome
from adderclaw.core.questions import Answer, ApprovalRequest, QuestionRequest, answer_with
from adderclaw.core.record import mutable_record
from adderclaw.core.types import Effort, Json, Tool, ToolResult, Workspace


class Resources(Protocol):
    """The resources of MCP servers."""

    async def resources(self, server: str | None, *, soon: bool = False) -> tuple[list[Json], list[str]]:
        """The resources of one server or of all, and messages about servers that could not be reached."""
        ...

    async def read(self, server: str, uri: str) -> ToolResult: ...


class Host(Protocol):
    """What a tool may request from the session that calls it. `NO_SESSION` is used if there is no session."""

    @property
    def resources(self) -> Resources | None:
        """The resources of MCP servers; None if no server is configured."""
        ...

    @property
    def has_model(self) -> bool: ...

    async def ask(self, request: QuestionRequest) -> Answer:
        """Ask the operator questions."""
        ...

    async def approve(self, request: ApprovalRequest) -> Answer:
        """Ask the operator for approval."""
        ...

    async def run_hooks(self, event: str, fields: Json) -> HookOutcome:
        """Run the hooks of an event."""
        ...

    async def spawn(self, order: ChildRequest) -> ChildReport:
        """Create a child session and run its turn; raises AdderClawError if that is not allowed."""
        ...

    async def call_tool(self, name: str, arguments: Json, why: str, *, asked: bool = False) -> ToolResult:
        """Call a tool for a hook or a skill, outside the conversation. The call is judged and recorded like any other.

        The author of the hook or skill counts as having approved it; with `asked` the operator is asked as usual.
        """
        ...

    async def ask_small_model(self, instructions: str, text: str, purpose: str, model: str) -> str:
        """Ask the small model, or `model`, outside the conversation; raises ProviderError or LimitError."""
        ...

    async def wait_for_servers(self) -> str:
        """Wait briefly for starting servers; returns a message about those that failed or are not ready, if any."""
        ...

    def show_message(self, message: str, attachments: list[str], status: str) -> None:
        """Show the operator a message during the turn."""
        ...

    def tools(self) -> Mapping[str, Tool[Any]]:
        """The session's tools that are advertised to the model."""
        ...

    @property
    def in_plan_mode(self) -> bool:
        """Whether the session is in plan mode, which ends when a plan is approved."""
        ...

    def end_plan_mode(self) -> bool:
        """Leave plan mode after a plan was approved; returns False if the session stays read-only."""
        ...

    def grant_for_turn(self, rules: Sequence[str], effort: Effort | None = None) -> list[str]:
        """Apply permission rules and a thinking effort until the turn ends; returns the rules that were applied."""
        ...


class NoSession:
    """Used if there is no session: calls can be explained, but nothing runs."""

    resources: Resources | None = None
    has_model = False
    in_plan_mode = False

    async def ask(self, request: QuestionRequest) -> Answer:  # noqa: ARG002
        return answer_with(None)

    async def approve(self, request: ApprovalRequest) -> Answer:  # noqa: ARG002
        return Answer(approved=False, by="no_operator")

    async def run_hooks(self, event: str, fields: Json) -> HookOutcome:  # noqa: ARG002
        return NO_HOOKS

    async def spawn(self, order: ChildRequest) -> ChildReport:  # noqa: ARG002
        raise AdderClawError("a subagent needs a session: run this from a conversation")

    async def call_tool(self, name: str, arguments: Json, why: str, *, asked: bool = False) -> ToolResult:  # noqa: ARG002
        raise AdderClawError("a tool call needs a session: run this from a conversation")

    async def ask_small_model(self, instructions: str, text: str, purpose: str, model: str) -> str:  # noqa: ARG002
        raise AdderClawError("a model call needs a session: run this from a conversation")

    async def wait_for_servers(self) -> str:
        return ""

    def show_message(self, message: str, attachments: list[str], status: str) -> None:  # noqa: ARG002
        raise AdderClawError("showing a message needs a session: run this from a conversation")

    def tools(self) -> Mapping[str, Tool[Any]]:
        return {}

    def end_plan_mode(self) -> bool:
        return False

    def grant_for_turn(self, rules: Sequence[str], effort: Effort | None = None) -> list[str]:  # noqa: ARG002
        return []


NO_SESSION: Host = NoSession()


@mutable_record
class ToolContext:
    """What a tool knows about the session and about the call that it prepares. Each call has its own context.

    Anything else that a tool needs is bound when the tool is created.
    """

    conversation_id: str
    session_id: str
    workspace: Workspace
    files_read: dict[str, str] = field(default_factory=dict[str, str])
    """Real path → hash of the content that the model has seen; checked by Edit and Write."""
    free_reads: bool = False
    """The operator runs the tool directly (`--eval`), so it may read outside the workspace."""
    called_as: str = ""
    """The tool name in the call, which may be an alias."""
    tool_use_id: str = ""
    """The id of the call."""
    rewritten: bool = False
    """A hook replaced the input that the model wrote."""
    approved: bool = False
    """A person approved this call."""
    is_hidden: Callable[[str], bool] = lambda _path: False
    """Whether a file that a search encounters may not be read. Its content is then not shown."""
    is_write_protected: Callable[[str], bool] = lambda _path: False
    """Whether a rule denies reading or changing a file. Folders that contain such a file are not deleted either."""
    outputs_folder: str = ""
    """The folder with this session's long outputs. Read, Grep and LS may read it; no tool may write there."""
    readable_folders: tuple[str, ...] = ()
    """Folders of skills and trusted plugins outside the workspace that tools may read."""
    store_output: Callable[[str], str | None] = lambda _text: None
    """Stores a text that is too long to show in full. Returns the path to Read it by, or None if nothing is stored."""
    live_output: dict[str, Callable[[], bytes]] = field(default_factory=dict[str, Callable[[], bytes]])
    """Id of a running call → a function that returns the last complete lines of its output, for live display."""
    host: Host = NO_SESSION
    """The session that calls the tool."""
