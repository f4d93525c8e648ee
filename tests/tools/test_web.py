"""Http: addresses that are refused, servers that misbehave, and what the model is told of the rest."""

import gzip
import json
import time
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler

import pytest

from adderclaw.config.schema import Config, Runtime, Security
from adderclaw.core.errors import PathRefused
from adderclaw.core.types import HostFact
from adderclaw.models.http.addresses import is_public
from adderclaw.models.http.urls import Hosts, parse
from tests.listening import served
from tests.rows import rows
from tests.tools.conftest import Bench

# ------------------------------------------------------------------ addresses that are refused


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.org",
        "ftp://example.org/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "http://",
        "http:///path",
        "http://user@example.org/",
        "http://user:pass@example.org/",
        "http://example.org\\@evil.example/",
        "http://example.org/a b",
        "http://example.org/\r\nHost: evil",
        "http://exa\tmple.org/",
        "http://example.org:0x50/",
        "http://example.org:99999/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.1/",
        "http://127.1/",
        "http://0177.0.0.1/",
        "http://127.0.0.1.2.3/",
        "http://①②⑦.0.0.1/",
        "http://exämple.org/",
        "http://-x.org/",
        "http://a..b/",
        "http://[::1/",
        "http://[::1%25eth0]/",
        "http://example.org/" + "x" * 9000,
    ],
)
def test_addresses_that_nobody_can_read_two_ways(url: str, bench: Bench) -> None:
    with pytest.raises(PathRefused):
        parse(url)
    assert bench.call("Http", url=url).denial


@rows(
    "address",
    [
        "127.0.0.1", "127.255.255.254", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254",
        "100.64.0.1", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1",
        "239.255.255.255", "240.0.0.1", "255.255.255.255", "192.88.99.1",
        "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1",
        "2002:7f00:1::", "2002:a00:1::1", "2001::1", "2001:db8::1", "fc00::1", "fd00::1", "fe80::1", "fec0::1",
        "ff02::1", "100::1", "3fff::1", "5f00::1", "2600::5efe:7f00:1", "2600::200:5efe:7f00:1", "fe80::1%eth0",
    ],
)  # fmt: skip
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8"])
def test_addresses_that_are_public(address: str) -> None:
    assert is_public(address)


@rows(
    ("host", "port", "addresses"),
    [
        ("rebound.example", 80, ["8.8.8.8", "127.0.0.1"]),
        ("rebound.example", 443, ["::1"]),
        ("mail.example", 25, ["8.8.8.8"]),
        ("good.example", 80, ["10.0.0.1"]),
        ("sub.internal.example", 80, ["10.0.0.1"]),
        ("internal.example.evil.example", 80, ["10.0.0.1"]),
        ("localhost", 9999, ["127.0.0.1"]),
        ("listed.example", 443, ["169.254.169.254"]),
        ("listed.example", 443, ["8.8.8.8", "::ffff:127.0.0.1"]),
        ("internal.example", 81, ["10.0.0.1"]),
    ],
)
def test_every_address_of_a_name_must_be_public(host: str, port: int, addresses: list[str]) -> None:
    hosts = Hosts(frozenset({"internal.example:80", "localhost:8080", "listed.example"}))
    with pytest.raises(PathRefused, match=r"security\.allowed_domains"):
        hosts.check(host, port, addresses)


@pytest.mark.parametrize(
    ("host", "port", "addresses"),
    [
        ("internal.example", 80, ["10.0.0.1"]),
        ("localhost", 8080, ["127.0.0.1", "::1"]),
        ("public.example", 8443, ["8.8.8.8"]),
        ("listed.example", 22, ["8.8.8.8"]),
        ("intranet", 80, ["10.0.0.1"]),
        ("wiki.home.arpa", 80, ["10.0.0.1"]),
        ("10.0.0.7", 80, ["10.0.0.7"]),
    ],
)
def test_hosts_that_are_listed_as_private_ones_may_be(host: str, port: int, addresses: list[str]) -> None:
    listed = {"internal.example:80", "localhost:8080", "listed.example", "intranet", "wiki.home.arpa", "10.0.0.7"}
    Hosts(frozenset(listed)).check(host, port, addresses)


@pytest.mark.parametrize(
    ("url", "read"),
    [
        ("HTTP://Example.ORG", ("http://example.org/", "example.org", 80)),
        ("https://example.org.:443/a?b=c#d", ("https://example.org/a?b=c", "example.org", 443)),
        ("http://[2606:4700:0::1111]:8080/", ("http://[2606:4700::1111]:8080/", "2606:4700::1111", 8080)),
        ("http://example.org/ä?q=ü", ("http://example.org/%C3%A4?q=%C3%BC", "example.org", 80)),
        ("http://example.org/%2e%2e/x", ("http://example.org/%2e%2e/x", "example.org", 80)),
    ],
)
def test_an_address_is_read_once(url: str, read: tuple[str, str, int]) -> None:
    fact = parse(url)
    assert (fact.url, fact.host, fact.port) == read


