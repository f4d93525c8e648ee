"""OAuth 2.0 as a public client: authorization code with PKCE, device code, refresh, revocation."""

import base64
import hashlib
import hmac
import json
import math
import secrets as randomness
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import parse_qs, urlencode, urlsplit

from adderclaw.core.errors import AdderClawError, PathRefused
from adderclaw.core.redaction import Secrets, visible
from adderclaw.core.types import Clock, Json

if TYPE_CHECKING:
    from adderclaw.models.credentials.sources import OAuthSettings

REPLY_BYTES = 1 << 20
REQUEST_SECONDS = 30.0
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
SHOWN = 200


class OAuthError(AdderClawError):
    """The authorization server did not grant access, or its answer is invalid."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        """The server's error code (`access_denied`), or one of network, malformed and refused."""


class Tokens(NamedTuple):
    """The tokens of a login, bound to the client and server that issued them."""

    access: str
    refresh: str
    expires_at: float | None
    client_id: str
    token_url: str

    def __repr__(self) -> str:
        return f"Tokens([redacted], expires_at={self.expires_at!r})"

    def dump(self) -> str:
        return json.dumps(self._asdict())

    @staticmethod
    def load(text: str) -> "Tokens | None":
        """None if the text is not a stored login."""
        try:
            tokens = Tokens(**json.loads(text))
        except (ValueError, TypeError):
            return None
        return tokens if isinstance(tokens.access, str) and tokens.access else None  # pyright: ignore[reportUnnecessaryIsInstance]


class Attempt(NamedTuple):
    """A login attempt in the browser, with the values that its answer must match."""

    url: str
    redirect_uri: str
    state: str
    nonce: str
    verifier: str


class Device(NamedTuple):
    """One login by device code: the person enters `user_code` at `verification_uri`."""

    device_code: str
    user_code: str
    verification_uri: str
    interval: float
    expires_at: float


