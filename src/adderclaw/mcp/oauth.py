"""Logins to MCP servers: the SDK's OAuth over our own storage; a person is asked only when they wanted to log in."""

import json
import os
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol, cast
from urllib.parse import parse_qs, urlsplit

from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
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
    async def forget(self, name: str) -> bool: ...


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
        expires: Any = data.get("expires_at")
        if isinstance(expires, int | float) and expires - EARLY < self._clock.now():
            tokens.access_token = ""  # to the SDK a token without a date is good for ever: this one must be renewed
        return tokens

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

    async def clear(self) -> bool:
        self._data = {"url": self._url}
        return await self._keeper.forget(place_of(self._entry))

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
        await self._keeper.keep_text(place_of(self._entry), json.dumps(data))


class Person(NamedTuple):
    """Who logs in: is shown the address, and the answer comes back as the query of where the browser ended."""

    redirect_uri: str
    show: Callable[[str], Awaitable[None]]
    answer: Callable[[], Awaitable[str]]


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

    return OAuthClientProvider(url, metadata, kept, redirect_handler=show, callback_handler=answer)


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
