"""The ASGI application: collects the endpoints and handles every request in the same steps."""

import asyncio
from collections.abc import Coroutine, Iterable
from importlib import import_module
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from adderclaw.core.errors import AdderClawError
from adderclaw.core.json_text import to_json
from adderclaw.server import authentication, body, client_scope, openapi
from adderclaw.server.endpoint import NOBODY, ApiRequest, Client, Endpoint
from adderclaw.server.pages.page import page_modules as pages
from adderclaw.server.pages.page import refusal_page
from adderclaw.server.refusal import Refusal, refusal_for, shutting_down
from adderclaw.server.state import ServerState
from adderclaw.storage import clients
from adderclaw.storage.clients import ClientRow
from adderclaw.storage.text import compact

MODULES = (
    "basics",
    "chat",
    "conversations",
    "rewind_routes",
    "runs",
    "sops",
    "schedules",
    "answers",
    "bridge",
    "triggers",
    "fleet",
    "login",
    "records",
    "environment_routes",
    "notices",
    "plugins",
    "metrics",
)
"""Modules of this package with `ENDPOINTS`, in the order of the API's description."""

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types adderclaw"
)
HEADERS = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
    "cache-control": "no-store",
}
"""Headers of every response; a page has PAGE_POLICY as its content security policy and may set its own caching."""


def all_endpoints(*, openai: bool = False) -> list[Endpoint]:
    """The endpoints of all modules; `openai`: including the OpenAI-compatible ones."""
    names = (*MODULES, "openai.endpoints") if openai else MODULES
    modules = [import_module(f"adderclaw.server.{name}") for name in names]
    return [endpoint for module in (*modules, *pages()) for endpoint in module.ENDPOINTS]


def make_app(state: ServerState, endpoints: Iterable[Endpoint] | None = None) -> ASGIApp:
    """The application of one server."""
    described = list(endpoints) if endpoints is not None else all_endpoints(openai=state.openai)
    described.append(openapi.endpoint(described))
    by_path: dict[str, dict[str, Endpoint]] = {}
    for endpoint in described:
        methods = by_path.setdefault(endpoint.path, {})
        if endpoint.method in methods:
            raise ValueError(f"two endpoints for {endpoint.method} {endpoint.path}")
        methods[endpoint.method] = endpoint
    # literal paths before paths with parameters
    paths = sorted(by_path, key=lambda path: ["{" in part for part in path.split("/")])
    routes = [Route(path, _PathEndpoints(state, by_path[path])) for path in paths]
    return _ErrorBoundary(state, Router(routes, redirect_slashes=False, default=_UnknownPath(state)))


class _ErrorBoundary:
    """The outermost layer: turns every error into a response with the usual headers and without a traceback."""

    def __init__(self, state: ServerState, inner: ASGIApp) -> None:
        self._state, self._inner = state, inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # no WebSockets and no lifespan events
            return
        begun, unread = False, _has_body(scope)

        async def read() -> Message:
            nonlocal unread
            message = await receive()
            unread = unread and bool(message.get("more_body"))
            return message

        async def guarded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message = {**message, "headers": _with_headers(scope, message["headers"], closes=unread)}
            await send(message)
            if message.get("more_body"):
                await asyncio.sleep(0)  # writing to a closed connection never blocks, so give other tasks a turn

        try:
            await self._inner(scope, read, guarded)
        except Exception as error:  # an error in one request must not end the server
            answer = self._answer(error, Request(scope))
            if begun:
                raise ConnectionAbortedError from error  # cut the response: the client sees that it is incomplete
            await answer(scope, receive, guarded)

    def _answer(self, error: Exception, request: Request) -> Response:
        if isinstance(error, authentication.LoginRequired):
            return error.response()
        if isinstance(error, AdderClawError):
            return self._refused(refusal_for(error), request)
        self._state.record_event(
            {"event_type": "warning", "message": f"a request failed: {type(error).__name__}: {error}"}
        )
        return self._refused(Refusal(500, "internal", "the server failed on this request; its log has more"), request)

    def _refused(self, refusal: Refusal, request: Request) -> Response:
        """The error as JSON, or as a page if a browser asked for one."""
        if request.method != "GET" or "text/html" not in request.headers.get("accept", ""):
            return refusal.response(request.url.path)
        request.scope["adderclaw.page"] = True
        return refusal_page(self._state, request, refusal.status, refusal.as_json()["error"]["message"])


def _has_body(scope: Scope) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in scope["headers"]
    )


