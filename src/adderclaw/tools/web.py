"""Http: sends one request to a host whose address was checked, and returns the response up to a size limit."""

import asyncio
import re
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from adderclaw.config.schema import Config
from adderclaw.core.errors import PathRefused
from adderclaw.core.host import ToolContext
from adderclaw.core.record import record
from adderclaw.core.types import Alias, HostFact, Prepared, Tool, ToolResult, Touch, rejected
from adderclaw.models.http.urls import Hosts, parse
from adderclaw.tools.paths import denied_result, printable
from adderclaw.tools.specs import builtin_tool

if TYPE_CHECKING:
    from adderclaw.models.http.client import Answer

MAX_REDIRECTS = 5
TRUNCATED = "[SDLC_TRUNCATED]"
REDIRECTS = frozenset({301, 302, 303, 307, 308})
RESERVED_HEADERS = (
    "host|cookie|content-length|transfer-encoding|connection|keep-alive|te|trailer|upgrade|expect|proxy-.*"
)
"""Headers that the model may not set."""
HEADER = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"


@record
class HttpArguments:
    url: str
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = "GET"
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: str = ""


# ------------------------------------------------------------------ the request


def _build_headers(arguments: HttpArguments) -> dict[str, str] | str:
    """The request's headers, or why they cannot be sent."""
    headers = {"accept": "*/*", "accept-encoding": "gzip", "user-agent": "adderclaw"}
    if arguments.body:
        json_like = arguments.body.lstrip()[:1] in ("{", "[")
        headers["content-type"] = "application/json" if json_like else "text/plain; charset=utf-8"
    for name, value in arguments.headers.items():
        if not re.fullmatch(HEADER, name):
            return f"the header name {printable(name)!r} is not valid."
        if re.fullmatch(RESERVED_HEADERS, name.lower()):
            return f"the header {name!r} cannot be set."
        if not (value.isprintable() and value.isascii()):
            return f"the header {name!r} may contain only printable ASCII."
        if name.lower() != "accept-encoding":
            headers[name.lower()] = value
    return headers


def _build_request(arguments: HttpArguments) -> tuple[dict[str, str], bytes] | str:
    """The headers and body to send, or why they cannot be sent."""
    headers = _build_headers(arguments)
    if isinstance(headers, str):
        return headers
    if arguments.body and arguments.method in ("GET", "HEAD"):
        return f"{arguments.method} cannot have a body. Leave it out, or use POST."
    try:
        return headers, arguments.body.encode("utf-8")
    except UnicodeEncodeError:
        return "body cannot be sent as UTF-8: it contains lone surrogates."


async def http(target: HostFact, arguments: HttpArguments, *, hosts: Hosts, seconds: float, limit: int) -> ToolResult:
    request = _build_request(arguments)
    if isinstance(request, str):
        return rejected(request)
    headers, content = request
    from adderclaw.models.http.client import Failed

    try:
        async with asyncio.timeout(seconds):
            source, answer = await request_with_redirects(target, headers, content, hosts, limit)
    except TimeoutError:
        return rejected(f"{target.host} did not answer within {seconds:g} seconds.")
    except Failed as error:
        return rejected(f"the request to {target.host} failed: {error}")
    if not isinstance(answer, UnfollowedRedirect):
        return _result(source, answer)
    if answer.why:
        why = f"HTTP {answer.status}: the redirect to {printable(answer.url)!r} was not followed: {answer.why}"
        return rejected(why, own=False)
    return ToolResult(
        f"HTTP {answer.status}: redirects to another host, {answer.url}, and was not followed. "
        "Request that URL directly if you need it.",
        metadata={"status": answer.status, "location": answer.url},
    )


class UnfollowedRedirect(NamedTuple):
    """A redirect that was not followed, because another host needs its own permission."""

    status: int
    url: str
    why: str = ""
    """Why the new URL cannot be requested at all; empty if it can."""


