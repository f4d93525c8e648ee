"""A path of the workspace as a type of its own, which no file call of Python accepts by accident."""

import os
from collections.abc import Iterable, Sequence

from adderclaw.core.errors import PathRefused


class WorkspacePath:
    """A root that was resolved once, and the way from there. There is no `__fspath__`, and `str` gives no path."""

    __slots__ = ("relative", "root")

    root: str
    """Absolute, every link followed when the session began; what lies above it is not the workspace's to change."""
    relative: str
    """From the root: no `..`, no leading slash; "." is the root itself."""

    def __init__(self, root: str, relative: str = ".") -> None:
        folded = os.path.normpath(relative)
        if "\0" in root + relative:
            raise PathRefused(f"{printable(relative[:80])!r} holds a NUL character, which no file name can")
        if not root.startswith("/"):
            raise ValueError(f"the root {root!r} is not absolute")
        if folded.startswith(("/", "../")) or folded == "..":
            raise PathRefused(f"{printable(relative)} leads out of {printable(root)}")
        self.root, self.relative = root, folded

    def __truediv__(self, name: str) -> "WorkspacePath":
        return WorkspacePath(self.root, os.path.join(self.relative, name))

    def child(self, name: str) -> "WorkspacePath":
        """What a listing of the folder named; quicker than `/`, which folds and checks."""
        path = object.__new__(WorkspacePath)
        path.root, path.relative = self.root, name if self.relative == "." else f"{self.relative}/{name}"
        return path

    @property
    def parent(self) -> "WorkspacePath":
        return WorkspacePath(self.root, os.path.dirname(self.relative) or ".")

    @property
    def name(self) -> str:
        return "" if self.is_root else os.path.basename(self.relative)

    @property
    def is_root(self) -> bool:
        return self.relative == "."

    @property
    def text(self) -> str:
        """The absolute path, to be compared, stored and shown: never to be opened."""
        return self.root if self.is_root else os.path.join(self.root, self.relative)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WorkspacePath) and (self.root, self.relative) == (other.root, other.relative)

    def __hash__(self) -> int:
        return hash((self.root, self.relative))

    def __repr__(self) -> str:
        return f"Place({self.root!r}, {self.relative!r})"


def printable(text: str) -> str:
    """A name on one line: what is not printable is escaped, so that no name can look like two."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else f"\\u{{{ord(char):x}}}" for char in text)


def resolved_path(real: str) -> WorkspacePath:
    """A path that was resolved, wherever it lies: what is opened there is reached through no link from `/` on."""
    return WorkspacePath("/", real.lstrip("/") or ".")


def within_roots(path: str, roots: Iterable[str]) -> WorkspacePath | None:
    """An absolute path as a place in one of the roots; None where it lies in none of them.

    Of roots that lie in each other the outermost counts: a folder of the workspace can be exchanged for a link.
    """
    for root in sorted(roots, key=len):
        if path == root:
            return WorkspacePath(root)
        above = root.rstrip("/") + "/"
        if path.startswith(above):
            return WorkspacePath(root, path[len(above) :])
    return None


def configured_path(path: str, workspace: str) -> WorkspacePath:
    """A path that the operator's settings name: in the workspace it is reached through no link, since a repository may
    bring one of that name; elsewhere it is the operator's own."""
    from adderclaw.config.paths import followed

    whole = os.path.normpath(os.path.join(workspace, path))
    return within_roots(whole, (workspace,)) or resolved_path(followed(whole))


def named_file(path: str, roots: Iterable[str]) -> WorkspacePath:
    """A file that somebody names, with its links followed. One that is named in a root or in a repository, by whichever
    name of it, must not lead out of them: it may bring a link of that name. One elsewhere is the operator's own."""
    from adderclaw.config.paths import followed, strays

    whole = os.path.abspath(path)
    if strays(whole, roots):
        raise PathRefused(f"{printable(path)} is a link that leads out of the workspace, and is not read")
    return resolved_path(followed(whole))


def require_within_roots(path: str, roots: Sequence[str]) -> WorkspacePath:
    """The same; raises Refused where it lies in none of them."""
    workspace_path = within_roots(path, roots)
    if workspace_path is None:
        raise PathRefused(f"{printable(path)} is outside the workspace {printable(roots[0])}")
    return workspace_path
