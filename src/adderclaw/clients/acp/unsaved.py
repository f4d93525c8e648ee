"""Unsaved text of an editor: asked for only where our own door has just opened the file, and shown as data."""

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
"""How the session is told to ask: a hook of the program that embeds it, which runs once Read has read."""
MOST = 1 << 20
"""Characters of a file that are compared; of a longer one nobody asks."""
SECONDS = 3.0
"""How long the editor may take; one that takes longer is not asked again."""
SETTLED = 0.05
"""Seconds for which nothing on the way to the file may have changed: a file system tells no times closer together."""

type Ask = Callable[[str], Awaitable[str]]
"""The editor's text of a path; whatever it raises, there is none."""


class Unsaved:
    """One session's questions to its editor. An editor opens paths outside of our sandbox, through any link.

    So it is asked only about a regular file to which no link leads, and what it answers counts only if nothing on the
    way to the file has changed since before the question: else a command could lead it to another file meanwhile.
    """

    def __init__(self, ask: Ask, roots: Callable[[], Sequence[str]], seconds: float = SECONDS) -> None:
        self._ask, self._roots, self._seconds = ask, roots, seconds
        self._silent = False

    async def called(self, _id: str, event: Json) -> Json:
        """The hook: what the model is told beside the file as it is on disk."""
        path = event.get("tool_input", {}).get("file_path")
        if self._silent or not isinstance(path, str) or not (roots := self._roots()):
            return {}
        try:
            location = workspace.within_roots(os.path.normpath(os.path.join(roots[0], path)), roots)
            context = "" if location is None else await self._told(location)
        except (OSError, PathRefused, ValueError):  # it is gone, or is no such file: then there is nothing to ask about
            context = ""
        return {"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": context}} if context else {}

    async def _told(self, location: WorkspacePath) -> str:
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
        except (RequestError, OSError, ValueError):  # whatever the editor does, the file was read
            return None


class Difference(NamedTuple):
    where: str
    text: str


def difference(saved: str, unsaved: str) -> Difference | None:
    """The lines of the editor that are not those of the file, between what both begin and end with."""
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
    """What is known of each folder on the way and of the file; whatever is put in another's place changes a time.

    Nobody can set that time (st_ctime) but the kernel. Raises Refused where a link leads there.
    """
    result: list[tuple[int, int, int]] = []
    here = WorkspacePath(location.root)
    ways = [] if location.is_root else location.relative.split("/")
    for way in ("", *ways):
        here = here.child(way) if way else here
        status = workspace.status(here)
        is_expected = stat.S_ISREG if here == location else stat.S_ISDIR
        if not is_expected(status.st_mode):
            raise PathRefused(f"{here.text} is no file that an editor is asked about")
        result.append((status.st_dev, status.st_ino, status.st_ctime_ns))
    return tuple(result)


def settled(stamps_seen: Sequence[tuple[int, int, int]]) -> bool:
    now = time.time_ns()
    return all(changed < now - SETTLED * 1e9 for _, _, changed in stamps_seen)
