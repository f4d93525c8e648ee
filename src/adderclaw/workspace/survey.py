"""One look at a whole workspace by descriptor: its git directories, and the places that other programs run later."""

import os
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import NamedTuple

from adderclaw.workspace import gitdirs
from adderclaw.workspace.contents import Contents, folder_at
from adderclaw.workspace.names import Names, names

MOST_FOLDERS = 200_000
"""Folders of one workspace that are looked into; with more the look is not whole, which is reported."""
DEEPEST = 250
"""Each level is an open descriptor while what lies in it is looked at."""
INSTALLED_TREES = frozenset({"node_modules", "site-packages", ".tox", "__pycache__", ".venv", "venv"})
"""Folders full of other people's projects, whose own settings for CI and editors nobody uses."""
IN_INSTALLED = 2
"""How deep git directories are looked for in there: `node_modules/@scope/package`."""
JUST_NOW = 100_000_000
"""Nanoseconds: what was changed so shortly before it was read is read once more at the next look."""
READ = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class Survey(NamedTuple):
    """What was found, as absolute paths that no link is part of."""

    gits: tuple[str, ...] = ()
    """Git directories, the outermost of those that lie in one another."""
    hooks: tuple[str, ...] = ()
    """Folders that git looks for hooks in."""
    places: tuple[str, ...] = ()
    """What programs run later, `.git` files and included settings: what can be a read-only mount."""
    inodes: Mapping[str, int] = MappingProxyType({})
    """Of all these: another file of the same name needs a mount of its own."""
    items: Mapping[str, str] = MappingProxyType({})
    """Each single file, link or setting of all that → its fingerprint."""
    settings: frozenset[str] | None = frozenset()
    """Keys of git's settings here that may run a program, or name who commits; None where they are not known."""
    folders: int = 0
    is_whole: bool = True


class _Folder:
    """What one folder held when it was last read."""

    __slots__ = ("certain", "children", "git", "heads", "is_git", "is_plain", "named", "stamp")

    def __init__(self, stamp: tuple[int, int, int, int], *, certain: bool) -> None:
        self.stamp, self.certain = stamp, certain
        self.children: dict[str, _Folder | None] = {}
        self.named: list[str] = []
        self.heads: list[str] = []
        self.git = ""
        self.is_git = self.is_plain = False
        """Plain is a leaf, read when it had long been as it was, with nothing in it that matters."""


class Surveyor:
    """Looks; a second look reads only the folders that were changed since, and costs one `stat` for each other."""

    def __init__(self) -> None:
        self._known: dict[str, _Folder | None] = {}
        self._contents = Contents()

    def look(self, roots: Sequence[str], further: Sequence[str] = (), most: int = MOST_FOLDERS) -> Survey:
        """`further` are places of the workspace that count, too, whatever they are called."""
        self._contents.begin()
        found = [survey for root in _outermost(roots) if (survey := self._root(root, further, most)) is not None]
        self._contents.end()
        if len(found) == 1:
            return found[0]
        return Survey(
            tuple(path for one in found for path in one.gits),
            tuple(path for one in found for path in one.hooks),
            tuple(path for one in found for path in one.places),
            {path: inode for one in found for path, inode in one.inodes.items()},
            {path: mark for one in found for path, mark in one.items.items()},
            _together(one.settings for one in found),
            sum(one.folders for one in found),
            all(one.is_whole for one in found),
        )

    def _root(self, root: str, further: Sequence[str], most: int) -> Survey | None:
        try:
            top = os.open(root, READ & ~os.O_NOFOLLOW)
        except OSError:
            return None
        try:
            walk = _Walk(root, top, self._contents, names(), most)
            self._known[root] = walk.visit(top, ".", self._known.get(root), ())
            for path in further:
                walk.named(path)
            return walk.survey()
        finally:
            os.close(top)


