"""WebSearch: a query to the search service that the operator configured, and its results as a list."""

import asyncio
import json
import os
import re
from collections.abc import Iterable
from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from adderclaw.core.errors import PathRefused
from adderclaw.core.json_text import check_size
from adderclaw.core.record import record
from adderclaw.core.types import (
    Alias,
    HostFact,
    Json,
    Prepared,
    Tool,
    ToolContext,
    ToolResult,
    Touch,
    own_words,
    rejected,
)
from adderclaw.models.http.urls import Hosts, parse
from adderclaw.policy.hosts import covers
from adderclaw.tools.fetch import through_gateway
from adderclaw.tools.paths import denied
from adderclaw.tools.specs import spec
from adderclaw.tools.surfing import MOST_SEARCHES, search_service

if TYPE_CHECKING:
    from adderclaw.tools import Kit

MOST_RESULTS = 10
MOST_DOMAINS = 20
LONGEST_QUERY = 1000
REPLY_BYTES = 1_048_576
PLACES = {
    "brave": "https://api.search.brave.com/res/v1/web/search",
    "tavily": "https://api.tavily.com/search",
}
NONE = (
    'No search service is configured. [web] search = "searxng", "brave", "tavily" or "gateway" names one; '
    "see docs/tools.md."
)


@record
class WebSearchArguments:
    query: str
    allowed_domains: list[str] = field(default_factory=list[str])
    """Only results from these."""
    blocked_domains: list[str] = field(default_factory=list[str])
    """No results from these."""


class Found(NamedTuple):
    title: str
    url: str
    snippet: str


class Request(NamedTuple):
    place: HostFact
    headers: dict[str, str]
    content: bytes = b""


# ------------------------------------------------------------------ what is sent


def _request(kit: "Kit", name: str, arguments: WebSearchArguments) -> Request | str:
    """What is sent, or why it cannot be."""
    from urllib.parse import urlencode

    web = kit.config.web
    headers = {"accept": "application/json", "accept-encoding": "gzip", "user-agent": "adderclaw"}
    if name == "gateway":
        if not web.gateway_url:
            return '[web] search = "gateway" needs gateway_url.'
        place, more = through_gateway(kit, "search", q=_with_sites(arguments))
        return Request(place, headers | more)
    base = web.search_url or PLACES.get(name)
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
    """The query with its domains in the way that search services know; the results are looked at, too."""
    wanted = " OR ".join(f"site:{name}" for name in arguments.allowed_domains)
    unwanted = " ".join(f"-site:{name}" for name in arguments.blocked_domains)
    return " ".join(part for part in (arguments.query, f"({wanted})" if wanted else "", unwanted) if part)


# ------------------------------------------------------------------ what comes back


def _results(name: str, body: bytes) -> list[Found] | None:
    """What a service found; None where it did not answer in its own form."""
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
        Found(_line(row.get("title"), 200), url, _line(row.get(text), 500))
        for row in tables
        if (url := _url(row.get("url")))
    ]


def _line(value: Any, most: int) -> str:
    """Text of a stranger on one line, without markup and invisible characters."""
    if not isinstance(value, str):
        return ""
    plain = re.sub(r"<[^<>]{0,200}>", "", value[: 8 * most])
    return "".join(char for char in " ".join(plain.split()) if char.isprintable())[:most]


def _url(value: Any) -> str:
    try:
        return parse(value).url if isinstance(value, str) else ""
    except ValueError:
        return ""


def _chosen(found: Iterable[Found], arguments: WebSearchArguments) -> list[Found]:
    def among(url: str, names: list[str]) -> bool:
        host = parse(url).host
        return any(covers(pattern, host) for name in names for pattern in (name, f"*.{name}"))

    kept = [
        entry
        for entry in found
        if (not arguments.allowed_domains or among(entry.url, arguments.allowed_domains))
        and not among(entry.url, arguments.blocked_domains)
    ]
    return kept[:MOST_RESULTS]


def _listed(query: str, found: list[Found]) -> str:
    if not found:
        return f"No results for {query!r}."
    lines = [
        f"{number}. {entry.title}\n   {entry.url}\n   {entry.snippet}".rstrip() for number, entry in enumerate(found, 1)
    ]
    return "\n".join([f"Results for {query!r}:", *lines])


