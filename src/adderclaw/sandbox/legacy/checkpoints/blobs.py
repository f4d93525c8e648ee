"""Contents by their hash, in pack files of one folder that is the owner's alone: appended to, deduplicated, checked."""

import hashlib
import os
import threading
import time
from collections.abc import Iterable

from adderclaw.core.errors import StoreError
from adderclaw.sandbox.legacy.checkpoints import saved_index
from adderclaw.storage import Store
from adderclaw.storage import checkpoints as rows
from adderclaw.storage.checkpoints import Blob
from adderclaw.storage.sdlc import baselines

DAY = 86_400.0
NEW_SECONDS = 3600.0
"""A pack that nothing names yet may belong to a process that is just writing it."""
UNLIMITED = 1 << 62


class Blobs:
    """`keep` appends a content at once; `taken` hands over the rows that say where, for the next transaction.

    `most` is what all packs of one workspace may have together; a restore, which must be undone by what it keeps, has
    no limit.
    """

    def __init__(self, folder: str, store: Store, workspace: str = "", most: int = UNLIMITED) -> None:
        self.folder, self._store = folder, store
        self._of = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:16] if workspace else "restored"
        self._most, self._used = most, -1
        self._loaded = False
        self._digests: set[str] = set()
        self._new: list[Blob] = []
        self._pack: int | None = None
        self._name = ""
        self._end = 0
        self._lock = threading.Lock()

    def keep(self, digest: str, data: bytes) -> None:
        if self.has(digest) or len(data) > self.room():
            return
        with self._lock:
            self._append(digest, data)

    def room(self) -> int:
        """How many bytes may still be kept; what other processes add meanwhile is counted by the next one."""
        if self._most == UNLIMITED:
            return UNLIMITED
        if self._used < 0:
            self._used = sum(_size(os.path.join(self.folder, name)) for name in _packs(self.folder, f"-{self._of}-"))
        return max(0, self._most - self._used)

    def _append(self, digest: str, data: bytes) -> None:
        if self._pack is None:
            self._pack = self._opened()
        view = memoryview(data)
        while view:
            view = view[os.write(self._pack, view) :]
        self._digests.add(digest)
        self._new.append(Blob(digest, self._name, self._end, len(data)))
        self._end += len(data)
        self._used += len(data) if self._used >= 0 else 0

    def has(self, digest: str) -> bool:
        if not self._loaded:
            self._digests |= {blob.digest for blob in rows.blobs(self._store)}
            self._loaded = True
        return digest in self._digests

    def taken(self) -> list[Blob]:
        new, self._new = self._new, []
        return new

    def read(self, digest: str) -> bytes | None:
        """The content; None where it is not kept, or is not what its hash says."""
        found = rows.blob(self._store, digest) or next((blob for blob in self._new if blob.digest == digest), None)
        if found is None:
            return None
        try:
            with open(os.path.join(self.folder, found.pack), "rb") as file:
                data = os.pread(file.fileno(), found.size, found.start)
        except OSError:
            return None
        return data if hashlib.sha256(data).hexdigest() == digest else None

    def close(self) -> None:
        if self._pack is not None:
            os.close(self._pack)
            self._pack = None

    def _opened(self) -> int:
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        self._name = f"pack-{self._of}-{time.time_ns():x}-{os.getpid():x}"
        self._end = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        return os.open(os.path.join(self.folder, self._name), flags, 0o600)


def prune(store: Store, folder: str, *, older_than: str, needed: Iterable[str]) -> tuple[int, int]:
    """Drop old checkpoints and every pack that nothing needs any more; returns checkpoints and bytes that went."""
    with store.write() as cursor:
        dropped = rows.delete_older(cursor, older_than)
    live = rows.changed_digests(store) | baselines.needed_digests(store) | set(needed)
    known = rows.blobs(store)
    kept = {blob.pack for blob in known if blob.digest in live}
    idle = [name for name in _packs(folder) if name not in kept and _is_old(os.path.join(folder, name))]
    with store.write() as cursor:
        rows.drop_packs(cursor, idle)
    return dropped, sum(_unlinked(os.path.join(folder, name)) for name in idle)


def prune_daily(store: Store, folder: str, days: int) -> None:
    """Once a day: forget what is older than so many days."""
    mark = os.path.join(folder, "pruned")
    try:
        if os.path.exists(mark) and time.time() - os.stat(mark).st_mtime < DAY:
            return
        with open(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600), "w"):
            os.utime(mark)
        prune(store, folder, older_than=moment(days), needed=saved_index.digests(folder))
    except (OSError, StoreError):
        return  # the next session tries again


def moment(days: int) -> str:
    """So many days ago, as the store writes it."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time.time() - days * DAY))


def _packs(folder: str, of: str = "-") -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name.startswith(f"pack{of}")]
    except FileNotFoundError:
        return []


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _is_old(path: str) -> bool:
    try:
        return time.time() - os.stat(path).st_mtime > NEW_SECONDS
    except OSError:
        return False


def _unlinked(path: str) -> int:
    size = _size(path)
    try:
        os.unlink(path)
    except OSError:
        return 0
    return size
