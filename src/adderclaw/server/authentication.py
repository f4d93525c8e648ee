"""Who may come in: every request passes here, once, before anything of it is read but its head."""

from http.cookies import CookieError, SimpleCookie
from math import ceil
from urllib.parse import quote, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from adderclaw.server.endpoint import NOBODY, Client, Endpoint
from adderclaw.server.refusal import Refusal
from adderclaw.server.state import ServerState
from adderclaw.storage import clients
from adderclaw.storage.clients import ClientRow

SAFE = ("GET", "HEAD")
"""Methods that change nothing."""


def cookie_name(*, secure: bool) -> str:
    """Under TLS the browser itself sees to it that no other host and no plain page can set it."""
    return "__Host-adderclaw" if secure else "adderclaw"


class LoginRequired(Exception):
    """A browser asks for a page and is not logged in."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(path)

    def response(self) -> Response:
        return RedirectResponse(f"/login?next={quote(self.path, safe='/')}", 303)


def check_host(state: ServerState, request: Request) -> None:
    """A name of ours alone: the page of a name that was rebound to this address carries its own (DNS rebinding)."""
    host_headers = request.headers.getlist("host")
    name = _hostname(host_headers[0]) if len(host_headers) == 1 else None
    if name is None or not _is_named(name, state.hosts):
        raise Refusal(421, "host", "this server is not called so: use one of " + ", ".join(sorted(state.hosts)))


def _hostname(host: str) -> str | None:
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
    except ValueError:
        return None
    if parts.username is not None or parts.path or parts.query or parts.fragment:
        return None
    return (parts.hostname or "").rstrip(".") or None


def _is_named(name: str, hosts: frozenset[str]) -> bool:
    return name in hosts or f"*.{name.partition('.')[2]}" in hosts


def check_origin(state: ServerState, request: Request, endpoint: Endpoint) -> None:
    """What a page of another origin asks is refused, with a token or without; a link to a page of ours is followed."""
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    if origin is not None and origin != own_origin(state, request):
        raise Refusal(403, "origin", "a page of another origin may ask nothing here")
    if site in (None, "same-origin", "none"):
        return
    follows = (
        request.headers.get("sec-fetch-mode") == "navigate" and request.headers.get("sec-fetch-dest") == "document"
    )
    if not (endpoint.is_page and endpoint.method in SAFE and follows):
        raise Refusal(403, "origin", "a page of another origin may ask nothing here")


def own_origin(state: ServerState, request: Request) -> str:
    return f"{'https' if state.secure else 'http'}://{request.headers['host']}"


def authenticate(state: ServerState, request: Request, endpoint: Endpoint) -> tuple[Client, ClientRow | None]:
    """The client, with the scope that the endpoint wants; Refusal or LoginFirst for everybody else."""
    check_host(state, request)
    check_origin(state, request, endpoint)
    if endpoint.is_signed:  # each address its own: nobody uses up what others have, before a signature is looked at
        require_rate(state, "address", peer_of(request))
        return NOBODY, None
    if endpoint.scope == "open":
        require_rate(state, "open", endpoint.path)
        return NOBODY, None
    token, via = token_of(state, request)
    row = clients.found(state.store, state.key, token, state.clock.now()) if token else None
    if row is None:
        if endpoint.is_page and endpoint.method in SAFE:
            raise LoginRequired(str(request.url.path))
        raise _refuse_token(state, has_token=bool(token))
    client = request.scope["adderclaw.client"] = client_of(row, via)
    if via == "dashboard" and endpoint.method not in SAFE:
        _require_own_page(request)
    require_rate(state, "client", client.id)
    if not client.has(endpoint.scope):
        raise Refusal(403, "scope", f"the token of {client.name} has no scope {endpoint.scope!r}")
    return client, row


def client_of(row: ClientRow, via: str) -> Client:
    from adderclaw.server.endpoint import SCOPES

    return Client(
        row.parent or row.id, row.name, frozenset(scope for scope in SCOPES if scope in row.scopes), row.folders, via
    )


def _require_own_page(request: Request) -> None:
    """A browser sends its cookie along by itself: what changes something must come from a page of ours (CSRF).

    That an origin, if there is one, is ours was looked at before.
    """
    if "origin" not in request.headers and request.headers.get("sec-fetch-site") != "same-origin":
        raise Refusal(403, "origin", "a login of a browser changes things from pages of this server alone")


def token_of(state: ServerState, request: Request) -> tuple[str, str]:
    """The token that was given, and how it came: in the header, or as the cookie of a browser that logged in."""
    if (header := request.headers.get("authorization")) is not None:
        kind, _, token = header.partition(" ")
        return (token.strip() if kind.lower() == "bearer" else "-"), "http"
    try:
        cookie = SimpleCookie(request.headers.get("cookie", "")).get(cookie_name(secure=state.secure))
    except CookieError:
        cookie = None
    return (cookie.value, "dashboard") if cookie is not None else ("", "http")


def _refuse_token(state: ServerState, *, has_token: bool) -> Refusal:
    asks = {"WWW-Authenticate": 'Bearer realm="adderclaw"'}
    if not has_token:
        require_rate(state, "open")
        fix = "send `Authorization: Bearer TOKEN`; `adderclaw token create` makes one"
        return Refusal(401, "token", f"this needs a token: {fix}", headers=asks)
    note_failed_token(state)
    return Refusal(401, "token", "the token is unknown, expired or revoked", headers=asks)


def note_failed_token(state: ServerState) -> None:
    """A token that is none: counted, and above the rate refused without a word about it."""
    require_rate(state, "failure")
    state.record_event(
        {"event_type": "client_refused", "client_id": "", "client": "", "method": "", "path": "", "code": "token"}
    )


def require_rate(state: ServerState, kind: str, who: str = "") -> None:
    if seconds := state.rates.wait(kind, who):
        wait = {"Retry-After": str(max(1, ceil(seconds)))}
        raise Refusal(429, "rate", f"too many requests: try again in {wait['Retry-After']} s", headers=wait)


def peer_of(request: Request) -> str:
    """The address that the connection came from."""
    return str(request.scope.get("extensions", {}).get("adderclaw.peer", ""))


def record_change_request(state: ServerState, request: Request, client: Client, conversation_id: str = "") -> None:
    """That a client asks for a change, before anything follows from it."""
    who = {"client_id": client.id, "client": client.name, "via": client.via}
    what = {"method": request.method, "path": request.url.path, "peer": peer_of(request)}
    state.record_event({"event_type": "client_request", **who, **what}, conversation_id)  # pyright: ignore[reportArgumentType]
