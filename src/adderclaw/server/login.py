"""The login of browsers: exchanges a token for a cookie that scripts cannot read and other sites cannot send."""

from urllib.parse import urlsplit

from starlette.responses import RedirectResponse, Response

from adderclaw.core.record import NamedTuple, record
from adderclaw.server import authentication
from adderclaw.server.endpoint import ApiRequest, Endpoint
from adderclaw.server.pages.page import respond
from adderclaw.storage import clients

LOGIN_SECONDS = 7 * 86_400.0
"""Seconds after which a browser must log in again, unless its token expires earlier."""


@record
class LoginQuery:
    next: str = "/"
    """The page to go to after the login."""


class Output(NamedTuple):
    next: str
    wrong: str = ""


@record
class Login:
    token: str
    next: str = "/"
    """The page to go to."""


async def page(request: ApiRequest) -> Response:
    return respond(request, "login.html", Output(request.body.next))


async def login(request: ApiRequest) -> Response:
    """The cookie is a new token of the same client; it ends with the original, at logout, or after a week."""
    state, form, now = request.state, request.body, request.state.clock.now()
    row = clients.authenticate(state.store, state.key, form.token.strip(), now)
    if row is None or row.parent:
        authentication.note_failed_token(state)
        wrong = Output(_own_page(form.next), "The token is unknown, expired or revoked.")
        return respond(request, "login.html", wrong, 401)
    authentication.record_change_request(state, request.http, authentication.client_of(row, "dashboard"))
    clients.delete_ended(state.store, now)
    cookie_token = clients.create(
        state.store,
        state.key,
        name=row.name,
        scopes=row.scopes,
        folders=row.folders,
        now=now,
        seconds=LOGIN_SECONDS,
        parent=row.id,
    )
    answer = RedirectResponse(_own_page(form.next), 303)
    name = authentication.cookie_name(secure=state.secure)
    answer.set_cookie(
        name,
        cookie_token.token,
        max_age=int(LOGIN_SECONDS),
        path="/",
        secure=state.secure,
        httponly=True,
        samesite="strict",
    )
    return answer


async def logout(request: ApiRequest) -> Response:
    """Revoke the login, so that copies of its cookie are invalid, too."""
    state = request.state
    token, via = authentication.token_of(state, request.http)
    row = clients.authenticate(state.store, state.key, token, state.clock.now())
    if row is not None and row.parent and via == "dashboard":
        clients.revoke(state.store, row.id, state.clock.now())
    answer = RedirectResponse("/login", 303)
    name = authentication.cookie_name(secure=state.secure)
    answer.delete_cookie(name, path="/", secure=state.secure, httponly=True, samesite="strict")
    return answer


def _own_page(path: str) -> str:
    """The path if it is on this server, however it is spelled; otherwise `/`."""
    parts = urlsplit(path) if path.isascii() and path.isprintable() and "\\" not in path else None
    plain = parts is not None and not parts.scheme and not parts.netloc and path.startswith("/")
    return path if plain and not path.startswith("//") else "/"


ENDPOINTS = (
    Endpoint("GET", "/login", "open", page, "The login page.", takes=LoginQuery, is_page=True),
    Endpoint("POST", "/login", "open", login, "Log a browser in.", takes=Login, is_page=True, is_form=True),
    Endpoint(
        "POST",
        "/logout",
        "read",
        logout,
        "Log a browser out.",
        is_page=True,
        is_form=True,
        while_ending=True,
        reach="filtered",
    ),
)
