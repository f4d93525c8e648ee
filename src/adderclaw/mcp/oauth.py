"""Logins to MCP servers: the SDK's OAuth over our own storage; a person is asked only when they wanted to log in."""

import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, NamedTuple, Protocol, cast
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import ValidationError

from adderclaw.config.servers import Entry
from adderclaw.credentials.oauth import check_address
from adderclaw.credentials.redaction import Secrets
from adderclaw.errors import AdderClawError
from adderclaw.types import Clock, Json

EARLY = 60.0


class Keeper(Protocol):
    """Where logins are kept."""

    async def text(self, name: str) -> str | None: ...
    async def keep_text(self, name: str, text: str) -> str: ...
    def alone(self, name: str) -> AbstractAsyncContextManager[None]: ...


def place_of(entry: Entry) -> str:
    return f"mcp:{entry.scope}:{entry.name}"


class Kept:
    """One server's login, bound to its address: a login of another address is none."""

    def __init__(self, entry: Entry, url: str, keeper: Keeper, secrets: Secrets, clock: Clock) -> None:
        self._entry, self._url, self._keeper, self._secrets, self._clock = entry, url, keeper, secrets, clock
        self._data: Json | None = None

    async def exists(self) -> bool:
        return "tokens" in await self._read()

    async def get_tokens(self) -> OAuthToken | None:
        data = await self._read()
        try:
            tokens = OAuthToken.model_validate(data["tokens"])
        except (KeyError, ValidationError):
            return None
        for value in (tokens.access_token, tokens.refresh_token):
            self._secrets.add(value or "")
        if self.due:
            tokens.access_token = ""  # to the SDK a token without a date is good for ever: this one must be renewed
        return tokens

    @property
    def due(self) -> bool:
        """Whether what was last read or kept has expired, or is about to."""
        expires: Any = (self._data or {}).get("expires_at")
        return isinstance(expires, int | float) and expires - EARLY < self._clock.now()

    async def set_tokens(self, tokens: OAuthToken) -> None:
        for value in (tokens.access_token, tokens.refresh_token):
            self._secrets.add(value or "")
        data = await self._read()
        lasts = tokens.expires_in
        data["tokens"] = tokens.model_dump(mode="json", exclude_none=True)
        data["expires_at"] = None if lasts is None else self._clock.now() + lasts
        await self._write(data)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        login = self._entry.server.oauth
        if login is not None and login.clientId:
            secret = os.environ.get(login.clientSecretEnv or "", "").strip() or None
            self._secrets.add(secret or "")
            method = "client_secret_basic" if secret else "none"
            return OAuthClientInformationFull(
                client_id=login.clientId, client_secret=secret, token_endpoint_auth_method=method, redirect_uris=None
            )
        try:
            return OAuthClientInformationFull.model_validate((await self._read())["client"])
        except (KeyError, ValidationError):
            return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._secrets.add(client_info.client_secret or "")
        data = await self._read()
        data["client"] = client_info.model_dump(mode="json", exclude_none=True)
        await self._write(data)

    async def server(self) -> Json:
        """What was found out about where to renew it."""
        found: Any = (await self._read()).get("server")
        return cast(Json, found) if isinstance(found, dict) else {}

    async def set_server(self, found: Json) -> None:
        data = await self._read()
        data["server"] = found
        await self._write(data)

    def anew(self) -> None:
        """A login begins: what is kept counts no longer, and is replaced when there is a new one."""
        self._data = {"url": self._url}

    def reread(self) -> None:
        """Another process may have renewed it meanwhile."""
        self._data = None

    def alone(self) -> AbstractAsyncContextManager[None]:
        """While one process renews it, every other waits."""
        return self._keeper.alone(place_of(self._entry))

    async def _read(self) -> Json:
        if self._data is None:
            try:
                data: Any = json.loads(await self._keeper.text(place_of(self._entry)) or "{}")
            except ValueError:
                data = {}
            mine = isinstance(data, dict) and cast(Json, data).get("url") == self._url
            self._data = cast(Json, data) if mine else {"url": self._url}
        return self._data

    async def _write(self, data: Json) -> None:
        self._data = data
        if "tokens" in data:  # without them it is no login
            await self._keeper.keep_text(place_of(self._entry), json.dumps(data))


