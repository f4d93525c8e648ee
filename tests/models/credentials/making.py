"""How these tests make sources of credentials, a clock, and a person who logs in."""

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from adderclaw.config.schema import Auth, OAuth, ProviderEntry
from adderclaw.core.redaction import Secrets
from adderclaw.models.credentials.login_flows import Person
from adderclaw.models.credentials.sources import Sources
from tests.oauth_server import CLIENT_ID, OAuthServer

type Json = dict[str, Any]


class Time:
    """A clock that stands still, and moves when somebody sleeps or a test says so."""

    def __init__(self, at: float = 1_800_000_000.0) -> None:
        self.at = at
        self.slept: list[float] = []

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds


def entry(kind: str, **more: Any) -> ProviderEntry:
    fields: Json = {"kind": kind, "model": "m", **more}
    return ProviderEntry(**fields)


CLAUDE = entry("anthropic", api_key_env="ANTHROPIC_API_KEY")


def server_of(server: OAuthServer, **more: Any) -> OAuth:
    keys: Json = {
        "client_id": CLIENT_ID,
        "authorize_url": f"{server.url}/authorize",
        "token_url": f"{server.url}/token",
        "device_url": f"{server.url}/device",
        "revoke_url": f"{server.url}/revoke",
        **more,
    }
    return OAuth(**keys)


def sources(home: Path | str = "", *, time: Time | None = None, bare: bool = False, **auth: Any) -> Sources:
    settings: Json = {"storage": "file", **auth}
    own = str(home)
    return Sources(Secrets(), time or Time(), auth=Auth(**settings), home=own, workspace="/nowhere", bare=bare)


def run[T](work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


class Somebody:
    """A person who reads what is told, and answers with what `answer` makes of it."""

    def __init__(self, answer: Callable[[str], str] | None = None) -> None:
        self.told: list[str] = []
        self._answer = answer

    @property
    def url(self) -> str:
        """The address that was shown last."""
        return next(word for text in reversed(self.told) for word in text.split() if word.startswith("http"))

    @property
    def person(self) -> Person:
        return Person(self.told.append, self._ask, os.defpath)

    async def _ask(self) -> str | None:
        return await asyncio.to_thread(self._answer, self.url) if self._answer else None


def gone(pid: int) -> bool:
    """Whether a process ends within a minute."""
    for _ in range(3000):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
            os.kill(pid, 0)
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)
    return False
