"""Finds git directories by their content, not their name, and follows pointers, links and settings to others."""

import os
import re
from collections import deque
from collections.abc import Set

from adderclaw.core.json_text import digest
from adderclaw.core.record import NamedTuple
from adderclaw.sandbox.workspace import gitconfig
from adderclaw.sandbox.workspace.contents import Fingerprints, folder_at

BULK = frozenset({"objects", "refs", "logs", "lfs", "rr-cache"})
"""Large folders of a git directory that contain nothing to follow."""
CONFIGS = ("config", "config.worktree")
IDENTITY_KEYS = ("user.name", "user.email")
MAX_HOPS = 40
MAX_INCLUDED = 40
MAX_FILES = 400
"""At most this many included files of settings are read. Beyond either limit, git's settings count as unknown."""


LAYOUT = frozenset({"head", "commondir", "objects", "refs"})
"""The names by which a git directory is recognized."""


def is_layout(names: Set[str]) -> bool:
    """Whether git regards a folder with these names (in lower case) as a repository."""
    return "head" in names and ("commondir" in names or {"objects", "refs"} <= names)


type Path = tuple[str, ...]
"""The names on the way from the workspace's root."""


class _Pending(NamedTuple):
    kind: str
    """What to follow: a `git` directory, a `hooks` folder or a `config` file."""
    path: Path
    owner: Path
    """The git directory that it belongs to."""


