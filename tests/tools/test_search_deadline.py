"""Grep that begins anew without ignore files has no more time than it had before."""

import asyncio
import os

from adderclaw.core.types import ToolResult
from adderclaw.sandbox import process
from adderclaw.tools import Kit, builtin_tools, decode_arguments, find_tool, resolve_arguments
from tests.tools.conftest import Bench, FixedClock


class Ahead(asyncio.SelectorEventLoop):
    """A clock that can be put forward."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead

    def put(self, seconds: float) -> None:
        self.ahead += seconds


def test_both_searches_together_have_one_limit(bench: Bench) -> None:
    os.mkfifo(bench.root / ".gitignore")
    loop, started = Ahead(), list[str]()

    def start(order: process.ProcessRequest) -> process.RunningProcess:
        """A search that finds nothing and never ends: 15 seconds pass in the first one, 6 in the second."""
        loop.call_soon(loop.put, 6 if started else 15)
        started.append("--no-ignore" if "--no-ignore" in order.argv else "")
        return process.start_unconfined(order._replace(argv=("/bin/sleep", "600")))

    found = find_tool(builtin_tools(Kit(bench.config, None, FixedClock(), start=start)), "Grep")
    assert found
    prepared = found[0].prepare(
        decode_arguments(found[0], resolve_arguments(found[1], {"pattern": "needle"})), bench.ctx
    )

    async def run() -> ToolResult:
        return await prepared.run()

    begun = loop.time()
    try:
        result = loop.run_until_complete(run())
        took = loop.time() - begun
    finally:
        loop.close()
    assert started == ["", "--no-ignore"]
    assert "within 20 seconds" in result.content
    assert took < 30
