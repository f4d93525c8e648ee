"""Servers of a session, in this process: real children, a real store, and what was told."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from adderclaw.agent.session.clock import SystemClock
from adderclaw.config.servers import Entry, parse_server
from adderclaw.core.host import ToolContext
from adderclaw.core.redaction import Secrets
from adderclaw.core.types import Json, Tool, ToolResult, Workspace
from adderclaw.storage import Store
from adderclaw.tools.mcp.servers import Servers
from adderclaw.tools.mcp.setup import ConnectionSetup

SCRIPT = Path(__file__).with_name("a_server.py")


class Clock(SystemClock):
    """The clock of the system; a test may put it ahead."""

    ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


class Bench:
    """`bench.run(work, SAYS="…")` starts the server when `work` needs it, with these variables."""

    def __init__(self, root: Path, store: Store) -> None:
        self.root, self.store = root, store
        self.clock = Clock()
        self.told: list[Json] = []
        self.tools: dict[str, Tool[Any]] = {}
        self.answer: Json = {"action": "decline"}
        self.asked: list[Json] = []

    def run[T](
        self, work: Callable[[Servers], Awaitable[T]], entry: Json | None = None, *, seconds: float = 20, **env: str
    ) -> T:
        made = entry or {"command": sys.executable, "args": [str(SCRIPT)], "env": env, "startupTimeout": 15_000}

        async def live() -> T:
            servers = self.servers(made)
            try:
                async with asyncio.timeout(seconds):
                    return await work(servers)
            finally:
                await servers.close()

        return asyncio.run(live())

    def servers(self, entry: Json) -> Servers:
        async def elicit(_server: str, question: Json) -> Json:
            self.asked.append(question)
            return self.answer

        wires = ConnectionSetup(
            self.clock, Secrets(), lambda body: self.told.append(dict(body)), (str(self.root),), elicit=elicit
        )

        def offer(tool: Tool[Any]) -> None:
            self.tools[tool.name] = tool

        return Servers([Entry("demo", "Demo", parse_server(entry), "user")], wires, self.store, offer)

    async def call(self, servers: Servers, name: str, /, **given: Any) -> ToolResult:
        """A call as the kernel makes it: found (perhaps late), decoded, prepared, run."""
        name = f"mcp__demo__{name}"
        if name not in self.tools:
            why_not = await servers.start_server_of(name)
            assert not why_not, why_not
        tool = self.tools[name]
        context = ToolContext("c", "s", Workspace(str(self.root)))
        assert tool.decode is not None
        arguments = tool.decode(given)
        return await tool.prepare(arguments, context).run()

    def states(self) -> list[str]:
        return [said["state"] for said in self.told if said["event_type"] == "mcp_server"]

    def warnings(self) -> str:
        return "\n".join(said["message"] for said in self.told if said["event_type"] == "warning")


@pytest.fixture
def bench(tmp_path: Path, home: Path) -> Generator[Bench]:
    store = Store.open(str(tmp_path / "memory.sqlite"))
    yield Bench(tmp_path, store)
    store.close()
