"""What other programs run later, wherever it lies in a workspace: git alone changes it, by a command of its own.

CI's and hook managers' settings, hooks and settings of repositories beneath the workspace. In bubblewrap all commands
but git's see them read-only. No mount keeps what is not there yet, nor what came in a folder that was not there when
the sandbox was started (a clone, which must be removable): what a command puts there is taken away or put back when
it ends, and whenever another begins or ends.
"""

import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from adderclaw.config.paths import beneath, followed
from adderclaw.sandbox import protected
from adderclaw.sandbox.protected import Content

MOST_FOLDERS = 300
"""Folders of a workspace that are looked into, those near its top first: it is done for each command."""
DEEPEST = 4
MOST_MOUNTED = 300
IN_TREE = ("commondir", "config.worktree")
MOST_TREES = 40
"""Work trees of one repository that are kept."""
BULK = frozenset({"node_modules", "venv", "site-packages", "__pycache__", "target", "dist", "build"})
JUST_NOW = 100_000_000
"""Nanoseconds: a folder that was changed so shortly before it was read is read once more."""


class Place(NamedTuple):
    stamp: tuple[int, int]
    """Its inode and when that was last changed: another file of the same name needs a mount of its own."""
    folder: str
    """The folder of the workspace that it belongs to."""
    kind: str
    """`name`, `git` (of a repository), `tree` (of a work tree that git knows of) or `target` (of a link)."""


class Found(NamedTuple):
    places: dict[str, Place]
    pinned: tuple[str, ...]
    """Folders that may be changed inside, but not moved away to make room for others."""
    links: dict[str, str]
    repositories: frozenset[str]
    folders: frozenset[str]
    is_whole: bool = True
    """False where there are more folders than are looked into."""


NOTHING = Found({}, (), {}, frozenset(), frozenset())


class _Folder(NamedTuple):
    changed: int
    certain: bool
    named: tuple[str, ...]
    links: tuple[str, ...]
    heads: tuple[str, ...]
    folders: tuple[str, ...]
    git: str


