"""What package managers installed in a workspace: lent to the copies that tests run in, since it is never copied."""

import hashlib
import stat
from collections.abc import Iterator, Mapping, Sequence

from adderclaw.config.paths import followed
from adderclaw.core.errors import PathRefused
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import WorkspacePath
from adderclaw.storage.checkpoints import State
from adderclaw.storage.sdlc.generated_tests import with_lent_digest

NAMES = frozenset({"node_modules", ".venv"})
MARK = "pyvenv.cfg"
UNLENT = frozenset({".git", ".hg", ".svn", ".jj"})
DEEPEST = 4


def places(root: str) -> tuple[str, ...]:
    """What the copies of a workspace need and have no copy of, by their ways from its root on."""
    return tuple(sorted(_found(root, "", 0)))


def _found(root: str, way: str, depth: int) -> Iterator[str]:
    try:
        entries = workspace.entries(WorkspacePath(root, way or "."))
    except (OSError, PathRefused):
        return
    for entry in entries:
        if not entry.is_folder or (name := entry.path.name) in UNLENT:
            continue
        path = f"{way}/{name}" if way else name
        if name in NAMES or workspace.is_file(WorkspacePath(root, f"{path}/{MARK}")):
            yield path
        elif depth < DEEPEST:
            yield from _found(root, path, depth + 1)


def beside(root: str, ways: Sequence[str], entries: Mapping[str, State]) -> tuple[str, ...]:
    """Those that a tree has nothing of itself: what was kept of it is never covered by what lies there now."""
    return tuple(f"{followed(root)}/{way}" for way in ways if _has_room(way, entries))


def _has_room(way: str, entries: Mapping[str, State]) -> bool:
    parts = way.split("/")
    above = (entries.get("/".join(parts[: count + 1])) for count in range(len(parts)))
    if any(parent is not None and parent.kind != "folder" for parent in above):
        return False  # a file or a link is there, on which nothing can lie
    return not any(path.startswith(f"{way}/") for path in entries)


def with_lent(digest: str, root: str) -> str:
    """The digest of a tree together with what is lent to it: whoever changes that afterwards has changed the tree.

    By what `stat` says, since it may be very much: nobody in a sandbox sets the time of a file's last change.
    """
    if not digest or not (ways := places(root)):
        return digest
    hasher = hashlib.sha256()
    for way in ways:
        for row in _rows(root, way):
            hasher.update(repr(row).encode())
    return with_lent_digest(digest, hasher.hexdigest())


def _rows(root: str, way: str) -> Iterator[tuple[object, ...]]:
    waiting = [way]
    while waiting:
        above = waiting.pop()
        try:
            with workspace.folder(WorkspacePath(root, above)) as folder:
                listed = sorted(folder.entries(), key=lambda entry: entry[0])
        except (OSError, PathRefused):
            yield (above, "unreadable")
            continue
        for name, status in listed:
            path = f"{above}/{name}"
            if status is None:
                yield (path, "gone")
            elif stat.S_ISDIR(status.st_mode):
                yield (path, status.st_mode)
                waiting.append(path)
            else:
                yield (path, status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
