"""Logging in against a real authorization server: each flow, and each answer that is not the one asked for."""

import asyncio
import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from adderclaw.config.schema import Auth
from adderclaw.core.errors import ProviderError
from adderclaw.core.redaction import Secrets
from adderclaw.models.credentials import loopback
from adderclaw.models.credentials.login_flows import chosen, log_in, open_page
from adderclaw.models.credentials.oauth import OAuthError, Tokens, challenge
from adderclaw.models.credentials.sources import AuthSettings
from adderclaw.models.credentials.stored_logins import Logins
from tests.models.credentials.making import Somebody, Time, run, server_of
from tests.oauth_server import OAuthServer


class Desk:
    """Logins of one home with one server, and the secrets that were registered on the way."""

    def __init__(self, home: Path, server: OAuthServer, time: Time | None = None, **settings: Any) -> None:
        self.time = time or Time()
        self.secrets = Secrets()
        auth: AuthSettings = Auth(storage="file", oauth={"here": server_of(server, **settings)})
        self.logins = Logins(auth, str(home), self.secrets, self.time)

    def log_in(self, method: Any, somebody: Somebody) -> Tokens:
        async def whole() -> Tokens:
            tokens = await log_in(self.logins.client("here"), method, somebody.person)
            await self.logins.keep("here", tokens)
            return tokens

        return run(whole())

    def fresh(self) -> str:
        tokens = run(self.logins.fresh("here"))
        assert tokens is not None
        return tokens.access


def browser(server: OAuthServer, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """What $BROWSER names is run with the address, as any browser is."""
    import sys

    script = home / "browser.py"
    script.write_text("import sys, urllib.request\nurllib.request.urlopen(sys.argv[1], timeout=60).read()\n")
    monkeypatch.setenv("BROWSER", f"{sys.executable} {script} %s")


# ------------------------------------------------------------------ the browser


def test_a_browser_of_the_workspace_is_not_opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    evil, good = tmp_path / "workspace", tmp_path / "bin"
    for folder in (evil, good):
        folder.mkdir()
        (folder / "netscape").write_text(f"#!/bin/sh\necho $1 > {folder}/opened\n")
        (folder / "netscape").chmod(0o755)
    monkeypatch.setenv("BROWSER", "netscape %s")
    monkeypatch.setenv("PATH", f"{evil}:{good}:{os.defpath}")
    run(open_page("http://127.0.0.1/x", f"{good}:{os.defpath}"))
    assert not (evil / "opened").exists()
    assert (good / "opened").read_text() == "http://127.0.0.1/x\n"


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"state": "forged"}, {}, "state differs"),
    ({"state": ""}, {}, "state differs"),
    ({"deny": True}, {}, "access_denied"),
    ({"repeat_code": True}, {}, "twice"),
    ({"issuer": "https://evil.example"}, {"issuer": "https://good.example"}, "another server"),
    ({"nonce": "replayed"}, {"scopes": ["openid"]}, "nonce"),
    ({"no_id_token": True}, {"scopes": ["openid"]}, "id token"),
    ({"claims": {"aud": "another"}}, {"scopes": ["openid"]}, "audience"),
    ({"claims": {"exp": 1}}, {"scopes": ["openid"]}, "time"),
    ({"claims": {"iss": "https://evil.example"}}, {"scopes": ["openid"], "issuer": "https://good.example"}, "issuer"),
    ({"token_reply": (200, "text/html", "<html>proxy</html>")}, {}, "without JSON"),
    ({"token_reply": (200, "application/json", "[]")}, {}, "without JSON"),
    ({"token_reply": (200, "application/json", "{}")}, {}, "no access token"),
    ({"token_reply": (200, "application/json", '{"access_token": "a b"}')}, {}, "no access token"),
    ({"token_reply": (200, "application/json", '{"access_token": 7}')}, {}, "no access token"),
    (
        {"token_reply": (200, "application/json", '{"access_token": "abcdefg", "token_type": "mac"}')},
        {},
        "not a bearer",
    ),
    ({"token_reply": (200, "application/json", "x" * 2_000_000)}, {}, "more than"),
    ({"token_reply": (500, "text/plain", "oops")}, {}, "without JSON"),
    ({"token_location": "http://127.0.0.1:1/steal"}, {}, "redirects are not followed"),
]


