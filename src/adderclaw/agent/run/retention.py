"""Applies the limits of `[retention]`: for a short time at the end of a run, or completely by command."""

import os
import time
from collections.abc import Sequence
from contextlib import suppress

from adderclaw.config.paths import is_run_name
from adderclaw.config.schema import Retention
from adderclaw.core.errors import AdderClawError, PathRefused
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import WorkspacePath
from adderclaw.storage import Store, retention, tape
from adderclaw.storage.retention import BATCH_SIZE, Expired, Limit
from adderclaw.storage.telemetry.jsonl import NAME

SECONDS = 1.0
"""How long pruning may delay the end of a run."""


def limits(settings: Retention) -> dict[str, Limit]:
    """Kind → its limit, for the kinds that have one."""
    configured = {
        "model_bodies": Limit(settings.model_bodies_days, settings.model_bodies_mb),
        "logs": Limit(settings.logs_days, settings.logs_mb),
        "runs": Limit(settings.runs_days, settings.runs_mb),
        "conversations": Limit(settings.conversations_days, settings.conversations_mb),
    }
    return {kind: limit for kind, limit in configured.items() if any(limit)}


def after_run(store: Store, settings: Retention) -> None:
    """Prune once a day, for a short time; the next day or `runs prune` removes the rest."""
    if not (configured := limits(settings)):
        return
    with suppress(AdderClawError, OSError):  # the next run tries again
        if retention.is_due(store):
            prune(store, configured, most=BATCH_SIZE, seconds=SECONDS)


def prune(
    store: Store, configured: dict[str, Limit], *, most: int = 0, seconds: float = 0, dry_run: bool = False
) -> list[Expired]:
    """Remove at most `most` of each kind within `seconds`; what was removed, or would be."""
    gone: list[Expired] = []
    until = time.monotonic() + seconds if seconds else None
    for kind, limit in configured.items():
        gone += [
            old
            for old in retention.find_expired(store, kind, limit, most or -1)
            if (until is None or time.monotonic() < until)
            and (dry_run or (_without_files(store, old) and retention.remove(store, old)))
        ]
    if any(old.kind in ("runs", "conversations") for old in gone) and not (dry_run or seconds):
        with store.write() as cursor:
            tape.remove_unused_texts(cursor)  # too long for the end of a run
    return gone


def _without_files(store: Store, old: Expired) -> bool:
    """Remove the files of a run whose rows are about to be removed; whether that succeeded."""
    if old.kind not in ("logs", "model_bodies"):
        return True
    run = retention.is_completed(store, old.id)
    return run and all(
        _emptied(WorkspacePath(*trace), logs=old.kind == "logs") for trace in retention.traces(store, old.id)
    )


def _emptied(trace: WorkspacePath, *, logs: bool) -> bool:
    """Remove the files that the program wrote in a run's folder, which may also contain others."""
    folder = trace.parent
    if trace.name != NAME or not is_run_name(folder.name):
        return False
    try:
        for name in _listed(folder):
            if retention.is_body(name) or (logs and name == NAME):
                workspace.remove(folder / name)
        if logs:
            with suppress(OSError):
                workspace.remove(folder)  # if nothing else is in it
    except FileNotFoundError:
        return True
    except (OSError, PathRefused):
        return False
    return True


def _listed(folder: WorkspacePath) -> Sequence[str]:
    fd = workspace.open_folder(folder)
    try:
        with workspace.scan(fd) as entries:
            return [entry.name for entry in entries]
    finally:
        os.close(fd)