class Finder:
    """Finds it; a second look reads only the folders that were changed since."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = frozenset(name.casefold() for name in names if "/" not in name) - {".git"}
        pairs = [name.casefold().split("/") for name in names if "/" in name]
        self._inner = {head: frozenset(inner for first, inner in pairs if first == head) for head, _ in pairs}
        self._known: dict[str, _Folder] = {}
        self._last = NOTHING

    def find(self, roots: Sequence[str], now: protected.Places) -> Found:
        """All but what is protected for git, too."""
        held = {*now.kept, *now.missing, *now.pinned}
        places: dict[str, Place] = {}
        pinned: dict[str, None] = {}
        links: dict[str, str] = {}
        known: dict[str, _Folder] = {}
        waiting: deque[tuple[str, tuple[str, ...]]] = deque((root.rstrip("/"), ()) for root in roots)
        while waiting and len(known) < MOST_FOLDERS:
            path, above = waiting.popleft()
            if path in known or (folder := self._folder(path, self._names)) is None:
                continue
            known[path] = folder
            if len(above) < DEEPEST:
                waiting.extend((inner, (*above, inner)) for inner in folder.folders)
            for place, kind in self._kept(folder, beneath=bool(above)):
                if place not in held and (stamp := _stamp(place)) is not None:
                    places[place] = Place(stamp, path, kind)
                    pinned |= dict.fromkeys((*above, *_between(path, place)))
            for link in folder.links:
                if link not in held and (to := protected.led(link)) is not None:
                    links[link] = to
                    places |= _target(link, path, roots)
        self._known = known
        gits = frozenset(folder.git for folder in known.values() if folder.git)
        found = Found(places, tuple(pinned), links, gits, frozenset(known), not waiting)
        self._last = self._last if self._last == found else found
        return self._last

    def _kept(self, folder: _Folder, *, beneath: bool) -> Iterator[tuple[str, str]]:
        inner = (self._folder(head, self._inner[os.path.basename(head).casefold()]) for head in folder.heads)
        for one in (folder, *inner):
            yield from ((place, "name") for place in (one.named if one is not None else ()))
        if not folder.git:
            return
        if beneath:  # of the workspace's own repository git itself must not change this either
            yield folder.git if os.path.isfile(folder.git) else "", "git"
            yield from ((f"{folder.git}/{name}", "git") for name in protected.IN_GIT)
        yield from ((f"{tree}/{name}", "tree") for tree in _trees(folder.git) for name in IN_TREE)

    def _folder(self, path: str, names: frozenset[str]) -> _Folder | None:
        try:
            changed = os.lstat(path).st_mtime_ns
            before = self._known.get(path)
            if before is not None and before.certain and before.changed == changed:
                return before
            with os.scandir(path) as entries:
                return self._read(changed, entries, names)
        except OSError:
            return None

    def _read(self, changed: int, entries: "Iterator[os.DirEntry[str]]", names: frozenset[str]) -> _Folder:
        named: list[str] = []
        links: list[str] = []
        heads: list[str] = []
        folders: list[str] = []
        git = ""
        for entry in entries:
            name, is_link = entry.name.casefold(), entry.is_symlink()
            if name in names or name == ".git":
                if is_link:
                    links.append(entry.path)
                elif name == ".git":
                    git = entry.path
                else:
                    named.append(entry.path)
            elif is_link or not entry.is_dir(follow_symlinks=False):
                continue
            elif name in self._inner:
                heads.append(entry.path)
            elif not name.startswith(".") and name not in BULK:
                folders.append(entry.path)
        certain = time.time_ns() - changed > JUST_NOW
        return _Folder(changed, certain, tuple(named), tuple(links), tuple(heads), tuple(sorted(folders)), git)


def _between(folder: str, place: str) -> Iterator[str]:
    """The folders between one and what lies in it."""
    path = os.path.dirname(place)
    while len(path) > len(folder):
        yield path
        path = os.path.dirname(path)


def _target(link: str, folder: str, roots: Sequence[str]) -> dict[str, Place]:
    """What a link leads to, if that is in the workspace: the same file by another name."""
    real = followed(link)
    if not any(beneath(real, root) and real != root for root in roots):
        return {}
    stamp = _stamp(real)
    return {} if stamp is None else {real: Place(stamp, folder, "target")}


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns


def _trees(git: str) -> list[str]:
    try:
        return [f"{git}/worktrees/{name}" for name in sorted(os.listdir(f"{git}/worktrees"))[:MOST_TREES]]
    except OSError:
        return []


class Mounted(NamedTuple):
    pinned: tuple[str, ...]
    kept: tuple[str, ...]
    stamps: tuple[tuple[int, int], ...]


NO_MOUNTS = Mounted((), (), ())


class Keeper:
    """What was there when no command but git could have changed it, held against what is there now."""

    def __init__(self, names: Sequence[str], *, mounts: bool) -> None:
        self._finder, self._mounts = Finder(names), mounts
        self._first: frozenset[str] | None = None
        self._base = NOTHING
        self._mounted = NOTHING, NO_MOUNTS
        self._remembered: dict[str, Content] = {}
        self.too_large: tuple[str, ...] = ()
        """What no mount keeps and is too large to be put back."""
        self.replaced: list[str] = []
        """What you, or git in another session, have changed while commands ran, and was not said yet."""

    @property
    def is_whole(self) -> bool:
        return self._base.is_whole

    def begin(self) -> None:
        """A new sandbox is started: what is there by then can be kept by mounts."""
        self._first, self._mounted = None, (NOTHING, NO_MOUNTS)

    def accept(self, roots: Sequence[str], now: protected.Places) -> None:
        """All is as git, or you, made it."""
        self._base = base = self._finder.find(roots, now)
        self._first = base.folders if self._first is None else self._first
        mounted = frozenset(self.mounted().kept)
        self._remembered = {}
        large: list[str] = []
        for path in base.places:
            if path in mounted:
                continue
            try:
                self._remembered |= protected.remembered([path])
            except OSError:
                large.append(path)
        self.too_large = tuple(large)

    def mounted(self) -> Mounted:
        """What mounts keep of what was accepted."""
        if not self._mounts:
            return NO_MOUNTS
        if self._mounted[0] is not self._base:
            first, base = self._first or frozenset[str](), self._base
            kept = [(path, place) for path, place in base.places.items() if place.folder in first][:MOST_MOUNTED]
            above = {folder for path, _ in kept for folder in _between("/", path)}
            pinned = tuple(path for path in base.pinned if path in above)
            self._mounted = (
                base,
                Mounted(pinned, tuple(path for path, _ in kept), tuple(place.stamp for _, place in kept)),
            )
        return self._mounted[1]

    def settle(self, roots: Sequence[str], now: protected.Places, store: str) -> list[str]:
        """Take away what has come to be since, put back what has changed; the places."""
        base, found = self._base, self._finder.find(roots, now)
        if (found.places, found.links, found.repositories) != (base.places, base.links, base.repositories):
            taken = [*self._come(found, store), *_relinked(base.links, found.links, store)]
            self._follow(found)
        else:
            taken = []
        there = {path: content for path, content in self._remembered.items() if self._is_due(path)}
        return [*taken, *protected.put_back(there, store)]

    def _follow(self, found: Found) -> None:
        """Only somebody outside replaces or removes what a mount keeps; the mount goes with it, and another is due."""
        places = dict(self._base.places)
        for path in self.mounted().kept:
            if path in found.places and found.places[path] != places[path]:
                places[path] = found.places[path]
                self.replaced.append(path)
            elif path not in self._remembered and not os.path.lexists(path):
                del places[path]  # should it come again, a command has made it
        if places != self._base.places:
            self._base = self._base._replace(places=places)

    def _is_due(self, path: str) -> bool:
        """Whether it is put back, or has gone with a folder that commands may remove: then it can run nothing."""
        place = self._base.places[path]
        return place.folder in (self._first or ()) or os.path.lexists(path)

    def _come(self, found: Found, store: str) -> Iterator[str]:
        base = self._base
        for git in found.repositories - base.repositories:
            if os.path.isfile(git) and _is_tree_of(git, base.repositories):
                continue  # `git worktree add`
            yield from protected.new_repository(git, store)
        for path, place in found.places.items():
            known = place.folder in base.folders and path not in base.places
            if known and (place.kind == "name" or (place.kind == "git" and _git_of(path) in base.repositories)):
                yield from protected.put_away(path, store)


def _git_of(path: str) -> str:
    return path if os.path.basename(path) == ".git" else os.path.dirname(path)


def _is_tree_of(file: str, repositories: frozenset[str]) -> bool:
    """Whether a `.git` file leads to a work tree that a repository which was there before knows of."""
    pointed = protected.pointed(file)
    git, _, name = pointed.rpartition("/worktrees/")
    if git not in repositories or not name or "/" in name or os.path.lexists(f"{pointed}/config.worktree"):
        return False
    try:
        with open(f"{pointed}/commondir", encoding="utf-8", errors="replace") as stream:
            return stream.read(100).strip() == "../.."
    except OSError:
        return False


def _relinked(before: dict[str, str], after: dict[str, str], store: str) -> Iterator[str]:
    """A link is to lead where it led; a new one leads nowhere."""
    for path, target in before.items():
        if after.get(path) != target and os.path.isdir(os.path.dirname(path)):
            protected.put_away(path, store)
            os.symlink(target, path)
            yield path
    for path in after.keys() - before.keys():
        yield from protected.put_away(path, store)
