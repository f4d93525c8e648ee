"""Folders that package managers installed in a workspace: the copies that tests run in use the originals."""

import hashlib
import stat
from collections.abc import Iterator, Mapping, Sequence

from adderclaw.config.paths import followed
from adderclaw.core.errors import PathRefused
from adderclaw.sandbox import workspace
from adderclaw.sandbox.workspace import WorkspacePath
from adderclaw.storage.checkpoints import State
from adderclaw.storage.sdlc.generated_tests import tree_and_packages_digest

NAMES = frozenset({"node_modules", ".venv"})
MARK = "pyvenv.cfg"
UNLENT = frozenset({".git", ".hg", ".svn", ".jj"})
DEEPEST = 4


def folders(root: str) -> tuple[str, ...]:
    """The installed folders, by their paths relative to the root: copies of the workspace do not contain them."""
    return tuple(sorted(_lent_below(root, "", 0)))


def _lent_below(root: str, folder: str, depth: int) -> Iterator[str]:
    try:
        entries = workspace.entries(WorkspacePath(root, folder or "."))
    except (OSError, PathRefused):
        return
    for entry in entries:
        if not entry.is_folder or (name := entry.path.name) in UNLENT:
            continue
        path = f"{folder}/{name}" if folder else name
        if name in NAMES or workspace.is_file(WorkspacePath(root, f"{path}/{MARK}")):
            yield path
        elif depth < DEEPEST:
            yield from _lent_below(root, path, depth + 1)


def mountable(root: str, lent: Sequence[str], entries: Mapping[str, State]) -> tuple[str, ...]:
    """The absolute paths of the folders that a tree has no files in, so that mounting them hides nothing of it."""
    return tuple(f"{followed(root)}/{folder}" for folder in lent if _is_free(folder, entries))


def _is_free(folder: str, entries: Mapping[str, State]) -> bool:
    parts = folder.split("/")
    parents = (entries.get("/".join(parts[: count + 1])) for count in range(len(parts)))
    if any(parent is not None and parent.kind != "folder" for parent in parents):
        return False  # nothing can be mounted on a file or a link
    return not any(path.startswith(f"{folder}/") for path in entries)


def with_lent(digest: str, root: str) -> str:
    """The digest of a tree and its lent folders, so that a change in one of them counts as a change of the tree.

    Only uses what `stat` returns, because the folders may be large: a sandbox cannot set the time of a file's change.
    """
    if not digest or not (lent := folders(root)):
        return digest
    hasher = hashlib.sha256()
    for folder in lent:
        for row in _rows(root, folder):
            hasher.update(repr(row).encode())
    return tree_and_packages_digest(digest, hasher.hexdigest())


def _rows(root: str, top: str) -> Iterator[tuple[object, ...]]:
    waiting = [top]
    while waiting:
        parent = waiting.pop()
        try:
            with workspace.folder(WorkspacePath(root, parent)) as folder:
                listed = sorted(folder.entries(), key=lambda entry: entry[0])
        except (OSError, PathRefused):
            yield (parent, "unreadable")
            continue
        for name, status in listed:
            path = f"{parent}/{name}"
            if status is None:
                yield (path, "gone")
            elif stat.S_ISDIR(status.st_mode):
                yield (path, status.st_mode)
                waiting.append(path)
            else:
                yield (path, status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
