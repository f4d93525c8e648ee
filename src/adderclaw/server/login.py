"""A browser logs in: a token becomes a cookie that no script can read and no other site can send."""

from urllib.parse import urlsplit

from starlette.responses import RedirectResponse, Response

from adderclaw.core.record import NamedTuple, record
from adderclaw.server import authentication
from adderclaw.server.endpoint import Called, Endpoint
from adderclaw.server.pages.page import respond
from adderclaw.storage import clients

DAYS = 7 * 86_400.0
"""Seconds after which a browser logs in again; with a token that expires earlier, then."""


@record
class Asked:
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


async def page(called: Called) -> Response:
    return respond(called, "login.html", Output(called.given.next))


async def login(called: Called) -> Response:
    """The cookie is a token of its own, of the same client: it ends with that one, by logout, and after a week."""
    house, given, now = called.house, called.given, called.house.clock.now()
    row = clients.authenticate(house.store, house.key, given.token.strip(), now)
    if row is None or row.parent:
        authentication.failed(house)
        wrong = Output(_own_page(given.next), "The token is unknown, expired or revoked.")
        return respond(called, "login.html", wrong, 401)
    authentication.tell_let_in(house, called.request, authentication.client_of(row, "dashboard"))
    clients.delete_ended(house.store, now)
    made = clients.create(
        house.store,
        house.key,
        name=row.name,
        scopes=row.scopes,
        folders=row.folders,
        now=now,
        seconds=DAYS,
        parent=row.id,
    )
    answer = RedirectResponse(_own_page(given.next), 303)
    name = authentication.cookie_name(secure=house.secure)
    answer.set_cookie(
        name, made.token, max_age=int(DAYS), path="/", secure=house.secure, httponly=True, samesite="strict"
    )
    return answer


async def logout(called: Called) -> Response:
    """The login ends here and now, wherever its cookie was copied to."""
    house = called.house
    token, via = authentication.token_of(house, called.request)
    row = clients.authenticate(house.store, house.key, token, house.clock.now())
    if row is not None and row.parent and via == "dashboard":
        clients.revoke(house.store, row.id, house.clock.now())
    answer = RedirectResponse("/login", 303)
    name = authentication.cookie_name(secure=house.secure)
    answer.delete_cookie(name, path="/", secure=house.secure, httponly=True, samesite="strict")
    return answer


def _own_page(path: str) -> str:
    """A path on this server: no other host, however it is spelled."""
    parts = urlsplit(path) if path.isascii() and path.isprintable() and "\\" not in path else None
    plain = parts is not None and not parts.scheme and not parts.netloc and path.startswith("/")
    return path if plain and not path.startswith("//") else "/"


ENDPOINTS = (
    Endpoint("GET", "/login", "open", page, "The login page.", takes=Asked, is_page=True),
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
