"""Files that hooks want to hear about, and the shell's directory: looked at between steps, by their stat."""

import os
from collections.abc import Iterable
from typing import Any, cast

from adderclaw.agent.session.session import Session
from adderclaw.core.hook_outcome import HookOutcome
from adderclaw.sandbox import workspace

MOST = 1000
"""Paths that are looked at, at most."""


def watch(session: Session, paths: Iterable[str]) -> None:
    """Look at these from now on; relative ones are seen from the shell's directory."""
    cwd = session.scene.context.workspace.cwd
    for given in paths:
        path = os.path.normpath(os.path.join(cwd, os.path.expanduser(given)))
        if len(session.state.watched) < MOST and "\0" not in path:
            session.state.watched.setdefault(path, stamp(path))


def heard(session: Session, merged: HookOutcome) -> None:
    """What a hook's answer says of paths to watch."""
    wanted = merged.specific.get("watchPaths")
    if isinstance(wanted, list):
        watch(session, [path for path in cast(list[Any], wanted) if isinstance(path, str)])


async def check_watched_files(session: Session) -> None:
    """Tell the hooks of what changed since the last look; where nobody listens, nothing is looked at."""
    if not session.hooks:
        return
    cwd = session.scene.context.workspace.cwd
    old, session.state.watched_from = session.state.watched_from or session.scene.context.workspace.root, cwd
    if old != cwd:
        heard(session, await session.fire("CwdChanged", {"old_cwd": old, "new_cwd": cwd}))
    for path, before in list(session.state.watched.items()):
        now = stamp(path)
        if now == before:
            continue
        session.state.watched[path] = now
        event = "add" if before is None else "unlink" if now is None else "change"
        heard(session, await session.fire("FileChanged", {"file_path": path, "event": event}))


def stamp(path: str) -> tuple[int, int, int] | None:
    """What a file looks like from outside; None where there is none."""
    status = workspace.reached(path)
    return None if status is None else (status.st_ino, status.st_mtime_ns, status.st_size)
