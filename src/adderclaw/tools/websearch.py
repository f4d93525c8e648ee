"""WebSearch: queries the search service that the operator configured and lists its results."""

import asyncio
import json
import os
import re
from collections.abc import Iterable
from dataclasses import field
from typing import Any, NamedTuple, cast

from adderclaw.core.errors import PathRefused
from adderclaw.core.host import ToolContext
from adderclaw.core.json_text import check_size
from adderclaw.core.record import record
from adderclaw.core.types import Alias, HostFact, Json, Prepared, Tool, ToolResult, Touch, own_words, rejected
from adderclaw.models.http.urls import Hosts, parse
from adderclaw.policy.hosts import covers
from adderclaw.tools.fetch import gateway_request
from adderclaw.tools.kit import MOST_SEARCHES, Kit, search_service
from adderclaw.tools.paths import denied_result
from adderclaw.tools.specs import builtin_tool

MOST_RESULTS = 10
MOST_DOMAINS = 20
LONGEST_QUERY = 1000
REPLY_BYTES = 1_048_576
SERVICE_URLS = {
    "brave": "https://api.search.brave.com/res/v1/web/search",
    "tavily": "https://api.tavily.com/search",
}
NO_SERVICE = (
    'No search service is configured. Set [web] search to "searxng", "brave", "tavily" or "gateway"; see docs/tools.md.'
)


@record
class WebSearchArguments:
    query: str
    allowed_domains: list[str] = field(default_factory=list[str])
    """Only results from these domains."""
    blocked_domains: list[str] = field(default_factory=list[str])
    """No results from these domains."""


class SearchResult(NamedTuple):
    title: str
    url: str
    snippet: str


class Request(NamedTuple):
    target: HostFact
    headers: dict[str, str]
    content: bytes = b""


# ------------------------------------------------------------------ what is sent


def _build_request(kit: Kit, name: str, arguments: WebSearchArguments) -> Request | str:
    """The request to send, or why it cannot be sent."""
    from urllib.parse import urlencode

    web = kit.config.web
    headers = {"accept": "application/json", "accept-encoding": "gzip", "user-agent": "adderclaw"}
    if name == "gateway":
        if not web.gateway_url:
            return '[web] search = "gateway" needs gateway_url.'
        target, more = gateway_request(kit, "search", q=_with_sites(arguments))
        return Request(target, headers | more)
    base = web.search_url or SERVICE_URLS.get(name)
    if base is None:
        return f'[web] search = "{name}" needs search_url.'
    if name == "searxng":
        asked = urlencode({"q": _with_sites(arguments), "format": "json"})
        return Request(parse(f"{base.rstrip('/')}/search?{asked}"), headers)
    key = os.environ.get(web.search_key_env or "", "")
    if not key:
        return f"[web] search_key_env must name an environment variable that holds the key of {name}."
    if name == "brave":
        asked = urlencode({"q": _with_sites(arguments), "count": MOST_RESULTS})
        return Request(parse(f"{base}?{asked}"), headers | {"x-subscription-token": key})
    body: Json = {"query": arguments.query, "max_results": MOST_RESULTS}
    body |= {"include_domains": arguments.allowed_domains} if arguments.allowed_domains else {}
    body |= {"exclude_domains": arguments.blocked_domains} if arguments.blocked_domains else {}
    headers |= {"authorization": f"Bearer {key}", "content-type": "application/json"}
    return Request(parse(base, "POST"), headers, json.dumps(body).encode())


def _with_sites(arguments: WebSearchArguments) -> str:
    """The query with `site:` filters, as search services expect them. The results are filtered again afterwards."""
    sites = " OR ".join(f"site:{name}" for name in arguments.allowed_domains)
    excluded = " ".join(f"-site:{name}" for name in arguments.blocked_domains)
    return " ".join(part for part in (arguments.query, f"({sites})" if sites else "", excluded) if part)


# ------------------------------------------------------------------ what comes back


def _parse_results(name: str, body: bytes) -> list[SearchResult] | None:
    """The results of a service; None if its answer has an unexpected form."""
    try:
        check_size(body)
        reply: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    rows: Any = reply
    for key in ("web", "results") if name == "brave" else ("results",):
        if not isinstance(rows, dict):
            return None
        rows = cast(Json, rows).get(key, {} if key == "web" else [])
    if not isinstance(rows, list):
        return None
    text = "description" if name == "brave" else "snippet" if name == "gateway" else "content"
    tables = [cast(Json, row) for row in cast(list[Any], rows) if isinstance(row, dict)]
    return [
        SearchResult(_plain_line(row.get("title"), 200), url, _plain_line(row.get(text), 500))
        for row in tables
        if (url := _url(row.get("url")))
    ]


def _plain_line(value: Any, most: int) -> str:
    """Untrusted text on one line, without markup and invisible characters."""
    if not isinstance(value, str):
        return ""
    plain = re.sub(r"<[^<>]{0,200}>", "", value[: 8 * most])
    return "".join(char for char in " ".join(plain.split()) if char.isprintable())[:most]