class GitDirectories:
    """Everything that belongs to the git directories of one workspace; `follow_links` also finds what they lead to."""

    def __init__(self, root: str, top: int, contents: Fingerprints) -> None:
        self._root, self._top, self._contents = root, top, contents
        self._trees: dict[Path, Path] = {}
        self._pending: deque[_Pending] = deque()
        self._followed: set[_Pending] = set()
        self.count = 0
        """How many git directories, and pointers to one, were found."""
        self.folders: dict[str, int] = {}
        """Path → inode."""
        self.hooks: dict[str, int] = {}
        """Path → inode."""
        self.files: dict[str, int] = {}
        """`.git` files and included settings, which are regular files: path → inode."""
        self.items: dict[str, str] = {}
        """Path → fingerprint of what may run a program."""
        self.settings: set[str] = set()
        """Keys of settings that may run a program or that set the identity of commits."""
        self.is_known = True
        """Whether everything that git would read here was read and understood."""

    # -------------------------------------------------------------- adding what a walk finds

    def add_pointer(self, fd: int, name: str, folder: Path) -> None:
        """Adds a `.git` that is a file or a link, which leads to a git directory."""
        self.count += 1
        path = "/".join((*folder, name))
        tree = self._contents.tree(fd, name, path)
        if tree is None:
            return
        mark, text = tree.items.get(path, ""), ""
        if tree.kind == "link":
            text = mark.removeprefix("link ")
        elif tree.kind == "file":
            self.files[path] = tree.inode
            read = self._contents.text(fd, name, path) or b""
            match = re.match(r"gitdir: *([^\0\n]+)", os.fsdecode(read))
            text = match[1].rstrip("\r") if match else ""
            # Git takes the whole text as a path, including spaces and line breaks.
            self.is_known &= os.fsdecode(read).rstrip("\r\n") == f"gitdir: {text}" and text == text.strip()
        target = resolve(self._root, self._top, folder, text) if text else None
        if target is None:
            self.items[path] = mark  # it leads out of the workspace, so nothing more is known
            self.is_known = False
            return
        self._trees.setdefault(target, folder)
        self._enqueue("git", target, target)

    def add_directory(self, fd: int, path: Path, *, bare: bool) -> None:
        """Adds an open git directory."""
        self.count += 1
        key = "/".join(path)
        if path and (bare or path[-1].casefold() == ".git"):
            self.folders[key] = os.fstat(fd).st_ino
        if path and path[-1].casefold() == ".git":
            self._trees.setdefault(path, path[:-1])
        self._add_hooks(fd, "hooks", (*path, "hooks"))
        for name in CONFIGS:
            self._add_config(fd, name, (*path, name), path)
        if not path and (own := self._contents.tree(fd, "config", "config")) is not None and own.kind == "file":
            self.files["config"] = own.inode  # protects the file, because the workspace itself cannot be read-only
        common = self._contents.text(fd, "commondir", "/".join((*path, "commondir")))
        if common is None:
            self.is_known &= self._contents.tree(fd, "commondir", "/".join((*path, "commondir"))) is None
        else:
            self.is_known &= os.fsdecode(common).rstrip("\r\n") == os.fsdecode(common).strip()
            target = resolve(self._root, self._top, path, os.fsdecode(common).strip())
            if target is None:
                self.items["/".join((*path, "commondir"))] = f"leads out: {os.fsdecode(common).strip()}"
                self.is_known = False
            else:
                self._enqueue("git", target, path)

    # -------------------------------------------------------------- following what was found

    def follow_links(self) -> None:
        while self._pending:
            kind, path, owner = self._pending.popleft()
            try:
                if kind == "git":
                    with folder_at(self._top, path) as fd:
                        self.add_directory(fd, path, bare=True)
                    continue
                with folder_at(self._top, path[:-1]) as fd:
                    if kind == "hooks":
                        self._add_hooks(fd, path[-1], path)
                    else:
                        self._add_included(fd, path, owner)
            except OSError:  # it does not exist, or is a link to a file
                self.is_known = self.is_known and kind == "hooks"

    def _enqueue(self, kind: str, path: Path, owner: Path) -> None:
        waiting = _Pending(kind, path, owner)
        if waiting not in self._followed and (path or kind == "git"):
            self._followed.add(waiting)
            self._pending.append(waiting)

    def _add_hooks(self, fd: int, name: str, path: Path) -> None:
        key = "/".join(path)
        tree = self._contents.tree(fd, name, key)
        if tree is None:
            return
        self.items |= tree.items
        if tree.kind == "folder":
            self.hooks[key] = tree.inode
        elif tree.kind == "link":
            target = resolve(self._root, self._top, path[:-1], tree.items[key].removeprefix("link "))
            if target:
                self._enqueue("hooks", target, path)

    def _add_included(self, fd: int, path: Path, owner: Path) -> None:
        key = "/".join(path)
        tree = self._contents.tree(fd, path[-1], key)
        if tree is not None and tree.kind == "file":
            if len(self.files) >= MAX_FILES:
                self.is_known = False
                return
            self.files[key] = tree.inode
            self._add_config(fd, path[-1], path, owner)

    def _add_config(self, fd: int, name: str, path: Path, owner: Path) -> None:
        """Adds the settings in a file that may run a program as one item, and follows what they lead to."""
        key = "/".join(path)
        tree = self._contents.tree(fd, name, key)
        if tree is None:
            return
        if tree.kind == "link":
            self.items |= tree.items
            self.is_known = False
            if target := resolve(self._root, self._top, path[:-1], tree.items[key].removeprefix("link ")):
                self._enqueue("config", target, owner)
            return
        read = self._contents.text(fd, name, key)
        settings = gitconfig.parse(os.fsdecode(read)) if read is not None else gitconfig.Settings((), is_read=False)
        running = [entry for entry in settings.running if not self._is_worktree_inside(entry, owner)]
        self.settings.update(key for key, _ in running)
        self.settings.update(key for key, _ in settings.entries if key in IDENTITY_KEYS)
        if not settings.is_read or len(read or b"") >= 65_536:
            self.is_known = False
            self.items |= tree.items
        elif running:
            self.items[key] = f"settings {digest(running)}"
        self.is_known &= len(settings.included) <= MAX_INCLUDED
        for value in settings.included[:MAX_INCLUDED]:
            if target := resolve(self._root, self._top, path[:-1], value):
                self._enqueue("config", target, owner)
        for value in settings.values("core.hookspath"):
            if target := resolve(self._root, self._top, self._trees.get(owner, owner), value):
                self._enqueue("hooks", target, owner)

    def _is_worktree_inside(self, entry: tuple[str, str], owner: Path) -> bool:
        """Whether a setting is a submodule's `core.worktree` that is in the workspace."""
        key, value = entry
        return key == "core.worktree" and resolve(self._root, self._top, owner, value) is not None


def resolve(root: str, top: int, base: Path, text: str) -> Path | None:
    """Resolves a path relative to `base`, following links within the workspace; None if it leads out."""
    pending, at, hops = deque(text.split("/")), list(base), 0
    if text.startswith("/"):
        inside = _beneath(root, text)
        if inside is None:
            return None
        pending, at = deque(inside.split("/")), []
    while pending:
        part = pending.popleft()
        if part in ("", "."):
            continue
        if part == "..":
            if not at:
                return None
            at.pop()
            continue
        link = _link(top, tuple(at), part)
        if link is None:
            at.append(part)
            continue
        hops += 1
        if hops > MAX_HOPS:
            return None
        if link.startswith("/"):
            inside = _beneath(root, link)
            if inside is None:
                return None
            link, at = inside, []
        pending.extendleft(reversed(link.split("/")))
    return tuple(at)


def _beneath(root: str, path: str) -> str | None:
    top = root.rstrip("/")
    return "" if path.rstrip("/") == top else path[len(top) + 1 :] if path.startswith(f"{top}/") else None


def _link(top: int, folder: Path, name: str) -> str | None:
    try:
        with folder_at(top, folder) as fd:
            return os.readlink(name, dir_fd=fd)
    except (OSError, ValueError):
        return None