# ------------------------------------------------------------------ servers


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    routes: dict[str, Callable[["Handler"], None]] = {}  # noqa: RUF012 - filled below, once

    def answer(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("content-length") or 0))
        route = self.routes.get(self.path.partition("?")[0])
        if route is None:
            self.reply(404, b"no such page\n")
        else:
            route(self)

    do_GET = do_POST = do_PUT = do_HEAD = answer

    def reply(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content_type": "text/plain", "content_length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def echo(handler: Handler) -> None:
    told = {"method": handler.command, "headers": dict(handler.headers), "body": handler.body.decode()}
    handler.reply(200, json.dumps(told).encode(), content_type="application/json")


def slow(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("content-length", "1000")
    handler.end_headers()
    for _ in range(100):
        try:
            handler.wfile.write(b".")
            time.sleep(0.05)
        except OSError:
            return


def bomb(handler: Handler) -> None:
    packer = zlib.compressobj(9, wbits=31)
    block = bytes(1 << 20).replace(b"\0", b"A")
    body = b"".join(packer.compress(block) for _ in range(200)) + packer.flush()
    handler.reply(200, body, content_encoding="gzip")


def endless(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("transfer-encoding", "chunked")
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
    except OSError:
        pass


def cut(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("content-length", "1000")
    handler.end_headers()
    handler.wfile.write(b"half")
    handler.close_connection = True


def garbage(handler: Handler) -> None:
    handler.wfile.write(b"\x00\x01 this is not HTTP\r\n\r\n")
    handler.close_connection = True


def to(location: str, status: int = 302) -> Callable[[Handler], None]:
    return lambda handler: handler.reply(status, location=location)


Handler.routes = {
    "/": lambda handler: handler.reply(200, b"hello\n"),
    "/echo": echo,
    "/slow": slow,
    "/bomb": bomb,
    "/endless": endless,
    "/cut": cut,
    "/garbage": garbage,
    "/gzip": lambda handler: handler.reply(200, gzip.compress(b"packed"), content_encoding="gzip"),
    "/badgzip": lambda handler: handler.reply(200, b"not gzip", content_encoding="gzip"),
    "/brotli": lambda handler: handler.reply(200, b"xx", content_encoding="br"),
    "/latin": lambda handler: handler.reply(200, b"caf\xe9", content_type="text/html; charset=ISO-8859-1"),
    "/oddcharset": lambda handler: handler.reply(200, b"fine", content_type="text/html; charset=base64"),
    "/binary": lambda handler: handler.reply(200, b"\x89PNG\0\0", content_type="image/png"),
    "/500": lambda handler: handler.reply(500, b"broken"),
    "/429": lambda handler: handler.reply(429, b"slowly", retry_after="7"),
    "/cookie": lambda handler: handler.reply(302, location="/echo", set_cookie="a=b; Path=/"),
    "/home": to("/"),
    "/here": to("echo", 307),
    "/see": to("/echo", 303),
    "/loop": to("/loop"),
    "/private": to("http://169.254.169.254/latest/meta-data"),
    "/other": to("http://localhost:1/"),
    "/file": to("file:///etc/passwd"),
    "/creds": to("http://user:pw@127.0.0.1/"),
}


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with served(Handler) as port:
        yield port


@pytest.fixture
def web(bench: Bench, port: int) -> Bench:
    return _patient(bench, port, 60.0)


def _patient(bench: Bench, port: int, seconds: float) -> Bench:
    security, runtime = Security(allowed_domains=[f"127.0.0.1:{port}"]), Runtime(http_timeout_seconds=seconds)
    return bench._replace(config=Config(security=security, runtime=runtime))


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"])
def test_a_private_address_that_is_not_listed(host: str, bench: Bench, port: int) -> None:
    result = bench.call("Http", url=f"http://{host}:{port}/")
    assert result.denial or "cannot be resolved" in result.content
    assert "hello" not in result.content


def test_another_port_of_a_listed_one_is_not_listed(web: Bench, port: int) -> None:
    assert web.call("Http", url=f"http://localhost:{port}/").denial
    assert web.call("Http", url=f"http://127.0.0.1:{port + 1}/").denial


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/private", "another host, http://169.254.169.254/latest/meta-data, and was not followed"),
        ("/other", "another host, http://localhost:1/, and"),
        ("/file", "was not followed"),
        ("/creds", "was not followed"),
        ("/loop", "redirects more than 5 times"),
    ],
)
def test_redirects_that_are_not_followed(path: str, said: str, web: Bench, port: int) -> None:
    assert said in web.call("Http", url=f"http://127.0.0.1:{port}{path}").content


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/none", "HTTP 404 Not Found"),
        ("/500", "HTTP 500"),
        ("/429", "retry-after: 7"),
        ("/cut", "failed"),
        ("/garbage", "failed"),
        ("/badgzip", "not valid gzip"),
        ("/brotli", "compressed as 'br'"),
    ],
)
def test_servers_that_misbehave(path: str, said: str, web: Bench, port: int) -> None:
    result = web.call("Http", url=f"http://127.0.0.1:{port}{path}")
    assert result.error_class == "tool_rejected"
    assert result.denial is None
    assert said in result.content


