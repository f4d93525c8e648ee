"""Pages as values: a function reads the data, a template shows it inside the common frame."""

import asyncio
import hashlib
import os
import pkgutil
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import cache
from importlib import import_module, resources
from types import ModuleType
from typing import TYPE_CHECKING

from adderclaw.agent.view import markup
from adderclaw.core.record import NamedTuple
from adderclaw.server.client_scope import visible_folders
from adderclaw.server.endpoint import NOBODY, ApiRequest, Endpoint, Reach
from adderclaw.storage import approvals
from adderclaw.storage.approvals import Approval

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, Response

    from adderclaw.server.state import ServerState

MOST_QUESTIONS = 50
"""Questions that a page shows, or counts, at most."""
LONGEST = 400
"""The longest value of a query, in characters."""

markup.add_templates(__package__ or "")


class Entry(NamedTuple):
    """The entry of a page in the navigation."""

    position: int
    """The position in the navigation; a multiple of ten begins a group."""
    path: str
    name: str
    key: str
    """The shortcut: this key after `g`."""
    whole_machine: bool = False
    """Whether it is hidden from tokens with folders."""


def page_modules() -> Iterator[ModuleType]:
    """The modules of this package that have ENDPOINTS."""
    package = import_module(__package__ or "")
    for module_info in pkgutil.iter_modules(package.__path__):
        module = import_module(f"{package.__name__}.{module_info.name}")
        if hasattr(module, "ENDPOINTS"):
            yield module


@cache
def navigation() -> list[Entry]:
    return sorted(module.ENTRY for module in page_modules() if hasattr(module, "ENTRY"))


class Frame(NamedTuple):
    """The data for the parts around the content of a page."""

    entries: list[Entry]
    here: str
    """The path of the current entry."""
    waiting: int
    """Questions that wait for an answer."""
    stopped: bool
    may_stop: bool
    theme: str
    style: str
    script: str
    icon: str


def page[Output](
    path: str,
    read: Callable[[ApiRequest], Awaitable[Output]],
    template: str,
    summary: str,
    *,
    reach: Reach | None = "filtered",
) -> Endpoint:
    """The endpoint of a page. The template gets what `read` returns as `page`."""

    async def answer(request: ApiRequest) -> "HTMLResponse":
        return respond(request, template, await read(request))

    return Endpoint("GET", path, "read", answer, summary, is_page=True, reach=reach)


def respond(request: ApiRequest, template: str, output: object, status: int = 200) -> "HTMLResponse":
    from starlette.responses import HTMLResponse

    waiting = len(pending_questions(request)) if status == 200 and request.client is not NOBODY else 0
    text = markup.render(template, page=output, frame=_frame(request, waiting), client=request.client)
    return HTMLResponse(text, status)


def pending_questions(request: ApiRequest, conversation: str | None = None) -> list[Approval]:
    """The rows of open questions, oldest first: of one conversation, or of all that the client sees."""
    rows = approvals.listing(
        request.state.store,
        everything=False,
        limit=MOST_QUESTIONS,
        workspaces=visible_folders(request),
        conversation=conversation,
    )
    return [row for row in rows if row.state(time.time()) == "pending"]


def refusal_page(state: "ServerState", request: "Request", status: int, message: str) -> "HTMLResponse":
    """An error response as a page."""
    client = request.scope.get("adderclaw.client", NOBODY)
    return respond(ApiRequest(client, state, None, {}, request), "refused.html", message, status)


def _frame(request: ApiRequest, waiting: int) -> Frame:
    http, is_whole = request.http, not request.client.folders
    theme = http.cookies.get("theme", "")
    inside = [entry for entry in navigation() if http.url.path.startswith(entry.path)]
    return Frame(
        [entry for entry in navigation() if is_whole or not entry.whole_machine]
        if request.client is not NOBODY
        else [],
        max(inside, key=lambda entry: len(entry.path), default=navigation()[0]).path,
        waiting,
        request.state.stopped,
        is_whole,
        theme if theme in ("light", "dark") else "",
        *(address(file) for file in ("style.css", "app.js", "icon.svg")),
    )


# ------------------------------------------------------------------ reading


async def in_thread[T](read: Callable[[], T]) -> T:
    """Reads files and the database without blocking the event loop."""
    return await asyncio.to_thread(read)


def query_text(request: ApiRequest, name: str, known: Sequence[str] | None = None, default: str = "") -> str:
    """A value of the query; the default if it is not one of `known`."""
    value = str(request.http.query_params.get(name, "")).strip()[:LONGEST]
    return value if known is None or value in known else default


def query_number(request: ApiRequest, name: str) -> int | None:
    value = query_text(request, name)
    return int(value) if value.isascii() and value.isdigit() and len(value) < 16 else None


def shorten_home(path: str) -> str:
    """A path as people write it: `~` for the home of the account that runs the server."""
    own = os.path.expanduser("~").rstrip("/")
    return f"~{path[len(own) :]}" if own and (path == own or path.startswith(f"{own}/")) else path


# ------------------------------------------------------------------ static files


class Asset(NamedTuple):
    body: bytes
    media_type: str
    tag: str
    """The first characters of its SHA-256: its ETag, and the `v` of its address."""

    @property
    def etag(self) -> str:
        return f'"{self.tag}"'


FILES = {
    "style.css": (
        "text/css; charset=utf-8",
        (("adderclaw.agent.view", "style.css"), (__package__ or "", "shell.css"), (__package__ or "", "plots.css")),
    ),
    "app.js": ("text/javascript; charset=utf-8", ((__package__ or "", "app.js"),)),
    "icon.svg": ("image/svg+xml", ((__package__ or "", "icon.svg"),)),
}
"""Name → its media type, and the package files that are joined into it."""


@cache
def asset(name: str) -> Asset:
    media_type, parts = FILES[name]
    body = b"\n".join(resources.files(package).joinpath(file).read_bytes() for package, file in parts)
    return Asset(body, media_type, hashlib.sha256(body).hexdigest()[:16])


def address(name: str) -> str:
    """The address of a file in pages; changes with its content, so that browsers may cache it forever."""
    return f"/ui/{name}?v={asset(name).tag}"


def _serve(name: str) -> Endpoint:
    async def answer(request: ApiRequest) -> "Response":
        from starlette.responses import Response

        file = asset(name)
        known = request.http.query_params.get("v") == file.tag
        headers = {
            "ETag": file.etag,
            "Cache-Control": "public, max-age=31536000, immutable" if known else "no-cache",
            "X-Content-Type-Options": "nosniff",
        }
        if file.etag in request.http.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(file.body, media_type=file.media_type, headers=headers)

    return Endpoint("GET", f"/ui/{name}", "open", answer, f"The pages' {name}.", is_page=True)


ENDPOINTS = tuple(_serve(name) for name in FILES)
