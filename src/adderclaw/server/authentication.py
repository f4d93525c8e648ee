"""Authenticates every request by its head, before its body is read."""

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
    """With TLS, the `__Host-` prefix makes the browser reject the cookie from other hosts and plain HTTP."""
    return "__Host-adderclaw" if secure else "adderclaw"


class LoginRequired(Exception):
    """A browser requested a page without a login."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(path)

    def response(self) -> Response:
        return RedirectResponse(f"/login?next={quote(self.path, safe='/')}", 303)


def check_host(state: ServerState, request: Request) -> None:
    """Require a Host header of this server, against DNS rebinding."""
    host_headers = request.headers.getlist("host")
    name = _hostname(host_headers[0]) if len(host_headers) == 1 else None
    if name is None or not _is_named(name, state.hosts):
        raise Refusal(421, "host", "the Host header names another server: use one of " + ", ".join(sorted(state.hosts)))


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
    """Refuse requests from pages of another origin, with or without a token; links to our pages are allowed."""
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    if origin is not None and origin != own_origin(state, request):
        raise Refusal(403, "origin", "requests from pages of another origin are not allowed")
    if site in (None, "same-origin", "none"):
        return
    follows = (
        request.headers.get("sec-fetch-mode") == "navigate" and request.headers.get("sec-fetch-dest") == "document"
    )
    if not (endpoint.is_page and endpoint.method in SAFE and follows):
        raise Refusal(403, "origin", "requests from pages of another origin are not allowed")


def own_origin(state: ServerState, request: Request) -> str:
    return f"{'https' if state.secure else 'http'}://{request.headers['host']}"


def authenticate(state: ServerState, request: Request, endpoint: Endpoint) -> tuple[Client, ClientRow | None]:
    """The client, if it has the endpoint's scope; otherwise raises Refusal or LoginRequired."""
    check_host(state, request)
    check_origin(state, request, endpoint)
    if (
        endpoint.is_signed
    ):  # limited per address, so that nobody uses up the limit of others before a signature is checked
        require_rate(state, "address", peer_of(request))
        return NOBODY, None
    if endpoint.scope == "open":
        require_rate(state, "open", endpoint.path)
        return NOBODY, None
    token, via = token_of(state, request)
    row = clients.authenticate(state.store, state.key, token, state.clock.now()) if token else None
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
    """Require that a change comes from a page of this server, because browsers send cookies by themselves (CSRF).

    `check_origin` has already checked the Origin header, if there is one.
    """
    if "origin" not in request.headers and request.headers.get("sec-fetch-site") != "same-origin":
        raise Refusal(403, "origin", "a browser login can make changes only from pages of this server")


def token_of(state: ServerState, request: Request) -> tuple[str, str]:
    """The token and where it came from: `http` for the header, `dashboard` for the cookie."""
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
    """Count and record an invalid token; refuse the request if there are too many."""
    require_rate(state, "failure")
    state.record_event(
        {"event_type": "client_refused", "client_id": "", "client": "", "method": "", "path": "", "code": "token"}
    )


def require_rate(state: ServerState, kind: str, who: str = "") -> None:
    if seconds := state.rates.wait(kind, who):
        wait = {"Retry-After": str(max(1, ceil(seconds)))}
        raise Refusal(429, "rate", f"too many requests: try again in {wait['Retry-After']} s", headers=wait)


def peer_of(request: Request) -> str:
    """The other end of the connection."""
    return str(request.scope.get("extensions", {}).get("adderclaw.peer", ""))


def record_change_request(state: ServerState, request: Request, client: Client, conversation_id: str = "") -> None:
    """Record that a client requests a change, before it is made."""
    who = {"client_id": client.id, "client": client.name, "via": client.via}
    what = {"method": request.method, "path": request.url.path, "peer": peer_of(request)}
    state.record_event({"event_type": "client_request", **who, **what}, conversation_id)  # pyright: ignore[reportArgumentType]
