"""One look at a whole workspace by descriptor: git directories, what other programs run later, what rules deny."""

import os
import stat
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING

from adderclaw.config.denied_names import NOTHING, DeniedNames, covers, in_git
from adderclaw.config.paths import beneath, followed, settled
from adderclaw.config.run_later_names import INSTALLED_TREES, Names, names
from adderclaw.core.record import NamedTuple
from adderclaw.sandbox.workspace import gitdirs
from adderclaw.sandbox.workspace.contents import Fingerprints, folder_at

if TYPE_CHECKING:
    from adderclaw.sandbox.legacy.watches import Watches

MOST_FOLDERS = 200_000
"""Folders of one workspace that are looked into; with more the look is not whole, which is reported."""
DEEPEST = 250
"""Each level is an open descriptor while what lies in it is looked at."""
IN_INSTALLED = 2
"""How deep each look goes in there: `node_modules/@scope/package`; deeper, once into what has come or changed."""
MOST_INSTALLED = 2_000
"""Folders that each look goes into beneath that all the same."""
WHOLE = 1 << 20
"""As a depth: all of it."""
JUST_NOW = 100_000_000
"""Nanoseconds: what was changed so shortly before it was read is read once more at the next look."""
MANY_ASKED = 500
"""Folders that a look asks about one by one; where there are more, the kernel is to tell which have changed."""
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
    unseen: tuple[str, ...] = ()
    """What rules keep from being read."""
    unchanged: tuple[str, ...] = ()
    """What rules keep from being changed: each is one of the places, too."""


class _Folder:
    """What one folder held when it was last read."""

    __slots__ = (
        *("certain", "children", "git", "heads", "is_git", "is_passed", "is_plain", "named", "stamp"),
        *("unchanged", "unseen", "watch"),
    )

    def __init__(self, stamp: tuple[int, int, int, int], *, certain: bool) -> None:
        self.stamp, self.certain = stamp, certain
        self.children: dict[str, _Folder | None] = {}
        self.named: list[str] = []
        self.heads: list[str] = []
        self.git = ""
        self.unseen: dict[str, bool] = {}
        self.unchanged: dict[str, bool] = {}
        """What rules take, and whether it is a link."""
        self.watch = -1
        self.is_git = self.is_plain = self.is_passed = False
        """Plain is a leaf, read when it had long been as it was, with nothing in it that matters; passed, one in an
        installed tree of which nothing is kept but how it looked."""


class Surveyor:
    """Looks; a second look reads only the folders that were changed since, and costs one `stat` for each other, or
    nothing for one that the kernel watches."""

    def __init__(self) -> None:
        self._known: dict[str, _Folder | None] = {}
        self._whole: set[str] = set()
        """Roots that a look went through to its end."""
        self._shut = NOTHING
        self._contents = Fingerprints()
        self._watches: Watches[_Folder] | None = None
        self.imported: set[str] = set()
        """Files that instruction files import, perhaps through links: each look tells what they lead to."""

    @property
    def watched(self) -> int:
        """Folders of which the kernel tells."""
        return len(self._watches.trusted) if self._watches is not None else 0

    def survey(
        self, roots: Sequence[str], further: Sequence[str] = (), most: int = MOST_FOLDERS, shut: DeniedNames = NOTHING
    ) -> Survey:
        """`further` are places of the workspace that count, too, whatever they are called."""
        if shut != self._shut:
            self._known, self._shut = {}, shut
        self._contents.begin()
        if self._watches is not None:
            self._watches.renew()
        with ExitStack() as stack:
            walks = [self._walked(root, stack, most, roots) for root in _outermost(roots)]
            found = [walk for walk in walks if walk is not None]
            every = (*further, *(path for walk in found for path in walk.unchanged))
            imported = [settled(path) for path in self.imported]
            surveys = [walk.survey(every, imported) for walk in found]
        self._contents.end()
        return surveys[0] if len(surveys) == 1 else _merged(surveys)

    def _walked(self, root: str, stack: ExitStack, most: int, roots: Sequence[str]) -> "_Walk | None":
        try:
            top = os.open(root, READ & ~os.O_NOFOLLOW)
        except OSError:
            return None
        stack.callback(os.close, top)
        walk = _Walk(root, top, self._contents, most, self._shut, roots, is_first=root not in self._whole)
        walk.watches = self._watches
        self._known[root] = walk.visit(top, ".", self._known.get(root), ())
        self._watches = walk.watches
        self._whole |= {root} if walk.is_whole else set()
        return walk


