"""A workspace with something secret beside it, and a way to call a tool as the kernel does."""

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from adderclaw.config.schema import Config
from adderclaw.core.host import ToolContext
from adderclaw.core.types import Prepared, ToolResult, Touch, Workspace
from adderclaw.tools import Kit, builtin_tools, decode_arguments, find_tool, resolve_arguments
from adderclaw.tools.paths import PathRefused, denied_result

SECRET = "outside-secret"


class FixedClock:
    def now(self) -> float:
        return 1_700_000_000.0

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Bench(NamedTuple):
    """Tools, a context, and the two directories: the workspace and what is outside of it."""

    root: Path
    outside: Path
    ctx: ToolContext
    config: Config

    def prepare(self, name: str, /, **given: Any) -> Prepared:
        found = find_tool(builtin_tools(Kit(self.config, None, FixedClock())), name)
        assert found
        tool, alias = found
        self.ctx.called_as = name
        return tool.prepare(decode_arguments(tool, resolve_arguments(alias, given)), self.ctx)

    def touch(self, name: str, /, **given: Any) -> Touch:
        return self.prepare(name, **given).touch

    def call(self, name: str, /, **given: Any) -> ToolResult:
        """Decode, prepare, run: the gate says yes to everything, so that only the tool itself refuses."""
        try:
            prepared = self.prepare(name, **given)
        except PathRefused as refusal:
            return denied_result(refusal)
        return result_of(prepared)


def result_of(prepared: Prepared) -> ToolResult:
    async def run() -> ToolResult:
        return await prepared.run()

    return asyncio.run(run())


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    root, outside = tmp_path / "ws", tmp_path / "outside"
    (root / "sub").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret.txt").write_text(SECRET + "\n")
    (root / "a.txt").write_text("line1\nline2\nline3\n")
    return Bench(root, outside, ToolContext("c", "s", Workspace(str(root))), Config())