async def request_with_redirects(
    target: HostFact, headers: dict[str, str], content: bytes, hosts: Hosts, limit: int
) -> "tuple[HostFact, Answer | UnfollowedRedirect]":
    """Requests a URL and follows redirects on the same host; returns the final URL and its response.

    Raises PathRefused or Failed.
    """
    from adderclaw.models.http.client import Failed, exchange

    for _ in range(MAX_REDIRECTS + 1):
        answer = await exchange(target, headers, content, hosts, limit)
        following = _next_target(target, answer)
        if not isinstance(following, HostFact):
            return target, following
        if following.method == "GET":
            content = b""
            headers = {name: value for name, value in headers.items() if name != "content-type"}
        target = following
    raise Failed(f"{target.url} redirects more than {MAX_REDIRECTS} times")


def _next_target(target: HostFact, answer: "Answer") -> "HostFact | Answer | UnfollowedRedirect":
    """The next URL to request, or the final result."""
    from urllib.parse import urljoin

    location = answer.headers.get("location", "")
    if answer.status not in REDIRECTS or not location:
        return answer
    method = target.method
    if method != "HEAD" and (answer.status == 303 or (answer.status < 303 and method == "POST")):
        method = "GET"
    try:
        following = parse(urljoin(target.url, location), method)
    except ValueError as error:
        return UnfollowedRedirect(answer.status, location[:200], str(error))
    return following if _is_same_origin(target, following) else UnfollowedRedirect(answer.status, following.url)


def _is_same_origin(here: HostFact, there: HostFact) -> bool:
    if here.host != there.host:
        return False
    upgrade = (here.scheme, here.port, there.scheme, there.port) == ("http", 80, "https", 443)
    return upgrade or (here.scheme, here.port) == (there.scheme, there.port)


def _result(target: HostFact, answer: "Answer") -> ToolResult:
    kind = answer.headers.get("content-type", "")
    lines = [f"HTTP {answer.status} {answer.reason}".rstrip()]
    lines += [
        f"{name}: {printable(answer.headers[name])}"
        for name in ("content-type", "retry-after")
        if name in answer.headers
    ]
    metadata: dict[str, Any] = {"status": answer.status, "url": target.url, "bytes": len(answer.body)}
    metadata["truncated"] = answer.cut
    body = _text(answer.body, kind) + (f"\n{TRUNCATED}" if answer.cut else "")
    content = "\n".join(lines) + f"\n\n{body}"
    return ToolResult(content, "rejected" if answer.status >= 400 else "ok", metadata)


def _text(body: bytes, kind: str) -> str:
    charset = re.search(r"charset=\"?([A-Za-z0-9_.:-]+)", kind)
    if b"\0" in body[:8192] and not (charset and charset[1].lower().startswith("utf-16")):
        return f"(binary content, {len(body)} bytes)"
    try:
        return body.decode(charset[1] if charset else "utf-8", "replace")
    except (LookupError, ValueError, AssertionError):  # the charset does not exist or is not a text encoding
        return body.decode("utf-8", "replace")


# ------------------------------------------------------------------ the tool


def tools(config: Config) -> tuple[Tool[Any], ...]:
    hosts = Hosts.listed(config.security.allowed_domains)
    seconds = config.runtime.http_timeout_seconds
    size = config.runtime.max_response_bytes

    def prepare(arguments: HttpArguments, _ctx: ToolContext) -> Prepared:
        target = parse(arguments.url, arguments.method)
        touch = Touch(hosts=(target,), why=f"sends {target.method} to {target.host}")
        return Prepared(touch, lambda: run(target, arguments), fails=lambda: fails(arguments))

    def fails(arguments: HttpArguments) -> str:
        request = _build_request(arguments)
        return request if isinstance(request, str) else ""

    async def run(target: HostFact, arguments: HttpArguments) -> ToolResult:
        try:
            return await http(target, arguments, hosts=hosts, seconds=seconds, limit=size)
        except PathRefused as refusal:
            return denied_result(refusal)

    return (
        builtin_tool("Http", HttpArguments, prepare, (Alias("http"),), timeout=lambda _: seconds + 5, deferred=True),
    )