def _merged(found: Sequence[Survey]) -> Survey:
    return Survey(
        tuple(path for one in found for path in one.gits),
        tuple(path for one in found for path in one.hooks),
        tuple(path for one in found for path in one.places),
        {path: inode for one in found for path, inode in one.inodes.items()},
        {path: mark for one in found for path, mark in one.items.items()},
        _together(one.settings for one in found),
        sum(one.folders for one in found),
        all(one.is_whole for one in found),
        tuple(path for one in found for path in one.unseen),
        tuple(path for one in found for path in one.unchanged),
    )


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

    def __init__(
        self,
        root: str,
        top: int,
        contents: Fingerprints,
        most: int,
        shut: DeniedNames,
        roots: Sequence[str],
        *,
        is_first: bool,
    ) -> None:
        self._root, self._top, self._contents, self._most = root, top, contents, most
        self._shut, self._roots, self._is_first = shut, roots, is_first
        self._wanted: Names = names()
        self._now = time.time_ns()
        self._count = self._installed = self._asked = 0
        self.is_whole = True
        self.watches: Watches[_Folder] | None = None
        self._git = gitdirs.GitDirectories(root, top, contents)
        self._places: dict[str, int] = {}
        self._items: dict[str, str] = {}
        self._unseen: dict[str, None] = {}
        self.unchanged: dict[str, None] = {}

    def survey(self, further: Sequence[str], imported: Sequence[str]) -> Survey:
        for path in further:
            self.named(path)
        for path in imported:
            self.named(path, is_reported=True)
        git = self._git
        git.follow_links()
        prefix = f"{self._root.rstrip('/')}/"
        places = {**self._places, **git.files}
        return Survey(
            tuple(prefix + path for path in _tops(git.folders)),
            tuple(prefix + path for path in sorted(git.hooks)),
            tuple(prefix + path for path in places),
            {prefix + path: inode for path, inode in (git.folders | git.hooks | places).items()},
            {prefix + path: mark for path, mark in (self._items | git.items).items()},
            frozenset(git.settings) if git.is_known and self.is_whole else None,
            self._count,
            self.is_whole,
            tuple(self._unseen),
            tuple(self.unchanged),
        )

    def named(self, path: str, *, is_reported: bool = False) -> None:
        """A place that somebody names, if it lies beneath this root and is there."""
        parts = tuple(path.removeprefix(f"{self._root.rstrip('/')}/").split("/"))
        if path.startswith(f"{self._root.rstrip('/')}/"):
            self._add(parts, is_reported=is_reported)

    # -------------------------------------------------------------- the walk

    def visit(
        self, parent: int, name: str, known: _Folder | None, path: tuple[str, ...], *, git: bool = False, left: int = -1
    ) -> _Folder | None:
        """Look at one folder and all beneath. `git`: it lies in a git directory; `left`: so much deeper, -1 for all."""
        self._count += 1
        if self._count > self._most or len(path) > DEEPEST:
            self.is_whole = False
            return None
        try:
            fd = os.open(name, READ, dir_fd=parent)
        except OSError:  # gone meanwhile, a link by now, or nothing that we may read
            return None
        try:
            folder = self._folder(fd, known, path, git=git)
            self._gather(fd, folder, path, git=git, left=left)
            self._deeper(fd, folder, path, git=git, left=left, as_it_was=folder is known)
            return folder
        except OSError:
            return None
        finally:
            os.close(fd)

    def _deeper(
        self, fd: int, folder: _Folder, path: tuple[str, ...], *, git: bool, left: int, as_it_was: bool
    ) -> None:
        """Where the folder is as it was, its names stand for what they stood for: then a watch can be trusted."""
        trusted = self.watches.trusted if self.watches is not None and as_it_was else {}
        inner, children, ruled = git or folder.is_git, folder.children, self._shut.is_any
        for name, known in children.items():
            is_git = inner or name == folder.git
            if folder.is_git and name in gitdirs.BULK and not ruled:
                continue
            if known is not None and trusted.get(known.watch) is known and not is_git:
                self._count += 1
                continue
            if known is not None and known.is_plain and not is_git and self._is_same(fd, name, known):
                continue
            if left == 0 and not is_git and not ruled:
                children[name] = self._installed_folder(fd, name, known, (*path, name))
                continue
            deeper = self._depth(name, left, is_git=is_git, is_place=name in folder.named)
            children[name] = self.visit(fd, name, known, (*path, name), git=is_git, left=deeper)

    def _depth(self, name: str, left: int, *, is_git: bool, is_place: bool) -> int:
        if is_git:
            return -1
        if is_place:  # what is in it is told apart already: only rules are held against it
            return WHOLE
        if left < 0:
            return -1 if name not in INSTALLED_TREES else WHOLE if self._shut.is_any else IN_INSTALLED
        return left - 1

    def _installed_folder(self, fd: int, name: str, known: _Folder | None, path: tuple[str, ...]) -> _Folder | None:
        """Deep in an installed tree: a folder that looks as it did is passed by, once there are many of them."""
        before, gits = self._count, self._git.count
        if known is not None and known.is_passed:
            if known.certain and self._is_same(fd, name, known):
                return known
        elif known is None and self._is_first and self._installed >= MOST_INSTALLED:
            return self._passed(fd, name)
        found = self.visit(fd, name, None if known is None or known.is_passed else known, path, left=WHOLE)
        self._installed += self._count - before
        if found is None or self._installed < MOST_INSTALLED or self._git.count > gits:
            return found
        return self._passed(fd, name)

    def _passed(self, parent: int, name: str) -> _Folder | None:
        try:
            stamp = _stamp(os.stat(name, dir_fd=parent, follow_symlinks=False))
        except OSError:
            return None
        folder = _Folder(stamp, certain=self._now - max(stamp[2:]) > JUST_NOW)
        folder.is_passed = True
        return folder

    def _is_same(self, parent: int, name: str, known: _Folder) -> bool:
        """Most folders are plain and as they were: for those one call of the system is all."""
        try:
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns) != known.stamp:
                return False
            self._asked += 1
            if self.watches is not None or self._asked > MANY_ASKED:
                self._watch(parent, name, known)
        except OSError:
            return False
        self._count += 1
        return True

    def _watch(self, parent: int, name: str, known: _Folder) -> None:
        """Have the kernel tell of the next change; one that came before the watch is seen by the second look at it."""
        if self.watches is None:
            from adderclaw.sandbox.legacy.watches import Watches

            self.watches = Watches()
        if not self.watches.has_room(known.stamp[0]):
            return
        with _opened(parent, name) as fd:
            watch = self.watches.add(fd)
            if watch >= 0 and _stamp(os.fstat(fd)) == known.stamp:
                known.watch = watch
                self.watches.trusted[watch] = known

    def _folder(self, fd: int, known: _Folder | None, path: tuple[str, ...], *, git: bool) -> _Folder:
        stamp = _stamp(os.fstat(fd))
        if known is not None and known.certain and known.stamp == stamp:
            return known
        folder = _Folder(stamp, certain=self._now - max(stamp[2:]) > JUST_NOW)
        wanted, before = self._wanted, known.children if known is not None else {}
        single, suffixes, pairs, layout = wanted.single, wanted.suffixes, wanted.pairs, set[str]()
        ruled = self._shut.is_any
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
                    if not ruled:
                        continue
                elif is_folder and not git and loose in pairs:
                    folder.heads.append(name)
                if ruled:
                    self._hold_against_rules(entry, folder, path, is_folder=is_folder)
                if is_folder:
                    folder.children[name] = before.get(name)
        folder.is_git = gitdirs.is_layout(layout)
        matters = folder.children or folder.named or folder.git or folder.is_git or folder.unseen or folder.unchanged
        folder.is_plain = folder.certain and not matters
        return folder

    def _hold_against_rules(
        self, entry: "os.DirEntry[str]", folder: _Folder, path: tuple[str, ...], *, is_folder: bool
    ) -> None:
        name, root = entry.name, self._root.rstrip("/")
        if any(part.casefold() == ".git" for part in path):
            for rule, found in ((self._shut.unseen, folder.unseen), (self._shut.unchanged, folder.unchanged)):
                if in_git(rule, root, name):
                    found[name] = entry.is_symlink()
            return
        if name == ".git":
            return  # git needs it, and what must not be changed in it is protected anyway
        whole = "/".join((root, *path, name))
        if covers(self._shut.unseen, whole, is_folder=is_folder):
            folder.unseen[name] = entry.is_symlink()
        elif covers(self._shut.unchanged, whole, is_folder=is_folder):
            folder.unchanged[name] = entry.is_symlink()

    def _gather(self, fd: int, folder: _Folder, path: tuple[str, ...], *, git: bool, left: int) -> None:
        """Note what matters in a folder that is open."""
        if folder.is_git or (path and path[-1].casefold() == ".git"):
            self._git.add_directory(fd, path, bare=folder.is_git)
        if folder.git and folder.git not in folder.children:
            self._git.add_pointer(fd, folder.git, path)
        for found, held in ((folder.unseen, self._unseen), (folder.unchanged, self.unchanged)):
            for name, is_link in found.items():
                held |= dict.fromkeys(self._held(fd, name, path, is_link=is_link))
        if left >= 0 or git:
            return
        for name in folder.named:
            self._place(fd, name, path)
        for head in folder.heads:
            self._pairs(fd, head, path)

    def _held(self, fd: int, name: str, path: tuple[str, ...], *, is_link: bool) -> Iterator[str]:
        """A link is kept by keeping what it leads to, which is the same file."""
        root = self._root.rstrip("/")
        if not is_link:
            yield "/".join((root, *path, name))
            return
        try:
            inside = gitdirs.resolve(self._root, self._top, path, os.readlink(name, dir_fd=fd))
            if inside:
                with folder_at(self._top, inside[:-1]) as above:
                    os.stat(inside[-1], dir_fd=above, follow_symlinks=False)
                yield "/".join((root, *inside))
        except OSError:
            return
        if inside is None:  # into another of the roots, perhaps
            real = followed("/".join((root, *path, name)))
            if real not in self._roots and any(beneath(real, one) for one in self._roots) and os.path.exists(real):
                yield real

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
        pair = "/".join((*path[-1:], name)).casefold()
        unmounted = self._wanted.installed | self._wanted.reported
        if found.kind != "link" and unmounted.isdisjoint((name.casefold(), pair)):
            self._places[rel] = found.inode
        if found.kind == "link":
            self._target(found.items[rel], path, is_reported=name.casefold() in self._wanted.reported)

    def _target(self, mark: str, path: tuple[str, ...], *, is_reported: bool) -> None:
        """What a link leads to is the same file by another name, if it lies in the workspace."""
        real = gitdirs.resolve(self._root, self._top, path, mark.removeprefix("link "))
        if real:
            self._add(real, is_reported=is_reported)

    def _add(self, parts: tuple[str, ...], *, is_reported: bool) -> None:
        """`is_reported`: instructions, of which changes are reported and which are no read-only mount."""
        try:
            with folder_at(self._top, parts[:-1]) as fd:
                if is_reported and stat.S_ISDIR(os.stat(parts[-1], dir_fd=fd, follow_symlinks=False).st_mode):
                    return
                found = self._contents.tree(fd, parts[-1], "/".join(parts))
        except OSError:
            return
        if found is not None:
            self._items |= found.items
            self._places |= {"/".join(parts): found.inode} if found.kind != "link" and not is_reported else {}


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
