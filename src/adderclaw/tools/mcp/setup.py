"""What connections to MCP servers need from the session, and the errors that they raise."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from adderclaw.config.servers import Entry
from adderclaw.core.errors import AdderClawError
from adderclaw.core.events import Body
from adderclaw.core.redaction import Secrets
from adderclaw.core.types import Clock, Json

if TYPE_CHECKING:
    from adderclaw.sandbox.process import Starter
    from adderclaw.tools.mcp.fetches import Fetch


class LoginNeeded(AdderClawError):
    """A server requires a login by a person."""

    def __init__(self, server: str) -> None:
        super().__init__(f"it needs a login: `adderclaw mcp login {server}`")


class Unavailable(AdderClawError):
    """The server cannot be used now; the message says why and what to do."""


class Elicit(Protocol):
    """Asks the operator something for a server: (server, the event's fields) → `{action, content}`."""

    async def __call__(self, server: str, question: Json, /) -> Json: ...


class Sample(Protocol):
    """Samples the model for a server: (server, system prompt, (role, text)…, most tokens) → (text, model, is cut)."""

    async def __call__(
        self, server: str, system: str, messages: list[tuple[str, str]], tokens: int, /
    ) -> tuple[str, str, bool]: ...


@dataclass(eq=False, repr=False)
class ConnectionSetup:
    """What connections need from the session; the composition root builds it."""

    clock: Clock
    secrets: Secrets
    tell: Callable[[Body], None]
    roots: tuple[str, ...]
    """The workspace and its extra directories."""
    start: "Starter | None" = None
    """Starts a child in the session's sandbox."""
    allowed: tuple[str, ...] = ()
    """Hosts besides the server's own that may be private or on an unusual port (security.allowed_domains)."""
    login: Callable[[Entry, str], Awaitable[Any]] | None = None
    """(server, its URL) → an httpx2 `Auth` with the stored login; None without one."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Environment variables from the settings for servers in the sandbox."""
    elicit: Elicit | None = None
    sample: Sample | None = None
    start_fetched: "Starter | None" = None
    """Starts servers that are downloaded first, where commands cannot change the download."""
    fetch: "Callable[[Entry], Fetch | None]" = lambda _entry: None
    """The package that must be downloaded before a server can start, if any."""
