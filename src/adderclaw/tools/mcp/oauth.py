"""Logins to MCP servers: the SDK's OAuth with AdderClaw's storage. Only `mcp login` asks a person."""

import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, NamedTuple, Protocol, cast
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import ValidationError

from adderclaw.config.servers import Entry, ServerLogin
from adderclaw.core.errors import AdderClawError
from adderclaw.core.redaction import Secrets
from adderclaw.core.types import Clock, Json
from adderclaw.models.credentials.oauth import check_address
from adderclaw.tools.mcp.setup import LoginNeeded

EARLY = 60.0


class LoginStore(Protocol):
    """Stores logins by name, and locks each while it is renewed."""

    async def text(self, name: str) -> str | None: ...
    async def keep_text(self, name: str, text: str) -> str: ...
    def alone(self, name: str) -> AbstractAsyncContextManager[None]: ...


def login_name(entry: Entry) -> str:
    return f"mcp:{entry.scope}:{entry.name}"


class StoredLogin:
    """One server's login, which is valid only for its URL."""

    def __init__(self, entry: Entry, url: str, keeper: LoginStore, secrets: Secrets, clock: Clock) -> None:
        self._entry, self._url, self._keeper, self.secrets, self._clock = entry, url, keeper, secrets, clock
        self._data: Json | None = None
        self._spent = False
        self.about: OAuthContext | None = None
        """What the running flow knows about the server."""

    async def exists(self) -> bool:
        return "tokens" in await self._read()

    async def get_tokens(self) -> OAuthToken | None:
        data = await self._read()
        try:
            tokens = OAuthToken.model_validate(data["tokens"])
        except (KeyError, ValidationError):
            return None
        for value in (tokens.access_token, tokens.refresh_token):
            self.secrets.add(value or "")
        if self._spent:
            return None
        if self.is_due:
            tokens.access_token = ""  # the SDK treats a token without an expiry as valid: an empty one is renewed
        return tokens

    @property
    def is_due(self) -> bool:
        """Whether the stored tokens have expired or are about to."""
        expires: Any = (self._data or {}).get("expires_at")
        return isinstance(expires, int | float) and expires - EARLY < self._clock.now()

    async def set_tokens(self, tokens: OAuthToken) -> None:
        for value in (tokens.access_token, tokens.refresh_token):
            self.secrets.add(value or "")
        data = await self._read()
        lasts = tokens.expires_in
        data["tokens"] = tokens.model_dump(mode="json", exclude_none=True)
        data["expires_at"] = None if lasts is None else self._clock.now() + lasts
        if self.about is not None and self.about.oauth_metadata is not None:
            data["server"] = _server_facts(self.about)
        self._spent = False
        await self._write(data)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        login = self._entry.server.oauth
        if login is not None and login.clientId:
            secret = os.environ.get(login.clientSecretEnv or "", "").strip() or None
            self.secrets.add(secret or "")
            method = "client_secret_basic" if secret else "none"
            return OAuthClientInformationFull(
                client_id=login.clientId, client_secret=secret, token_endpoint_auth_method=method, redirect_uris=None
            )
        try:
            return OAuthClientInformationFull.model_validate((await self._read())["client"])
        except (KeyError, ValidationError):
            return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.secrets.add(client_info.client_secret or "")
        data = await self._read()
        data["client"] = client_info.model_dump(mode="json", exclude_none=True)
        await self._write(data)

    async def restore(self, context: OAuthContext) -> None:
        """Loads the stored login into a new flow, including the token endpoint, which the SDK does not store."""
        context.current_tokens, context.client_info = await self.get_tokens(), await self.get_client_info()
        server: Any = (await self._read()).get("server")
        try:
            context.oauth_metadata = OAuthMetadata.model_validate(server["metadata"])
            context.auth_server_url = server.get("issuer")
            if "resource" in server:
                context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(server["resource"])
        except (KeyError, TypeError, ValidationError):
            return

    def mark_unusable(self) -> None:
        """Marks a login that cannot be renewed as unusable until the next login."""
        self._spent = True

    def start_over(self) -> None:
        """Starts a new login: ignores the stored one, which is replaced on success."""
        self._data = {"url": self._url}

    def reread(self) -> None:
        """Reads the login again, because another process may have renewed it."""
        self._data, self._spent = None, False

    def alone(self) -> AbstractAsyncContextManager[None]:
        """A lock: other processes wait while one renews the login."""
        return self._keeper.alone(login_name(self._entry))

    async def _read(self) -> Json:
        if self._data is None:
            try:
                data: Any = json.loads(await self._keeper.text(login_name(self._entry)) or "{}")
            except ValueError:
                data = {}
            mine = isinstance(data, dict) and cast(Json, data).get("url") == self._url
            self._data = cast(Json, data) if mine else {"url": self._url}
        return self._data

    async def _write(self, data: Json) -> None:
        self._data = data
        if "tokens" in data:  # without tokens there is no login to store
            await self._keeper.keep_text(login_name(self._entry), json.dumps(data))