@pytest.mark.parametrize(("quirks", "settings", "says"), REFUSED)
def test_the_browsers_answer_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch, quirks: dict[str, Any], settings: dict[str, Any], says: str
) -> None:
    with OAuthServer(**quirks) as server:
        browser(server, monkeypatch, home)
        desk = Desk(home, server, **settings)
        with pytest.raises(OAuthError, match=says) as caught:
            desk.log_in("browser", Somebody())
        assert run(desk.logins.stored("here")) is None
        assert not any(secret in str(caught.value) for secret in server.issued)


@pytest.mark.parametrize("scopes", [[], ["model:use", "openid"]])
def test_by_the_browser(home: Path, monkeypatch: pytest.MonkeyPatch, scopes: list[str]) -> None:
    with OAuthServer() as server:
        browser(server, monkeypatch, home)
        somebody, desk = Somebody(), Desk(home, server, scopes=scopes, parameters={"audience": "models"})
        tokens = desk.log_in("browser", somebody)
        assert tokens.access in server.access
        assert desk.fresh() == tokens.access
        assert tokens.expires_at == desk.time.at + 3600
        assert "audience=models" in somebody.url
        (form,) = server.tokens_of("authorization_code")
        assert form["redirect_uri"].startswith("http://127.0.0.1:")
        assert form["redirect_uri"].endswith("/callback")
        assert len(form["code_verifier"]) >= 43
        assert form["code_verifier"] not in somebody.url
        assert "access-" not in repr(tokens)


def test_the_challenge_of_rfc_7636() -> None:
    assert challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk") == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


UNSAFE = ["http://auth.example.org/token", "https://user@auth.example.org/token", "ftp://127.0.0.1/", "http://127.1/x"]


@pytest.mark.parametrize("url", UNSAFE)
@pytest.mark.parametrize("key", ["authorize_url", "token_url", "device_url"])
def test_tokens_travel_over_https(home: Path, url: str, key: str) -> None:
    with OAuthServer() as server:
        desk = Desk(home, server, None, **{key: url})
        method = {"authorize_url": "paste", "device_url": "device", "token_url": "device"}[key]
        with pytest.raises(OAuthError, match="https"):
            desk.log_in(method, Somebody())


# ------------------------------------------------------------------ what listens for the browser

REQUESTS: list[tuple[str, str]] = [
    ("GET /other?code=1 HTTP/1.1\r\nHost: {host}\r\n\r\n", "404"),
    ("GET /callback/ HTTP/1.1\r\nHost: {host}\r\n\r\n", "404"),
    ("POST /callback?code=1 HTTP/1.1\r\nHost: {host}\r\n\r\n", "400"),
    ("GET /callback?code=1 HTTP/1.1\r\nHost: evil.example\r\n\r\n", "400"),
    ("GET /callback?code=1 HTTP/1.1\r\n\r\n", "400"),
    ("GET /callback?code=1 HTTP/1.1\r\nHost: {host}\r\nHost: {host}\r\n\r\n", "400"),
    ("\x16\x03\x01 hello\r\n\r\n", "400"),
    ("GET /callback?code=" + "x" * 40_000 + " HTTP/1.1\r\nHost: {host}\r\n\r\n", "400"),
]


def test_only_the_one_request_is_heard() -> None:
    async def heard() -> None:
        async with loopback.listening() as listener:
            host = listener.redirect_uri.split("/")[2]
            for request, status in REQUESTS:
                answer = await asyncio.to_thread(_said, host, request.format(host=host))
                assert f" {status} " in answer.split("\r\n")[0], request[:60]
                assert not listener.answer.done()
            page = await asyncio.to_thread(
                _said, host, f"GET /callback?code=<b>&state=s HTTP/1.1\r\nHost: {host}\r\n\r\n"
            )
            assert " 200 " in page.split("\r\n")[0]
            assert "<b>" not in page
            assert "no-store" in page
            assert await listener.answer == "code=<b>&state=s"
            again = await asyncio.to_thread(_said, host, f"GET /callback?code=2 HTTP/1.1\r\nHost: {host}\r\n\r\n")
            assert " 410 " in again.split("\r\n")[0]
        with pytest.raises(OSError, match="refused"):
            _said(host, "GET / HTTP/1.1\r\n\r\n")

    run(heard())


def _said(host: str, request: str) -> str:
    address, _, port = host.partition(":")
    with socket.create_connection((address, int(port)), timeout=60) as connection:
        try:
            connection.sendall(request.encode("latin-1"))
            return connection.makefile("rb").read().decode("latin-1")
        except ConnectionError:
            return "HTTP/1.1 400 reset"


