"""Http: one request to a host whose address was checked, and the answer, capped."""

import asyncio
import re
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from adderclaw.config.schema.settings import Config
from adderclaw.core.errors import PathRefused
from adderclaw.core.record import record
from adderclaw.core.types import Alias, HostFact, Prepared, Tool, ToolContext, ToolResult, Touch, rejected
from adderclaw.models.http.urls import Hosts, parse
from adderclaw.tools.paths import denied, shown
from adderclaw.tools.specs import spec

if TYPE_CHECKING:
    from adderclaw.models.http.client import Answer

MAX_REDIRECTS = 5
TRUNCATED = "[SDLC_TRUNCATED]"
REDIRECTS = frozenset({301, 302, 303, 307, 308})
OURS = "host|cookie|content-length|transfer-encoding|connection|keep-alive|te|trailer|upgrade|expect|proxy-.*"
"""Headers that are not the model's to set."""
HEADER = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"


@record
class HttpArguments:
    url: str
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = "GET"
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: str = ""


# ------------------------------------------------------------------ the request


def _headers(arguments: HttpArguments) -> dict[str, str] | str:
    """The request's headers, or why they cannot be sent."""
    made = {"accept": "*/*", "accept-encoding": "gzip", "user-agent": "adderclaw"}
    if arguments.body:
        json_like = arguments.body.lstrip()[:1] in ("{", "[")
        made["content-type"] = "application/json" if json_like else "text/plain; charset=utf-8"
    for name, value in arguments.headers.items():
        if not re.fullmatch(HEADER, name):
            return f"the header name {shown(name)!r} is not valid."
        if re.fullmatch(OURS, name.lower()):
            return f"the header {name!r} is not yours to set."
        if not (value.isprintable() and value.isascii()):
            return f"the header {name!r} may hold printable ASCII only."
        if name.lower() != "accept-encoding":
            made[name.lower()] = value
    return made


def _request(arguments: HttpArguments) -> tuple[dict[str, str], bytes] | str:
    """What is sent, or why it cannot be."""
    headers = _headers(arguments)
    if isinstance(headers, str):
        return headers
    if arguments.body and arguments.method in ("GET", "HEAD"):
        return f"{arguments.method} has no body: leave it out, or use POST."
    try:
        return headers, arguments.body.encode("utf-8")
    except UnicodeEncodeError:
        return "body cannot be sent as UTF-8: it holds lone surrogates."


async def http(target: HostFact, arguments: HttpArguments, *, hosts: Hosts, seconds: float, limit: int) -> ToolResult:
    made = _request(arguments)
    if isinstance(made, str):
        return rejected(made)
    headers, content = made
    from adderclaw.models.http.client import Failed

    try:
        async with asyncio.timeout(seconds):
            place, answer = await followed(target, headers, content, hosts, limit)
    except TimeoutError:
        return rejected(f"{target.host} did not answer within {seconds:g} seconds.")
    except Failed as error:
        return rejected(f"the request to {target.host} failed: {error}")
    if not isinstance(answer, Elsewhere):
        return _result(place, answer)
    if answer.why:
        why = f"HTTP {answer.status}: the redirect to {shown(answer.url)!r} was not followed: {answer.why}"
        return rejected(why, own=False)
    return ToolResult(
        f"HTTP {answer.status}: redirects to {answer.url}, which is another host and was not followed. "
        "Request it directly if that is wanted.",
        metadata={"status": answer.status, "location": answer.url},
    )


class Elsewhere(NamedTuple):
    """A redirect that is not followed: another host is another decision."""

    status: int
    url: str
    why: str = ""
    """Why it could not be asked for either."""


async def followed(
    target: HostFact, headers: dict[str, str], content: bytes, hosts: Hosts, limit: int
) -> "tuple[HostFact, Answer | Elsewhere]":
    """The answer of a place and where it came from, redirects within the host followed. Raises Refused or Failed."""
    from adderclaw.models.http.client import Failed, exchange

    for _ in range(MAX_REDIRECTS + 1):
        answer = await exchange(target, headers, content, hosts, limit)
        following = _redirect(target, answer)
        if not isinstance(following, HostFact):
            return target, following
        if following.method == "GET":
            content = b""
            headers = {name: value for name, value in headers.items() if name != "content-type"}
        target = following
    raise Failed(f"{target.url} redirects more than {MAX_REDIRECTS} times")


def _redirect(target: HostFact, answer: "Answer") -> "HostFact | Answer | Elsewhere":
    """Where to go next, or what is to be told."""
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
        return Elsewhere(answer.status, location[:200], str(error))
    return following if _same_place(target, following) else Elsewhere(answer.status, following.url)


def _same_place(here: HostFact, there: HostFact) -> bool:
    if here.host != there.host:
        return False
    upgrade = (here.scheme, here.port, there.scheme, there.port) == ("http", 80, "https", 443)
    return upgrade or (here.scheme, here.port) == (there.scheme, there.port)


def _result(target: HostFact, answer: "Answer") -> ToolResult:
    kind = answer.headers.get("content-type", "")
    lines = [f"HTTP {answer.status} {answer.reason}".rstrip()]
    lines += [
        f"{name}: {shown(answer.headers[name])}" for name in ("content-type", "retry-after") if name in answer.headers
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
    except (LookupError, ValueError, AssertionError):  # a charset that does not exist, or is no text encoding
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
        made = _request(arguments)
        return made if isinstance(made, str) else ""

    async def run(target: HostFact, arguments: HttpArguments) -> ToolResult:
        try:
            return await http(target, arguments, hosts=hosts, seconds=seconds, limit=size)
        except PathRefused as refusal:
            return denied(refusal)

    known = spec("Http")
    return (
        Tool(
            "Http",
            HttpArguments,
            prepare,
            known.description,
            known.parameters,
            (Alias("http"),),
            lambda _: seconds + 5,
            deferred=True,
        ),
    )