class Person(NamedTuple):
    """The person who logs in: sees the URL, and returns the query of the redirect."""

    redirect_uri: str
    show: Callable[[str], Awaitable[None]]
    answer: Callable[[], Awaitable[str]]


def _server_facts(context: OAuthContext) -> Json:
    assert context.oauth_metadata is not None
    facts: Json = {"metadata": context.oauth_metadata.model_dump(mode="json", exclude_none=True)}
    if (resource := context.protected_resource_metadata) is not None:
        facts |= {"resource": resource.model_dump(mode="json", exclude_none=True), "issuer": context.auth_server_url}
    return facts


class RenewingAuth(httpx2.Auth):
    """Adds to the SDK's flow what it lacks: a stored token endpoint, and a lock between processes."""

    requires_response_body = True

    def __init__(self, login: OAuthClientProvider, stored: StoredLogin) -> None:
        self._login, self._kept, self._begun = login, stored, False
        stored.about = login.context

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Renews the token before it expires, and once more if the server still refuses it."""
        context = self._login.context
        async with context.lock, AsyncExitStack() as stack:
            if not self._begun:
                await self._kept.restore(context)
                self._begun = True
            if self._kept.is_due and (renewal := await self._renewal(stack, "")) is not None:
                await self._renewed((yield renewal))
        flow, tried = self._login.async_auth_flow(request), False
        try:
            outgoing = await anext(flow)
            while True:
                response = yield outgoing
                sent = request.headers.get("authorization", "").removeprefix("Bearer ")
                if outgoing is request and response.status_code == 401 and sent and not tried:
                    tried = True
                    async with AsyncExitStack() as stack:
                        if (renewal := await self._renewal(stack, sent)) is not None:
                            await self._renewed((yield renewal))
                    if context.is_token_valid() and context.current_tokens is not None:
                        request.headers["Authorization"] = f"Bearer {context.current_tokens.access_token}"
                        response = yield request
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    async def _renewal(self, stack: AsyncExitStack, refused: str) -> httpx2.Request | None:
        """The request that renews the login; None if another process did it or it cannot be renewed."""
        await stack.enter_async_context(self._kept.alone())
        self._kept.reread()
        context, tokens = self._login.context, await self._kept.get_tokens()
        if tokens is not None and tokens.access_token == refused:
            tokens.access_token = ""
        context.current_tokens, context.token_expiry_time = tokens, None
        if context.is_token_valid() or not context.can_refresh_token():
            return None
        assert tokens is not None
        assert context.client_info is not None
        data = {
            "grant_type": "refresh_token",
            "refresh_token": tokens.refresh_token or "",
            "client_id": context.client_info.client_id,
        }
        if context.should_include_resource_param(context.protocol_version):
            data["resource"] = context.get_resource_url()
        data, headers = context.prepare_token_auth(data, {"content-type": "application/x-www-form-urlencoded"})
        known = context.oauth_metadata
        usual = f"{context.get_authorization_base_url(context.server_url)}/token"
        return httpx2.Request("POST", str(known.token_endpoint) if known else usual, data=data, headers=headers)

    async def _renewed(self, response: httpx2.Response) -> None:
        """Stores the renewed tokens, keeping fields that the answer omits. An invalid answer ends the login."""
        context = self._login.context
        try:
            tokens = OAuthToken.model_validate_json(await response.aread()) if response.status_code == 200 else None
        except ValidationError:
            tokens = None
        if tokens is None:
            self._kept.mark_unusable()
            context.clear_tokens()
            return
        before = context.current_tokens
        if before is not None:
            tokens.scope = tokens.scope or before.scope
            tokens.refresh_token = tokens.refresh_token or before.refresh_token
        context.current_tokens = tokens
        context.update_token_expiry(tokens)
        await self._kept.set_tokens(tokens)


def auth_for(entry: Entry, url: str, stored: StoredLogin, person: Person | None) -> httpx2.Auth:
    """The `Auth` of a server. Without a person, a login that cannot be renewed is an error that names the command."""
    login = entry.server.oauth
    if login is not None and login.grant == "client_credentials":
        return client_credentials_auth(entry, login, url, stored.secrets)
    metadata = OAuthClientMetadata(
        client_name="AdderClaw",
        redirect_uris=[person.redirect_uri if person is not None else "http://127.0.0.1/callback"],  # pyright: ignore[reportArgumentType]
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        scope=" ".join(login.scopes) if login is not None and login.scopes else None,
    )

    async def show(address: str) -> None:
        if person is None:
            raise LoginNeeded(entry.name)
        check_address(address, "the page that the server named")
        await person.show(address)

    async def answer() -> AuthorizationCodeResult:
        assert person is not None
        return _authorization_code(await person.answer())

    flow = OAuthClientProvider(
        url,
        metadata,
        stored,
        redirect_handler=show,
        callback_handler=answer,
        client_metadata_url=login.clientMetadataUrl if login is not None else None,
    )
    return RenewingAuth(flow, stored)


# ------------------------------------------------------------------ clients without a person


class SessionLogin:
    """A login that each session makes itself and that is not stored."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._secrets.add(tokens.access_token)
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Does nothing: the client is registered already."""


def client_credentials_auth(entry: Entry, login: ServerLogin, url: str, secrets: Secrets) -> httpx2.Auth:
    """Logs in with the client's own secret or key, which only the named authorization server receives."""
    from mcp.client.auth.extensions.client_credentials import (
        ClientCredentialsOAuthProvider,
        PrivateKeyJWTOAuthProvider,
        SignedJWTParameters,
    )

    name = login.clientKeyEnv or login.clientSecretEnv or ""
    secret, client, issuer = os.environ.get(name, "").strip(), login.clientId or "", login.issuer or ""
    if not secret:
        raise AdderClawError(f"the environment variable {name} is not set, which mcp_servers.{entry.given}.oauth names")
    scope = " ".join(login.scopes) or None
    if login.clientKeyEnv is None:
        secrets.add(secret)
        return ClientCredentialsOAuthProvider(url, SessionLogin(secrets), client, secret, scope=scope, issuer=issuer)
    for line in secret.splitlines():
        secrets.add(line if len(line) > 20 and not line.startswith("-----") else "")
    signs = SignedJWTParameters(
        issuer=client, subject=client, signing_key=secret, signing_algorithm=_signing_algorithm(name, secret)
    )
    assertion = signs.create_assertion_provider()
    return PrivateKeyJWTOAuthProvider(url, SessionLogin(secrets), client, assertion, scope=scope, issuer=issuer)