def test_it_listens_on_this_machine_only() -> None:
    async def where() -> str:
        async with loopback.listening() as listener:
            return listener.redirect_uri

    assert run(where()).startswith("http://127.0.0.1:")


# ------------------------------------------------------------------ device code

DEVICE: list[tuple[dict[str, Any], list[float]]] = [
    ({}, [1]),
    ({"device": ["authorization_pending"] * 3}, [1, 1, 1, 1]),
    ({"device": ["slow_down", "authorization_pending", "slow_down"]}, [1, 6, 6, 11]),
    ({"interval": 7}, [7]),
    ({"interval": 0}, [5]),
]


@pytest.mark.parametrize(("quirks", "waits"), DEVICE)
def test_by_device_code(home: Path, quirks: dict[str, Any], waits: list[float]) -> None:
    with OAuthServer(**quirks) as server:
        somebody, desk = Somebody(), Desk(home, server)
        assert desk.log_in("device", somebody).access in server.access
        assert desk.time.slept == waits
        assert "WDJB-MJHT" in somebody.told[0]
        assert f"{server.url}/activate" in somebody.told[0]


DEVICE_REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"device": ["access_denied"]}, "denied"),
    ({"device": ["expired_token"]}, "nobody entered the code"),
    ({"device": ["authorization_pending"] * 1000, "device_expires_in": 30}, "nobody entered the code"),
    ({"device": ["invalid_client"]}, "client_id"),
    ({"verification_uri": "http://evil.example/"}, "https"),
    ({"verification_uri": "javascript:alert(1)"}, "https"),
]


@pytest.mark.parametrize(("quirks", "says"), DEVICE_REFUSED)
def test_a_device_code_that_is_not_granted(home: Path, quirks: dict[str, Any], says: str) -> None:
    with OAuthServer(**quirks) as server, pytest.raises(OAuthError, match=says):
        Desk(home, server).log_in("device", Somebody())


# ------------------------------------------------------------------ pasted


def test_by_the_pasted_address(home: Path) -> None:
    with OAuthServer() as server:
        assert Desk(home, server).log_in("paste", Somebody(server.location_of)).access in server.access


@pytest.mark.parametrize("form", ["{code}#{state}", "{code}"])
def test_by_a_code_that_a_page_shows(home: Path, form: str) -> None:
    with OAuthServer() as server:

        def read(url: str) -> str:
            shown = server.location_of(url)
            fields = dict(pair.split("=") for pair in shown.partition("?")[2].split("&"))
            return form.format(**fields)

        desk = Desk(home, server, redirect_url=f"{server.url}/shown")
        assert desk.log_in("paste", Somebody(read)).access in server.access


PASTED = ["", "   ", "just-a-code", "code#forged", "http://127.0.0.1/callback?code=x&state=forged", "http://x/?code=x"]


@pytest.mark.parametrize("text", PASTED)
def test_what_is_pasted_must_belong_to_this_login(home: Path, text: str) -> None:
    with OAuthServer() as server, pytest.raises(OAuthError):
        Desk(home, server).log_in("paste", Somebody(lambda _url: text))


def test_a_strangers_code_is_refused_by_pkce(home: Path) -> None:
    with OAuthServer() as server:
        stranger = Desk(home / "s", server).logins.client("here").attempt(f"{server.url}/shown")
        code = dict(pair.split("=") for pair in server.location_of(stranger.url).partition("?")[2].split("&"))["code"]
        desk = Desk(home, server, redirect_url=f"{server.url}/shown")
        with pytest.raises(OAuthError, match="no longer valid"):
            desk.log_in("paste", Somebody(lambda _url: code))


AUTO: list[tuple[dict[str, str], dict[str, Any], str]] = [
    ({"BROWSER": "firefox"}, {}, "browser"),
    ({"DISPLAY": ":0"}, {}, "browser"),
    ({"DISPLAY": ":0", "SSH_CONNECTION": "1"}, {}, "device"),
    ({}, {}, "device"),
    ({}, {"device_url": None}, "paste"),
    ({"DISPLAY": ":0"}, {"authorize_url": None}, "device"),
]


@pytest.mark.parametrize(("environment", "settings", "method"), AUTO)
def test_auto_takes_what_the_machine_can_do(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], settings: dict[str, Any], method: str
) -> None:
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with OAuthServer() as server:
        assert chosen("auto", server_of(server, **settings)) == method


# ------------------------------------------------------------------ later


