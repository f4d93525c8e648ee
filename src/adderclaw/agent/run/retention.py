"""Applies the limits of `[retention]`: for a short time at the end of a run, or completely by command."""

import os
import time
from collections.abc import Sequence
from contextlib import suppress

from adderclaw.config.paths import is_run_name
from adderclaw.config.schema.settings import Retention
from adderclaw.core.errors import AdderClawError, PathRefused
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import Place
from adderclaw.storage import Store, retention, tape
from adderclaw.storage.retention import AT_ONCE, Limit, Old
from adderclaw.storage.telemetry.jsonl import NAME

SECONDS = 1.0
"""How long pruning may delay the end of a run."""


def limits(settings: Retention) -> dict[str, Limit]:
    """Kind → its limit, for the kinds that have one."""
    found = {
        "model_bodies": Limit(settings.model_bodies_days, settings.model_bodies_mb),
        "logs": Limit(settings.logs_days, settings.logs_mb),
        "runs": Limit(settings.runs_days, settings.runs_mb),
        "conversations": Limit(settings.conversations_days, settings.conversations_mb),
    }
    return {kind: limit for kind, limit in found.items() if any(limit)}


def after_run(store: Store, settings: Retention) -> None:
    """Prune once a day, for a short time; the next day or `runs prune` removes the rest."""
    if not (wanted := limits(settings)):
        return
    with suppress(AdderClawError, OSError):  # the next run tries again
        if retention.is_due(store):
            prune(store, wanted, most=AT_ONCE, seconds=SECONDS)


def prune(
    store: Store, wanted: dict[str, Limit], *, most: int = 0, seconds: float = 0, dry_run: bool = False
) -> list[Old]:
    """Remove at most `most` of each kind within `seconds`; what was removed, or would be."""
    gone: list[Old] = []
    until = time.monotonic() + seconds if seconds else None
    for kind, limit in wanted.items():
        gone += [
            one
            for one in retention.old(store, kind, limit, most or -1)
            if (until is None or time.monotonic() < until)
            and (dry_run or (_without_files(store, one) and retention.remove(store, one)))
        ]
    if any(one.kind in ("runs", "conversations") for one in gone) and not (dry_run or seconds):
        with store.write() as cursor:
            tape.remove_unused_texts(cursor)  # too long for the end of a run
    return gone


def _without_files(store: Store, one: Old) -> bool:
    """Remove the files of a run whose rows are about to be removed; whether that succeeded."""
    if one.kind not in ("logs", "model_bodies"):
        return True
    run = retention.completed(store, one.id)
    return run and all(_emptied(Place(*trace), logs=one.kind == "logs") for trace in retention.traces(store, one.id))


def _emptied(trace: Place, *, logs: bool) -> bool:
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


def _listed(folder: Place) -> Sequence[str]:
    fd = workspace.open_folder(folder)
    try:
        with workspace.scan(fd) as entries:
            return [entry.name for entry in entries]
    finally:
        os.close(fd)