def _with_headers(
    scope: Scope, headers: list[tuple[bytes, bytes]], *, closes: bool = False
) -> list[tuple[bytes, bytes]]:
    """`closes`: the body was not read to its end, so the connection cannot be used for another request."""
    added = dict(HEADERS) | ({"connection": "close"} if closes else {})
    if without_effect := scope.get("adderclaw.no_effect"):  # parameters of an OpenAI client
        added["x-adderclaw-no-effect"] = without_effect
    if scope.get("adderclaw.page"):
        added["content-security-policy"] = PAGE_POLICY
    names = {name for name, _ in headers}
    if scope.get("adderclaw.page") and b"cache-control" in names:
        del added["cache-control"]
    unchanged = [(name, value) for name, value in headers if name.decode("latin-1") not in added]
    return [*unchanged, *((name.encode(), value.encode()) for name, value in added.items())]


class _UnknownPath:
    """Answers requests to unknown paths."""

    def __init__(self, state: ServerState) -> None:
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del send
        authentication.check_host(self._state, Request(scope, receive))
        raise Refusal(404, "not_found", "no endpoint has this path: `GET /openapi.json` lists them")


class _PathEndpoints:
    """Dispatches the requests of one path by method."""

    def __init__(self, state: ServerState, methods: dict[str, Endpoint]) -> None:
        self._state, self._methods = state, methods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._methods.get(scope["method"])
        request = Request(scope, receive)
        if endpoint is None:
            authentication.check_host(self._state, request)
            allowed = {"Allow": ", ".join(sorted(self._methods))}
            raise Refusal(405, "method", f"this path takes {allowed['Allow']}", headers=allowed)
        scope["adderclaw.page"] = endpoint.is_page
        answer, row = await _handle(self._state, endpoint, request)
        if row is None or not hasattr(answer, "body_iterator"):
            await answer(scope, receive, send)
        else:
            await _stream_while_token_valid(self._state, row, answer(scope, receive, send))


async def _stream_while_token_valid(state: ServerState, row: ClientRow, streaming: Coroutine[Any, Any, None]) -> None:
    """Ends a stream when its token expires or is revoked."""
    task = asyncio.ensure_future(streaming)
    state.streams.add(task)
    try:
        while not (await asyncio.wait({task}, timeout=state.recheck_seconds))[0]:
            if clients.current_state(state.store, row, state.clock.now()) != "valid":
                return
        if not task.cancelled():  # else the server ends
            await task
    finally:
        state.streams.discard(task)
        task.cancel()


async def _handle(state: ServerState, endpoint: Endpoint, request: Request) -> tuple[Response, ClientRow | None]:
    changes = endpoint.method not in authentication.SAFE
    try:
        client, row = authentication.authenticate(state, request, endpoint)
        if row is not None:
            # Store the time of the last use, and mark the connection as authenticated.
            if state.is_use_due(row.id):
                clients.note_use(state.store, row, state.clock.now())
            if known := request.scope.get("extensions", {}).get("adderclaw.known"):
                known()
        client_scope.require_folder(state, client, request, endpoint.reach)
        decoded = await body.read_parameters(endpoint, request, state.body_seconds)
        client_scope.require_named(state, client, decoded)
    except Refusal as refusal:
        if changes and refusal.code in ("scope", "origin", "folder") and not state.rates.wait("failure", refusal.code):
            _tell_refused(state, request, refusal.code)  # rate-limited, so that repeated requests cannot fill the disk
        raise
    path = {name: str(value) for name, value in request.path_params.items()}
    if changes:
        if not state.ready and endpoint.scope != "open" and not endpoint.while_ending:
            raise shutting_down()
        if endpoint.scope != "open":  # a login is recorded once the client is known
            of = path.get("id", "") if request.url.path.startswith("/conversations/") else ""
            authentication.record_change_request(state, request, client, of)
    result = await endpoint.answer(ApiRequest(client, state, decoded, path, request))
    if isinstance(result, Response):
        return result, row
    return Response(compact(to_json(result)), endpoint.status, media_type="application/json"), row


def _tell_refused(state: ServerState, request: Request, code: str) -> None:
    client: Client = request.scope.get("adderclaw.client", NOBODY)
    who = {"client_id": client.id, "client": client.name}
    what = {"method": request.method, "path": request.url.path, "code": code}
    state.record_event({"event_type": "client_refused", **who, **what})  # pyright: ignore[reportArgumentType]
