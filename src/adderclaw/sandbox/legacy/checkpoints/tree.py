"""One folder tree as an index of what is in it; a scan reads only what its `stat` says has changed.

A few trees are left out: what version control, package managers and caches keep, by name (`IGNORED`), and every folder
that says so itself (`MARKS`). File systems that are mounted inside, and AdderClaw's own files, are left out, too.
"""

import hashlib
import os
import stat
import time
from collections.abc import Iterator
from typing import Protocol

from adderclaw.config.own_paths import OwnPaths
from adderclaw.core.errors import PathRefused
from adderclaw.core.record import NamedTuple
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import Folder, WorkspacePath
from adderclaw.storage.checkpoints import Change, State

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


NOBODYS = OwnPaths("", frozenset(), "")


class Keep(Protocol):
    """Who keeps contents."""

    def keep(self, digest: str, data: bytes) -> None:
        """Where there is room for it."""
        ...

    def has(self, digest: str) -> bool: ...
    def room(self) -> int:
        """How many bytes may still be kept."""
        ...


class Forgets:
    """Keeps nothing: for a look alone."""

    def keep(self, digest: str, data: bytes) -> None: ...
    def has(self, digest: str) -> bool:  # noqa: ARG002
        return False

    def room(self) -> int:
        return 1 << 62


type Index = dict[str, Seen]


class TooBig(Exception):
    """The tree has more files than are watched."""


class Scanned(NamedTuple):
    now: Index
    changes: list[Change]
    left_out: list[str]
    """Paths whose content is not kept, with why: too large, unreadable, no room."""


def scan(root: str, known: Index, limits: Limits, keep: Keep, own: OwnPaths = NOBODYS) -> Scanned:
    """Look at a whole tree and say what changed since `known`. Raises TooBig; a root that is gone has nothing in it."""
    if not known:
        _count(root, limits, own)
    index: Index = {}
    left_out: list[str] = []
    for path, at, status in _walk(root, limits, own):
        old = known.get(path)
        signature = _signature(status)
        seen = old if old is not None and old.signature == signature else None
        if seen is None:
            seen = _look(at, status, limits.max_file_bytes, keep, known=old)
            if (old is None or old.state != seen.state) and not is_kept(seen.state, keep):
                left_out.append(path)
        index[path] = seen
    return Scanned(index, _differences(known, index), left_out)


def is_kept(state: State, keep: Keep) -> bool:
    """Whether what is needed to put it back is there."""
    return state.kind != "file" or (bool(state.digest) and keep.has(state.digest))


def _count(root: str, limits: Limits, own: OwnPaths) -> None:
    """Before the first content is copied: a tree with too many files costs a look at their names, and no copies."""
    for _ in _walk(root, limits, own):
        pass


def _differences(known: Index, index: Index) -> list[Change]:
    found: list[Change] = []
    for path, seen in index.items():
        old = known.get(path)
        if old is not seen and (old is None or old.state != seen.state):
            found.append(Change(path, old.state if old is not None else None, seen.state))
    if len(index) - len(found) < len(known) or known.keys() - index.keys():
        found += [Change(path, old.state, None) for path, old in known.items() if path not in index]
    return found


class _At(NamedTuple):
    """A name in a folder that is open while it is looked at."""

    folder: Folder
    name: str


def _walk(root: str, limits: Limits, own: OwnPaths) -> Iterator[tuple[str, _At, os.stat_result]]:
    """(path from the root, where to read it, status) of everything in it; links are not followed."""
    try:
        device = workspace.status(WorkspacePath(root)).st_dev
    except OSError:
        return
    count = 0
    waiting = [""]
    while waiting:
        above = waiting.pop()
        try:
            with workspace.folder(WorkspacePath(root, above or ".")) as folder:
                entries = folder.entries()
                if above and not MARKS.isdisjoint(name for name, _ in entries):
                    continue
                count += len(entries)
                if count > limits.max_files:
                    raise TooBig(root)
                here = f"{root.rstrip('/')}/{above}" if above else root
                for name, status in entries:
                    if name in limits.ignored or status is None or own.is_one(here, name):
                        continue
                    path = f"{above}/{name}" if above else name
                    if stat.S_ISDIR(status.st_mode):
                        if status.st_dev != device:
                            continue
                        waiting.append(path)
                    yield path, _At(folder, name), status
        except (OSError, PathRefused):
            continue  # unreadable, gone, or exchanged for a link meanwhile


def _signature(status: os.stat_result) -> tuple[int, int, int, int, int]:
    if stat.S_ISDIR(status.st_mode):
        return (status.st_ino, status.st_mode, 0, 0, 0)  # its times change with what is in it
    return (status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _look(at: _At, status: os.stat_result, most: int, keep: Keep, known: Seen | None) -> Seen:
    mode = stat.S_IMODE(status.st_mode)
    signature = _signature(status)
    if stat.S_ISDIR(status.st_mode):
        return Seen(State("folder", mode), signature)
    if stat.S_ISLNK(status.st_mode):
        try:
            return Seen(State("link", 0, 0, at.folder.readlink(at.name)), signature)
        except OSError:
            return Seen(State("link"), None)
    if not stat.S_ISREG(status.st_mode):
        return Seen(State("special", mode, 0, str(stat.S_IFMT(status.st_mode))), signature)
    # where nothing was known of it, what there is no room for is not even read; else its hash says whether it changed
    if status.st_size > most or (known is None and status.st_size > keep.room()):
        return Seen(State("file", mode, status.st_size), signature)
    return _content(at, status, most, keep, known)


def _content(at: _At, status: os.stat_result, most: int, keep: Keep, known: Seen | None) -> Seen:
    mode = stat.S_IMODE(status.st_mode)
    data = at.folder.read(at.name, most)
    if data is None:
        return Seen(State("file", mode, status.st_size), None)
    digest = hashlib.sha256(data).hexdigest()
    if known is None or known.state.digest != digest:
        keep.keep(digest, data)
    changed = max(status.st_mtime_ns, status.st_ctime_ns)
    calm = len(data) == status.st_size and time.time_ns() - changed > RACY_NS
    return Seen(State("file", mode, len(data), digest), _signature(status) if calm else None)


def state_at(root: str, path: str, limits: Limits, keep: Keep) -> State | None:
    """What is at one path right now, its content kept; None where nothing is, or only a link leads there."""
    above, name = os.path.split(path)
    try:
        with workspace.folder(WorkspacePath(root, above or ".")) as folder:
            return state_in(folder, name, limits, keep)
    except (OSError, PathRefused):
        return None


def state_in(folder: Folder, name: str, limits: Limits, keep: Keep) -> State | None:
    """The same of a name in a folder that is open."""
    try:
        status = folder.status(name)
    except OSError:
        return None
    return _look(_At(folder, name), status, limits.max_file_bytes, keep, None).state