def _signing_algorithm(name: str, key: str) -> str:
    """The signing algorithm for a kind of key."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        private_key = load_pem_private_key(key.encode(), None)
    except (ValueError, TypeError) as error:
        raise AdderClawError(f"{name} holds no private key in PEM form without a passphrase: {error}") from None
    match private_key:
        case rsa.RSAPrivateKey():
            return "RS256"
        case ec.EllipticCurvePrivateKey():
            return {256: "ES256", 384: "ES384", 521: "ES512"}.get(private_key.key_size, "ES256")
        case ed25519.Ed25519PrivateKey():
            return "EdDSA"
        case _:
            raise AdderClawError(f"{name} holds a key of another kind; RSA, EC and Ed25519 keys can sign")


def _authorization_code(query: str) -> AuthorizationCodeResult:
    """The authorization code from the redirect; the SDK compares state and issuer."""
    text = urlsplit(query).query if "://" in query else query
    try:
        fields = {name: values[0] for name, values in parse_qs(text, strict_parsing=True, max_num_fields=32).items()}
    except ValueError:
        raise AdderClawError("the answer from the browser cannot be read; log in again") from None
    if "code" not in fields:
        why = fields.get("error", "it holds no code")
        raise AdderClawError(f"the server did not allow the access ({why[:100]}); log in again")
    return AuthorizationCodeResult(code=fields["code"], state=fields.get("state"), iss=fields.get("iss"))
