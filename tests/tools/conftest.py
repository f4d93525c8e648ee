"""A workspace with something secret beside it, and a way to call a tool as the kernel does."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from adderclaw.config.schema import Config
from adderclaw.tools import Kit, arguments_of, builtin, decoded, find
from adderclaw.tools.paths import Refused, denied
from adderclaw.types import ToolContext, ToolResult, Touch, Workspace

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

    def touch(self, name: str, /, **given: Any) -> Touch:
        found = find(builtin(Kit(self.config, None, FixedClock())), name)
        assert found
        tool, alias = found
        self.ctx.called_as = name
        return tool.touch(decoded(tool, arguments_of(alias, given)), self.ctx)

    def call(self, name: str, /, **given: Any) -> ToolResult:
        """Decode, touch, run: the gate says yes to everything, so that only the tool itself refuses."""
        found = find(builtin(Kit(self.config, None, FixedClock())), name)
        assert found
        tool, alias = found
        self.ctx.called_as = name
        arguments = decoded(tool, arguments_of(alias, given))
        try:
            tool.touch(arguments, self.ctx)
        except Refused as refusal:
            return denied(refusal)
        return asyncio.run(_awaited(tool.run, arguments, self.ctx))


async def _awaited(run: Callable[[Any, ToolContext], Any], arguments: Any, ctx: ToolContext) -> ToolResult:
    return await run(arguments, ctx)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    root, outside = tmp_path / "ws", tmp_path / "outside"
    (root / "sub").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret.txt").write_text(SECRET + "\n")
    (root / "a.txt").write_text("line1\nline2\nline3\n")
    return Bench(root, outside, ToolContext("c", "s", Workspace(str(root))), Config())
