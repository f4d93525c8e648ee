"""A program of the operator's own that is given a notice: as a hook is, with the whole environment, and ended."""

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from adderclaw.config.paths import beneath, followed
from adderclaw.sinks.notices.letter import Letter, Undelivered
from adderclaw.store.text import compact

if TYPE_CHECKING:
    from adderclaw.sandbox.process import Start

MARK = "ADDERCLAW_NOTICE"
"""Set for the program: what it starts of us sends no notices, or one would lead to the next for ever."""
MOST_PRINTED = 4_096


async def deliver(letter: Letter) -> None:
    """JSON on its stdin; exit code 0 means that it arrived."""
    from adderclaw.sandbox import process
    from adderclaw.sandbox.programs import search_path

    argv = [program(letter.target.command, letter.roots), *letter.target.command[1:]]
    path = os.pathsep.join(search_path(letter.roots))
    env = {**os.environ, "PATH": path, MARK: str(letter.body.get("kind", ""))}
    start = await _walled(letter)
    try:
        done = await process.run(
            argv,
            cwd=os.path.expanduser("~"),
            env=env,
            timeout=letter.target.timeout_seconds,
            max_bytes=MOST_PRINTED,
            stdin=f"{compact(letter.as_json())}\n".encode(),
            start=start,
        )
    except OSError as error:
        raise Undelivered(f"{argv[0]} cannot be started: {error.strerror}", again=False) from None
    if done.timed_out:
        raise Undelivered(f"{argv[0]} did not end within {letter.target.timeout_seconds:g} s and was killed")
    if done.flooded:
        raise Undelivered(f"{argv[0]} printed without end and was killed", again=False)
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2][:200]
        raise Undelivered(f"{argv[0]} ended with {done.returncode}{f': {said}' if said else ''}")


def program(words: Sequence[str], roots: Sequence[str]) -> str:
    """The file that is started; Undelivered where it is not there, or an agent's command could have changed it."""
    from adderclaw.sandbox.programs import resolve

    places = [followed(root) for root in roots]
    for word in words:
        if os.path.isabs(word) and any(beneath(followed(word), place) for place in places):
            raise Undelivered(f"{word} lies in the workspace, where an agent could change it: move it out", again=False)
    found = resolve(words[0], places)
    if found is None:
        raise Undelivered(f"the program {words[0]!r} is not there, or cannot be executed", again=False)
    return found


async def _walled(letter: Letter) -> "Start | None":
    """What keeps it from the server of this home, if one runs: like every program of the operator's that we start."""
    from adderclaw.net import own_server

    if own_server.found() is None:
        return None
    from adderclaw.sandbox import hook_wall

    return await asyncio.to_thread(hook_wall.start, list(letter.roots))
