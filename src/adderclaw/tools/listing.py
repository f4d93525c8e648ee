"""Lists the files of the workspace with ripgrep, without ignored ones."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING

from adderclaw.sandbox import workspace
from adderclaw.sandbox.capture import Capture
from adderclaw.tools.grep import run_search

if TYPE_CHECKING:
    from adderclaw.sandbox.process import Finished, Starter

SECONDS = 20.0
MOST_BYTES = 64 << 20
"""Most bytes of file names; the rest is left out."""
BEGINNING = 32 << 10
"""Bytes of names that are passed to `first` early."""
OPTIONS = (
    "--files",
    "--null",
    "--hidden",
    "--no-config",
    "--no-follow",
    "--no-messages",
    "--no-ignore-global",
    "--no-ignore-exclude",
    "--sort=path",
    "--glob=!.git",
)


async def list_files(
    root: str, roots: tuple[str, ...], start: "Starter | None", first: Callable[[list[str]], None] | None = None
) -> list[str]:
    """Paths relative to a root of the workspace; empty if ripgrep is not installed.

    ripgrep runs in the sandbox and sees what commands see. If an ignore file never ends, ignore files are not applied.
    `first` receives the start of the list early; it can contain names that the final list does not.
    """
    from adderclaw.sandbox import process, programs

    program = programs.ripgrep(roots)
    if program is None:
        return []
    looking = process.in_view(start, "read_only") if start is not None else None
    env = process.environment(workspace_roots=roots)
    clock = asyncio.get_running_loop().time
    until = clock() + SECONDS

    def searching(*more: str) -> "Coroutine[None, None, Finished]":
        argv = [program, *OPTIONS, *more, "--", "./"]
        into = (_Beginning(first) if first is not None else Capture(MOST_BYTES), Capture(process.MAX_BYTES))
        return process.run(argv, cwd=root, env=env, timeout=until - clock(), start=looking, into=into)

    done, _ = await run_search(searching, workspace.WorkspacePath(root))
    return await asyncio.to_thread(_names, done.stdout)


class _Beginning(Capture):
    """Captures output and passes its first names to a callback."""

    __slots__ = ("_first",)

    def __init__(self, first: Callable[[list[str]], None]) -> None:
        super().__init__(MOST_BYTES)
        self._first: Callable[[list[str]], None] | None = first

    def add(self, chunk: bytes) -> None:
        super().add(chunk)
        if self._first is not None and (end := self._head.rfind(b"\0", 0, BEGINNING)) >= 0:
            first, self._first = self._first, None
            first(_names(bytes(self._head[: end + 1])))


def _names(out: bytes) -> list[str]:
    """The names that can be shown and typed unchanged; others are left out."""
    from adderclaw.core.redaction import visible

    names = (name.removeprefix("./") for name in out.decode("utf-8", "surrogateescape").split("\0")[:-1])
    return [name for name in names if name.isprintable() and '"' not in name and visible(name) == name]
