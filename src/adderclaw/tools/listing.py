"""The files of the workspace by name, as ripgrep lists them: without what ignore files leave out."""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING

from adderclaw import workspace
from adderclaw.tools.grep import searched

if TYPE_CHECKING:
    from adderclaw.sandbox.process import Finished, Start

SECONDS = 20.0
MOST_BYTES = 64 << 20
"""Of names; what comes after them is left out."""
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


async def listed(root: str, roots: tuple[str, ...], start: "Start | None") -> list[str]:
    """Paths beneath a root of the workspace, from there on; none where ripgrep is not installed.

    It runs in the sandbox and sees what commands see. An ignore file that never ends is not followed.
    """
    from adderclaw.sandbox import process, programs

    program = programs.ripgrep(roots)
    if program is None:
        return []
    looking = process.in_view(start, "look") if start is not None else None
    env = process.environment(workspace_roots=roots)
    clock = asyncio.get_running_loop().time
    until = clock() + SECONDS

    def searching(*more: str) -> "Coroutine[None, None, Finished]":
        argv = [program, *OPTIONS, *more, "--", "./"]
        return process.run(argv, cwd=root, env=env, timeout=until - clock(), start=looking, max_bytes=MOST_BYTES)

    done, _ = await searched(searching, workspace.Place(root))
    return await asyncio.to_thread(_names, done.stdout)


def _names(out: bytes) -> list[str]:
    """Names that can be shown and typed as they are; the others are left out."""
    from adderclaw.credentials.redaction import visible

    names = (name.removeprefix("./") for name in out.decode("utf-8", "surrogateescape").split("\0")[:-1])
    return [name for name in names if name.isprintable() and '"' not in name and visible(name) == name]
