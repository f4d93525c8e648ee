"""One folder tree as an index of what is in it; a scan reads only what its `stat` says has changed.

A few trees are left out: what version control, package managers and caches keep, by name (`IGNORED`), and every folder
that says so itself (`MARKS`). File systems that are mounted inside, and AdderClaw's own folder, are left out, too.
"""

import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from adderclaw.store.checkpoints import Change, State

IGNORED = frozenset(
    (
        ".git",
        ".hg",
        ".svn",
        ".jj",
        "node_modules",
        ".venv",
        "__pycache__",
        ".tox",
        ".nox",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
        ".hypothesis",
        ".gradle",
        ".terraform",
        ".direnv",
        ".cache",
    )
)
MARKS = frozenset({"CACHEDIR.TAG", "pyvenv.cfg"})
"""A folder with one of these is a cache (cargo's `target`, for one) or a virtual environment of whatever name."""
RACY_NS = 50_000_000
"""A file that changed so shortly before it was read may change again within the clock's grain: it is read once more."""
CHUNK = 1 << 20


class Limits(NamedTuple):
    max_files: int
    max_file_bytes: int
    max_total_bytes: int
    ignored: frozenset[str] = IGNORED


class Seen(NamedTuple):
    """What is known of a path: its state, and the signature that says whether it may have changed."""

    state: State
    signature: tuple[int, int, int, int, int] | None
    """(inode, mode, size, mtime, ctime); None where the content has to be read again."""


type Keep = Callable[[str, bytes], None]
"""Takes a content with its digest, to be kept."""
type Index = dict[str, Seen]


class TooBig(Exception):
    """The tree has more files than are watched."""


class Scanned(NamedTuple):
    now: Index
    changes: list[Change]
    left_out: list[str]
    """Paths whose content is not kept, with why: too large, unreadable, no room."""


def scan(root: str, known: Index, limits: Limits, keep: Keep, skip: str = "") -> Scanned:
    """Look at a whole tree and say what changed since `known`. Raises TooBig; a root that is gone has nothing in it."""
    index: Index = {}
    left_out: list[str] = []
    room = limits.max_total_bytes
    for path, entry, status in _walk(root, limits, skip):
        old = known.get(path)
        signature = _signature(status)
        seen = old if old is not None and old.signature == signature else None
        if seen is None:
            seen = _look(entry, status, limits.max_file_bytes, room, keep, known=old)
            if not seen.state.is_kept and (old is None or old.state != seen.state):
                left_out.append(path)
        if seen.state.digest and seen.state.kind == "file":
            room -= seen.state.size
        index[path] = seen
    return Scanned(index, _differences(known, index), left_out)


def _differences(known: Index, index: Index) -> list[Change]:
    found: list[Change] = []
    for path, seen in index.items():
        old = known.get(path)
        if old is not seen and (old is None or old.state != seen.state):
            found.append(Change(path, old.state if old is not None else None, seen.state))
    if len(index) - len(found) < len(known) or known.keys() - index.keys():
        found += [Change(path, old.state, None) for path, old in known.items() if path not in index]
    return found


def _walk(root: str, limits: Limits, skip: str) -> Iterator[tuple[str, str, os.stat_result]]:
    """(path from the root, absolute path, status) of everything in it; links are not followed."""
    try:
        device = os.stat(root).st_dev
    except OSError:
        return
    count = 0
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(os.path.join(root, folder)) as listed:
                entries = list(listed)
        except OSError:
            continue  # unreadable, or gone meanwhile
        if folder and not MARKS.isdisjoint(entry.name for entry in entries):
            continue
        count += len(entries)
        if count > limits.max_files:
            raise TooBig(root)
        for entry in entries:
            if entry.name in limits.ignored:
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            path = f"{folder}/{entry.name}" if folder else entry.name
            if stat.S_ISDIR(status.st_mode):
                if status.st_dev != device or entry.path == skip:
                    continue
                waiting.append(path)
            yield path, entry.path, status


def _signature(status: os.stat_result) -> tuple[int, int, int, int, int]:
    if stat.S_ISDIR(status.st_mode):
        return (status.st_ino, status.st_mode, 0, 0, 0)  # its times change with what is in it
    return (status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _look(path: str, status: os.stat_result, most: int, room: int, keep: Keep, known: Seen | None) -> Seen:
    mode = stat.S_IMODE(status.st_mode)
    signature = _signature(status)
    if stat.S_ISDIR(status.st_mode):
        return Seen(State("folder", mode), signature)
    if stat.S_ISLNK(status.st_mode):
        try:
            return Seen(State("link", 0, 0, os.readlink(path)), signature)
        except OSError:
            return Seen(State("link"), None)
    if not stat.S_ISREG(status.st_mode):
        return Seen(State("special", mode, 0, str(stat.S_IFMT(status.st_mode))), signature)
    if status.st_size > min(most, room):
        return Seen(State("file", mode, status.st_size), signature)
    return _content(path, status, most, keep, known)


def _content(path: str, status: os.stat_result, most: int, keep: Keep, known: Seen | None) -> Seen:
    mode = stat.S_IMODE(status.st_mode)
    data = read(path, most)
    if data is None:
        return Seen(State("file", mode, status.st_size), None)
    digest = hashlib.sha256(data).hexdigest()
    if known is None or known.state.digest != digest:
        keep(digest, data)
    changed = max(status.st_mtime_ns, status.st_ctime_ns)
    calm = len(data) == status.st_size and time.time_ns() - changed > RACY_NS
    return Seen(State("file", mode, len(data), digest), _signature(status) if calm else None)


def read(path: str, most: int) -> bytes | None:
    """A plain file's content; None where it cannot be read, is no file (any more) or has grown too large."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            return None
        return _all(fd, status.st_size, most)
    except OSError:
        return None
    finally:
        os.close(fd)


def _all(fd: int, size: int, most: int) -> bytes | None:
    data = os.read(fd, size + 1)
    if len(data) == size:
        return data
    pieces = [data]
    total = len(data)
    while piece := os.read(fd, CHUNK):
        pieces.append(piece)
        total += len(piece)
        if total > most:
            return None
    return b"".join(pieces)


def state_at(root: str, path: str, limits: Limits, keep: Keep) -> State | None:
    """What is at one path right now, its content kept; None where nothing is."""
    place = os.path.join(root, path)
    try:
        status = os.lstat(place)
    except OSError:
        return None
    return _look(place, status, limits.max_file_bytes, limits.max_total_bytes, keep, None).state