def logged_in(home: Path, server: OAuthServer, **settings: Any) -> Desk:
    desk = Desk(home, server, **settings)
    desk.log_in("paste", Somebody(server.location_of))
    return desk


def test_a_token_is_renewed_before_it_expires_and_rotated(home: Path) -> None:
    with OAuthServer() as server:
        desk = logged_in(home, server)
        first = desk.fresh()
        desk.time.at += 3600 - 61
        assert desk.fresh() == first
        desk.time.at += 2
        second = desk.fresh()
        assert second != first
        assert [form["refresh_token"] for form in server.tokens_of("refresh_token")] == [server.issued[2]]
        assert Desk(home, server, desk.time).fresh() == second
        desk.time.at += 3600
        assert desk.fresh() not in (first, second)
        assert desk.secrets.scrub(" ".join(server.issued[1:])).count("[redacted]") == len(server.issued[1:])


def test_many_at_once_spend_one_refresh_token(home: Path) -> None:
    """Threads with a home in common stand for processes: each has its own vault, and the lock is a file's."""
    with OAuthServer(slow_seconds=0.1) as server:
        time = logged_in(home, server).time
        time.at += 4000
        found: list[str] = []

        def one() -> None:
            found.append(Desk(home, server, Time(time.at)).fresh())

        threads = [threading.Thread(target=one) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 6
        assert len(set(found)) == 1
        assert len(server.tokens_of("refresh_token")) == 1


def test_a_login_that_the_server_ended(home: Path) -> None:
    with OAuthServer(echo=True) as server:
        desk = logged_in(home, server)
        server.refresh.clear()
        desk.time.at += 4000
        with pytest.raises(OAuthError, match="adderclaw login here") as caught:
            desk.fresh()
        assert caught.value.code == "invalid_grant"
        assert not any(secret in str(caught.value) for secret in server.issued)


def test_a_server_that_is_away_is_a_network_error(home: Path) -> None:
    with OAuthServer() as server:
        desk = logged_in(home, server)
    desk.time.at += 4000
    with pytest.raises(ProviderError) as caught:
        desk.fresh()
    assert caught.value.kind == "network"


def test_a_refused_token_is_renewed_at_the_next_call(home: Path) -> None:
    with OAuthServer() as server:
        desk = logged_in(home, server)
        first = desk.fresh()
        desk.logins.distrust("here")
        assert desk.fresh() != first
        assert len(server.tokens_of("refresh_token")) == 1
        assert desk.fresh() == desk.fresh()
        assert len(server.tokens_of("refresh_token")) == 1


@pytest.mark.parametrize("change", [{"token_url": "https://evil.example/token"}, {"client_id": "another"}])
def test_a_login_is_bound_to_its_server(home: Path, change: dict[str, str]) -> None:
    """A configuration that names another server does not get the refresh token."""
    with OAuthServer() as server:
        logged_in(home, server)
        assert run(Desk(home, server, None, **change).logins.fresh("here")) is None


@pytest.mark.parametrize("lifetime", [None, "3600", 0, -5, "soon", True, float("1e400")])
def test_odd_lifetimes(home: Path, lifetime: Any) -> None:
    with OAuthServer(expires_in=lifetime) as server:
        desk = logged_in(home, server)
        assert desk.fresh() in server.access


def test_forgotten_is_gone_and_revoked(home: Path) -> None:
    with OAuthServer() as server:
        desk = logged_in(home, server)
        tokens = run(desk.logins.stored("here"))
        assert tokens is not None
        assert run(desk.logins.forget("here")) is True
        run(desk.logins.client("here").revoke(tokens))
        assert run(desk.logins.fresh("here")) is None
        assert (server.access, server.refresh) == (set(), {})
        assert [form["token_type_hint"] for path, form in server.forms if path == "/revoke"] == [
            "refresh_token",
            "access_token",
        ]
        assert run(desk.logins.forget("here")) is False


def test_who_renews_does_not_bring_back_what_was_forgotten(home: Path) -> None:
    with OAuthServer(slow_seconds=0.3) as server:
        desk = logged_in(home, server)
        desk.time.at += 4000
        other = Desk(home, server, desk.time)
        thread = threading.Thread(target=desk.fresh)
        thread.start()
        while thread.is_alive() and not server.tokens_of("refresh_token"):
            pass
        assert server.tokens_of("refresh_token")
        run(other.logins.forget("here"))
        thread.join()
        assert run(other.logins.stored("here")) is None
