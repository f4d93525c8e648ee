"""An endpoint as a value: its path, its scope, what it takes and gives. The API's description is made of them."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal

from adderclaw.config.paths import beneath
from adderclaw.core.record import NamedTuple, record

if TYPE_CHECKING:
    from starlette.requests import Request

    from adderclaw.server.state import ServerState

type Scope = Literal["read", "operate", "approve", "admin", "openai"]
"""What a token lets its client do: look; open conversations and runs, steer them, answer what they ask, and press stop;
answer what others ask, too; all of these for what others opened, and all that is left (release of the stop, settings);
the OpenAI-compatible endpoints, and nothing else."""

SCOPES: tuple[Scope, ...] = ("read", "operate", "approve", "admin", "openai")

type Reach = Literal["filtered", "conversation", "run", "question", "checkpoint", "receipt", "schedule"]
"""How a token is restricted to its folders (`visible.require_folder`): with `filtered`, the handler shows and opens
only what is in them; with any other value, the path names something that must be in them."""

BODY_LIMIT = 1 << 20
"""Bytes of a request's body, where its endpoint allows no more."""


class Client(NamedTuple):
    """Who calls, as its token has it."""

    id: str
    """The same for a token and for every browser that logged in with it."""
    name: str
    scopes: frozenset[Scope]
    folders: tuple[str, ...] = ()
    """Folders that it was granted; none: what the server offers."""
    via: str = "http"
    """http, or dashboard: a browser that logged in."""

    @property
    def who(self) -> str:
        """How receipts and rows name it."""
        return f"{self.name} over {self.via}" if self.via == "http" else f"{self.name} ({self.via})"

    def has(self, scope: Scope) -> bool:
        """`admin` holds read, operate and approve."""
        return scope in self.scopes or ("admin" in self.scopes and scope in ("read", "operate", "approve"))

    def sees(self, folder: str) -> bool:
        """Whether the client may see what happens in a folder. Folders restrict every scope, including admin."""
        return not self.folders or self._is_granted(folder)

    def steers(self, opened_by: str, folder: str) -> bool:
        """Whether it is an operator of a conversation or run: one that it opened, or in a folder it was granted."""
        return self._is_granted(folder) or (not self.folders and (self.has("admin") or opened_by == self.id))

    def _is_granted(self, folder: str) -> bool:
        return any(beneath(folder, granted) for granted in self.folders)


NOBODY = Client("", "", frozenset())
"""Who calls an endpoint that needs no token."""


class ApiRequest(NamedTuple):
    """One request that was let in: decoded, within its limits, of a client that has the scope."""

    client: Client
    state: "ServerState"
    """All that this server holds."""
    body: Any
    """The body (or, for GET and DELETE, the query) as `Endpoint.takes` has it; None where that is None."""
    path: dict[str, str]
    """The parts of the path that have a name."""
    http: "Request"


@record
class Endpoint:
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    """With names in braces: `/conversations/{id}/messages`."""
    scope: Scope | Literal["open"]
    """`open`: no token is needed (`/health`, `/ready`, the login page)."""
    answer: Callable[[ApiRequest], "Awaitable[object]"]
    """A value of `gives`, which is sent as JSON; or a Response, which is sent as it is.
    It raises a `Refusal` (or any error of ours) for an error answer."""
    summary: str
    """One line for the API's description."""
    takes: type | None = None
    """A record; None: nothing."""
    gives: Any = None
    """None: no JSON (a stream, a page, metrics)."""
    status: int = 200
    reach: Reach | None = None
    """None: the request concerns the whole machine, so every token with folders is refused."""
    is_page: bool = False
    """A page for people: it is in no description of the API, and a browser without a login goes to the login page."""
    is_form: bool = False
    """The body comes from a form of a page (application/x-www-form-urlencoded), not as JSON."""
    is_signed: bool = False
    """Its credential is a signature over the body: `answer` is given the bytes as they came, and checks it first."""
    body_limit: int = BODY_LIMIT
    """Bytes of its body at most."""
    while_ending: bool = False
    """A change that is also made while the server ends: it begins nothing."""
    media_type: str = "application/json"
    """Of the answer, for the API's description, where `gives` is None; else of a stream that it may be as well."""
