"""Paths of the workspace as a separate type, which Python's file functions do not accept by accident."""

import os
from collections.abc import Iterable, Sequence

from adderclaw.core.errors import PathRefused


class WorkspacePath:
    """A root that was resolved once, and a path relative to it. Has no `__fspath__`, and `str` returns no path."""

    __slots__ = ("relative", "root")

    root: str
    """Absolute, with all links followed when the session began; the workspace cannot change the folders above it."""
    relative: str
    """Relative to the root, without `..` or a leading slash; "." is the root itself."""

    def __init__(self, root: str, relative: str = ".") -> None:
        folded = os.path.normpath(relative)
        if "\0" in root + relative:
            raise PathRefused(f"{printable(relative[:80])!r} contains a NUL character, which file names cannot contain")
        if not root.startswith("/"):
            raise ValueError(f"the root {root!r} is not absolute")
        if folded.startswith(("/", "../")) or folded == "..":
            raise PathRefused(f"{printable(relative)} leads out of {printable(root)}")
        self.root, self.relative = root, folded

    def __truediv__(self, name: str) -> "WorkspacePath":
        return WorkspacePath(self.root, os.path.join(self.relative, name))

    def child(self, name: str) -> "WorkspacePath":
        """The path of a name that a listing of this folder returned; faster than `/`, which normalizes and checks."""
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
        """The absolute path, for comparing, storing and showing. Never open it."""
        return self.root if self.is_root else os.path.join(self.root, self.relative)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WorkspacePath) and (self.root, self.relative) == (other.root, other.relative)

    def __hash__(self) -> int:
        return hash((self.root, self.relative))

    def __repr__(self) -> str:
        return f"WorkspacePath({self.root!r}, {self.relative!r})"


def printable(text: str) -> str:
    """A name on one line, with unprintable characters escaped, so that no name can look like two."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else f"\\u{{{ord(char):x}}}" for char in text)


def resolved_path(real: str) -> WorkspacePath:
    """A resolved path anywhere on the machine, relative to `/`. Opening it follows no links at all."""
    return WorkspacePath("/", real.lstrip("/") or ".")


def within_roots(path: str, roots: Iterable[str]) -> WorkspacePath | None:
    """An absolute path relative to one of the roots; None if it is outside all of them.

    If roots are nested, the outermost is used, because a folder of the workspace can be replaced by a link.
    """
    for root in sorted(roots, key=len):
        if path == root:
            return WorkspacePath(root)
        above = root.rstrip("/") + "/"
        if path.startswith(above):
            return WorkspacePath(root, path[len(above) :])
    return None


def configured_path(path: str, workspace: str) -> WorkspacePath:
    """A path that the operator's settings name. No links are followed in the workspace, because a repository may
    contain one of that name; elsewhere the operator's links are followed."""
    from adderclaw.config.paths import followed

    whole = os.path.normpath(os.path.join(workspace, path))
    return within_roots(whole, (workspace,)) or resolved_path(followed(whole))


def named_file(path: str, roots: Iterable[str]) -> WorkspacePath:
    """A file that the operator names, with its links followed. One in a root or a repository must not lead out of it,
    because a repository may contain a link of that name. Elsewhere the operator's links are followed."""
    from adderclaw.config.paths import followed, strays

    whole = os.path.abspath(path)
    if strays(whole, roots):
        raise PathRefused(f"{printable(path)} is a link that leads out of the workspace; it is not read")
    return resolved_path(followed(whole))


def require_within_roots(path: str, roots: Sequence[str]) -> WorkspacePath:
    """Like `within_roots`, but raises PathRefused if the path is outside all roots."""
    workspace_path = within_roots(path, roots)
    if workspace_path is None:
        raise PathRefused(f"{printable(path)} is outside the workspace {printable(roots[0])}")
    return workspace_path
