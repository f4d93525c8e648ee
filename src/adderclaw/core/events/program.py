"""The life of the program, its sessions and its runs (seeds 001 and 002)."""

from typing import Literal, NotRequired, TypedDict

from adderclaw.core.types import Json


class Startup(TypedDict):
    event_type: Literal["startup"]
    version: str
    pid: int
    profile: str


class ConfigLoaded(TypedDict):
    """What is to be said of the files is a `warning` each."""

    event_type: Literal["config_path"]
    paths: list[str]


class WorkspaceChosen(TypedDict):
    event_type: Literal["workspace_path"]
    path: str
    reason: str


class ChannelStarted(TypedDict):
    event_type: Literal["channel_started"]
    channel: str


class ConversationStarted(TypedDict):
    event_type: Literal["conversation_started"]
    conversation_id: str
    session_id: str
    resumed: bool


class RunStarted(TypedDict):
    event_type: Literal["run_started"]
    mode: str
    task: str


class TurnStarted(TypedDict):
    event_type: Literal["turn_started"]
    text: NotRequired[str]
    """The message, where telemetry is asked for with content; else how long it is. None where a turn goes on."""


class TurnFinished(TypedDict):
    event_type: Literal["turn_finished"]
    outcome: str
    """Empty when it was interrupted."""


class LimitReached(TypedDict):
    event_type: Literal["limit_reached"]
    reason: str


class ContextCompacted(TypedDict):
    event_type: Literal["context_compacted"]
    trigger: str
    from_sequence: int
    to_sequence: int
    bytes_before: int
    bytes_after: int
    how: str


class MemoryPersisted(TypedDict):
    event_type: Literal["memory_persisted"]
    conversation_id: str
    entries: int


class EstopTriggered(TypedDict):
    event_type: Literal["estop_triggered"]
    reason: str


class SignalReceived(TypedDict):
    event_type: Literal["signal_received"]
    signal: str


class GracefulShutdownStarted(TypedDict):
    event_type: Literal["graceful_shutdown_started"]
    reason: str
    grace_seconds: float


class RunFinished(TypedDict):
    event_type: Literal["run_finished"]
    outcome: str
    mode: str
    steps: int
    tool_calls: int
    usage: Json
    cost: float | None
    reason: str


class RunFailed(TypedDict):
    event_type: Literal["run_failed"]
    outcome: str
    reason: str
    message: str


class Warned(TypedDict):
    event_type: Literal["warning"]
    message: str


class ChangedLater(TypedDict):
    """What other programs run later has appeared or changed."""

    event_type: Literal["changed_later"]
    message: str
    changes: list[dict[str, str]]
    """Of each its `path`, its `change` (new or changed), `as` (import) where instructions import it and, where the
    operator was asked, the `answer`."""
    tool_use_id: str
    """The call during which it was found; empty at a session's beginning or end."""


class Briefed(TypedDict):
    event_type: Literal["brief"]
    message: str
    attachments: list[str]
    status: str


class McpServer(TypedDict):
    event_type: Literal["mcp_server"]
    server: str
    state: Literal["starting", "ready", "failed", "closed", "changed", "pinned"]
    detail: str
    login: NotRequired[bool]
    """It failed since a person has to log in."""


class PluginLoaded(TypedDict):
    """A plugin counts in this session."""

    event_type: Literal["plugin_loaded"]
    plugin: str
    version: str
    sha256: str
    brings: dict[str, int]
    """How many of each kind of part."""


class PluginHeld(TypedDict):
    """A plugin that the operator has enabled is not as it was trusted: nothing of it counts."""

    event_type: Literal["plugin_held"]
    plugin: str
    state: Literal["changed", "broken"]
    reason: str


class ClientRequest(TypedDict):
    """A client of the server asks for a change and was let in: on disk before anything follows from it."""

    event_type: Literal["client_request"]
    client_id: str
    client: str
    via: str
    """http, or dashboard: a browser that logged in."""
    method: str
    path: str
    peer: str
    """Who is at the other end of a Unix socket, as the system has it: `pid 12 uid 1000`."""


class ClientRefused(TypedDict):
    """A client asked for a change and was refused, or came with a token that is none."""

    event_type: Literal["client_refused"]
    client_id: str
    client: str
    method: str
    path: str
    code: str


class DeliveryReceived(TypedDict):
    """A signed request came in and was claimed: nothing has begun with it yet."""

    event_type: Literal["delivery_received"]
    door: str
    """`trigger:NAME` or `channel:NAME`."""
    delivery_id: str
    sender: str
    peer: str


class DeliveryRefused(TypedDict):
    """A request to such a door was refused: unsigned, late, seen before, of an unknown sender."""

    event_type: Literal["delivery_refused"]
    door: str
    sender: str
    peer: str
    reason: str


type ProgramEvent = (
    Startup
    | ConfigLoaded
    | WorkspaceChosen
    | ChannelStarted
    | ConversationStarted
    | RunStarted
    | TurnStarted
    | TurnFinished
    | LimitReached
    | ContextCompacted
    | MemoryPersisted
    | EstopTriggered
    | SignalReceived
    | GracefulShutdownStarted
    | RunFinished
    | RunFailed
    | Warned
    | ChangedLater
    | Briefed
    | McpServer
    | PluginLoaded
    | PluginHeld
    | ClientRequest
    | ClientRefused
    | DeliveryReceived
    | DeliveryRefused
)