class Client:
    """One provider's authorization server."""

    def __init__(
        self, name: str, settings: "OAuthSettings", secrets: Secrets, clock: Clock, client_secret: str
    ) -> None:
        self.name, self.settings = name, settings
        self._secrets, self._clock, self._client_secret = secrets, clock, client_secret
        secrets.add(client_secret)

    # ------------------------------------------------------------------ authorization code

    def attempt(self, redirect_uri: str) -> Attempt:
        """Create a login attempt; the browser opens its URL."""
        if not self.settings.authorize_url:
            raise OAuthError(
                "refused", f"auth.oauth.{self.name}.authorize_url is not set; set it, or use --method device"
            )
        check_address(self.settings.authorize_url, f"auth.oauth.{self.name}.authorize_url")
        state, nonce, verifier = (randomness.token_urlsafe(32) for _ in range(3))
        for value in (state, nonce, verifier):
            self._secrets.add(value)
        query = {
            **self.settings.parameters,
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": redirect_uri,
            "state": state,
            "code_challenge": challenge(verifier),
            "code_challenge_method": "S256",
        }
        if self.settings.scopes:
            query["scope"] = " ".join(self.settings.scopes)
        if "openid" in self.settings.scopes:
            query["nonce"] = nonce
        mark = "&" if urlsplit(self.settings.authorize_url).query else "?"
        return Attempt(self.settings.authorize_url + mark + urlencode(query), redirect_uri, state, nonce, verifier)

    def code_of(self, attempt: Attempt, query: str) -> str:
        """The code in the redirect of the server; raises OAuthError for an answer that does not match the attempt."""
        try:
            fields = parse_qs(query, keep_blank_values=True, strict_parsing=True, max_num_fields=32)
        except ValueError:
            raise OAuthError("refused", "the answer from the browser cannot be read; log in again") from None
        if any(len(values) > 1 for values in fields.values()):
            raise OAuthError("refused", "the answer from the browser contains a field twice; log in again")
        answer = {name: values[0] for name, values in fields.items()}
        if not hmac.compare_digest(answer.get("state", "").encode(), attempt.state.encode()):
            message = "the answer from the browser does not belong to this login (state differs); log in again"
            raise OAuthError("refused", message)
        if self.settings.issuer and answer.get("iss", self.settings.issuer) != self.settings.issuer:
            raise OAuthError("refused", f"the answer is from another server than {self.settings.issuer}; log in again")
        if "error" in answer:
            raise self._told(answer, "the server did not allow the access")
        if not answer.get("code"):
            raise OAuthError("refused", "the answer from the browser contains no code; log in again")
        return answer["code"]

    async def exchange(self, attempt: Attempt, code: str) -> Tokens:
        self._secrets.add(code)
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": attempt.redirect_uri,
            "code_verifier": attempt.verifier,
        }
        reply = await self._post(self.settings.token_url, form, "token_url")
        tokens = self._tokens(reply, "")
        if "openid" in self.settings.scopes:
            self._check_id_token(reply.get("id_token"), attempt.nonce)
        return tokens

    # ------------------------------------------------------------------ device code

    async def device(self) -> Device:
        if not self.settings.device_url:
            raise OAuthError("refused", f"auth.oauth.{self.name}.device_url is not set; set it, or use --method paste")
        form = {"scope": " ".join(self.settings.scopes)} if self.settings.scopes else {}
        reply = await self._post(self.settings.device_url, form, "device_url")
        device_code, user_code = _text(reply, "device_code"), _text(reply, "user_code")
        where = _text(reply, "verification_uri_complete") or _text(reply, "verification_uri")
        if not (device_code and user_code and where):
            raise OAuthError("malformed", f"{_origin(self.settings.device_url)} sent no device code; check device_url")
        check_address(where, "the page that the server named")
        self._secrets.add(device_code)
        interval = max(1.0, _seconds(reply.get("interval")) or 5.0)
        expires = self._clock.now() + (_seconds(reply.get("expires_in")) or 600.0)
        return Device(device_code, visible(user_code, keep_newlines=False)[:64], where, interval, expires)

    async def poll(self, device: Device) -> Tokens:
        """Poll, at the interval that the server sets, until the person has decided."""
        interval = device.interval
        while self._clock.now() + interval <= device.expires_at:
            await self._clock.sleep(interval)
            form = {"grant_type": DEVICE_GRANT, "device_code": device.device_code}
            try:
                return self._tokens(await self._post(self.settings.token_url, form, "token_url"), "")
            except OAuthError as error:
                match error.code:
                    case "authorization_pending":
                        pass
                    case "slow_down":
                        interval += 5.0
                    case "network":
                        interval = min(60.0, interval * 2)
                    case "expired_token":
                        break
                    case _:
                        raise
        raise OAuthError("expired_token", f"nobody entered the code in time; run `adderclaw login {self.name}` again")

    # ------------------------------------------------------------------ later

    async def refresh(self, tokens: Tokens) -> Tokens:
        """Get new tokens for a refresh token, which becomes invalid if the server rotates refresh tokens."""
        form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh}
        return self._tokens(await self._post(self.settings.token_url, form, "token_url"), tokens.refresh)

    async def revoke(self, tokens: Tokens) -> None:
        if not self.settings.revoke_url:
            return
        for kind, token in (("refresh_token", tokens.refresh), ("access_token", tokens.access)):
            if token:
                form = {"token": token, "token_type_hint": kind}
                await self._post(self.settings.revoke_url, form, "revoke_url", empty=True)

    # ------------------------------------------------------------------ one exchange

    async def _post(self, url: str, form: Mapping[str, str], key: str, *, empty: bool = False) -> Json:
        check_address(url, f"auth.oauth.{self.name}.{key}")
        whole = {**form, "client_id": self.settings.client_id}
        if self._client_secret:
            whole["client_secret"] = self._client_secret
        status, body = await _exchanged(url, whole)
        if 300 <= status < 400:
            raise OAuthError("refused", f"{_origin(url)} answered {status}: redirects are not followed; correct {key}")
        try:
            reply: Any = json.loads(body) if body.strip() or not empty else {}
        except (ValueError, RecursionError):
            reply = {} if empty and status == 200 else None
        if not isinstance(reply, dict):
            raise OAuthError("malformed", f"{_origin(url)} answered {status} without JSON; check {key}")
        if status != 200 or "error" in reply:
            raise self._told(cast(Json, reply), f"{_origin(url)} answered {status}")
        return cast(Json, reply)

    def _told(self, reply: Mapping[str, Any], what: str) -> OAuthError:
        """An error with the server's message, redacted because it may repeat what it was sent."""
        code = _text(reply, "error")[:64] or "server_error"
        description = " ".join(str(self._secrets.clean(f"{code}: {_text(reply, 'error_description')}")).split())
        fix = {
            "invalid_grant": f"the login is no longer valid: `adderclaw login {self.name}`",
            "access_denied": "the access was denied",
            "invalid_client": f"check client_id in auth.oauth.{self.name}",
            "expired_token": f"run `adderclaw login {self.name}` again",
        }.get(code, f"check auth.oauth.{self.name}")
        return OAuthError(code, f"{what} ({description[:SHOWN].rstrip(': ')}); {fix}")

    def _tokens(self, reply: Json, refresh_before: str) -> Tokens:
        access, refresh = _text(reply, "access_token"), _text(reply, "refresh_token") or refresh_before
        for value in (access, refresh, _text(reply, "id_token")):
            self._secrets.add(value)
        origin = _origin(self.settings.token_url)
        if not access or not access.isascii() or not access.isprintable() or " " in access:
            raise OAuthError("malformed", f"{origin} sent no access token; check token_url")
        if (_text(reply, "token_type") or "bearer").lower() != "bearer":
            raise OAuthError("malformed", f"{origin} sent a token that is not a bearer token, so it cannot be used")
        lifetime = _seconds(reply.get("expires_in"))
        expires_at = self._clock.now() + lifetime if lifetime else None
        return Tokens(access, refresh, expires_at, self.settings.client_id, self.settings.token_url)

    def _check_id_token(self, token: Any, nonce: str) -> None:
        """Check the claims. The token came from the token endpoint, so TLS replaces checking its signature."""
        try:
            middle = str(token).split(".")[1]
            claims: Any = json.loads(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))
            table = cast(Json, claims)
            audience = cast(list[Any], table["aud"]) if isinstance(table["aud"], list) else [table["aud"]]
            right = (
                hmac.compare_digest(str(table["nonce"]).encode(), nonce.encode())
                and self.settings.client_id in audience
                and (not self.settings.issuer or table["iss"] == self.settings.issuer)
                and float(table["exp"]) > self._clock.now()
            )
        except (ValueError, KeyError, IndexError, TypeError, OverflowError):
            right = False
        if not right:
            raise OAuthError("refused", "the id token does not belong to this login (nonce, audience, issuer or time)")


