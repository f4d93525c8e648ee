"""The way to the server of this home: a token of our own while we are there, and requests that say what failed.

The token is made by the operator's own key, lives in this process alone, and is revoked when it leaves.
"""

import json
import os
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any, NoReturn, cast

import httpx2

from adderclaw import config
from adderclaw.agent.conversation import questions
from adderclaw.core import home_names
from adderclaw.core.errors import AdderClawError
from adderclaw.core.record import NamedTuple
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json
from adderclaw.server import listening
from adderclaw.storage import Store, clients
from adderclaw.storage.ledger.log_files import read_or_create_key

LASTS = 12 * 3_600.0
"""Seconds after which a token of ours counts no more; then another one is made."""
SILENT = 45.0
"""Seconds without a word, not even a heartbeat, after which a stream counts as broken."""
NONE = "no server of {home} runs: start one with `adderclaw serve`"


class Gone(AdderClawError):
    """The server is not there, or not any more."""


class Refused(AdderClawError):
    """The server said no; the text is its own."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Event(NamedTuple):
    id: int
    kind: str
    data: Any


class Link:
    """Requests to the server of this home, wherever it listens now."""

    def __init__(self, config_file: str | None, name: str) -> None:
        self._path, self._name = questions.store_path(config_file), name
        self._client: httpx2.AsyncClient | None = None
        self._row = ""
        self.address = ""

    async def connect(self) -> None:
        """Find the server, and make a token for it. Raises Gone."""
        await self.close()
        running = listening.running()
        if running is None or not running.address:
            raise Gone(NONE.format(home=config.home()))
        self.address = running.address
        by_socket = bool(running.socket)
        self._client = httpx2.AsyncClient(
            base_url="http://localhost" if by_socket else running.address,
            transport=httpx2.AsyncHTTPTransport(uds=running.socket) if by_socket else None,
            headers={"Authorization": f"Bearer {self._token()}"},
            timeout=httpx2.Timeout(30.0, read=SILENT),
            trust_env=False,
        )

    def _token(self) -> str:
        store = Store.open(self._path)
        try:
            key = read_or_create_key(os.path.join(config.home(), home_names.RECEIPT_KEY))
            made = clients.create(store, key, name=self._name, scopes=("admin",), now=time.time(), seconds=LASTS)
            self._row = made.row.id
            return made.token
        finally:
            store.close()

    async def close(self) -> None:
        """Leave: the token counts no more."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()
        row, self._row = self._row, ""
        if row:
            store = Store.open(self._path)
            try:
                with suppress(AdderClawError):
                    clients.revoke(store, row, time.time())
            finally:
                store.close()

    async def get(self, path: str, **query: Any) -> Json:
        return await self._asked("GET", path, params=query)

    async def post(self, path: str, body: Json | None = None) -> Json:
        return await self._asked("POST", path, json=body if body is not None else {})

    async def _asked(self, method: str, path: str, **more: Any) -> Json:
        try:
            answer = await self._there().request(method, path, **more)
        except httpx2.HTTPError as error:
            self._gone(error)
        if answer.is_success:
            return cast(Json, answer.json())
        raise Refused(answer.status_code, _message(answer.content) or f"the server answered {answer.status_code}")

    async def events(self, path: str, after: int) -> AsyncGenerator[Event]:
        """What is sent as it comes, until the server says no more. Raises Gone where it breaks off."""
        try:
            async with self._there().stream("GET", path, params={"after": after}) as answer:
                if not answer.is_success:
                    text = _message(await answer.aread())
                    raise Refused(answer.status_code, text or f"the server answered {answer.status_code}")
                fields: dict[str, str] = {}
                async for line in answer.aiter_lines():
                    name, _, value = line.partition(":")
                    if line and name:
                        fields[name] = fields.get(name, "") + value.removeprefix(" ")
                    elif not line and "data" in fields:
                        yield Event(int(fields.get("id", "0")), fields.get("event", ""), json.loads(fields["data"]))
                    if not line:
                        fields = {}
        except (httpx2.HTTPError, ValueError) as error:
            self._gone(error)

    def _there(self) -> httpx2.AsyncClient:
        if self._client is None:
            raise Gone(NONE.format(home=config.home()))
        return self._client

    def _gone(self, error: Exception) -> NoReturn:
        why = visible(str(error) or type(error).__name__, keep_newlines=False)
        raise Gone(f"the server at {self.address} is not reached: {why}") from error


def _message(body: bytes) -> str:
    """What an error answer says."""
    try:
        found: Any = json.loads(body)
    except ValueError:
        return ""
    inner: Any = cast(Json, found).get("error", found) if isinstance(found, dict) else ""
    text = cast(Json, inner).get("message", "") if isinstance(inner, dict) else inner
    return visible(str(text))
