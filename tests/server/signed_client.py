"""A sender that signs by itself, over a socket of its own, and a server on a port of this process."""

import asyncio
import base64
import hashlib
import hmac
import itertools
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from adderclaw.agent.run import Options
from adderclaw.server.limits import Rate, Rates
from adderclaw.server.listening import Listen, bind
from adderclaw.server.protocol import ConnectionLimits
from adderclaw.server.serving import Server as Listening
from adderclaw.server.state import ServerState
from tests.server.conftest import Server

SECRET = "whsec_" + base64.b64encode(b"a secret of the tests, 32 bytes.").decode()
_COUNT = itertools.count(1)


class Got(NamedTuple):
    status: int
    json: Any

    @property
    def code(self) -> str:
        return str(self.json["error"]["code"])


def headers(body: bytes, *, secret: str = SECRET, id: str = "", at: float | None = None, **more: str) -> dict[str, str]:
    """As Standard Webhooks has them; `more` replaces or adds, and an empty one takes away."""
    id = id or f"msg_{time.time_ns()}_{next(_COUNT)}"
    moment = str(int(time.time() if at is None else at))
    key = base64.b64decode(secret[6:]) if secret.startswith("whsec_") else secret.encode()
    made = base64.b64encode(hmac.new(key, f"{id}.{moment}.".encode() + body, hashlib.sha256).digest()).decode()
    all_of_them = {
        "content-type": "application/json",
        "webhook-id": id,
        "webhook-timestamp": moment,
        "webhook-signature": f"v1,{made}",
        **{name.replace("_", "-"): value for name, value in more.items()},
    }
    return {name: value for name, value in all_of_them.items() if value}


def github(body: bytes, secret: str, delivery: str = "72d3162e") -> dict[str, str]:
    made = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {"content-type": "application/json", "x-github-delivery": delivery, "x-hub-signature-256": f"sha256={made}"}


async def post(
    base: str, path: str, body: bytes | dict[str, Any], given: dict[str, str] | None = None, **more: Any
) -> Got:
    """One signed request on a connection of its own."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with httpx2.AsyncClient(base_url=base, trust_env=False, timeout=30, verify=False) as client:
        done = await client.post(path, content=data, headers=given if given is not None else headers(data, **more))
    return Got(done.status_code, done.json())


def post_now(
    base: str, path: str, body: bytes | dict[str, Any], given: dict[str, str] | None = None, **more: Any
) -> Got:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    with httpx2.Client(base_url=base, trust_env=False, timeout=30, verify=False) as client:
        done = client.post(path, content=data, headers=given if given is not None else headers(data, **more))
    return Got(done.status_code, done.json())


PLENTY = Rate(1e6, 1e6)


class OnPort:
    """A server that listens in this process; each `run` is one that knows nothing but its store."""

    def __init__(self, home: Path, workspace: Path) -> None:
        self.home, self.workspace = home / ".adderclaw", workspace
        self.home.mkdir(mode=0o700, exist_ok=True)
        self.state: ServerState
        self.url = ""

    def run(self, work: Callable[[], Awaitable[None]], rates: Rates | None = None) -> None:
        async def whole() -> None:
            async with asyncio.timeout(60), self.listening(rates):
                await work()

        asyncio.run(whole())

    @asynccontextmanager
    async def listening(self, rates: Rates | None = None) -> AsyncGenerator[None]:
        """Each time a server that knows nothing but its store."""
        state = self.state = ServerState(
            Options(workspace=str(self.workspace), log_level="error"), [str(self.workspace)]
        )
        clock = state.clock.monotonic
        state.rates = rates or Rates(clock, failures=PLENTY, addresses=PLENTY, deliveries=PLENTY)
        sock = bind(Listen(port=0))
        made = Listening(Server(state).app, [(sock, None)], ConnectionLimits())
        await made.startup()
        ticking = asyncio.ensure_future(made.main_loop())
        self.url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        try:
            yield
        finally:
            await state.close()
            made.should_exit = True
            await ticking
            made.force_exit = True
            await made.shutdown()
            state.store.close()

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        with self.state.store.write():
            pass
        rows = self.state.store.read("SELECT event_type, detail FROM events ORDER BY id")
        return [json.loads(row[1]) for row in rows if row[0] in kinds]