class Person(NamedTuple):
    """Who logs in: is shown the address, and the answer comes back as the query of where the browser ended."""

    redirect_uri: str
    show: Callable[[str], Awaitable[None]]
    answer: Callable[[], Awaitable[str]]


class Renewing(OAuthClientProvider):
    """The SDK's flow, which forgets with each process where it may renew, and knows of no other process."""

    def __init__(self, url: str, metadata: OAuthClientMetadata, kept: Kept, **handlers: Any) -> None:
        super().__init__(url, metadata, kept, **handlers)
        self._kept = kept

    async def _initialize(self) -> None:
        await super()._initialize()
        found, context = await self._kept.server(), self.context
        try:
            context.oauth_metadata = OAuthMetadata.model_validate(found["metadata"])
            context.auth_server_url = found.get("issuer")
            if "resource" in found:
                context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(found["resource"])
        except (KeyError, ValidationError):
            return

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        await super()._handle_token_response(response)
        metadata, resource = self.context.oauth_metadata, self.context.protected_resource_metadata
        if metadata is None:
            return
        found: Json = {"metadata": metadata.model_dump(mode="json", exclude_none=True)}
        if resource is not None:
            found |= {"resource": resource.model_dump(mode="json", exclude_none=True)}
            found["issuer"] = self.context.auth_server_url
        await self._kept.set_server(found)

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Renewed before it expires, and once more where the server refuses it all the same."""
        async with self.context.lock, AsyncExitStack() as stack:
            if not self._initialized:
                await self._initialize()
            if self._kept.due and (renewal := await self._renewal(stack, "")) is not None:
                await self._handle_refresh_response((yield renewal))
        flow, tried = super()._auth_flow(request), False
        try:
            outgoing = await anext(flow)
            while True:
                response = yield outgoing
                sent = request.headers.get("authorization", "").removeprefix("Bearer ")
                if outgoing is request and response.status_code == 401 and sent and not tried:
                    tried = True
                    async with AsyncExitStack() as stack:
                        if (renewal := await self._renewal(stack, sent)) is not None:
                            await self._handle_refresh_response((yield renewal))
                    if self.context.is_token_valid():
                        self._add_auth_header(request)
                        response = yield request
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    async def _renewal(self, stack: AsyncExitStack, refused: str) -> httpx2.Request | None:
        """The request that renews the login; none where another process has done it, or it cannot be renewed."""
        await stack.enter_async_context(self._kept.alone())
        self._kept.reread()
        tokens = await self._kept.get_tokens()
        if tokens is not None and tokens.access_token == refused:
            tokens.access_token = ""
        self.context.current_tokens, self.context.token_expiry_time = tokens, None
        if self.context.is_token_valid() or not self.context.can_refresh_token():
            return None
        return await self._refresh_token()


def provider(entry: Entry, url: str, kept: Kept, person: Person | None) -> OAuthClientProvider:
    """The `Auth` of a server. Without a person what cannot be renewed is an error that names the command."""
    login = entry.server.oauth
    metadata = OAuthClientMetadata(
        client_name="AdderClaw",
        redirect_uris=[person.redirect_uri if person is not None else "http://127.0.0.1/callback"],  # pyright: ignore[reportArgumentType]
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        scope=" ".join(login.scopes) if login is not None and login.scopes else None,
    )

    async def show(address: str) -> None:
        if person is None:
            raise AdderClawError(f"it wants a login: `adderclaw mcp login {entry.name}`")
        check_address(address, "the page that the server named")
        await person.show(address)

    async def answer() -> AuthorizationCodeResult:
        assert person is not None
        return _answered(await person.answer())

    return Renewing(url, metadata, kept, redirect_handler=show, callback_handler=answer)


def _answered(query: str) -> AuthorizationCodeResult:
    """What the browser brought back; the SDK compares state and issuer."""
    text = urlsplit(query).query if "://" in query else query
    try:
        found = {name: values[0] for name, values in parse_qs(text, strict_parsing=True, max_num_fields=32).items()}
    except ValueError:
        raise AdderClawError("the answer from the browser cannot be read; log in again") from None
    if "code" not in found:
        why = found.get("error", "it holds no code")
        raise AdderClawError(f"the server did not allow the access ({why[:100]}); log in again")
    return AuthorizationCodeResult(code=found["code"], state=found.get("state"), iss=found.get("iss"))
