"""An endpoint as a value: its path, its scope, what it takes and gives. The API's description is made of them."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal

from adderclaw.record import NamedTuple, record

if TYPE_CHECKING:
    from starlette.requests import Request

    from adderclaw.channels.server.house import House

type Scope = Literal["read", "operate", "approve", "admin", "openai"]
"""What a token lets its client do: look; open and steer conversations and runs; answer questions; all that is left
(tokens, stop and its release); the OpenAI-compatible endpoints, and nothing else."""


class Client(NamedTuple):
    """Who calls, as its token has it."""

    id: str
    name: str
    scopes: frozenset[Scope]


class Called(NamedTuple):
    """One request that was let in: decoded, within its limits, of a client that has the scope."""

    client: Client
    house: "House"
    """All that this server holds."""
    given: Any
    """The body (or, for GET and DELETE, the query) as `Endpoint.takes` has it; None where that is None."""
    path: dict[str, str]
    """The parts of the path that have a name."""
    request: "Request"


@record
class Endpoint:
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    """With names in braces: `/conversations/{id}/messages`."""
    scope: Scope | None
    """None: whoever reaches the port may ask (`/health`, `/ready`, the login page)."""
    answer: Callable[[Called], "Awaitable[object]"]
    """A value of `gives`, which is sent as JSON; or a Response, which is sent as it is."""
    summary: str
    """One line for the API's description."""
    takes: type | None = None
    gives: Any = None
    """None: no JSON (a stream, a page, metrics)."""
    status: int = 200
    is_page: bool = False
    """A page for people: it is in no description of the API, and a browser without a login goes to the login page."""
