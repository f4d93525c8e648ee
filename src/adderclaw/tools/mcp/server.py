"""An MCP server that offers AdderClaw's tools and resources over stdio or loopback HTTP."""

import contextlib
import hmac
import warnings
from collections.abc import Awaitable, Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from adderclaw import __version__
from adderclaw.core.errors import UsageError
from adderclaw.core.types import Json, Tool, ToolResult
from adderclaw.tools.mcp.resources import Resources, handlers

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server
    from mcp_types import CallToolResult

LOOPBACK = ("127.0.0.1", "::1", "localhost")
PATH = "/mcp"


LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


class LogLevel:
    """The lowest log level that the client wants."""

    def __init__(self) -> None:
        self.least = "info"

    def is_enabled(self, level: str) -> bool:
        return LEVELS.index(level) >= LEVELS.index(self.least)


class Caller:
    """The client of one call: receives progress and log messages, and can be asked questions."""

    def __init__(self, context: "ServerRequestContext[Any]", loudness: LogLevel) -> None:
        self._session, self._request, self._loudness = context.session, context.request_id, loudness

    @property
    def can_be_asked(self) -> bool:
        capabilities = self._session.client_capabilities
        able = capabilities is not None and capabilities.elicitation is not None
        return able and self._session.can_send_request

    async def ask(self, message: str, schema: Json) -> Json | None:
        """The answer of the person behind the client; None if there is nobody or they decline."""
        if not self.can_be_asked:
            return None
        result = await self._session.elicit_form(message, schema)
        return dict(result.content or {}) if result.action == "accept" else None

    async def say(self, level: Literal["info", "notice", "warning"], text: str) -> None:
        """Sends a log message if the client wants its level."""
        if self._loudness.is_enabled(level):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # later protocols send it on request, which the SDK supports
                sending = self._session.send_log_message(level, text, "adderclaw", self._request)  # pyright: ignore[reportDeprecated]
            await sending

    async def report(self, progress: float, total: float | None, message: str) -> None:
        await self._session.report_progress(progress, total, message)


class Offer(NamedTuple):
    """The tools and resources to serve."""

    tools: Callable[[], Iterable[Tool[Any]]]
    call: Callable[[str, Json, Caller], Awaitable[ToolResult]]
    instructions: str = ""
    resources: Resources | None = None
    """Prompts and documents, if any."""


def build_server(offer: Offer) -> "Server[Any]":
    """Builds the SDK's server for an offer."""
    import mcp_types as types
    from mcp.server.lowlevel import Server

    async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_described(tool) for tool in offer.tools()])

    loudness = LogLevel()

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        return _result(await offer.call(params.name, dict(params.arguments or {}), Caller(context, loudness)))

    async def set_level(_context: Any, params: types.SetLevelRequestParams) -> types.EmptyResult:
        loudness.least = params.level
        return types.EmptyResult()

    more: dict[str, Any] = {"on_set_logging_level": set_level}
    if offer.resources is not None:
        more |= handlers(offer.resources)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # logging ends with the handshake protocols, which clients speak today
        return Server(
            "adderclaw",
            version=__version__,
            instructions=offer.instructions or None,
            on_list_tools=list_tools,
            on_call_tool=call_tool,
            **more,
        )


def _described(tool: Tool[Any]) -> Any:
    from mcp_types import Tool as Described

    return Described(name=tool.name, description=tool.description, input_schema=tool.parameters)


def _result(result: ToolResult) -> "CallToolResult":
    import mcp_types as types

    content: list[types.ContentBlock] = [types.TextContent(type="text", text=result.content)] if result.content else []
    for block in result.media:
        if block.media_type.startswith("image/"):
            content.append(types.ImageContent(type="image", data=block.data, mime_type=block.media_type))
        else:
            uri = f"adderclaw://{block.name or 'file'}"
            blob = types.BlobResourceContents(uri=uri, blob=block.data, mime_type=block.media_type)
            content.append(types.EmbeddedResource(type="resource", resource=blob))
    return types.CallToolResult(content=content, is_error=result.is_error)


# ------------------------------------------------------------------ transports


async def serve_stdio(server: "Server[Any]") -> None:
    """Serves the parent process until it closes stdin."""
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def serve_http(server: "Server[Any]", host: str, port: int, token: str, ready: Callable[[str], None]) -> None:
    """Serves clients on this machine that send the token; calls `ready` with the URL."""
    import uvicorn

    if host not in LOOPBACK:
        raise UsageError(f"--http: {host!r} is not this machine. Use 127.0.0.1, and a tunnel for other machines")

    class Quiet(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Generator[None]:
            yield  # AdderClaw handles signals

        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if self.started:
                bound = self.servers[0].sockets[0].getsockname()
                ready(f"http://{f'[{host}]' if ':' in host else host}:{bound[1]}{PATH}")

    app = TokenGuard(asgi_application(server), token)
    running = Quiet(uvicorn.Config(app, host=host, port=port, log_level="critical", access_log=False, lifespan="on"))
    try:
        await running.serve()
    finally:
        running.should_exit = True


def asgi_application(server: "Server[Any]") -> Any:
    """The ASGI application: only requests for this machine, from pages of this machine."""
    from mcp.server.transport_security import TransportSecuritySettings

    hosts = ["127.0.0.1:*", "localhost:*", "[::1]:*"]
    security = TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=[f"http://{host}" for host in hosts])
    return server.streamable_http_app(streamable_http_path=PATH, transport_security=security)


class TokenGuard:
    """Rejects requests without the bearer token."""

    def __init__(self, app: Any, token: str) -> None:
        self._app, self._expected = app, f"Bearer {token}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "lifespan"):
            return  # a websocket would come past the token
        if scope["type"] == "http":
            tokens = [value for name, value in scope["headers"] if name == b"authorization"]
            if len(tokens) != 1 or not hmac.compare_digest(tokens[0], self._expected):
                headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain")]
                await send({"type": "http.response.start", "status": 401, "headers": headers})
                await send({"type": "http.response.body", "body": b"the bearer token is missing or wrong\n"})
                return
        await self._app(scope, receive, send)