# ------------------------------------------------------------------ the tool


class Searcher:
    def __init__(self, kit: "Kit") -> None:
        self._kit = kit
        self.name = search_service(kit.config.web)

    def prepare(self, arguments: WebSearchArguments, _ctx: ToolContext) -> Prepared:
        """The service is the operator's choice, wherever it is; what is asked leaves for it."""
        place = self._place()
        known = place is None or any(
            covers(pattern, place.host, place.port) for pattern in self._kit.config.security.allowed_domains
        )
        where = f" with {place.host}" if place is not None else ""
        touch = Touch(opaque=not known, why=f"searches the web{where} for {arguments.query[:200]!r}")
        return Prepared(touch, lambda: self._run(arguments), fails=lambda: self._why_not(arguments))

    def _why_not(self, arguments: WebSearchArguments) -> str:
        return NONE if self.name is None else _unfit(arguments) or ""

    def _place(self) -> HostFact | None:
        web = self._kit.config.web
        base = web.gateway_url if self.name == "gateway" else web.search_url or PLACES.get(self.name or "")
        return parse(base) if base else None

    async def _run(self, arguments: WebSearchArguments) -> ToolResult:
        if self.name is None:
            return rejected(NONE)
        if why := _unfit(arguments):
            return rejected(why)
        surfing, web = self._kit.surfing, self._kit.config.web
        if surfing.searches >= MOST_SEARCHES:
            return own_words(f"{MOST_SEARCHES} searches were made in this session: work with what they found.")
        wait = surfing.wait("search", web.searches_per_minute, self._kit.clock)
        if wait:
            return rejected(f"web.searches_per_minute = {web.searches_per_minute} is used up: wait {wait:.0f} s")
        surfing.searches += 1
        try:
            return await self._searched(self.name, arguments)
        except PathRefused as refusal:
            return denied(refusal)

    async def _searched(self, name: str, arguments: WebSearchArguments) -> ToolResult:
        from adderclaw.models.http import client

        made = _request(self._kit, name, arguments)
        if isinstance(made, str):
            return rejected(made)
        place = made.place
        try:
            answer = await client.request(
                place,
                headers=made.headers,
                content=made.content,
                hosts=Hosts.named_by_operator(place),
                seconds=self._kit.config.runtime.http_timeout_seconds,
                limit=REPLY_BYTES,
            )
        except client.Failed as error:
            return rejected(f"the search service at {place.host} failed: {error}")
        if answer.status != 200:
            return rejected(
                f"the search service at {place.host} answered HTTP {answer.status} {answer.reason}".rstrip(), own=False
            )
        found = await asyncio.to_thread(_results, name, answer.body)
        if found is None:
            return rejected(f"the search service at {place.host} did not answer as {name} does; check [web] search")
        chosen = _chosen(found, arguments)
        return ToolResult(_listed(arguments.query, chosen), metadata={"results": len(chosen), "service": name})


def _unfit(arguments: WebSearchArguments) -> str | None:
    if not 2 <= len(arguments.query.strip()) <= LONGEST_QUERY:
        return f"query must have 2 to {LONGEST_QUERY} characters."
    if arguments.allowed_domains and arguments.blocked_domains:
        return "give allowed_domains or blocked_domains, not both."
    for name in (*arguments.allowed_domains, *arguments.blocked_domains):
        if not re.fullmatch(r"[A-Za-z0-9*_-]{1,63}(\.[A-Za-z0-9*_-]{1,63})*", name):
            return f"{name[:200]!r} is not a domain: write it without a scheme and a path."
    if len(arguments.allowed_domains) + len(arguments.blocked_domains) > MOST_DOMAINS:
        return f"at most {MOST_DOMAINS} domains."
    return None


def tools(kit: "Kit") -> tuple[Tool[Any], ...]:
    searcher, known = Searcher(kit), spec("WebSearch")
    return (
        Tool(
            "WebSearch",
            WebSearchArguments,
            searcher.prepare,
            known.description,
            known.parameters,
            (Alias("web_search"),),
            lambda _: kit.config.runtime.http_timeout_seconds + 5,
        ),
    )
