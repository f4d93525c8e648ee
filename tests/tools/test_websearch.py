"""WebSearch: services that misbehave, what each of them is sent, and what comes of their results."""

import asyncio
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest

from adderclaw.config.schema import Config, Runtime, Security, Web
from adderclaw.core.host import ToolContext
from adderclaw.core.types import ToolResult, Workspace
from adderclaw.tools import Kit, builtin_tools, decode_arguments
from adderclaw.tools.kit import MOST_SEARCHES
from tests.listening import served
from tests.tools.test_fetch import Clock


class Asked(NamedTuple):
    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes


class Handler(BaseHTTPRequestHandler):
    asked: list[Asked] = []  # noqa: RUF012 - one server for the module
    reply: tuple[int, bytes] = (200, b"{}")

    def answer(self) -> None:
        parts = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length") or 0))
        self.asked.append(Asked(self.command, parts.path, parse_qs(parts.query), headers, body))
        status, content = type(self).reply
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.send_header("location", "http://127.0.0.1:1/")
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = answer

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with served(Handler) as port:
        yield port


def kit_of(name: str | None, port: int, **more: Any) -> Kit:
    Handler.asked.clear()
    place = f"http://127.0.0.1:{port}"
    given: dict[str, Any] = {"search": name, "search_key_env": "SEARCH_KEY", "searches_per_minute": 999}
    given |= {"gateway_url": f"{place}/gw"} if name == "gateway" else {"search_url": f"{place}/api"} if name else {}
    return Kit(Config(web=Web(**(given | more)), runtime=Runtime(http_timeout_seconds=5.0)), None, Clock())


def search(kit: Kit, query: str = "adder snakes", **more: Any) -> ToolResult:
    tool = builtin_tools(kit)["WebSearch"]
    ctx = ToolContext("c", "s", Workspace("/tmp"), called_as="WebSearch")
    arguments = decode_arguments(tool, {"query": query, **more})

    async def run() -> ToolResult:
        return await tool.prepare(arguments, ctx).run()

    return asyncio.run(run())


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARCH_KEY", "k3y")


SERVICES = ("searxng", "brave", "tavily", "gateway")


def replies(name: str, *rows: dict[str, Any]) -> None:
    text = {"searxng": "content", "brave": "description", "tavily": "content", "gateway": "snippet"}[name]
    made = [{text if key == "text" else key: value for key, value in row.items()} for row in rows]
    reply = {"web": {"results": made}} if name == "brave" else {"results": made}
    Handler.reply = (200, json.dumps(reply).encode())


ROWS: tuple[dict[str, Any], ...] = (
    {"title": "One <b>adder</b>", "url": "https://example.org/1", "text": "adds\n<em>only</em>\u202e"},
    {"title": "Two", "url": "https://sub.example.org/2", "text": "more"},
    {"title": "Three", "url": "https://other.test/3", "text": "else"},
    {"title": "No place", "url": "javascript:alert(1)", "text": "bad"},
    {"title": 7, "url": None},
)


# ------------------------------------------------------------------ refused


def test_with_no_service_it_is_not_offered_and_a_call_is_told_why(port: int) -> None:
    kit = kit_of(None, port)
    assert not builtin_tools(kit)["WebSearch"].usable
    result = search(kit)
    assert result.error_class == "tool_rejected"
    assert 'Set [web] search to "searxng"' in result.content
    assert Handler.asked == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"query": "x"}, "2 to 1000 characters"),
        ({"query": "x" * 1001}, "2 to 1000 characters"),
        ({"allowed_domains": ["a.org"], "blocked_domains": ["b.org"]}, "not both"),
        ({"allowed_domains": ["https://a.org/"]}, "not a domain"),
        ({"blocked_domains": ["a.org OR site:evil"]}, "not a domain"),
        ({"allowed_domains": ["a.org"] * 21}, "at most 20"),
    ],
)
def test_queries_that_make_no_sense(given: dict[str, Any], said: str, port: int) -> None:
    result = search(kit_of("searxng", port), **given)
    assert result.error_class == "tool_rejected"
    assert said in result.content
    assert Handler.asked == []


