"""An authorization server on 127.0.0.1: code with PKCE (S256 only), device code, rotating refresh tokens, revocation.

    with OAuthServer() as server:
        server.config("here")       # the [auth.oauth.here] table
        server.browse(url)          # what a browser does: allow the access, follow the redirect

It keeps to the RFCs by default; `server.quirks` bends one thing at a time.
"""

import base64
import hashlib
import json
import secrets
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, TypedDict, cast
from urllib.parse import parse_qsl, urlencode, urlsplit

type Json = dict[str, Any]

CLIENT_ID = "test-client"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


class Quirks(TypedDict, total=False):
    deny: bool
    """The person does not allow the access."""
    state: str
    """Sent back instead of the state that came."""
    repeat_code: bool
    """The redirect names a second code."""
    issuer: str
    """`iss` of the redirect and of id tokens."""
    nonce: str
    """In id tokens, instead of the nonce that came."""
    no_id_token: bool
    claims: Json
    """Of id tokens, instead of the right ones."""
    device: list[str]
    """What the polls get, in order, before the token: authorization_pending, slow_down, expired_token, …"""
    interval: int
    device_expires_in: int
    verification_uri: str
    token_reply: tuple[int, str, str]
    """Status, content type and body of every answer of the token endpoint."""
    token_location: str
    """The token endpoint redirects there."""
    echo: bool
    """Errors of the token endpoint repeat all that was sent."""
    expires_in: Any
    slow_seconds: float
    """The token endpoint thinks for so long."""
    revoke_status: int


