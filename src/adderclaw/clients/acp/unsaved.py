"""Asks the editor for unsaved changes of a file that Read has just opened, and shows them to the model as data."""

import asyncio
import os
import stat
import time
from collections.abc import Awaitable, Callable, Sequence
from secrets import token_hex

from acp import RequestError

from adderclaw.core import framing
from adderclaw.core.errors import PathRefused
from adderclaw.core.record import NamedTuple
from adderclaw.core.tool_traits import READ
from adderclaw.core.types import Json
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import WorkspacePath

HOOK: Json = {"hook_event_name": "PostToolUse", "matcher": READ, "type": "callback", "callback_id": "unsaved"}
"""The callback hook that calls `Unsaved.called` after each Read call."""
MOST = 1 << 20
"""Maximum characters of a file that are compared; the editor is not asked about a longer file."""
SECONDS = 3.0
"""Seconds that the editor has to answer; if it takes longer, it is not asked again."""
SETTLED = 0.05
"""Seconds for which the path must be unchanged, because a file system's times are not more precise."""

type Ask = Callable[[str], Awaitable[str]]
"""Returns the editor's text of a path; an error means that there is none."""


class Unsaved:
    """Asks the editor of one session about files. An editor opens paths outside of our sandbox, and follows links.

    So it is asked only about a regular file whose path has no links, and its answer is used only if nothing on that
    path has changed since before the question. Otherwise a command could redirect it to another file meanwhile.
    """

    def __init__(self, ask: Ask, roots: Callable[[], Sequence[str]], seconds: float = SECONDS) -> None:
        self._ask, self._roots, self._seconds = ask, roots, seconds
        self._silent = False

    async def called(self, _id: str, event: Json) -> Json:
        """The hook: adds the unsaved changes to the result of Read."""
        path = event.get("tool_input", {}).get("file_path")
        if self._silent or not isinstance(path, str) or not (roots := self._roots()):
            return {}
        try:
            location = workspace.within_roots(os.path.normpath(os.path.join(roots[0], path)), roots)
            context = "" if location is None else await self._unsaved_changes(location)
        except (OSError, PathRefused, ValueError):  # it is missing or not a regular file, so there is nothing to ask
            context = ""
        return {"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": context}} if context else {}

    async def _unsaved_changes(self, location: WorkspacePath) -> str:
        before = stamps(location)
        if not settled(before):
            await asyncio.sleep(SETTLED)
            if before != (before := stamps(location)) or not settled(before):
                return ""
        saved = workspace.read(location, MOST).decode("utf-8", "replace")
        text = await self._asked(location.text)
        if text is None or len(text) > MOST or stamps(location) != before:
            return ""
        differs = difference(saved, text)
        if differs is None:
            return ""
        shown = framing.framed(token_hex(8), framing.shorten(differs.text, framing.MOST_SHOWN // 2))
        return (
            f"The file is open in the editor with changes that are not saved: {differs.where} Read shows, and Edit and "
            f"Write change, the file on disk.\n{shown}"
        )

    async def _asked(self, path: str) -> str | None:
        try:
            async with asyncio.timeout(self._seconds):
                return await self._ask(path)
        except TimeoutError:
            self._silent = True
            return None
        except (RequestError, OSError, ValueError):  # Read has succeeded whatever the editor does
            return None


class Difference(NamedTuple):
    where: str
    text: str


def difference(saved: str, unsaved: str) -> Difference | None:
    """The lines of the editor that differ from the file, without the common lines at the start and the end."""
    old, new = saved.replace("\r\n", "\n").splitlines(), unsaved.replace("\r\n", "\n").splitlines()
    if old == new:
        return None
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    most = shorter - head
    tail = next((at for at in range(most) if old[-1 - at] != new[-1 - at]), most)
    middle = new[head : len(new) - tail]
    where = f"from line {head + 1} on, in place of {len(old) - tail - head} lines of the file, it has"
    return Difference(f"{where} {len(middle)} lines.", "\n".join(middle))


def stamps(location: WorkspacePath) -> tuple[tuple[int, int, int], ...]:
    """Identity and change time of each folder on the path and of the file; replacing any of them changes a time.

    Only the kernel can set that time (st_ctime). Raises PathRefused if the path contains a link.
    """
    result: list[tuple[int, int, int]] = []
    here = WorkspacePath(location.root)
    ways = [] if location.is_root else location.relative.split("/")
    for way in ("", *ways):
        here = here.child(way) if way else here
        status = workspace.status(here)
        is_expected = stat.S_ISREG if here == location else stat.S_ISDIR
        if not is_expected(status.st_mode):
            raise PathRefused(f"{here.text} is not a regular file without links in its path")
        result.append((status.st_dev, status.st_ino, status.st_ctime_ns))
    return tuple(result)


def settled(stamps_seen: Sequence[tuple[int, int, int]]) -> bool:
    now = time.time_ns()
    return all(changed < now - SETTLED * 1e9 for _, _, changed in stamps_seen)
