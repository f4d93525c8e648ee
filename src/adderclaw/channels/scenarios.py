"""For another Python program: work through a project's SPEC.md, one query after the other, until its scenarios pass."""

import asyncio
import os
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from adderclaw.channels.python import AgentClient, Query, QueryOptions, ResultMessage
from adderclaw.drivers.spec import prompts, status
from adderclaw.drivers.spec.status import Scenario
from adderclaw.errors import AdderClawError, UsageError
from adderclaw.types import Json, Outcome

if TYPE_CHECKING:
    from mcp.server import MCPServer

IDLE = 3
"""Iterations in a row that change no scenario: then the work does not get on, and the run ends."""
GOES_ON: tuple[Outcome, ...] = ("completed", "limit")
SERVER = "status"


@dataclass(frozen=True, kw_only=True)
class SessionOptions:
    project_dir: str
    max_iterations: int | None = None
    """Queries at most; without it as many as bring the work forward."""
    delay_between_sessions: float = 0.0
    """Seconds between two queries."""


@dataclass(frozen=True)
class SessionResult:
    success: bool
    """There are scenarios, and all of them pass."""
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
        self._interrupted = False

    async def run(self, client: AgentClient) -> SessionResult:
        """Ask again and again: first to begin the project, then to go on with what does not pass."""
        began, asked, idle, reason = time.monotonic(), 0, 0, ""
        self._interrupted = False
        found = self._scenarios()
        while not (reason := self._over(found, asked, idle, reason)):
            if asked and self.options.delay_between_sessions > 0:
                await asyncio.sleep(self.options.delay_between_sessions)
            ended = await self._asked(client, prompts.of(found))
            before, found, asked = found, self._scenarios(), asked + 1
            idle = idle + 1 if found == before else 0
            reason = "" if ended.outcome in GOES_ON else f"{ended.outcome}: {ended.reason}".rstrip(": ")
        passed = sum(scenario.passed for scenario in found)
        success = bool(found) and passed == len(found)
        return SessionResult(success, passed, len(found), time.monotonic() - began, "" if success else reason)

    async def interrupt(self) -> None:
        """End the query that runs, and ask no other."""
        self._interrupted = True
        if self._query is not None:
            await self._query.interrupt()

    def _scenarios(self) -> tuple[Scenario, ...]:
        project = self.options.project_dir
        if not os.path.isfile(os.path.join(project, "SPEC.md")):
            raise UsageError(f"{project} has no SPEC.md; write down there what is to be made")
        return status.read(project) or ()

    def _over(self, found: Sequence[Scenario], asked: int, idle: int, reason: str) -> str:
        """Why no further query is asked; nothing while one is."""
        if found and all(scenario.passed for scenario in found):
            return "all scenarios pass"
        if reason:
            return reason
        if self._interrupted:
            return "stopped: interrupted by the program"
        if self.options.max_iterations is not None and asked >= self.options.max_iterations:
            return f"max_iterations ({self.options.max_iterations}) reached"
        return f"{IDLE} iterations in a row changed no scenario" if idle >= IDLE else ""

    async def _asked(self, client: AgentClient, prompt: str) -> ResultMessage:
        last = ResultMessage("completed", "")
        self._query = client.query(prompt)
        try:
            async with aclosing(self._query) as messages:
                async for message in messages:
                    last = message if isinstance(message, ResultMessage) else last
        finally:
            self._query = None
        return last


class StatusTool:
    """The only writer of `.adderclaw/status.json`. `AgentClient(StatusTool(…).options())` has it as a tool."""

    def __init__(self, project_dir: str) -> None:
        self.project_dir = project_dir

    def scenarios(self) -> tuple[Scenario, ...]:
        return status.read(self.project_dir) or ()

    async def update_status(self, scenario_id: str, passed: bool) -> None:
        """Raises UsageError ("scenario not found") for one that was never added."""
        status.mark(self.project_dir, scenario_id, passed=passed)

    async def add_scenarios(self, scenarios: Sequence[Json]) -> None:
        """Each `{id, feature, name}`; what is known already stays as it is, and nothing is ever removed."""
        status.add(self.project_dir, scenarios)

    def options(self, options: QueryOptions | None = None) -> QueryOptions:
        """Options with which an agent works in this project and may use this tool."""
        given = options or QueryOptions()
        permissions: Json = dict(given.settings.get("permissions", {}))
        permissions["allow"] = [*permissions.get("allow", ()), f"mcp__{SERVER}__*"]
        servers = {**given.mcp_servers, SERVER: self.server()}
        settings = {**given.settings, "permissions": permissions}
        return replace(given, cwd=given.cwd or self.project_dir, mcp_servers=servers, settings=settings)

    def server(self) -> "MCPServer":
        """The tool as an MCP server in this process."""
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError

        made = MCPServer(SERVER)

        async def update_status(scenario_id: str, passed: bool) -> str:
            """Say whether a scenario passes. Only say so of one that you have tried."""
            try:
                await self.update_status(scenario_id, passed)
            except AdderClawError as error:
                raise ToolError(str(error)) from None
            return f"{scenario_id}: {'passed' if passed else 'not passed'}"

        async def add_scenarios(scenarios: list[dict[str, str]]) -> str:
            """Register scenarios, each with id, feature (its file) and name. What is known stays as it is."""
            try:
                new = status.add(self.project_dir, scenarios)
            except AdderClawError as error:
                raise ToolError(str(error)) from None
            return f"{len(new)} new scenarios, {len(self.scenarios())} in all"

        made.add_tool(update_status)
        made.add_tool(add_scenarios)
        return made


def __getattr__(name: str) -> str:
    """The prompts are read from the package when they are asked for."""
    if name == "initializer_prompt":
        return prompts.initializer()
    if name == "coding_prompt":
        return prompts.coding()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["Session", "SessionOptions", "SessionResult", "StatusTool"]