class OAuthServer:
    def __init__(self, **quirks: Any) -> None:
        self.quirks = cast(Quirks, quirks)
        self.forms: list[tuple[str, Json]] = []
        """(path, form) of every POST, in order."""
        self.access: set[str] = set()
        """Access tokens that are good."""
        self.refresh: dict[str, bool] = {}
        """Refresh token → whether it can still be used."""
        self.issued: list[str] = []
        """Every secret that ever left, for tests that look for them."""
        self.complaints: list[str] = []
        self._codes: dict[str, Json] = {}
        self._devices: dict[str, list[str]] = {}
        self._lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.get(self)

            def do_POST(self) -> None:
                server.post(self)

            def log_message(self, format: str, *args: Any) -> None:
                """Quiet."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._http.shutdown()
        self._http.server_close()
        if kind is None:
            assert not self.complaints, self.complaints

    def config(self, name: str, **more: str) -> str:
        """The table of this server for a configuration file; None as a value leaves a key out."""
        keys = {
            "client_id": CLIENT_ID,
            "authorize_url": f"{self.url}/authorize",
            "token_url": f"{self.url}/token",
            "device_url": f"{self.url}/device",
            "revoke_url": f"{self.url}/revoke",
            **more,
        }
        lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items() if value]
        return f"[auth.oauth.{name}]\n" + "\n".join(lines) + "\n"

    def tokens_of(self, grant: str) -> list[Json]:
        return [form for path, form in self.forms if path == "/token" and form.get("grant_type") == grant]

    # ------------------------------------------------------------------ the person's side

    def location_of(self, url: str) -> str:
        """Where the server sends the browser after the person has decided."""

        class Stay(urllib.request.HTTPRedirectHandler):
            def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any) -> None:
                """The answer itself is what is looked for."""

        try:
            urllib.request.build_opener(Stay).open(url, timeout=60)
        except urllib.error.HTTPError as answer:
            return answer.headers["Location"]
        raise AssertionError(f"no redirect from {url}")

    def browse(self, url: str) -> str:
        """Follow it like a browser; the page that is shown in the end."""
        with urllib.request.urlopen(self.location_of(url), timeout=60) as page:
            return page.read().decode()

    # ------------------------------------------------------------------ GET /authorize, and what there is

    def get(self, http: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(http.path)
        if parts.path.startswith("/.well-known/oauth-authorization-server"):
            _json(http, 200, self._metadata())
            return
        query = dict(parse_qsl(parts.query))
        wanted = {"response_type": "code", "client_id": CLIENT_ID, "code_challenge_method": "S256"}
        wrong = [key for key, value in wanted.items() if query.get(key) != value]
        wrong += [key for key in ("redirect_uri", "state", "code_challenge") if not query.get(key)]
        redirect = query.get("redirect_uri", "")
        if not redirect.startswith(("http://127.0.0.1:", f"{self.url}/shown")):
            wrong.append("redirect_uri")
        if parts.path != "/authorize" or wrong:
            self.complaints.append(f"GET {parts.path}: {wrong}")
            _answer(http, 400, json.dumps({"error": "invalid_request", "wrong": wrong}))
            return
        _answer(http, 302, "", {"Location": f"{redirect}?{self._decision(query)}"})

    def _metadata(self) -> Json:
        """RFC 8414, for clients that find their way and register themselves (RFC 7591)."""
        ends = {"authorization": "authorize", "token": "token", "registration": "register", "revocation": "revoke"}
        return {
            "issuer": self.url,
            **{f"{name}_endpoint": f"{self.url}/{path}" for name, path in ends.items()},
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": ["none"],
            "code_challenge_methods_supported": ["S256"],
        }

    def _decision(self, query: Json) -> str:
        answer: list[tuple[str, str]] = [("state", self.quirks.get("state", query["state"]))]
        if issuer := self.quirks.get("issuer"):
            answer.append(("iss", issuer))
        if self.quirks.get("deny"):
            return urlencode([*answer, ("error", "access_denied"), ("error_description", "the person said no")])
        code = self._secret("code")
        self._codes[code] = query
        answer.append(("code", code))
        if self.quirks.get("repeat_code"):
            answer.append(("code", "another"))
        return urlencode(answer)

    # ------------------------------------------------------------------ POST

    def post(self, http: BaseHTTPRequestHandler) -> None:
        body, path = http.rfile.read(int(http.headers["content-length"])).decode(), urlsplit(http.path).path
        if path == "/register":
            _json(http, 201, {**json.loads(body), "client_id": CLIENT_ID, "token_endpoint_auth_method": "none"})
            return
        form: Json = dict(parse_qsl(body))
        with self._lock:
            self.forms.append((path, form))
        if form.get("client_id") != CLIENT_ID:
            _json(http, 401, {"error": "invalid_client"})
        elif path == "/token":
            time.sleep(self.quirks.get("slow_seconds", 0.0))
            self._token(http, form)
        elif path == "/device":
            self._device(http)
        elif path == "/revoke":
            self._revoke(http, form)
        else:
            _json(http, 404, {"error": "not_found"})

    def _token(self, http: BaseHTTPRequestHandler, form: Json) -> None:
        if reply := self.quirks.get("token_reply"):
            _answer(http, reply[0], reply[2], {"Content-Type": reply[1]})
            return
        if location := self.quirks.get("token_location"):
            _answer(http, 307, "", {"Location": location})
            return
        with self._lock:
            match form.get("grant_type"):
                case "authorization_code":
                    error, nonce = self._redeem(form)
                case "refresh_token":
                    error, nonce = self._spend(form.get("refresh_token", "")), ""
                case "urn:ietf:params:oauth:grant-type:device_code":
                    error, nonce = self._poll(form.get("device_code", "")), ""
                case _:
                    error, nonce = "unsupported_grant_type", ""
            if error:
                told = {"error": error}
                if self.quirks.get("echo"):
                    told["error_description"] = f"cannot use {json.dumps(form)}"
                _json(http, 400, told)
            else:
                _json(http, 200, self._granted(nonce))

    def _redeem(self, form: Json) -> tuple[str, str]:
        query = self._codes.pop(form.get("code", ""), None)
        if query is None or form.get("redirect_uri") != query["redirect_uri"]:
            return "invalid_grant", ""
        hashed = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if base64.urlsafe_b64encode(hashed).rstrip(b"=").decode() != query["code_challenge"]:
            return "invalid_grant", ""
        return "", query.get("nonce", "")

    def _spend(self, token: str) -> str:
        """A refresh token is good once; a second use ends the whole login, as RFC 9700 wants it."""
        if not self.refresh.get(token):
            if token in self.refresh:
                self.complaints.append("a refresh token was spent twice")
                self.refresh = dict.fromkeys(self.refresh, False)
            return "invalid_grant"
        self.refresh[token] = False
        return ""

    def _poll(self, device: str) -> str:
        if device not in self._devices:
            return "invalid_grant"
        return self._devices[device].pop(0) if self._devices[device] else ""

    def _granted(self, nonce: str) -> Json:
        access, refresh = self._secret("access"), self._secret("refresh")
        self.access.add(access)
        self.refresh[refresh] = True
        reply: Json = {"access_token": access, "refresh_token": refresh, "token_type": "Bearer"}
        reply["expires_in"] = self.quirks.get("expires_in", 3600)
        if nonce and not self.quirks.get("no_id_token"):
            claims = {
                "nonce": self.quirks.get("nonce", nonce),
                "aud": CLIENT_ID,
                "iss": self.quirks.get("issuer", self.url),
                "exp": 4_000_000_000,
                **self.quirks.get("claims", {}),
            }
            parts = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in ({}, claims))
            reply["id_token"] = ".".join((*parts, "signature"))
        return reply

    def _device(self, http: BaseHTTPRequestHandler) -> None:
        device = self._secret("device")
        self._devices[device] = list(self.quirks.get("device", []))
        reply = {
            "device_code": device,
            "user_code": "WDJB-MJHT",
            "verification_uri": self.quirks.get("verification_uri", f"{self.url}/activate"),
            "expires_in": self.quirks.get("device_expires_in", 600),
            "interval": self.quirks.get("interval", 1),
        }
        _json(http, 200, reply)

    def _revoke(self, http: BaseHTTPRequestHandler, form: Json) -> None:
        if status := self.quirks.get("revoke_status"):
            _json(http, status, {"error": "temporarily_unavailable"})
            return
        self.access.discard(form.get("token", ""))
        self.refresh.pop(form.get("token", ""), None)
        _answer(http, 200, "")

    def _secret(self, kind: str) -> str:
        made = f"{kind}-{secrets.token_urlsafe(24)}"
        self.issued.append(made)
        return made


def _json(http: BaseHTTPRequestHandler, status: int, body: Json) -> None:
    _answer(http, status, json.dumps(body), {"Content-Type": "application/json"})


def _answer(http: BaseHTTPRequestHandler, status: int, body: str, headers: dict[str, str] | None = None) -> None:
    data = body.encode()
    http.send_response(status)
    for name, value in {**(headers or {}), "Content-Length": str(len(data))}.items():
        http.send_header(name, value)
    http.end_headers()
    http.wfile.write(data)
