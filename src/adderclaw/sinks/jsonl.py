"""The run folder: every event of a run as a line of <folder>/<run_id>/events.jsonl, a live export."""

import os
from collections.abc import Callable
from typing import BinaryIO

from adderclaw import workspace
from adderclaw.errors import AdderClawError
from adderclaw.events import EventRecord, Sink
from adderclaw.sinks.log import fields
from adderclaw.store.text import compact
from adderclaw.workspace import Place


def sink(folder: Place) -> tuple[Sink, Callable[[], None]]:
    """The sink, and what closes its files. A file is made when the first event of its run is told."""
    files: dict[str, BinaryIO] = {}

    def tell(record: EventRecord) -> None:
        file = files.get(record.run_id)
        if file is None:
            file = files[record.run_id] = _opened(folder, record.run_id)
        file.write(compact(fields(record)).encode() + b"\n")
        file.flush()

    def close() -> None:
        while files:
            files.popitem()[1].close()

    return tell, close


def _opened(folder: Place, run_id: str) -> BinaryIO:
    if run_id in ("", ".", "..") or "/" in run_id or "\0" in run_id:
        raise AdderClawError(f"{run_id!r} cannot name a run folder")
    return os.fdopen(workspace.open_append(folder / run_id / "events.jsonl"), "ab")
