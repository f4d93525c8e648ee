"""Events in the life of the program, its sessions and its runs."""

from typing import Literal, NotRequired, TypedDict

from adderclaw.core.types import Json


class Startup(TypedDict):
    event_type: Literal["startup"]
    version: str
    pid: int
    profile: str


class ConfigLoaded(TypedDict):
    """The configuration was read. Problems with the files are separate `warning` events."""

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
    """The message if telemetry includes content, otherwise its length. Absent if a turn continues."""


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
    """Files that other programs execute later have appeared or changed."""

    event_type: Literal["changed_later"]
    message: str
    changes: list[dict[str, str]]
    """For each file its `path` and `change` (new or changed), `as` (import) if instructions import it, and the `answer`
    if the operator was asked."""
    tool_use_id: str
    """The call during which the change was found; empty at the start or end of a session."""


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
    """It failed because a person has to log in."""


class PluginLoaded(TypedDict):
    """A plugin is active in this session."""

    event_type: Literal["plugin_loaded"]
    plugin: str
    version: str
    sha256: str
    brings: dict[str, int]
    """The number of components by kind."""


class PluginHeld(TypedDict):
    """An enabled plugin differs from the trusted version, so it is inactive."""

    event_type: Literal["plugin_held"]
    plugin: str
    state: Literal["changed", "broken"]
    reason: str


class ClientRequest(TypedDict):
    """A server client was authorized to make a change. Written to disk before the change takes effect."""

    event_type: Literal["client_request"]
    client_id: str
    client: str
    via: str
    """http, or dashboard for a logged-in browser."""
    method: str
    path: str
    peer: str
    """The peer of a Unix socket as reported by the system: `pid 12 uid 1000`."""


class ClientRefused(TypedDict):
    """A client was refused a change, or its token is invalid."""

    event_type: Literal["client_refused"]
    client_id: str
    client: str
    method: str
    path: str
    code: str


class DeliveryReceived(TypedDict):
    """A signed request was received and claimed, but not processed yet."""

    event_type: Literal["delivery_received"]
    door: str
    """`trigger:NAME` or `channel:NAME`."""
    delivery_id: str
    sender: str
    peer: str


class DeliveryRefused(TypedDict):
    """A delivery was refused: unsigned, expired, repeated or from an unknown sender."""

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