def test_a_server_that_does_not_answer(bench: Bench, port: int) -> None:
    result = _patient(bench, port, 1.0).call("Http", url=f"http://127.0.0.1:{port}/slow")
    assert result.error_class == "tool_rejected"
    assert "did not answer within 1 seconds" in result.content


def test_tls_with_a_server_that_has_none(web: Bench, port: int) -> None:
    result = web.call("Http", url=f"https://127.0.0.1:{port}/")
    assert result.error_class == "tool_rejected"
    assert "SSL" in result.content


def test_nobody_listens(bench: Bench) -> None:
    config = Config(security=Security(allowed_domains=["127.0.0.1"]))
    result = bench._replace(config=config).call("Http", url="http://127.0.0.1:9/")
    assert result.error_class == "tool_rejected"
    assert "failed" in result.content


@pytest.mark.parametrize("path", ["/bomb", "/endless"])
def test_a_body_has_its_cap_after_unpacking(path: str, web: Bench, port: int) -> None:
    result = web.call("Http", url=f"http://127.0.0.1:{port}{path}")
    assert not result.is_error
    assert result.content.endswith("\n[SDLC_TRUNCATED]")
    assert result.metadata["bytes"] == 1_048_576


@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil"}, {"Cookie": "a=b"}, {"Content-Length": "3"}, {"Transfer-Encoding": "chunked"}, {"Proxy-X": "1"},
     {"X-A": "b\r\nHost: evil"}, {"X A": "b"}, {"": "b"}, {"X-A": "ü"}],
)  # fmt: skip
def test_headers_that_are_not_the_models(headers: dict[str, str], web: Bench, port: int) -> None:
    result = web.call("Http", url=f"http://127.0.0.1:{port}/echo", headers=headers)
    assert result.error_class == "tool_rejected"


def test_a_get_has_no_body(web: Bench, port: int) -> None:
    assert "cannot have a body" in web.call("Http", url=f"http://127.0.0.1:{port}/echo", body="x").content


def test_proxies_of_the_environment_are_not_used(web: Bench, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert "hello" in web.call("Http", url=f"http://127.0.0.1:{port}/").content


# ------------------------------------------------------------------ answers


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/", "HTTP 200 OK\ncontent-type: text/plain\n\nhello\n"),
        ("/home", "HTTP 200 OK\ncontent-type: text/plain\n\nhello\n"),
        ("/gzip", "HTTP 200 OK\ncontent-type: text/plain\n\npacked"),
        ("/latin", "HTTP 200 OK\ncontent-type: text/html; charset=ISO-8859-1\n\ncafé"),
        ("/oddcharset", "HTTP 200 OK\ncontent-type: text/html; charset=base64\n\nfine"),
        ("/binary", "HTTP 200 OK\ncontent-type: image/png\n\n(binary content, 6 bytes)"),
    ],
)
def test_answers(path: str, shown: str, web: Bench, port: int) -> None:
    assert web.call("http", url=f"http://127.0.0.1:{port}{path}").content == shown


@pytest.mark.parametrize(
    ("path", "method", "body"), [("/echo", "POST", "{}"), ("/here", "POST", "{}"), ("/see", "GET", "")]
)
def test_what_is_sent(path: str, method: str, body: str, web: Bench, port: int) -> None:
    given = {"method": "POST", "body": "{}", "headers": {"X-Test": "1"}}
    content = web.call("Http", url=f"http://127.0.0.1:{port}{path}", **given).content
    told = json.loads(content.partition("\n\n")[2])
    names = {name.lower(): value for name, value in told["headers"].items()}
    assert (told["method"], told["body"], names["x-test"]) == (method, body, "1")
    assert names.get("content-type") == ("application/json" if body else None)
    assert names["host"] == f"127.0.0.1:{port}"


def test_no_cookie_is_kept(web: Bench, port: int) -> None:
    told = web.call("Http", url=f"http://127.0.0.1:{port}/cookie").content
    assert '"method": "GET"' in told
    assert "a=b" not in told


def test_a_name_is_resolved_and_checked(bench: Bench, port: int) -> None:
    config = Config(security=Security(allowed_domains=["LOCALHOST."]))
    assert "hello" in bench._replace(config=config).call("Http", url=f"http://localhost:{port}/").content


def test_touch_names_the_host(bench: Bench) -> None:
    touch = bench.touch("Http", url="https://Example.org/x", method="POST")
    assert touch.why == "sends POST to example.org"
    assert touch.hosts == (HostFact("POST", "https://example.org/x", "example.org", 443, "https"),)