def _together(found: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    every = list(found)
    return None if None in every else frozenset[str]().union(*(one for one in every if one))


def _outermost(roots: Sequence[str]) -> list[str]:
    found: list[str] = []
    for root in sorted(dict.fromkeys(root.rstrip("/") or "/" for root in roots)):
        if not any(root.startswith(f"{one.rstrip('/')}/") for one in found):
            found.append(root)
    return found


class _Walk:
    """One look at one root."""

    def __init__(self, root: str, top: int, contents: Contents, wanted: Names, most: int) -> None:
        self._root, self._top, self._contents, self._wanted, self._most = root, top, contents, wanted, most
        self._now = time.time_ns()
        self._count = 0
        self._is_whole = True
        self._git = gitdirs.Found(root, top, contents)
        self._places: dict[str, int] = {}
        self._items: dict[str, str] = {}

    def survey(self) -> Survey:
        git = self._git
        git.follow()
        prefix = f"{self._root.rstrip('/')}/"
        places = {**self._places, **git.files}
        return Survey(
            tuple(prefix + path for path in _tops(git.folders)),
            tuple(prefix + path for path in sorted(git.hooks)),
            tuple(prefix + path for path in places),
            {prefix + path: inode for path, inode in (git.folders | git.hooks | places).items()},
            {prefix + path: mark for path, mark in (self._items | git.items).items()},
            frozenset(git.settings) if git.is_known and self._is_whole else None,
            self._count,
            self._is_whole,
        )

    def named(self, path: str) -> None:
        """A place that somebody names, if it lies beneath this root and is there."""
        parts = tuple(path.removeprefix(f"{self._root.rstrip('/')}/").split("/"))
        if path.startswith(f"{self._root.rstrip('/')}/"):
            self._add(parts)

    # -------------------------------------------------------------- the walk

    def visit(
        self, parent: int, name: str, known: _Folder | None, path: tuple[str, ...], *, git: bool = False, left: int = -1
    ) -> _Folder | None:
        """Look at one folder and all beneath. `git`: it lies in a git directory; `left`: so much deeper, -1 for all."""
        self._count += 1
        if self._count > self._most or len(path) > DEEPEST:
            self._is_whole = False
            return None
        try:
            fd = os.open(name, READ, dir_fd=parent)
        except OSError:  # gone meanwhile, a link by now, or nothing that we may read
            return None
        try:
            folder = self._folder(fd, known, git=git)
            self._gather(fd, folder, path, git=git, left=left)
            self._deeper(fd, folder, path, git=git, left=left)
            return folder
        except OSError:
            return None
        finally:
            os.close(fd)

    def _deeper(self, fd: int, folder: _Folder, path: tuple[str, ...], *, git: bool, left: int) -> None:
        inner, children = git or folder.is_git, folder.children
        for name, known in children.items():
            is_git = inner or name == folder.git
            if (folder.is_git and name in gitdirs.BULK) or (left == 0 and not is_git):
                continue
            if known is not None and known.is_plain and not is_git and self._is_same(fd, name, known):
                continue
            if is_git:
                deeper = -1
            elif left < 0:
                deeper = IN_INSTALLED if name in INSTALLED_TREES else -1
            else:
                deeper = left - 1
            children[name] = self.visit(fd, name, known, (*path, name), git=is_git, left=deeper)

    def _is_same(self, parent: int, name: str, known: _Folder) -> bool:
        """Most folders are plain and as they were: for those one call of the system is all."""
        try:
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        except OSError:
            return False
        if (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns) != known.stamp:
            return False
        self._count += 1
        return True

    def _folder(self, fd: int, known: _Folder | None, *, git: bool) -> _Folder:
        stamp = _stamp(os.fstat(fd))
        if known is not None and known.certain and known.stamp == stamp:
            return known
        folder = _Folder(stamp, certain=self._now - max(stamp[2:]) > JUST_NOW)
        wanted, before = self._wanted, known.children if known is not None else {}
        single, suffixes, pairs, layout = wanted.single, wanted.suffixes, wanted.pairs, set[str]()
        with os.scandir(fd) as entries:
            for entry in entries:
                name = entry.name
                loose = name.casefold()
                is_folder = entry.is_dir(follow_symlinks=False)
                if loose in gitdirs.LAYOUT:
                    layout.add(loose)
                if loose == ".git":
                    folder.git = name
                elif not git and (loose in single or loose.endswith(suffixes)):
                    folder.named.append(name)
                    continue
                elif is_folder and not git and loose in pairs:
                    folder.heads.append(name)
                if is_folder:
                    folder.children[name] = before.get(name)
        folder.is_git = gitdirs.is_layout(layout)
        folder.is_plain = folder.certain and not (folder.children or folder.named or folder.git or folder.is_git)
        return folder

    def _gather(self, fd: int, folder: _Folder, path: tuple[str, ...], *, git: bool, left: int) -> None:
        """Note what matters in a folder that is open."""
        if folder.is_git or (path and path[-1].casefold() == ".git"):
            self._git.directory(fd, path, bare=folder.is_git)
        if folder.git and folder.git not in folder.children:
            self._git.pointer(fd, folder.git, path)
        if left >= 0 or git:
            return
        for name in folder.named:
            self._place(fd, name, path)
        for head in folder.heads:
            self._pairs(fd, head, path)

    def _pairs(self, fd: int, head: str, path: tuple[str, ...]) -> None:
        try:
            with _opened(fd, head) as inner, os.scandir(inner) as entries:
                for entry in entries:
                    if entry.name.casefold() in self._wanted.pairs[head.casefold()]:
                        self._place(inner, entry.name, (*path, head))
        except OSError:
            return

    def _place(self, fd: int, name: str, path: tuple[str, ...]) -> None:
        """A place that programs run later: each file in it is an item of its own."""
        rel = "/".join((*path, name))
        found = self._contents.tree(fd, name, rel)
        if found is None:
            return
        self._items |= found.items
        if found.kind != "link" and name.casefold() not in self._wanted.installed:
            self._places[rel] = found.inode
        if found.kind == "link":
            self._target(found.items[rel], path)

    def _target(self, mark: str, path: tuple[str, ...]) -> None:
        """What a link leads to is the same file by another name, if it lies in the workspace."""
        real = gitdirs.resolve(self._root, self._top, path, mark.removeprefix("link "))
        if real:
            self._add(real)

    def _add(self, parts: tuple[str, ...]) -> None:
        try:
            with folder_at(self._top, parts[:-1]) as fd:
                found = self._contents.tree(fd, parts[-1], "/".join(parts))
        except OSError:
            return
        if found is not None:
            self._items |= found.items
            self._places |= {"/".join(parts): found.inode} if found.kind != "link" else {}


def _tops(paths: Iterable[str]) -> Iterator[str]:
    """Without what lies in another of them."""
    last = "\0"
    for path in sorted(paths, key=lambda path: path.split("/")):
        if not path.startswith(f"{last}/"):
            yield path
            last = path


def _stamp(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


@contextmanager
def _opened(parent: int, name: str) -> Generator[int]:
    fd = os.open(name, READ, dir_fd=parent)
    try:
        yield fd
    finally:
        os.close(fd)
