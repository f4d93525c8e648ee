"""Checks, between steps, the files that hooks watch and the shell's directory for changes."""

import os
from collections.abc import Iterable
from typing import Any, cast

from adderclaw.agent.session.session import Session
from adderclaw.core.hook_outcome import HookOutcome
from adderclaw.sandbox import workspace

MAX_PATHS = 1000
"""The maximum number of watched paths."""


def watch_paths(session: Session, paths: Iterable[str]) -> None:
    """Watch these paths from now on; relative ones start at the shell's directory."""
    cwd = session.environment.context.workspace.cwd
    for relative in paths:
        path = os.path.normpath(os.path.join(cwd, os.path.expanduser(relative)))
        if len(session.state.watched_paths) < MAX_PATHS and "\0" not in path:
            session.state.watched_paths.setdefault(path, path_stamp(path))


def watch_from_hook(session: Session, merged: HookOutcome) -> None:
    """Watch the paths that a hook's answer names."""
    hook_paths = merged.specific.get("watchPaths")
    if isinstance(hook_paths, list):
        watch_paths(session, [path for path in cast(list[Any], hook_paths) if isinstance(path, str)])


async def check_watched_files(session: Session) -> None:
    """Run the hooks for files and directories that changed since the last check."""
    if not session.hooks:
        return
    cwd = session.environment.context.workspace.cwd
    old, session.state.watched_from = session.state.watched_from or session.environment.context.workspace.root, cwd
    if old != cwd:
        watch_from_hook(session, await session.fire("CwdChanged", {"old_cwd": old, "new_cwd": cwd}))
    for path, before in list(session.state.watched_paths.items()):
        now = path_stamp(path)
        if now == before:
            continue
        session.state.watched_paths[path] = now
        event = "add" if before is None else "unlink" if now is None else "change"
        watch_from_hook(session, await session.fire("FileChanged", {"file_path": path, "event": event}))


def path_stamp(path: str) -> tuple[int, int, int] | None:
    """A file's inode, modification time and size; None if it does not exist."""
    status = workspace.stat_target(path)
    return None if status is None else (status.st_ino, status.st_mtime_ns, status.st_size)
