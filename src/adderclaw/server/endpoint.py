"""Endpoints as values: path, scope, parameters and result. The OpenAPI description is generated from them."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal

from adderclaw.config.paths import beneath
from adderclaw.core.record import NamedTuple, record

if TYPE_CHECKING:
    from starlette.requests import Request

    from adderclaw.server.state import ServerState

type Scope = Literal["read", "operate", "approve", "admin", "openai"]
"""What a token allows. read: look. operate: open and steer conversations and runs, answer their questions, set the
stop. approve: also answer questions of others. admin: all of these for everything, release the stop, change settings.
openai: only the OpenAI-compatible endpoints."""

SCOPES: tuple[Scope, ...] = ("read", "operate", "approve", "admin", "openai")

type Reach = Literal["filtered", "conversation", "run", "question", "checkpoint", "receipt", "schedule"]
"""How a token is restricted to its folders (`client_scope.require_folder`): with `filtered`, the handler shows and
opens only what is in them; with any other value, the path names something that must be in them."""

BODY_LIMIT = 1 << 20
"""Largest request body in bytes, unless the endpoint allows more."""


class Client(NamedTuple):
    """The caller, as described by its token."""

    id: str
    """The same for a token and for every browser login made with it."""
    name: str
    scopes: frozenset[Scope]
    folders: tuple[str, ...] = ()
    """Folders that the token is restricted to; empty: all folders of the server."""
    via: str = "http"
    """`http`, or `dashboard` for a browser login."""

    @property
    def who(self) -> str:
        """The name in receipts and rows."""
        return f"{self.name} over {self.via}" if self.via == "http" else f"{self.name} ({self.via})"

    def has(self, scope: Scope) -> bool:
        """`admin` holds read, operate and approve."""
        return scope in self.scopes or ("admin" in self.scopes and scope in ("read", "operate", "approve"))

    def sees(self, folder: str) -> bool:
        """Whether the client may see what happens in a folder. Folders restrict every scope, including admin."""
        return not self.folders or self._is_granted(folder)

    def steers(self, opened_by: str, folder: str) -> bool:
        """Whether the client may steer a conversation or run: it opened it, or it was granted the folder."""
        return self._is_granted(folder) or (not self.folders and (self.has("admin") or opened_by == self.id))

    def _is_granted(self, folder: str) -> bool:
        return any(beneath(folder, granted) for granted in self.folders)


NOBODY = Client("", "", frozenset())
"""The caller of an endpoint that needs no token."""


class ApiRequest(NamedTuple):
    """An authenticated request: decoded, within its limits, from a client with the required scope."""

    client: Client
    state: "ServerState"
    """The state of this server."""
    body: Any
    """The body (for GET and DELETE the query), decoded to `Endpoint.takes`; None if that is None."""
    path: dict[str, str]
    """The named parts of the path."""
    http: "Request"


@record
class Endpoint:
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    """Names are in braces: `/conversations/{id}/messages`."""
    scope: Scope | Literal["open"]
    """`open`: no token is needed (`/health`, `/ready`, the login page)."""
    answer: Callable[[ApiRequest], "Awaitable[object]"]
    """Returns a value of type `gives`, which is sent as JSON, or a Response. Raises a `Refusal` or another
    AdderClawError for an error response."""
    summary: str
    """One line for the API's description."""
    takes: type | None = None
    """The record of the parameters; None: it has none."""
    gives: Any = None
    """The type of the JSON result; None: no JSON (a stream, a page, metrics)."""
    status: int = 200
    reach: Reach | None = None
    """None: the request concerns the whole machine, so every token with folders is refused."""
    is_page: bool = False
    """A page for people: not part of the API description; a browser without a login is sent to the login page."""
    is_form: bool = False
    """The body comes from a form of a page (application/x-www-form-urlencoded), not as JSON."""
    is_signed: bool = False
    """The credential is a signature over the body: `answer` gets the raw bytes and checks the signature first."""
    body_limit: int = BODY_LIMIT
    """Largest body in bytes."""
    while_ending: bool = False
    """Also allowed while the server shuts down, because it starts nothing."""
    media_type: str = "application/json"
    """Media type of the response if `gives` is None; otherwise of the stream that it may return instead."""
