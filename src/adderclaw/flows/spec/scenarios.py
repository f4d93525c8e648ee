"""Lets another Python program work through a project's SPEC.md, one query after another, until its scenarios pass."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from adderclaw.config.paths import followed
from adderclaw.core.decode import decode
from adderclaw.core.errors import AdderClawError, UsageError
from adderclaw.core.query import AgentMessage, QueryOptions, ResultMessage
from adderclaw.core.types import Json
from adderclaw.flows.spec import status
from adderclaw.flows.spec.driver import NAME
from adderclaw.flows.spec.prompts import Names, coding_prompt, initializer_prompt
from adderclaw.flows.spec.sessions import SessionEnd, SessionOrder, run_sessions
from adderclaw.flows.spec.status import Scenario, Status
from adderclaw.flows.spec.tools import Declared
from adderclaw.sandbox import workspace

if TYPE_CHECKING:
    from mcp.server import MCPServer


SERVER = "status"
NAMES = Names(f"mcp__{SERVER}__add_scenarios", f"mcp__{SERVER}__update_status")


class Query(Protocol):
    """A running query."""

    def __aiter__(self) -> AsyncIterator[AgentMessage]: ...
    async def aclose(self) -> None: ...
    async def interrupt(self) -> None: ...


class Client(Protocol):
    """What runs queries: `AgentClient`."""

    def query(self, message: str, /) -> Query: ...


@dataclass(frozen=True, kw_only=True)
class SessionOptions:
    project_dir: str
    max_iterations: int | None = None
    """The most queries; by default as many as make progress."""
    delay_between_sessions: float = 0.0
    """Seconds between two queries."""


@dataclass(frozen=True)
class SessionResult:
    success: bool
    """Whether there are scenarios and all of them pass."""
    scenarios_passed_count: int
    scenarios_total_count: int
    duration: float
    """Seconds."""
    reason: str = ""
    """Why it ended before all of them passed."""


class Session:
    """`await Session(SessionOptions(project_dir="…")).run(client)`."""

    def __init__(self, options: SessionOptions) -> None:
        self.options = options
        self._query: Query | None = None
        self._interrupted = asyncio.Event()

    async def run(self, client: Client) -> SessionResult:
        """Runs queries: the first begins the project, the others continue with the scenarios that do not pass."""
        began, project = time.monotonic(), os.path.abspath(self.options.project_dir)
        if not workspace.is_file(workspace.resolved_path(followed(os.path.join(project, NAME)))):
            raise UsageError(f"{project} has no {NAME}; describe in it what to build")

        async def ask(order: SessionOrder) -> SessionEnd:
            return await self._run_query(client, order.prompt)

        work = await run_sessions(project, NAME, ask, NAMES, most=self.options.max_iterations, pause=self._pause)
        success = work.outcome == "completed"
        reason = "" if success else f"{work.outcome}: {work.reason}"
        return SessionResult(success, work.passed, work.total, time.monotonic() - began, reason)

    async def interrupt(self) -> None:
        """Ends the running query and starts no other."""
        self._interrupted.set()
        if self._query is not None:
            await self._query.interrupt()

    async def _pause(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._interrupted.wait(), self.options.delay_between_sessions)

    async def _run_query(self, client: Client, prompt: str) -> SessionEnd:
        """Runs a query to its end; one without a result message counts as completed."""
        ended = SessionEnd("completed")
        if self._interrupted.is_set():
            return SessionEnd("stopped", "interrupted by the program")
        self._query = client.query(prompt)
        try:
            async with aclosing(self._query) as messages:
                async for message in messages:
                    if isinstance(message, ResultMessage):
                        ended = SessionEnd(message.outcome, message.reason, message.tool_calls)
        finally:
            self._query = None
        return ended


class StatusTool:
    """The only writer of `.adderclaw/status.json`. `AgentClient(StatusTool(…).options())` gives an agent this tool."""

    def __init__(self, project_dir: str) -> None:
        self.project_dir = os.path.abspath(project_dir)

    def scenarios(self) -> tuple[Scenario, ...]:
        current = status.read(self.project_dir)
        return current.scenarios if current is not None else ()

    async def update_status(self, scenario_id: str, passed: bool) -> None:
        """Raises UsageError ("scenario not found") for one that was never added."""
        await asyncio.to_thread(status.update, self.project_dir, scenario_id, passed)

    async def add_scenarios(self, scenarios: Sequence[Json]) -> None:
        """Adds scenarios, each `{id, feature, name}`; known ones stay unchanged, and none is ever removed."""
        await asyncio.to_thread(self._declare, scenarios)

    def _declare(self, scenarios: Sequence[Json]) -> Status:
        declared = decode(list[Declared], list(scenarios))
        return status.declare(
            self.project_dir, [Scenario(scenario.id, scenario.feature, scenario.name) for scenario in declared]
        )

    def options(self, options: QueryOptions | None = None) -> QueryOptions:
        """Options with which an agent works in this project and may use this tool."""
        base = options or QueryOptions()
        permissions: Json = dict(base.settings.get("permissions", {}))
        permissions["allow"] = [*permissions.get("allow", ()), f"mcp__{SERVER}__*"]
        servers = {**base.mcp_servers, SERVER: self.server()}
        settings = {**base.settings, "permissions": permissions}
        return replace(base, cwd=base.cwd or self.project_dir, mcp_servers=servers, settings=settings)

    def server(self) -> "MCPServer":
        """The tool as an MCP server in this process."""
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError

        mcp_server = MCPServer(SERVER)

        async def update_status(scenario_id: str, passed: bool) -> str:
            """Report whether a scenario passes, after you have tried it."""
            try:
                await self.update_status(scenario_id, passed)
            except AdderClawError as error:
                raise ToolError(str(error)) from None
            return f"{scenario_id}: {'passed' if passed else 'not passed'}"

        async def add_scenarios(scenarios: list[dict[str, str]]) -> str:
            """Register scenarios, each with id, feature (its file) and name. Known scenarios stay unchanged."""
            try:
                known = await asyncio.to_thread(self._declare, scenarios)
            except AdderClawError as error:
                raise ToolError(str(error)) from None
            return f"{len(known.scenarios)} scenarios in all"

        mcp_server.add_tool(update_status)
        mcp_server.add_tool(add_scenarios)
        return mcp_server


__all__ = ["Session", "SessionOptions", "SessionResult", "StatusTool", "coding_prompt", "initializer_prompt"]
