"""The run folder: every event of a run as a line of <folder>/<run_id>/events.jsonl, a live export."""

import hashlib
import os
from collections.abc import Callable
from typing import BinaryIO

from adderclaw.core.errors import AdderClawError
from adderclaw.core.events import EventRecord, Sink
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import Place
from adderclaw.storage import Store
from adderclaw.storage.runs import KEEP_TRACE
from adderclaw.storage.telemetry.log import fields
from adderclaw.storage.text import compact

NAME = "events.jsonl"


class _File:
    """The file of one run, and a digest of what this process wrote to it."""

    def __init__(self, folder: Place, run_id: str) -> None:
        if run_id in ("", ".", "..") or "/" in run_id or "\0" in run_id:
            raise AdderClawError(f"{run_id!r} cannot name a run folder")
        place = folder / run_id / NAME
        self._file: BinaryIO = os.fdopen(workspace.open_append(place), "ab")
        if folder.root != "/" and not folder.is_root:  # in a workspace
            from adderclaw.sandbox.workspace.traces import claim

            claim(folder, folder / run_id)
        self._digest = hashlib.blake2b(digest_size=16)
        self._start = self._until = os.fstat(self._file.fileno()).st_size
        self._name = run_id, os.fsencode(place.root), os.fsencode(place.way), self._start

    def write(self, line: bytes) -> tuple[object, ...]:
        """The row that stands for all that was written."""
        self._file.write(line)
        self._file.flush()
        self._digest.update(line)
        self._until += len(line)
        return (*self._name, self._until, self._digest.hexdigest())

    def close(self) -> None:
        self._file.close()


def sink(folder: Place, store: Store) -> tuple[Sink, Callable[[], None]]:
    """The sink, and what closes its files. A file is made when the first event of its run is told."""
    files: dict[str, _File] = {}

    def tell(record: EventRecord) -> None:
        file = files.get(record.run_id)
        if file is None:
            file = files[record.run_id] = _File(folder, record.run_id)
        store.later(KEEP_TRACE, file.write(compact(fields(record)).encode() + b"\n"))

    def close() -> None:
        while files:
            files.popitem()[1].close()

    return tell, close
