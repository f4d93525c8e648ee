"""The index of a tree between two processes: what the last one saw need not be read again."""

import hashlib
import json
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, cast

from adderclaw.core.errors import AdderClawError
from adderclaw.sandbox.legacy.checkpoints.tree import Index, Seen
from adderclaw.storage.checkpoints import State

MAX_BYTES = 64 << 20
SUFFIX = ".index"


def file_of(folder: str, root: str) -> str:
    return os.path.join(folder, hashlib.sha256(os.fsencode(root)).hexdigest()[:24] + SUFFIX)


def save(folder: str, root: str, index: Index) -> None:
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = file_of(folder, root)
    unfinished = f"{path}.{os.getpid()}"
    with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        json.dump({"root": root, "entries": index}, file, separators=(",", ":"))
    os.replace(unfinished, path)


def load(folder: str, root: str, is_kept: Callable[[str], bool]) -> Index:
    """What is known of a tree; of an index that is damaged, or another tree's, nothing."""
    try:
        return _read(file_of(folder, root), root, is_kept)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _read(path: str, root: str, is_kept: Callable[[str], bool]) -> Index:
    if os.stat(path).st_size > MAX_BYTES:
        return {}
    with open(path, encoding="utf-8") as file:
        kept: Any = json.load(file)
    if kept["root"] != root:
        return {}
    index: Index = {}
    for name, (state, signature) in cast(dict[str, Any], kept["entries"]).items():
        made = State(*state)
        if made.kind != "file" or not made.digest or is_kept(made.digest):
            index[name] = Seen(made, tuple(signature) if signature else None)  # pyright: ignore[reportArgumentType]
    return index


def digests(folder: str) -> Iterator[str]:
    """Every content that some index names."""
    try:
        names = [name for name in os.listdir(folder) if name.endswith(SUFFIX)]
    except OSError:
        return
    for name in names:
        try:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                entries: Any = json.load(file)["entries"]
            yield from (state[3] for state, _ in entries.values() if state[0] == "file")
        except (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError):
            continue


# ------------------------------------------------------------------ one at a time


@contextmanager
def alone(folder: str) -> Generator[None]:
    """One restore at a time; the lock goes with the process, however it ends."""
    import fcntl

    os.makedirs(folder, mode=0o700, exist_ok=True)
    fd = os.open(os.path.join(folder, "restore.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AdderClawError("another restore is at work: wait for it, then try again") from None
        yield
    finally:
        os.close(fd)