@pytest.mark.parametrize("name", ["brave", "tavily"])
def test_a_service_without_its_key(name: str, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SEARCH_KEY")
    assert "search_key_env" in search(kit_of(name, port)).content
    assert Handler.asked == []


@pytest.mark.parametrize(("name", "key"), [("searxng", "search_url"), ("gateway", "gateway_url")])
def test_a_service_without_its_place(name: str, key: str, port: int) -> None:
    result = search(kit_of(name, port, **{key: None}))
    assert result.error_class == "tool_rejected"
    assert key in result.content


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (500, b"{}", "HTTP 500"),
        (401, b"{}", "HTTP 401"),
        (302, b"{}", "HTTP 302"),
        (200, b"<html>", "did not answer like"),
        (200, b"[]", "did not answer like"),
        (200, b'{"results": 7, "web": []}', "did not answer like"),
        (200, b"[" * 100_000, "did not answer like"),
        (200, b'{"results": ["' + b"x" * 2_000_000, "did not answer like"),
    ],
)
@pytest.mark.parametrize("name", SERVICES)
def test_services_that_misbehave(name: str, status: int, body: bytes, said: str, port: int) -> None:
    Handler.reply = (status, body)
    result = search(kit_of(name, port))
    assert result.error_class == "tool_rejected"
    assert said in result.content
    assert "k3y" not in result.content


def test_nobody_listens(port: int) -> None:
    result = search(kit_of("searxng", port, search_url="http://127.0.0.1:9"))
    assert result.error_class == "tool_rejected"
    assert "failed" in result.content


def test_five_a_minute(port: int) -> None:
    replies("searxng", *ROWS)
    kit = kit_of("searxng", port, searches_per_minute=5)
    for _ in range(5):
        assert not search(kit).is_error
    assert "web.searches_per_minute = 5" in search(kit).content
    assert isinstance(kit.clock, Clock)
    kit.clock.time += 61
    assert not search(kit).is_error


def test_two_hundred_in_a_session(port: int) -> None:
    kit = kit_of("searxng", port)
    kit.surfing.searches = MOST_SEARCHES
    result = search(kit)
    assert not result.is_error
    assert "200 searches" in result.content
    assert Handler.asked == []


# ------------------------------------------------------------------ results


@pytest.mark.parametrize("name", SERVICES)
def test_results_are_listed(name: str, port: int) -> None:
    replies(name, *ROWS)
    result = search(kit_of(name, port))
    assert result.content == (
        "Results for 'adder snakes':\n"
        "1. One adder\n   https://example.org/1\n   adds only\n"
        "2. Two\n   https://sub.example.org/2\n   more\n"
        "3. Three\n   https://other.test/3\n   else"
    )
    assert result.metadata == {"results": 3, "service": name}


def test_what_each_service_is_sent(port: int) -> None:
    for name in SERVICES:
        replies(name, *ROWS)
        kit = kit_of(name, port)
        search(kit, allowed_domains=["example.org"])
        (asked,) = Handler.asked
        if name == "tavily":
            assert (asked.method, asked.path) == ("POST", "/api")
            assert json.loads(asked.body)["include_domains"] == ["example.org"]
            assert asked.headers["authorization"] == "Bearer k3y"
            continue
        assert asked.method == "GET"
        assert asked.query["q"] == ["adder snakes (site:example.org)"]
        assert asked.path == {"searxng": "/api/search", "brave": "/api", "gateway": "/gw/search"}[name]
        assert asked.headers.get("x-subscription-token") == ("k3y" if name == "brave" else None)


@pytest.mark.parametrize(
    ("given", "places"),
    [
        ({"allowed_domains": ["example.org"]}, ["https://example.org/1", "https://sub.example.org/2"]),
        ({"blocked_domains": ["example.org"]}, ["https://other.test/3"]),
        ({"allowed_domains": ["ample.org"]}, []),
    ],
)
@pytest.mark.parametrize("name", SERVICES)
def test_domains_are_held_to(name: str, given: dict[str, Any], places: list[str], port: int) -> None:
    replies(name, *ROWS)
    content = search(kit_of(name, port), **given).content
    assert [line.strip() for line in content.splitlines() if "://" in line] == places
    assert places or content == "No results for 'adder snakes'."


@pytest.mark.parametrize(("listed", "opaque"), [([], True), (["127.0.0.1"], False)])
def test_what_leaves_is_known_to_the_gate(listed: list[str], opaque: bool, port: int) -> None:
    kit = kit_of("searxng", port)
    config = Config(web=kit.config.web, security=Security(allowed_domains=listed))
    tool = builtin_tools(Kit(config, None, Clock()))["WebSearch"]
    touch = tool.prepare(decode_arguments(tool, {"query": "xyz"}), ToolContext("c", "s", Workspace("/tmp"))).touch
    assert touch.opaque == opaque
    assert touch.why == "searches the web with 127.0.0.1 for 'xyz'"
