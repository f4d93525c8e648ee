"""The run folder: appends every event of a run as a line to <folder>/<run_id>/events.jsonl while it runs."""

import hashlib
import os
from collections.abc import Callable
from typing import BinaryIO

from adderclaw.core.events import EventRecord, Sink
from adderclaw.core.record import NamedTuple
from adderclaw.storage import Store
from adderclaw.storage.runs import UPSERT_TRACE
from adderclaw.storage.telemetry.log import fields
from adderclaw.storage.text import compact

NAME = "events.jsonl"


class OpenFile(NamedTuple):
    """The events file of one run, opened for appending, and its location as its row in the store records it."""

    descriptor: int
    root: str
    path: str


class _File:
    """The file of one run, and a digest of what this process wrote to it."""

    def __init__(self, opened: OpenFile, run_id: str) -> None:
        self._file: BinaryIO = os.fdopen(opened.descriptor, "ab")
        self._digest = hashlib.blake2b(digest_size=16)
        self._start = self._until = os.fstat(self._file.fileno()).st_size
        self._name = run_id, os.fsencode(opened.root), os.fsencode(opened.path), self._start

    def write(self, line: bytes) -> tuple[object, ...]:
        """Append a line; returns the row that describes everything written so far."""
        self._file.write(line)
        self._file.flush()
        self._digest.update(line)
        self._until += len(line)
        return (*self._name, self._until, self._digest.hexdigest())

    def close(self) -> None:
        self._file.close()


def sink(open_file: Callable[[str], OpenFile], store: Store) -> tuple[Sink, Callable[[], None]]:
    """Returns the sink and the function that closes its files; `open_file` is called at the first event of a run."""
    files: dict[str, _File] = {}

    def tell(record: EventRecord) -> None:
        file = files.get(record.run_id)
        if file is None:
            file = files[record.run_id] = _File(open_file(record.run_id), record.run_id)
        store.write_later(UPSERT_TRACE, file.write(compact(fields(record)).encode() + b"\n"))

    def close() -> None:
        while files:
            files.popitem()[1].close()

    return tell, close
