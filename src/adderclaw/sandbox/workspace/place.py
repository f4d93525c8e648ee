"""A path of the workspace as a type of its own, which no file call of Python accepts by accident."""

import os
from collections.abc import Iterable, Sequence

from adderclaw.core.errors import PathRefused


class Place:
    """A root that was resolved once, and the way from there. There is no `__fspath__`, and `str` gives no path."""

    __slots__ = ("root", "way")

    root: str
    """Absolute, every link followed when the session began; what lies above it is not the workspace's to change."""
    way: str
    """From the root: no `..`, no leading slash; "." is the root itself."""

    def __init__(self, root: str, way: str = ".") -> None:
        folded = os.path.normpath(way)
        if "\0" in root + way:
            raise PathRefused(f"{shown(way[:80])!r} holds a NUL character, which no file name can")
        if not root.startswith("/"):
            raise ValueError(f"the root {root!r} is not absolute")
        if folded.startswith(("/", "../")) or folded == "..":
            raise PathRefused(f"{shown(way)} leads out of {shown(root)}")
        self.root, self.way = root, folded

    def __truediv__(self, name: str) -> "Place":
        return Place(self.root, os.path.join(self.way, name))

    def child(self, name: str) -> "Place":
        """What a listing of the folder named; quicker than `/`, which folds and checks."""
        made = object.__new__(Place)
        made.root, made.way = self.root, name if self.way == "." else f"{self.way}/{name}"
        return made

    @property
    def parent(self) -> "Place":
        return Place(self.root, os.path.dirname(self.way) or ".")

    @property
    def name(self) -> str:
        return "" if self.is_root else os.path.basename(self.way)

    @property
    def is_root(self) -> bool:
        return self.way == "."

    @property
    def text(self) -> str:
        """The absolute path, to be compared, stored and shown: never to be opened."""
        return self.root if self.is_root else os.path.join(self.root, self.way)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and (self.root, self.way) == (other.root, other.way)

    def __hash__(self) -> int:
        return hash((self.root, self.way))

    def __repr__(self) -> str:
        return f"Place({self.root!r}, {self.way!r})"


def shown(text: str) -> str:
    """A name on one line: what is not printable is escaped, so that no name can look like two."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else f"\\u{{{ord(char):x}}}" for char in text)


def anywhere(real: str) -> Place:
    """A path that was resolved, wherever it lies: what is opened there is reached through no link from `/` on."""
    return Place("/", real.lstrip("/") or ".")


def inside(path: str, roots: Iterable[str]) -> Place | None:
    """An absolute path as a place in one of the roots; None where it lies in none of them.

    Of roots that lie in each other the outermost counts: a folder of the workspace can be exchanged for a link.
    """
    for root in sorted(roots, key=len):
        if path == root:
            return Place(root)
        above = root.rstrip("/") + "/"
        if path.startswith(above):
            return Place(root, path[len(above) :])
    return None


def configured(path: str, workspace: str) -> Place:
    """A path that the operator's settings name: in the workspace it is reached through no link, since a repository may
    bring one of that name; elsewhere it is the operator's own."""
    from adderclaw.config.paths import followed

    whole = os.path.normpath(os.path.join(workspace, path))
    return inside(whole, (workspace,)) or anywhere(followed(whole))


def named(path: str, roots: Iterable[str]) -> Place:
    """A file that somebody names, with its links followed. One that is named in a root or in a repository, by whichever
    name of it, must not lead out of them: it may bring a link of that name. One elsewhere is the operator's own."""
    from adderclaw.config.paths import followed, strays

    whole = os.path.abspath(path)
    if strays(whole, roots):
        raise PathRefused(f"{shown(path)} is a link that leads out of the workspace, and is not read")
    return anywhere(followed(whole))


def beneath_root(path: str, roots: Sequence[str]) -> Place:
    """The same; raises Refused where it lies in none of them."""
    found = inside(path, roots)
    if found is None:
        raise PathRefused(f"{shown(path)} is outside the workspace {shown(roots[0])}")
    return found