def challenge(verifier: str) -> str:
    """The S256 code challenge of PKCE."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def check_address(url: str, key: str) -> None:
    """Raise OAuthError unless the URL uses https or is on this machine."""
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname or "", parts.port
    except ValueError as error:
        raise OAuthError("refused", f"{key} is not a valid address: {error}") from None
    local = host in ("localhost", "127.0.0.1", "::1")
    if parts.username is not None or not host or not (parts.scheme == "https" or (parts.scheme == "http" and local)):
        raise OAuthError(
            "refused", f"{key} must be an https:// address (http:// only on this machine), without a user name"
        )


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")


async def _exchanged(url: str, form: Mapping[str, str]) -> tuple[int, bytes]:
    from adderclaw.models.http import client
    from adderclaw.models.http.urls import Hosts, parse

    headers = {
        "accept": "application/json",
        "accept-encoding": "gzip",
        "content-type": "application/x-www-form-urlencoded",
        "user-agent": "adderclaw",
    }
    try:
        target = parse(url, "POST")
        answer = await client.request(
            target,
            headers=headers,
            content=urlencode(form).encode(),
            hosts=Hosts.named_by_operator(target),
            seconds=REQUEST_SECONDS,
            limit=REPLY_BYTES,
        )
    except PathRefused as error:
        raise OAuthError("refused", f"{_origin(url)} may not be reached: {error}") from None
    except client.Failed as error:
        raise OAuthError("network", f"{_origin(url)} cannot be reached ({error}); try again") from None
    if answer.cut:
        raise OAuthError("malformed", f"{_origin(url)} answered with more than {REPLY_BYTES} bytes")
    return answer.status, answer.body


def _text(table: Mapping[str, Any], key: str) -> str:
    value: Any = table.get(key)
    return value if isinstance(value, str) else ""


def _seconds(value: Any) -> float | None:
    """Parse a duration, which servers send as a number or as text; None if it is invalid."""
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return seconds if math.isfinite(seconds) and seconds > 0 and not isinstance(value, bool) else None