def _url(value: Any) -> str:
    try:
        return parse(value).url if isinstance(value, str) else ""
    except ValueError:
        return ""


def _filter_results(results: Iterable[SearchResult], arguments: WebSearchArguments) -> list[SearchResult]:
    def among(url: str, names: list[str]) -> bool:
        host = parse(url).host
        return any(covers(pattern, host) for name in names for pattern in (name, f"*.{name}"))

    matching = [
        entry
        for entry in results
        if (not arguments.allowed_domains or among(entry.url, arguments.allowed_domains))
        and not among(entry.url, arguments.blocked_domains)
    ]
    return matching[:MOST_RESULTS]


def _format_results(query: str, results: list[SearchResult]) -> str:
    if not results:
        return f"No results for {query!r}."
    lines = [
        f"{number}. {entry.title}\n   {entry.url}\n   {entry.snippet}".rstrip()
        for number, entry in enumerate(results, 1)
    ]
    return "\n".join([f"Results for {query!r}:", *lines])


# ------------------------------------------------------------------ the tool


class Searcher:
    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self.name = search_service(kit.config.web)

    def prepare(self, arguments: WebSearchArguments, _ctx: ToolContext) -> Prepared:
        """The operator chose the service, so its host is not judged; a service that is not listed needs approval."""
        service = self._service()
        known = service is None or any(
            covers(pattern, service.host, service.port) for pattern in self._kit.config.security.allowed_domains
        )
        where = f" with {service.host}" if service is not None else ""
        touch = Touch(opaque=not known, why=f"searches the web{where} for {arguments.query[:200]!r}")
        return Prepared(touch, lambda: self._run(arguments), fails=lambda: self._problem(arguments))

    def _problem(self, arguments: WebSearchArguments) -> str:
        return NO_SERVICE if self.name is None else _argument_problem(arguments) or ""

    def _service(self) -> HostFact | None:
        web = self._kit.config.web
        base = web.gateway_url if self.name == "gateway" else web.search_url or SERVICE_URLS.get(self.name or "")
        return parse(base) if base else None

    async def _run(self, arguments: WebSearchArguments) -> ToolResult:
        if self.name is None:
            return rejected(NO_SERVICE)
        if why := _argument_problem(arguments):
            return rejected(why)
        surfing, web = self._kit.surfing, self._kit.config.web
        if surfing.searches >= MOST_SEARCHES:
            return own_words(
                f"{MOST_SEARCHES} searches were made in this session, which is the limit. Work with what they found."
            )
        wait = surfing.seconds_to_wait("search", web.searches_per_minute, self._kit.clock)
        if wait:
            return rejected(f"web.searches_per_minute = {web.searches_per_minute} is reached. Wait {wait:.0f} s")
        surfing.searches += 1
        try:
            return await self._search(self.name, arguments)
        except PathRefused as refusal:
            return denied_result(refusal)

    async def _search(self, name: str, arguments: WebSearchArguments) -> ToolResult:
        from adderclaw.models.http import client

        request = _build_request(self._kit, name, arguments)
        if isinstance(request, str):
            return rejected(request)
        service = request.target
        try:
            answer = await client.request(
                service,
                headers=request.headers,
                content=request.content,
                hosts=Hosts.named_by_operator(service),
                seconds=self._kit.config.runtime.http_timeout_seconds,
                limit=REPLY_BYTES,
            )
        except client.Failed as error:
            return rejected(f"the search service at {service.host} failed: {error}")
        if answer.status != 200:
            return rejected(
                f"the search service at {service.host} answered HTTP {answer.status} {answer.reason}".rstrip(),
                own=False,
            )
        results = await asyncio.to_thread(_parse_results, name, answer.body)
        if results is None:
            return rejected(f"the search service at {service.host} did not answer like {name}. Check [web] search")
        chosen = _filter_results(results, arguments)
        return ToolResult(_format_results(arguments.query, chosen), metadata={"results": len(chosen), "service": name})


def _argument_problem(arguments: WebSearchArguments) -> str | None:
    if not 2 <= len(arguments.query.strip()) <= LONGEST_QUERY:
        return f"query must have 2 to {LONGEST_QUERY} characters."
    if arguments.allowed_domains and arguments.blocked_domains:
        return "give allowed_domains or blocked_domains, not both."
    for name in (*arguments.allowed_domains, *arguments.blocked_domains):
        if not re.fullmatch(r"[A-Za-z0-9*_-]{1,63}(\.[A-Za-z0-9*_-]{1,63})*", name):
            return f"{name[:200]!r} is not a domain. Write it without a scheme and a path."
    if len(arguments.allowed_domains) + len(arguments.blocked_domains) > MOST_DOMAINS:
        return f"at most {MOST_DOMAINS} domains."
    return None


def tools(kit: Kit) -> tuple[Tool[Any], ...]:
    searcher = Searcher(kit)
    return (
        builtin_tool(
            "WebSearch",
            WebSearchArguments,
            searcher.prepare,
            (Alias("web_search"),),
            timeout=lambda _: kit.config.runtime.http_timeout_seconds + 5,
        ),
    )
